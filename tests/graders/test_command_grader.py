"""The command grader: a program of the user's, started for every answer."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fairtrial.errors import SpecError
from fairtrial.records.trial import Grade
from fairtrial.spec.case import Case
from fairtrial.subjects.reaper import Reaper, find_marked, mark_pairs

Ask = Callable[..., Grade]

CASE = Case(
    id="c1",
    input={"q": "é"},
    expected=2**70,
    has_expected=True,
    kind="guard",
    split="test",
    group="g",
    tags=("t",),
    fields={"lang": "de"},
)


@pytest.mark.parametrize(
    ("printed", "state", "score", "reason"),
    [
        ("1", "scored", 1.0, b""),
        ("  0.25\n\n", "scored", 0.25, b""),
        ("true", "scored", 1.0, b""),
        ("-0.0", "scored", 0.0, b""),
        ("null", "no_score", None, b"the grader gave no score"),
        ('{"score": 0.5, "reason": "half \\u00e9"}', "scored", 0.5, "half é".encode()),
        ('{"score": null, "reason": "not sure", "more": 1}', "no_score", None, b"not sure"),
        ('{"score": 1, "reason": "\\ud835"}', "scored", 1.0, b"\xed\xa0\xb5"),
    ],
)
def test_c04_what_a_program_prints_is_the_score(
    grade: Ask, printed: str, state: str, score: float | None, reason: bytes
) -> None:
    found = grade(b"x", kind="command", command=["printf", "%s", printed])
    assert (found.state, found.score, found.reason) == (state, score, reason)


@pytest.mark.parametrize(
    "printed",
    [
        "NaN",
        "nan",
        "Infinity",
        "1e400",
        '"0.5"',
        '"nan"',
        "2",
        "-1",
        "1" + "0" * 400,
        "[1]",
        "{}",
        "True",
        "score: 1",
        "1 1",
        '{"score": 1, "score": 0}',
        '{"score": NaN}',
        '{"score": 1, "reason": 7}',
        "[" * 5000,
        "\\xff",
    ],
)
def test_k16_r40_anything_else_it_prints_is_the_graders_error(grade: Ask, printed: str) -> None:
    found = grade(b"x", kind="command", command=["printf", "%b" if printed == "\\xff" else "%s", printed])
    assert (found.state, found.score) == ("error", None)
    assert found.reason.startswith((b"not a number in [0, 1]: ", b'the "reason" is not a text: '))
    assert len(found.reason) < 300


def test_the_program_reads_answer_and_case_as_one_line_of_ascii_json(grade: Ask) -> None:
    code = "import sys,json; print(json.dumps({'score': 1, 'reason': sys.stdin.read()}))"
    found = grade(b"a\xff\0\nb", case=CASE, kind="command", command=[sys.executable, "-c", code])
    assert found.reason.endswith(b"}}\n")
    assert found.reason.count(b"\n") == 1
    assert found.reason.isascii()
    assert json.loads(found.reason) == {
        "output": "a\ufffd\0\nb",
        "case": {
            "id": "c1",
            "input": {"q": "é"},
            "expected": 2**70,
            "has_expected": True,
            "kind": "guard",
            "split": "test",
            "group": "g",
            "tags": ["t"],
            "fields": {"lang": "de"},
        },
    }


def test_a_program_that_does_not_read_its_stdin_is_no_error(grade: Ask) -> None:
    assert grade(b"x" * 5_000_000, kind="command", command="exec <&-; echo 1").score == 1


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("exit 3", b"exit code 3"),
        ("echo 1; exit 1", b"exit code 1"),
        ("echo why >&2; exit 3", b"exit code 3\nwhy"),
        ("no-such-program-anywhere 2>/dev/null", b"exit code 127: the shell did not find the command"),
        ("kill -9 $$", b"ended by signal 9 (SIGKILL)"),
        ("true", b"printed nothing"),
        ("echo", b"printed nothing"),
        ("head -c 1000001 /dev/zero", b"printed more than 1,000,000 bytes"),
    ],
)
def test_r35_a_bad_end_is_an_error_with_its_words(grade: Ask, line: str, reason: bytes) -> None:
    found = grade(b"x", kind="command", command=line)
    assert (found.state, found.score, found.reason) == ("error", None, reason)


def test_a_program_that_is_gone_by_now_is_an_error_with_its_words(build: Any, tmp_path: Path) -> None:
    program = tmp_path / "grader"
    program.write_text("#!/bin/sh\necho 1\n")
    program.chmod(0o755)
    grader = build(kind="command", command=["./grader"])

    def reason() -> bytes:
        found: Grade = asyncio.run(grader.grade(b"x", case=CASE, mark={}))
        assert found.state == "error"
        return found.reason

    program.chmod(0o644)
    assert b"is not executable" in reason()
    program.unlink()
    assert b"was not found" in reason()


def test_a_program_past_its_limit_is_an_error_and_its_whole_tree_is_ended(grade: Ask, reaper: Reaper) -> None:
    began = time.monotonic()
    found = grade(b"x", kind="command", command="echo 1; setsid sleep 300 & trap '' TERM; sleep 300", timeout_s=0.5)
    assert time.monotonic() - began < 2.5
    assert (found.state, found.reason) == ("error", b"took longer than 0.5 s")
    assert find_marked(mark_pairs(reaper.mark)[0]) == []


def test_r31_nothing_of_a_grader_that_ended_well_is_left(grade: Ask, reaper: Reaper) -> None:
    assert grade(b"x", kind="command", command="setsid sleep 300 >/dev/null 2>&1 & echo 1").score == 1
    assert find_marked(mark_pairs(reaper.mark)[0]) == []


def test_environment_folder_and_marks(grade: Ask, tmp_path: Path, reaper: Reaper) -> None:
    (tmp_path / "sub").mkdir()
    line = f'printf \'{{"score": 1, "reason": "%s %s %s"}}\' "$A" "$(basename "$PWD")" "${next(iter(reaper.mark))}"'
    found = grade(b"x", kind="command", command=line, env={"A": "own"}, cwd="sub")
    assert found.reason == b"own sub 1"


SECRET = "sk-live-0123456789"


@pytest.mark.parametrize(
    "line",
    [
        'echo "{\\"score\\": 1, \\"reason\\": \\"$K\\"}"',
        'echo "$K"; echo "bad key $K" >&2; exit 1',
        'echo "{\\"$K\\": 1}"',
    ],
)
def test_k99_a_secret_of_the_grader_is_in_no_grade(grade: Ask, line: str) -> None:
    found = grade(b"x", kind="command", command=line, env={"K": {"from_env": "THE_KEY"}}, environ={"THE_KEY": SECRET})
    assert SECRET.encode() not in found.reason
    assert b"[redacted:THE_KEY]" in found.reason


def test_what_cannot_work_is_refused_before_the_run_with_its_key(build: Any, tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("x")
    with pytest.raises(SpecError, match=r"graders\[0\]\.env\.K: .*NOT_SET_ANYWHERE is not set"):
        build(kind="command", command="true", env={"K": {"from_env": "NOT_SET_ANYWHERE"}})
    with pytest.raises(SpecError, match=r"graders\[0\]\.cwd: "):
        build(kind="command", command="true", cwd="nowhere")
    for command in (["no-such-program-anywhere"], ["./gone"], ["./plain"]):
        with pytest.raises(SpecError, match=r"graders\[0\]\.command: the program .* was not found"):
            build(kind="command", command=command)


NASTY = [
    "; touch canary",
    "$(touch canary)",
    "`touch canary`",
    "' ; touch canary ; '",
    "{{input}}",
    "%n%s",
    "-rf",
    "\0",
]


def test_r57_an_answer_reaches_the_grader_by_stdin_alone(grade: Ask, tmp_path: Path) -> None:
    code = "import sys,json; print(json.dumps({'score': 1, 'reason': json.load(sys.stdin)['output']}))"
    before = set(os.listdir(tmp_path))  # noqa: PTH208
    for text in NASTY:
        case = Case(id=text, input=text, expected=text, has_expected=True)
        found = grade(text, case=case, kind="command", command=[sys.executable, "-c", code])
        assert found.reason.decode() == text
    assert grade(NASTY[1], kind="command", command="cat >/dev/null; echo 1").score == 1
    assert set(os.listdir(tmp_path)) == before  # noqa: PTH208


def test_a_command_list_is_no_template(grade: Ask) -> None:
    printed = '{"score": 1, "reason": "{{input}}"}'
    assert grade(b"x", kind="command", command=["printf", "%s", printed]).reason == b"{{input}}"
