"""K91: one spelling for one value, the same on every machine and in every year; and the ids made of it or of time."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairtrial.errors import StoreError
from fairtrial.hashing import JsonValue, canonical_json, content_hash, parse_canonical, sha256_hex
from fairtrial.ids import EXPERIMENT_ID, is_experiment_id, new_experiment_id, unnamed_case_id

TEXTS = st.text(alphabet=st.characters(), max_size=20)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**80), 2**80) | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)


@pytest.mark.parametrize(
    ("value", "spelling"),
    [
        (None, b"null"),
        ({"b": 1, "a": [True, False, None]}, b'{"a":[true,false,null],"b":1}'),
        # Keys sort by code point: upper case first, é and an emoji behind z, the emoji behind U+FFFD.
        (
            {"z": 0, "A": 0, "a": 0, "é": 0, "\U0001f600": 0, "\ufffd": 0},
            '{"A":0,"a":0,"z":0,"é":0,"\ufffd":0,"😀":0}'.encode(),
        ),
        ("é", b'"\xc3\xa9"'),
        ("e\u0301", b'"e\xcc\x81"'),
        # RFC 8259, section 7: only quotation mark, reverse solidus and the control characters have to be escaped.
        ('"\\/\b\f\n\r\t\x00\x1f\x7f', b'"\\"\\\\/\\b\\f\\n\\r\\t\\u0000\\u001f\x7f"'),
        ("\u2028\u0085", b'"\xe2\x80\xa8\xc2\x85"'),
        # Half a pair keeps the three bytes that UTF-8 would have for it; a whole pair is one character of four.
        ("\ud835", b'"\xed\xa0\xb5"'),
        ("\U0001d306", b'"\xf0\x9d\x8c\x86"'),
        (1, b"1"),
        (1.0, b"1.0"),
        (-0.0, b"-0.0"),
        (0.1 + 0.2, b"0.30000000000000004"),
        (1e22, b"1e+22"),
        (5e-324, b"5e-324"),
        (12345678901234567890123, b"12345678901234567890123"),
        (2**53 + 1, b"9007199254740993"),
    ],
)
def test_k91_one_value_has_one_spelling(value: JsonValue, spelling: bytes) -> None:
    assert canonical_json(value) == spelling


@pytest.mark.parametrize(
    ("value", "digest"),
    [
        # By coreutils: printf '%s' '{"input":"2+2?"}' | sha256sum, and so on; the last is printf '"\355\240\265"'.
        ({"input": "2+2?"}, "b22dd8f9276cdc6e15248edc52754b0d5f53a01ab0945be54e953b09c43380fd"),
        ([], "4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945"),
        ({"b": None, "a": [1, 1.0, "é"]}, "3bc97b8817595254147ace604562c4407f9397a74003238a95b95556b93b9927"),
        ("\ud835", "bea3ebf4d517621898c79b08421d2a97a0703d85b11fda923967cca1abc3e12d"),
    ],
)
def test_k91_hashes_of_stored_things_stay_what_they_are(value: JsonValue, digest: str) -> None:
    assert content_hash(value) == digest


def test_k91_key_order_and_white_space_make_no_difference_and_nothing_else_is_taken_as_equal() -> None:
    one = json.loads('{"b": [1, {"y": 2, "x": 3}], "a": "é"}')
    other = json.loads('{ "a" : "é",\n"b":[1,{"x":3,"y":2}]}')
    assert canonical_json(one) == canonical_json(other)
    differ: list[JsonValue] = ["é", "e\u0301", 1, 1.0, True, "1", None, "", [], {}, [1], [[1]], {"a": 1}, {"a": None}]
    differ += [0.0, -0.0, 0, False, "a", " a", "A", "\ud835", "\\ud835", {"a": {"b": 1}}, {"a.b": 1}]
    hashes = {content_hash(value) for value in differ}
    assert len(hashes) == len(differ)


@given(JSON)
def test_k91_reading_back_gives_the_value_and_the_same_bytes(value: JsonValue) -> None:
    data = canonical_json(value)
    back = parse_canonical(data)
    assert back == value
    assert repr(back) == repr(_sorted(value))
    assert canonical_json(back) == data
    assert content_hash(value) == sha256(data).hexdigest() == sha256_hex(data)


def _sorted(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value


@given(st.dictionaries(TEXTS, st.integers(), min_size=2, max_size=6), st.randoms(use_true_random=False))
def test_k91_the_order_in_which_keys_came_is_not_in_the_bytes(value: dict[str, JsonValue], random: object) -> None:
    items = list(value.items())
    random.shuffle(items)  # type: ignore[attr-defined]
    assert canonical_json(dict(items)) == canonical_json(value)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, [1, math.nan], {"a": {"b": math.inf}}])
def test_k86_what_is_no_number_has_no_spelling(value: JsonValue) -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        canonical_json(value)


@pytest.mark.parametrize("value", [b"x", {1, 2}, object(), datetime.now(UTC), {"a": 1j}])
def test_what_is_not_json_has_no_spelling(value: object) -> None:
    with pytest.raises(TypeError):
        canonical_json(value)


def test_k91_the_bytes_do_not_depend_on_the_process_that_makes_them() -> None:
    code = (
        "from fairtrial.hashing import content_hash\n"
        "print(content_hash({'b': [1, 1.0, 0.1, 1e22, 2**70], 'a': {'\\xe9': None, 'e\\u0301': True, 'Z': '\\ud835'}}))"
    )
    found = set()
    for seed, locale in (("0", "C"), ("1", "C.UTF-8"), ("2", "POSIX")):
        environ = {"PYTHONHASHSEED": seed, "LC_ALL": locale, "PYTHONUTF8": "0", "PYTHONPATH": "."}
        found.add(subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, check=True).stdout)
    mine = {"b": [1, 1.0, 0.1, 1e22, 2**70], "a": {"é": None, "e\u0301": True, "Z": "\ud835"}}
    assert found == {content_hash(mine).encode() + b"\n"}


@pytest.mark.parametrize("data", [b"", b"{", b"{} {}", b"\xff", b'"\xc3"', b"[" * 100_000, b"{'a': 1}", b"\0"])
def test_r13_a_document_that_is_damaged_is_a_plain_error(data: bytes) -> None:
    with pytest.raises(StoreError) as refused:
        parse_canonical(data)
    assert refused.value.code == "damaged_record"


# --- ids --------------------------------------------------------------------------------------------------------------


def test_c02_ids_of_one_process_sort_in_the_order_they_were_made() -> None:
    # A few thousand within a handful of milliseconds: most share their time with a neighbour.
    ids = [new_experiment_id() for _ in range(5000)]
    assert ids == sorted(ids)
    assert len(set(ids)) == len(ids)
    assert len({each[4:14] for each in ids}) < len(ids) / 5


def test_c02_ids_made_by_many_threads_at_once_all_differ() -> None:
    with ThreadPoolExecutor(8) as pool:
        lanes = list(pool.map(lambda _: [new_experiment_id() for _ in range(500)], range(8)))
    assert len({each for lane in lanes for each in lane}) == 4000
    assert all(lane == sorted(lane) for lane in lanes)


def test_c02_an_id_says_when_it_was_made() -> None:
    before = datetime.now(UTC).timestamp()
    text = new_experiment_id()
    after = datetime.now(UTC).timestamp()
    # ULID: 48 bits of milliseconds in the first ten of Crockford's digits.
    digits = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
    made = 0
    for char in text[4:14]:
        made = made * 32 + digits.index(char)
    assert before - 0.002 <= made / 1000 <= after + 0.002


def test_c02_an_id_has_one_form() -> None:
    text = new_experiment_id()
    assert EXPERIMENT_ID.fullmatch(text)
    assert is_experiment_id(text)
    # 26 characters, none of I, L, O and U.
    for wrong in (text[:-1], text + "0", text.lower(), text[4:], text[:-1] + "I", text[:-1] + "U", text + "\n", ""):
        assert not is_experiment_id(wrong)


def test_c02_an_unnamed_case_is_named_by_its_input_alone() -> None:
    assert unnamed_case_id(content_hash("2+2?")) == "c_" + content_hash("2+2?")[:16]
    assert len(unnamed_case_id("f" * 64)) == 18
