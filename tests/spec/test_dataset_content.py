"""What is stored of a dataset: canonical lines that read back to equal cases."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairtrial.errors import InputError
from fairtrial.spec.case import Case
from fairtrial.spec.dataset import Dataset, dataset_from_content, load_dataset


def load(folder: Path, content: bytes | list[Any]) -> Dataset:
    path = folder / "q.jsonl"
    path.write_bytes(content if isinstance(content, bytes) else "".join(json.dumps(r) + "\n" for r in content).encode())
    return load_dataset(path)


def without_lines(dataset: Dataset) -> list[Case]:
    return [dataclasses.replace(case, line=None) for case in dataset.cases]


NAMES = st.text(st.characters(blacklist_categories=["Cc", "Cs", "Zl", "Zp"]), min_size=1, max_size=10).filter(str.strip)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
RECORDS = st.fixed_dictionaries(
    {"input": VALUES},
    optional={
        "id": st.none() | NAMES | st.integers(),
        "expected": VALUES,
        "kind": st.sampled_from([None, "ordinary", "bad", "guard", "control"]),
        "split": st.none() | NAMES,
        "group": st.none() | NAMES | st.integers(),
        "tags": st.none() | st.lists(NAMES, max_size=2),
        "topic": VALUES,
        "\u2028": VALUES,
    },
)


@given(st.lists(RECORDS, min_size=1, max_size=5, unique_by=lambda record: str(record.get("id"))))
def test_k84_k85_stored_content_reads_back_to_equal_cases(tmp_path_factory: pytest.TempPathFactory, records: list[Any]):
    path = tmp_path_factory.mktemp("d") / "q.jsonl"
    # Escapes, as a model's half surrogates can be written in no other way.
    path.write_bytes(b"".join(json.dumps(record).encode() + b"\n" for record in records))
    loaded = load_dataset(path)
    stored = dataset_from_content(loaded.content)
    assert list(stored.cases) == without_lines(loaded)
    assert (stored.content, stored.hash) == (loaded.content, loaded.hash)
    assert [case.input for case in loaded.cases] == [json.loads(json.dumps(record["input"])) for record in records]
    # The stored form is safe for readers that take more than LF for a line end.
    assert loaded.content.decode("utf-8").splitlines() == loaded.content.decode("utf-8").split("\n")[:-1]


def test_k84_k85_separators_and_half_surrogates_are_escaped_in_the_stored_form(tmp_path: Path):
    text = "a\u2028b\u2029c\x85d\x0be\x1cf\ud835g\x00h😀é"
    dataset = load(tmp_path, json.dumps({"input": text}).encode() + b"\n")
    assert dataset.cases[0].input == text
    # By hand, from the escapes of RFC 8259; é and the emoji need none.
    assert dataset.content.decode() == ('{"input":"a\\u2028b\\u2029c\\u0085d\\u000be\\u001cf\\ud835g\\u0000h😀é"}\n')
    assert dataset_from_content(dataset.content).cases[0].input == text


def test_c02_k91_the_bytes_and_the_hash_of_a_dataset_are_the_same_everywhere(tmp_path: Path):
    dataset = load(
        tmp_path,
        [
            {"tags": ["de", "a"], "input": {"b": 1.0, "a": "é\u2028"}, "kind": "guard", "id": 7, "expected": None},
            {"input": 10**22, "split": "test", "Z": [1e16, -0.0], "z": {"ü": 1}},
        ],
    )
    # Written by hand from the rules of docs/datasets.md.
    assert dataset.content.decode() == (
        '{"expected":null,"id":"7","input":{"a":"é\\u2028","b":1.0},"kind":"guard","tags":["de","a"]}\n'
        '{"Z":[1e+16,-0.0],"input":10000000000000000000000,"split":"test","z":{"ü":1}}\n'
    )
    # The digits: `sha256sum` of GNU coreutils 9.1 over those two lines, and over 10000000000000000000000 alone.
    assert dataset.hash == "5a54047244933df01d4a79b8fef12f665694a9582d2c75a834b69d51dbce3f3c"
    assert dataset.cases[1].id == "c_846d056ab2ef102a"


def test_the_stored_form_leaves_out_nulls_and_defaults(tmp_path: Path):
    spelt_out = {"input": 1, "id": None, "kind": "ordinary", "split": None, "group": None, "tags": [], "topic": None}
    assert load(tmp_path, [spelt_out]).content == b'{"input":1,"topic":null}\n'
    assert (
        load(tmp_path, [{"input": 1, "id": 7, "expected": None}]).content == b'{"expected":null,"id":"7","input":1}\n'
    )


def test_k86_numbers_are_stored_exactly(tmp_path: Path):
    text = b'{"input":[12345678901234567890123,9007199254740993,-0.0,1.0,1]}\n'
    assert load(tmp_path, text).content == text


def test_damaged_stored_content_is_an_error_that_names_it():
    with pytest.raises(InputError, match=r"^stored dataset:2:"):
        dataset_from_content(b'{"input":1}\n{"input":')
    with pytest.raises(InputError, match=r"^stored dataset, record 2: "):
        dataset_from_content(b'{"input":1}\n{"inptu":1}\n')


def test_w13_an_edited_input_changes_the_input_hash_and_an_edited_label_only_the_label_hash(tmp_path: Path):
    before = load(tmp_path, [{"id": "a", "input": "x", "expected": 1}]).cases[0]
    label = load(tmp_path, [{"id": "a", "input": "x", "expected": 2, "topic": "t", "tags": ["t"]}]).cases[0]
    edited = load(tmp_path, [{"id": "a", "input": "x ", "expected": 1}]).cases[0]
    assert (label.input_hash, edited.label_hash) == (before.input_hash, before.label_hash)
    assert label.label_hash != before.label_hash
    assert edited.input_hash != before.input_hash


def test_a_label_of_null_is_not_a_missing_label(tmp_path: Path):
    null, none = load(tmp_path, [{"input": 1, "expected": None}, {"input": 2}]).cases
    assert (null.has_expected, none.has_expected) == (True, False)
    assert null.label_hash != none.label_hash


# Alone in its process, so that neither what was tested before nor a tracer counts.
MEASURE = """
import json, pathlib, re, sys, time
from fairtrial.spec.dataset import load_dataset

