"""The recorded subject: joining answers made elsewhere to the cases, strictly."""

from __future__ import annotations

import asyncio
import csv
import gzip
import io
import json
import os
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairtrial.errors import InfraError, InputError, SpecError
from fairtrial.records.trial import Answer, Usage
from fairtrial.spec.case import Case
from fairtrial.spec.models import RecordedTask
from fairtrial.subjects.base import TrialRequest
from fairtrial.subjects.build import build_subject
from fairtrial.subjects.reaper import Reaper
from fairtrial.subjects.recorded import RecordedSubject


def subject_of(folder: Path, path: str = "answers.jsonl", **task: Any) -> RecordedSubject:
    return RecordedSubject(RecordedTask(kind="recorded", path=path, **task), folder=folder)


def lines_of(folder: Path, *records: object, path: str = "answers.jsonl") -> None:
    (folder / path).write_text("".join(json.dumps(record) + "\n" for record in records))


def ask(subject: RecordedSubject, case: str, repetition: int = 1) -> Answer:
    request = TrialRequest("exp_1", "main", Case(id=case, input=""), repetition, 1, None, {})

    async def once() -> Answer:
        answer = await subject.answer(request)
        await subject.close()
        return answer

    return asyncio.run(once())


def test_an_answer_is_joined_by_id_whatever_the_order(tmp_path: Path) -> None:
    lines_of(tmp_path, {"id": "b", "output": "B\n"}, {"id": "a", "output": "A"})
    subject = subject_of(tmp_path)
    assert ask(subject, "a") == Answer(output=b"A")
    assert ask(subject, "b") == Answer(output=b"B\n")


def test_a_whole_number_in_the_file_matches_its_text(tmp_path: Path) -> None:
    lines_of(tmp_path, {"id": 7, "output": "seven"}, {"id": "007", "output": "agent"})
    subject = subject_of(tmp_path)
    assert ask(subject, "7").output == b"seven"
    assert ask(subject, "007").output == b"agent"


RECORDS: list[dict[str, Any]] = [{"id": "a", "output": "eins, zwei"}, {"id": "b", "output": 'with "quotes"\nand lines'}]


def as_csv(records: list[dict[str, Any]]) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, list(records[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return out.getvalue()


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("suffix", "text"),
    [
        (".jsonl", "".join(json.dumps(record) + "\n" for record in RECORDS)),
        (".ndjson", "\n".join(json.dumps(record) for record in RECORDS)),
        (".json", json.dumps(RECORDS, indent=1)),
        (".csv", as_csv(RECORDS)),
        (".CSV", "\ufeff" + as_csv(RECORDS).replace("\n", "\r\n").replace('quotes""\r\n', 'quotes""\n')),
    ],
)
def test_k89_every_form_reads_the_same_with_and_without_gz(
    tmp_path: Path, suffix: str, text: str, packed: bool
) -> None:
    data = text.encode()
    name = f"answers{suffix}" + (".gz" if packed else "")
    (tmp_path / name).write_bytes(gzip.compress(data) if packed else data)
    subject = subject_of(tmp_path, name)
    assert ask(subject, "a").output == b"eins, zwei"
    assert ask(subject, "b").output.replace(b"\r\n", b"\n") == b'with "quotes"\nand lines'


def test_fields_may_be_json_pointers(tmp_path: Path) -> None:
    record = {
        "meta": {"case": {"id": "a"}, "a/b": 2},
        "choices": [{"message": {"content": "deep"}}],
        "usage": {"in": 12, "out": 3, "usd": "0.00001234567890123456789", "s": 1.25},
    }
    lines_of(tmp_path, record)
    subject = subject_of(
        tmp_path,
        id="/meta/case/id",
        output="/choices/0/message/content",
        repetition="/meta/a~1b",
        latency_s="/usage/s",
        cost_usd="/usage/usd",
        input_tokens="/usage/in",
        output_tokens="/usage/out",
    )
    answer = ask(subject, "a", 2)
    assert (answer.output, answer.latency_s) == (b"deep", 1.25)
    assert answer.usage == Usage(12, 3, Decimal("0.00001234567890123456789"))


def test_cost_of_a_json_number_is_the_decimal_that_was_written(tmp_path: Path) -> None:
    lines_of(tmp_path, {"id": "a", "output": "x", "usd": 0.1}, {"id": "b", "output": "x", "usd": 0.2})
    subject = subject_of(tmp_path, cost_usd="usd")
    total = sum((ask(subject, case).usage.cost_usd or Decimal(0) for case in "ab"), Decimal(0))
    assert total == Decimal("0.3")


def test_what_nobody_reported_is_none_and_not_0(tmp_path: Path) -> None:
    (tmp_path / "answers.csv").write_text("id,output,s,usd,n\na,x,,,\nb,x,0,0.00,0\n")
    subject = subject_of(tmp_path, "answers.csv", latency_s="s", cost_usd="usd", input_tokens="n", output_tokens="gone")
    assert (ask(subject, "a").latency_s, ask(subject, "a").usage) == (None, Usage())
    assert (ask(subject, "b").latency_s, ask(subject, "b").usage) == (0.0, Usage(0, None, Decimal(0)))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("latency_s", "1.5"),
        ("latency_s", -0.1),
        ("latency_s", True),
        ("latency_s", [1]),
        ("cost_usd", "1e400"),
        ("cost_usd", "1_000"),
        ("cost_usd", " 1"),
        ("cost_usd", "NaN"),
        ("cost_usd", "-0.01"),
        ("cost_usd", "free"),
        ("input_tokens", 1.5),
        ("input_tokens", "12"),
        ("output_tokens", -1),
        ("output_tokens", False),
    ],
)
def test_a_figure_that_is_none_is_refused_with_its_line_and_never_shown(
    tmp_path: Path, field: str, value: object
) -> None:
    lines_of(tmp_path, {"id": "a", "output": "x"}, {"id": "b", "output": "x", "f": value})
    with pytest.raises(InputError, match=r'answers\.jsonl:2: the field "f" is not a') as caught:
        subject_of(tmp_path, **{field: "f"})
    assert str(value) not in str(caught.value).replace("answers.jsonl:2", "").replace("at least 0", "")


