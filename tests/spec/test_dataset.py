"""A file of records becomes cases, or one error with the line."""

from __future__ import annotations

import dataclasses
import gzip
import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairtrial.errors import InputError
from fairtrial.hashing import content_hash
from fairtrial.spec.case import Case
from fairtrial.spec.dataset import Dataset, dataset_from_content, load_dataset

TWO = [{"id": "a", "input": "1", "expected": "x"}, {"id": "b", "input": {"q": 2}}]


def jsonl(records: list[Any]) -> bytes:
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records).encode("utf-8", "surrogatepass")


def load(folder: Path, content: bytes | list[Any], name: str = "q.jsonl") -> Dataset:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else jsonl(content))
    return load_dataset(path)


def refused(folder: Path, content: bytes | list[Any], name: str = "q.jsonl") -> str:
    with pytest.raises(InputError) as caught:
        load(folder, content, name)
    assert caught.value.exit_status == 64
    return str(caught.value).removeprefix(str(folder) + "/")


def without_lines(dataset: Dataset) -> list[Case]:
    return [dataclasses.replace(case, line=None) for case in dataset.cases]


def test_c02_c08_a_record_becomes_a_case(tmp_path: Path):
    record = {
        "id": " é1 ",
        "input": {"q": [1, 2.0, None]},
        "expected": None,
        "kind": "guard",
        "split": "test",
        "group": 7,
        "tags": ["de", "kurz"],
        "topic": {"a": 1},
        "Note": "x",
    }
    dataset = load(tmp_path, [{"input": "first"}, record])
    first, second = dataset.cases
    assert first == Case(
        id=first.id,
        input="first",
        position=0,
        input_hash=content_hash("first"),
        label_hash="",
        line=1,
    )
    assert second == Case(
        id=" é1 ",
        input={"q": [1, 2.0, None]},
        expected=None,
        has_expected=True,
        kind="guard",
        split="test",
        group="7",
        tags=("de", "kurz"),
        fields={"topic": {"a": 1}, "Note": "x"},
        position=1,
        input_hash=content_hash({"q": [1, 2.0, None]}),
        label_hash=content_hash(None),
        line=2,
    )
    assert dataset.source == str(tmp_path / "q.jsonl")


def test_c08_all_four_kinds_are_read(tmp_path: Path):
    kinds = ["ordinary", "bad", "guard", "control"]
    assert [case.kind for case in load(tmp_path, [{"input": k, "kind": k} for k in kinds]).cases] == kinds


def test_c07_splits_are_read(tmp_path: Path):
    dataset = load(tmp_path, [{"input": n, "split": "train" if n < 3 else "test"} for n in range(5)])
    assert Counter(case.split for case in dataset.cases) == {"train": 3, "test": 2}


# --- every spelling of one file


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("q.jsonl", lambda data: b"\xef\xbb\xbf" + data),
        ("q.jsonl", lambda data: data.replace(b"\n", b"\r\n")),
        ("q.jsonl", lambda data: data.rstrip(b"\n")),
        ("q.jsonl", lambda data: data + b"\n  \n\n"),
        ("q.ndjson", lambda data: data),
        ("Q.JSONL", lambda data: data),
        ("q.jsonl.gz", gzip.compress),
        ("q.ndjson.gz", lambda data: gzip.compress(b"\xef\xbb\xbf" + data)),
        ("q.json", lambda data: b"[" + b",\n".join(data.splitlines()) + b"]"),
        ("q.json", lambda data: b"\xef\xbb\xbf [\r\n" + b",".join(data.splitlines()) + b"\r\n]\r\n"),
        ("q.json.gz", lambda data: gzip.compress(b"[" + b",".join(data.splitlines()) + b"]")),
        ("q.jsonl", lambda data: data.replace(b'"input": ', b'"input"   :   ')),
    ],
)
def test_k89_k82_r37_k91_every_spelling_of_a_file_is_the_same_dataset(tmp_path: Path, name: str, change: Any):
    records = [*TWO, {"input": "unnamed"}]
    clean = load(tmp_path, records)
    other = load(tmp_path, change(jsonl(records)), name)
    assert other.content == clean.content
    assert other.hash == clean.hash
    assert without_lines(other) == without_lines(clean)
    assert other.warnings == ()


def test_k89_blank_lines_between_records_are_counted_and_lines_stay_right(tmp_path: Path):
    dataset = load(tmp_path, b'\n{"input": 1}\n\n\n{"input": 2}\n\n')
    assert [case.line for case in dataset.cases] == [2, 5]
    assert dataset.warnings == ("3 blank lines between records were skipped.",)