def peak_mb():
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", pathlib.Path("/proc/self/status").read_text())[1]) / 1024

path = pathlib.Path(sys.argv[1])
start = time.process_time()
with path.open("rb") as file:
    for line in file:
        json.loads(line)
bare_s, before_mb, start = time.process_time() - start, peak_mb(), time.process_time()
dataset = load_dataset(path)
print(json.dumps([len(dataset.cases), bare_s, time.process_time() - start, peak_mb() - before_mb]))
"""


def test_200_000_small_cases_load_in_a_few_times_what_the_bare_decoder_takes_and_in_600_mb(tmp_path: Path):
    path = tmp_path / "big.jsonl"
    with path.open("w") as lines:
        for n in range(200_000):
            lines.write(
                f'{{"id": "q{n}", "input": {{"q": "What is {n} + 1?"}}, "expected": "{n + 1}", "topic": "a"}}\n'
            )
    done = subprocess.run([sys.executable, "-c", MEASURE, str(path)], capture_output=True, text=True, check=True)
    n_cases, bare_s, took_s, memory_mb = json.loads(done.stdout)
    print(f"{took_s:.1f} s, {took_s / bare_s:.1f} times the bare decoder, {memory_mb:.0f} MB")
    assert n_cases == 200_000
    # Two hashes, a case and the stored line each: measured 5 to 13 as the load of the machine went.
    assert took_s < 40 * bare_s
    # Measured 248 MB (CPython 3.11): 1.1 kB a case and twice the file of 17 MB.
    assert memory_mb < 600