def test_k89_a_csv_cell_is_read_as_a_plain_number_only(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,output,n\na,x,12\nb,x,0x10\n")
    with pytest.raises(InputError, match=r"a\.csv:3: "):
        subject_of(tmp_path, "a.csv", input_tokens="n")


def test_repetitions_are_told_apart_by_their_field_and_are_1_without_it(tmp_path: Path) -> None:
    lines_of(tmp_path, {"id": "a", "rep": 1, "output": "one"}, {"id": "a", "rep": 2, "output": "two"})
    subject = subject_of(tmp_path, repetition="rep")
    assert [ask(subject, "a", n).output for n in (1, 2)] == [b"one", b"two"]
    with pytest.raises(InputError, match=r'answers\.jsonl:2: case "a", repetition 1 was recorded on line 1 already'):
        subject_of(tmp_path)


@pytest.mark.parametrize("rep", [0, 1.5, "1", None, True])
def test_a_repetition_is_a_whole_number_from_1(tmp_path: Path, rep: object) -> None:
    lines_of(tmp_path, {"id": "a", "rep": rep, "output": "x"})
    with pytest.raises(InputError, match=r'answers\.jsonl:1: the field "rep"'):
        subject_of(tmp_path, repetition="rep")


@pytest.mark.parametrize(("first", "second"), [("7", 7), (7, 7), ("7", "7")])
def test_the_same_id_twice_is_refused_with_both_lines(tmp_path: Path, first: object, second: object) -> None:
    lines_of(tmp_path, {"id": first, "output": "x"}, {"id": "other", "output": "y"}, {"id": second, "output": "z"})
    with pytest.raises(InputError, match=r":3: .* line 1 "):
        subject_of(tmp_path)


@pytest.mark.parametrize("bad", ["", None, 1.0, True, ["a"]])
def test_an_id_is_a_text_or_a_whole_number(tmp_path: Path, bad: object) -> None:
    lines_of(tmp_path, {"id": bad, "output": "x"})
    with pytest.raises(InputError, match=r"answers\.jsonl:1: the id"):
        subject_of(tmp_path)


def test_a_missing_field_is_named_with_those_that_are_there(tmp_path: Path) -> None:
    lines_of(tmp_path, {"case": "a", "answer": "x"})
    with pytest.raises(InputError, match=r'no field "id" with the case id\. The record has "case", "answer"\.'):
        subject_of(tmp_path)
    with pytest.raises(InputError, match=r'no field "output"\. The record has'):
        subject_of(tmp_path, id="case")


def test_a_case_without_a_recording_is_an_infra_loss_that_no_retry_helps(tmp_path: Path) -> None:
    lines_of(tmp_path, {"id": "a", "output": "x"})
    subject = subject_of(tmp_path)
    for case, repetition in (("b", 1), ("a", 2)):
        with pytest.raises(InfraError, match=f'no recording of case "{case}", repetition {repetition}') as caught:
            ask(subject, case, repetition)
        assert (caught.value.kind, caught.value.retryable) == ("recording", False)


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ({"b": 1, "a": [None, 2.5]}, b'{"a":[null,2.5],"b":1}'),
        (12345678901234567890123, b"12345678901234567890123"),
        (False, b"false"),
        ("half \ud835\0", b"half \xed\xa0\xb5\0"),
    ],
)
def test_k85_an_output_that_is_no_text_is_its_canonical_json(tmp_path: Path, output: object, expected: bytes) -> None:
    lines_of(tmp_path, {"id": "a", "output": output})
    assert ask(subject_of(tmp_path), "a") == Answer(output=expected)


@pytest.mark.parametrize("output", [None, "", " \n\t"])
def test_w22_an_empty_recording_is_an_agent_failure(tmp_path: Path, output: object) -> None:
    lines_of(tmp_path, {"id": "a", "output": output})
    assert ask(subject_of(tmp_path), "a").error_kind == "empty"


