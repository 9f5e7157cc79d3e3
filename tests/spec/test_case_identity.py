"""What names a case; the digits are the same everywhere (docs/decisions/0002-case-identity.md)."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from fairtrial.spec.case import Case
from fairtrial.spec.dataset import load_dataset


def case_of(folder: Path, record: str) -> Case:
    path = folder / "q.jsonl"
    path.write_text(record + "\n", encoding="utf-8")
    return load_dataset(path).cases[0]


# Expected: `printf '%s' CANONICAL | sha256sum`, first 16 digits, GNU coreutils.
PINNED = [
    ('{"input": "hello"}', '"hello"', "c_5aa762ae383fbb72"),
    ('{"input": {"b": 1, "a": [true, null]}}', '{"a":[true,null],"b":1}', "c_51705a2c9eb3e7e4"),
]


@pytest.mark.parametrize(("record", "canonical", "case_id"), PINNED)
def test_c02_an_unnamed_case_is_named_by_the_canonical_json_of_its_input(
    tmp_path: Path, record: str, canonical: str, case_id: str
):
    digest = hashlib.sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest()
    case = case_of(tmp_path, record)
    assert case.input_hash == digest
    assert case.id == f"c_{digest[:16]}" == case_id


@pytest.mark.parametrize(
    "record",
    [
        '{"input": {"a": 1, "b": {"c": 2, "d": 3}}}',
        '{"input": {"b": {"d": 3, "c": 2}, "a": 1}}',
        '  {"input":{"a":1,\t"b":{"c":2,"d":3}}}  ',
        '{"expected": 5, "kind": "bad", "topic": "x", "input": {"\\u0061": 1, "b": {"c": 2, "d": 3}}}',
    ],
)
def test_k91_key_order_white_space_escapes_and_other_keys_do_not_change_the_id(tmp_path: Path, record: str):
    digest = hashlib.sha256(b'{"a":1,"b":{"c":2,"d":3}}').hexdigest()
    assert case_of(tmp_path, record).id == f"c_{digest[:16]}"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('"\u00e9"', '"e\u0301"'),
        ("1", "1.0"),
        ("1", '"1"'),
        ("1", "true"),
        ("0.0", "-0.0"),
        ("9007199254740992", "9007199254740993"),
        ("12345678901234567890123", "12345678901234567890124"),
        ('"a"', '"a "'),
        ("null", '""'),
        ('{"a": null}', "{}"),
    ],
)
def test_k91_w13_these_are_two_inputs(tmp_path: Path, one: str, other: str):
    first, second = (case_of(tmp_path, f'{{"input": {text}}}') for text in (one, other))
    assert first.input_hash != second.input_hash


@pytest.mark.parametrize(
    ("one", "other"), [('"\u00e9"', '"\\u00e9"'), ("1.0", "1.00"), ("100.0", "1e2"), ('"\\ud83d\\ude00"', '"😀"')]
)
def test_k91_these_are_one_input_written_twice(tmp_path: Path, one: str, other: str):
    first, second = (case_of(tmp_path, f'{{"input": {text}}}') for text in (one, other))
    assert first.input_hash == second.input_hash


def test_k91_floats_are_hashed_in_the_shortest_form_that_reads_back(tmp_path: Path):
    # The forms of Python's repr since 3.1: shortest digits that give the same double.
    case = case_of(tmp_path, '{"input": [0.1, 0.10000000000000001, 1e16, 1.5e300, 1e-7]}')
    assert case.input_hash == hashlib.sha256(b"[0.1,0.1,1e+16,1.5e+300,1e-07]").hexdigest()


def test_k91_keys_are_sorted_by_code_point_not_by_utf_16(tmp_path: Path):
    # U+FF5E is below U+1F600 by code point, above its first surrogate in UTF-16.
    record = json.dumps({"input": {"😀": 1, "～": 2, "z": 3}})
    assert case_of(tmp_path, record).input_hash == hashlib.sha256('{"z":3,"～":2,"😀":1}'.encode()).hexdigest()


def test_k85_half_a_surrogate_pair_has_a_hash(tmp_path: Path):
    case = case_of(tmp_path, '{"input": "\\ud835"}')
    # Its three-byte form, ED A0 B5, between the quotes.
    assert case.input_hash == hashlib.sha256(b'"\xed\xa0\xb5"').hexdigest()