def test_lines_of_a_list_are_where_its_records_begin(tmp_path: Path):
    dataset = load(tmp_path, json.dumps(TWO, indent=1).encode(), "q.json")
    assert [case.line for case in dataset.cases] == [2, 7]


@pytest.mark.parametrize("folder", ["eval data", "données", "📁", "x" * 200 + "/" + "y" * 100])
def test_k93_datasets_in_folders_of_any_name_load(tmp_path: Path, folder: str):
    (tmp_path / folder).mkdir(parents=True)
    assert len(load(tmp_path / folder, TWO).cases) == 2


def test_k93_a_windows_path_is_a_file_name_and_no_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    for name in (r"C:\eval data\q.jsonl", r"\\server\share\q.jsonl"):
        Path(name).write_bytes(jsonl(TWO))
        assert load_dataset(Path(name)).source == name


# --- what is refused


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("q.jsonl", b"", "q.jsonl: the dataset has no case."),
        ("q.jsonl", b"\n\n", "q.jsonl: the dataset has no case."),
        ("q.jsonl", b"\xef\xbb\xbf", "q.jsonl: the dataset has no case."),
        ("q.json", b"", "q.json: the file is empty."),
        ("q.json", b"[]", "q.json: the dataset has no case."),
        ("q.jsonl.gz", gzip.compress(b""), "q.jsonl.gz: the dataset has no case."),
        ("q.json", b'{"input": 1}', "q.json:1:1: the document is one object; a .json dataset is a list of records."),
        ("q.json", b'{"input": 1}\n{"input": 2}', "q.json:1:1: the document is one object"),
        ("q.jsonl", b'[{"input": 1}]', "q.jsonl:1:1: a record is an object; this line begins a list."),
        ("q.jsonl", b'{"input": 1}\n[1]\n', "q.jsonl:2: a record is a JSON object."),
        ("q.jsonl", b'{"input": 1}\n"x"\n', "q.jsonl:2: a record is a JSON object."),
        ("q.json", b'[{"input": 1},\n null]', "q.json:2: a record is a JSON object."),
        ("q.jsonl", b'{"Input": 1}\n', 'q.jsonl:1: the key "input" is missing. Rename "Input" to "input".'),
        ("q.jsonl", b'{"question": 1}\n', 'q.jsonl:1: the key "input" is missing. Rename "question" to "input".'),
        ("q.csv", b"id,input\n1,x\n", "q.csv: a dataset file ends in one of .jsonl, .ndjson, .jsonl.gz"),
        ("q.csv.gz", b"", "q.csv.gz: a dataset file ends in one of"),
        ("q.parquet", b"PAR1", "q.parquet: a dataset file ends in one of"),
        ("q", b"", "q: a dataset file ends in one of"),
        (
            "q.jsonl",
            gzip.compress(jsonl(TWO)),
            "q.jsonl: the file is gzip data, not UTF-8 text. Give it a name that ends",
        ),
        ("q.jsonl.gz", jsonl(TWO), "q.jsonl.gz: the compressed file is damaged, or is not gzip data."),
        ("q.jsonl.gz", gzip.compress(jsonl(TWO))[:-9], "q.jsonl.gz: the compressed file ends too early."),
        ("q.json.gz", gzip.compress(b"[" + b" " * 1000)[:-20] + b"x" * 20, "q.json.gz: the compressed file is damaged"),
        ("q.jsonl", b"PK\x03\x04\n", "q.jsonl: the file is a zip archive or an Excel workbook"),
        ("q.jsonl", b'{"input": 1}\r{"input": 2}\r', "q.jsonl:1: a carriage return stands alone"),
        ("q.jsonl", '{"input": "é"}\n'.encode("utf-16"), "q.jsonl: the file is UTF-16 (little-endian)"),
        ("q.jsonl", b'{"input": 1}\n{"input": "caf\xe9"}\n', "q.jsonl:2: byte 0xe9 (byte 15 of line 2) is not UTF-8."),
        ("q.jsonl", b'{"input": 1, "expected": NaN}\n', "q.jsonl:1:26: NaN is not a JSON value."),
        ("q.jsonl", b'{"input": 1}\n{"input": 1e400}\n', "q.jsonl:2:11: the number is too large for a float."),
        ("q.jsonl", b'{"input": 1, "input": 2}\n', 'q.jsonl:1:14: the key "input" stands twice in one object'),
        ("q.jsonl", b"\n" + b"[" * 100_000, "q.jsonl:2:1: a record is an object; this line begins a list."),
        ("q.jsonl", b'{"input":' + b"[" * 100_000, "q.jsonl:1:109: objects and lists are nested deeper than 100"),
        ("q.json", b"[" * 100_000, "q.json:1:102: objects and lists are nested deeper"),
        (
            "q.json",
            b"[" + b" " * 67_108_864 + b"]",
            "q.json: a JSON list is longer than the limit of 67,108,864 bytes.",
        ),
        ("q.json.gz", gzip.compress(b"[" + b" " * 67_108_864), "q.json.gz: a JSON list is longer than the limit"),
        (
            "q.jsonl.gz",
            gzip.compress(b" " * 17_000_000),
            "q.jsonl.gz:1: the line is longer than the limit of 16,777,216",
        ),
    ],
    ids=range(35),
)
def test_k39_k82_k86_k89_r41_r43_r47_what_cannot_be_read_is_refused_by_name(
    tmp_path: Path, name: str, content: bytes, message: str
):
    assert refused(tmp_path, content, name).startswith(message)


