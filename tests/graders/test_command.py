"""The command grader: a program of the user's and everything it may print or do."""

from __future__ import annotations

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


@pytest.mark.parametrize(
    ("printed", "state", "score", "reason"),
    [
        ("1", "scored", 1.0, b""),
        ("0.25\\n", "scored", 0.25, b""),
        ("true", "scored", 1.0, b""),
        ("false", "scored", 0.0, b""),
        ("null", "no_score", None, b"the grader gave no score"),
        ('{"score": 0.5, "reason": "half"}', "scored", 0.5, b"half"),
        ('{"score": null, "reason": "unsure"}', "no_score", None, b"unsure"),
    ],
)
def test_c04_what_a_program_prints(grade: Ask, printed: str, state: str, score: float | None, reason: bytes) -> None:
    found = grade("x", kind="command", command=f"printf '{printed}'")
    assert (found.state, found.score, found.reason) == (state, score, reason)


@pytest.mark.parametrize(
    "printed",
    ["nan", "NaN", "Infinity", "-Infinity", "1e400", "2", "-0.1", '"0.5"', '"nan"', "9" * 5000, "9" * 400, "[1]", "{}",
     '{"score": "1"}', '{"score": NaN}', '{"score": 1, "score": 0}', "one", "1 2", "0.5 good"],
)  # fmt: skip
def test_k16_r40_what_is_no_score_is_the_graders_error(grade: Ask, printed: str) -> None:
    found = grade("x", kind="command", command=["printf", "%s", printed])
    assert (found.state, found.score) == ("error", None)
    assert found.reason.startswith(b"not a number in [0, 1]")
    assert len(found.reason) < 500


def test_it_reads_output_and_case_with_the_label(grade: Ask, tmp_path: Path) -> None:
    case = Case(id="c1", input={"q": 1}, expected="LABEL", has_expected=True, fields={"f": "\ud835"}, tags=("t",))
    grade(b"out\xff", case=case, kind="command", command="cat > read.json; echo 1")
    assert json.loads((tmp_path / "read.json").read_bytes()) == {
        "output": "out\ufffd",
        "case": {
            "id": "c1",
            "input": {"q": 1},
            "expected": "LABEL",
            "has_expected": True,
            "kind": "ordinary",
            "split": None,
            "group": None,
            "tags": ["t"],
            "fields": {"f": "\ud835"},
        },
    }


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("echo why >&2; exit 3", "exit code 3\nwhy"),
        ("kill -9 $$", "ended by signal 9 (SIGKILL)"),
        ("true", "printed nothing"),
        ("sleep 60", "took longer than 0.5 s"),
        ("head -c 2000000 /dev/zero", "printed more than 1,000,000 bytes"),
        ("no-such-program-anywhere", "exit code 127: the shell did not find the command"),
    ],
)
def test_what_goes_wrong_is_an_error_with_its_reason(grade: Ask, command: Any, reason: str) -> None:
    began = time.monotonic()
    found = grade("x", kind="command", command=command, timeout_s=0.5)
    assert time.monotonic() - began < 2.5
    assert (found.state, found.score) == ("error", None)
    assert found.reason.decode().startswith(reason)


def test_environment_folder_and_mark(grade: Ask, tmp_path: Path, reaper: Reaper) -> None:
    (tmp_path / "sub").mkdir()
    (name,) = reaper.mark
    code = (
        "import json, os\n"
        f"ok = os.environ['A'] == '1' and os.environ['HELLO'] == 'x' and '{name}' in os.environ\n"
        "print(json.dumps({'score': ok, 'reason': os.getcwd()}))"
    )
    found = grade(
        "x", kind="command", command=[sys.executable, "-c", code], env={"A": "1"}, cwd="sub", environ={"HELLO": "x"}
    )
    assert (found.score, found.reason.decode()) == (1.0, os.fspath((tmp_path / "sub").resolve()))


def test_k99_a_secret_of_the_grader_is_in_no_reason(grade: Ask) -> None:
    env, environ = {"KEY": {"from_env": "JUDGE_KEY"}}, {"JUDGE_KEY": "sk-judge-123456"}
    line = """printf '{"score": 1, "reason": "used %s"}' "$KEY" """
    assert grade("x", kind="command", command=line, env=env, environ=environ).reason == b"used [redacted:JUDGE_KEY]"
    found = grade("x", kind="command", command="echo $KEY >&2; exit 1", env=env, environ=environ)
    assert found.reason == b"exit code 1\n[redacted:JUDGE_KEY]"


def test_what_cannot_work_is_refused_before_the_run(build: Any) -> None:
    with pytest.raises(SpecError, match=r"graders\[0\]\.env\.KEY: .*NOT_SET_ANYWHERE is not set"):
        build(kind="command", command="true", env={"KEY": {"from_env": "NOT_SET_ANYWHERE"}})
    with pytest.raises(SpecError, match=r"graders\[0\]\.cwd: "):
        build(kind="command", command="true", cwd="nowhere")


def test_r31_nothing_of_a_grader_is_left(grade: Ask, reaper: Reaper) -> None:
    assert grade("x", kind="command", command="setsid sleep 300 >/dev/null & echo 1").score == 1
    assert find_marked(mark_pairs(reaper.mark)[0]) == []