def test_a_recorded_error_is_an_agent_failure_with_its_text(tmp_path: Path) -> None:
    lines_of(
        tmp_path,
        {"id": "a", "error": "timeout"},
        {"id": "b", "error": {"code": 500}, "output": "half"},
        {"id": "c", "error": "", "output": "fine"},
        {"id": "d", "error": None, "output": "fine"},
        {"id": "e", "output": "fine"},
        {"id": "f", "error": False, "output": "fine"},
    )
    subject = subject_of(tmp_path, error="error")
    assert ask(subject, "a") == Answer(error_kind="recorded_error", error=b"timeout")
    assert ask(subject, "b") == Answer(output=b"half", error_kind="recorded_error", error=b'{"code":500}')
    assert {ask(subject, case).error_kind for case in "cdef"} == {None}


def test_check_says_what_does_not_fit(tmp_path: Path) -> None:
    lines_of(tmp_path, *({"id": f"c{n}", "output": "x"} for n in range(10)))
    subject = subject_of(tmp_path)
    assert subject.check([f"c{n}" for n in range(10)]) == []
    lines = subject.check(["c1", "c2", *(f"n{n}" for n in range(7))])
    assert lines == [
        '7 of 9 cases have no recording and will be lost: "n0", "n1", "n2", "n3", "n4", ….',
        "8 of 10 recordings match no case.",
    ]
    with pytest.raises(SpecError, match=r'no case has a recording .*Cases are named like "x".*"c0"'):
        subject.check(["x"])


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.jsonl", b'{"id": "a", "id": "b", "output": 1}\n', "stands twice"),
        ("a.jsonl", b'{"id": "a", "output": NaN}\n', "NaN"),
        ("a.jsonl", b'["a"]\n', "list"),
        ("a.jsonl", b'"a"\n', "a record is an object"),
        ("a.jsonl", b'{"id": "a", "output": "\xe9"}\n', "not UTF-8"),
        ("a.json", b'{"id": "a"}', "one object"),
        ("a.json", b'[{"id": "a", "output": "x"}', "not closed"),
        ("a.csv", b"id;output\na;b\n", "semicolons"),
        ("a.csv", b"id,output\na\n", "1 cells"),
        ("a.jsonl.gz", b"not gzip", "gzip"),
        ("a.jsonl.gz", gzip.compress(b"".join(b'{"id": %d, "output": 1}\n' % n for n in range(500)))[:-20], "gzip"),
        ("a.parquet", b"PAR1", "kind of file"),
        ("a", b"", "kind of file"),
    ],
)
def test_r37_a_file_that_cannot_be_read_is_named_with_the_reason(
    tmp_path: Path, name: str, data: bytes, message: str
) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(InputError, match=message) as caught:
        subject_of(tmp_path, name)
    assert str(caught.value).startswith(name)


def test_k89_a_folder_or_no_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "folder.jsonl").mkdir()
    with pytest.raises(InputError, match="is a folder"):
        subject_of(tmp_path, "folder.jsonl")
    with pytest.raises(InputError, match="is not there"):
        subject_of(tmp_path, "gone.jsonl")


@given(st.lists(st.tuples(st.text(min_size=1), st.text()), max_size=20, unique_by=lambda pair: pair[0]))
def test_r50_every_text_comes_back_equal(
    tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[str, str]]
) -> None:
    folder = tmp_path_factory.mktemp("recorded")
    lines_of(folder, *({"id": case, "output": output} for case, output in pairs))
    subject = subject_of(folder)
    for case, output in pairs:
        assert ask(subject, case).output == output.encode("utf-8", "surrogatepass")


def test_build_subject_makes_it_from_the_task(tmp_path: Path) -> None:
    lines_of(tmp_path, {"id": "a", "output": "x"})
    task = RecordedTask(kind="recorded", path="answers.jsonl")
    subject = build_subject(task, folder=tmp_path, environ=dict(os.environ), reaper=Reaper())
    assert isinstance(subject, RecordedSubject)
    subject.check_cases([Case(id="a", input="")])


def test_published_answers_of_gsm8k_can_be_joined(data_dir: Path, tmp_path: Path) -> None:
    """1,319 rows, right answers of 6b_finetuning by the file's own mark: 286 (gsm8k/README.md)."""
    published = data_dir / "gsm8k" / "example_model_solutions.jsonl.gz"
    with gzip.open(published, "rt", encoding="utf-8") as source, gzip.open(tmp_path / "runs.jsonl.gz", "wt") as out:
        for number, line in enumerate(source):
            out.write(json.dumps({"n": number, **json.loads(line)}) + "\n")
    subject = subject_of(tmp_path, "runs.jsonl.gz", id="n", output="/6b_finetuning/is_correct")
    outputs = [ask(subject, str(number)).output for number in range(1319)]
    assert outputs.count(b"true") == 286
    assert outputs.count(b"false") == 1319 - 286