def test_k89_a_csv_gets_the_hint_to_convert(tmp_path: Path):
    assert "one JSON object a line, with the column names as keys" in refused(tmp_path, b"id,input\n", "q.csv")


def test_k39_k89_a_folder_a_pipe_and_a_missing_file_are_refused(tmp_path: Path):
    load(tmp_path, TWO)
    for path, message in [
        (tmp_path, "this is a folder; a dataset is a file."),
        (tmp_path / "p.jsonl", "this is a pipe or a device"),
        (tmp_path / "q.json", 'there is no such dataset. Did you mean "q.jsonl"?'),
        (tmp_path / "q.jsonl" / "x.jsonl", "cannot be read: Not a directory"),
    ]:
        if path.name == "p.jsonl":
            os.mkfifo(path)
        with pytest.raises(InputError) as caught:
            load_dataset(path)
        assert message in str(caught.value)


def test_r43_a_file_over_the_limit_is_refused_before_it_is_read(tmp_path: Path):
    path = tmp_path / "q.jsonl"
    with path.open("wb") as file:
        file.write(b'{"input": 1}\n')
        # The rest of the file is a hole.
        file.truncate(1024**3 + 1)
    with pytest.raises(InputError) as caught:
        load_dataset(path)
    assert str(caught.value) == f"{path}: the file is longer than the limit of 1,073,741,824 bytes."


def test_a_file_that_the_system_cannot_read_is_our_error(tmp_path: Path):
    path = tmp_path / "q.jsonl"
    # A regular file by its mode, whose first page is never mapped.
    path.symlink_to("/proc/self/mem")
    with pytest.raises(InputError, match="the dataset cannot be read: Input/output error"):
        load_dataset(path)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("id", "", '"id" is empty.'),
        ("id", "  ", '"id" is empty.'),
        ("id", "x" * 501, '"id" is longer than 500 characters.'),
        ("id", "a\nb", '"id" holds a line break'),
        ("id", "a\x1b[31m", '"id" holds a line break, another control character'),
        ("id", "a\u2028b", '"id" holds a line break'),
        ("id", "\ud835", '"id" holds a line break, another control character or half a surrogate pair.'),
        ("id", 7.0, '"id" is text or a whole number.'),
        ("id", True, '"id" is text or a whole number.'),
        ("id", ["a"], '"id" is text or a whole number.'),
        ("id", 10**501, '"id" is longer than 500 characters.'),
        ("split", {}, '"split" is text or a whole number.'),
        ("group", "", '"group" is empty.'),
        ("kind", "guards", 'unknown kind "guards". Did you mean "guard"?'),
        ("kind", "x", 'unknown kind "x". Known kinds: ordinary, bad, guard, control.'),
        ("kind", 1, '"kind" is text.'),
        ("tags", "a", '"tags" is a list of texts.'),
        ("tags", ["a", 1], '"tags" is a list of texts.'),
        ("tags", [""], '"tags" is empty.'),
    ],
)
def test_c02_c08_k85_k88_r47_a_key_of_the_wrong_form_is_refused_with_its_line(
    tmp_path: Path, key: str, value: Any, message: str
):
    escaped = "".join(json.dumps(record) + "\n" for record in [{"input": 1}, {"input": 2, key: value}])
    assert refused(tmp_path, escaped.encode()).startswith(f"q.jsonl:2: {message}")


WHOLE = jsonl([*TWO, {"input": "é\u2028", "kind": "guard", "tags": ["a"], "group": 7}])


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(
        [
            ("q.jsonl", WHOLE),
            ("q.json", b"[" + b",".join(WHOLE.splitlines()) + b"]"),
            ("q.jsonl.gz", gzip.compress(WHOLE, mtime=0)),
        ]
    ),
    st.lists(st.tuples(st.integers(0, 200), st.integers(0, 4), st.binary(max_size=4)), min_size=1, max_size=3),
)
def test_g05_r47_of_400_damaged_files_each_loads_or_is_our_error_that_names_it(
    tmp_path: Path, file: tuple[str, bytes], edits: list[tuple[int, int, bytes]]
):
    name, data = file
    for at, n_removed, added in edits:
        data = data[:at] + added + data[at + n_removed :]
    try:
        loaded = load(tmp_path, data, name)
    except InputError as error:
        message = str(error)
    else:
        # What loads can be stored and read again, whatever it is.
        assert list(dataset_from_content(loaded.content).cases) == without_lines(loaded)
        return
    assert message.startswith(str(tmp_path / name))


def test_r47_no_message_shows_an_input_or_a_label(tmp_path: Path):
    secret = "sk-123456"
    for record in (
        {"input": secret, "kind": 5},
        {"Input": secret},
        {"input": secret, "expected": secret, "id": [secret]},
    ):
        assert secret not in refused(tmp_path, [record])
    assert secret not in refused(tmp_path, f'{{"input": "{secret}" x}}\n'.encode())


# --- ids


def test_k88_whole_numbers_become_ids_and_padding_is_kept(tmp_path: Path):
    records = [
        {"id": i, "input": n} for n, i in enumerate([7, "007", " 7", "no", "1e5", 12345678901234567890123, "0x10"])
    ]
    dataset = load(tmp_path, records)
    assert [case.id for case in dataset.cases] == ["7", "007", " 7", "no", "1e5", "12345678901234567890123", "0x10"]
    assert dataset.warnings == ("1 ids begin or end with white space, which is part of the id.",)


@pytest.mark.parametrize("second", ["a", 7])
def test_r38_the_same_id_twice_is_refused_with_both_lines(tmp_path: Path, second: Any):
    records = [{"id": str(second), "input": 1}, {"input": 2}, {"id": second, "input": 3}]
    assert refused(tmp_path, records) == (
        f'q.jsonl:3: the id "{second}" stands twice (lines 1 and 3). Give every case an id of its own.'
    )


def test_r38_an_explicit_id_that_an_unnamed_case_would_get_is_refused(tmp_path: Path):
    made = load(tmp_path, [{"input": "x"}]).cases[0].id
    assert "; on the second it is made from the input" in refused(tmp_path, [{"id": made, "input": 1}, {"input": "x"}])
    assert "stands twice" in refused(tmp_path, [{"input": "x"}, {"id": made, "input": 1}])


def test_r38_equal_content_under_two_ids_runs_twice_and_is_reported(tmp_path: Path):
    dataset = load(tmp_path, [{"id": "a", "input": "x"}, {"id": "b", "input": "x"}, {"id": "c", "input": "y"}])
    assert [case.id for case in dataset.cases] == ["a", "b", "c"]
    assert dataset.warnings == (
        "2 distinct of 3 inputs (lines 1 and 2, for one): the same question asked again is no new evidence.",
    )


def test_c02_the_same_unnamed_content_twice_runs_as_two_numbered_cases(tmp_path: Path):
    dataset = load(tmp_path, [{"input": "x"}, {"input": "y"}, {"input": "x", "expected": 1}, {"input": "x"}])
    x, y = f"c_{content_hash('x')[:16]}", f"c_{content_hash('y')[:16]}"
    assert [case.id for case in dataset.cases] == [x, y, f"{x}-2", f"{x}-3"]
    assert dataset.warnings[1] == (
        "2 of 4 cases have no id and an input met before; their order tells them apart: "
        f"{x}, {x}-2 and so on. Give them ids."
    )


def test_k23_pasted_rows_are_counted(tmp_path: Path):
    six = [{"input": {"q": n}, "expected": n} for n in range(6)]
    dataset = load(tmp_path, six * 4)
    assert len({case.id for case in dataset.cases}) == 24
    assert dataset.warnings[0].startswith("6 distinct of 24 inputs (lines 1 and 7, for one):")


def test_empty_inputs_and_misspelt_keys_are_warned_of(tmp_path: Path):
    dataset = load(tmp_path, [{"input": None}, {"input": ""}, {"input": 0, "Expected": 1, "tag ": 1, " id": 2}])
    assert dataset.warnings == (
        f'{tmp_path}/q.jsonl:3: the key "Expected" is read as a field of yours; the key of a case is "expected".',
        f'{tmp_path}/q.jsonl:3: the key " id" is read as a field of yours; the key of a case is "id".',
        "2 of 3 inputs are null or empty.",
    )
