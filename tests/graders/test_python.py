"""The python grader: a user's function in a process of its own, whatever it does there."""

from __future__ import annotations

import ast
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
from fairtrial.graders.isolated import __file__ as isolated
from fairtrial.graders.python import FunctionGrader
from fairtrial.graders.score import REASON_CAP
from fairtrial.records.trial import Grade
from fairtrial.spec.case import Case
from fairtrial.subjects.reaper import Reaper, find_marked, mark_pairs

CASE = Case(id="c1", input="q", expected="x", has_expected=True)

Asked = list[str | bytes]


@pytest.fixture
def grades(tmp_path: Path, build: Callable[..., Any]) -> Callable[..., list[Grade]]:
    """Return a function that writes a grader's file and asks it about outputs in turn, in one process."""

    def ask(source: str, outputs: Asked, *, case: Case = CASE, **spec: Any) -> list[Grade]:
        (tmp_path / "g.py").write_text(source)
        grader = build(kind="python", path="g.py", **spec)

        async def one_after_the_other() -> list[Grade]:
            try:
                return [
                    await grader.grade(
                        output if isinstance(output, bytes) else output.encode("utf-8", "surrogatepass"),
                        case=case,
                        mark={},
                    )
                    for output in outputs
                ]
            finally:
                await grader.close()

        return asyncio.run(one_after_the_other())

    return ask


def states(found: list[Grade]) -> list[tuple[str, float | None, bytes]]:
    return [(grade.state, grade.score, grade.reason) for grade in found]


def test_c04_a_function_gives_numbers_bools_reasons_or_nothing(grades: Any) -> None:
    found = grades(
        "def grade(output, case):\n    return eval(output)\n",
        ["1", "0.25", "True", "False", "None", '{"score": 0.5, "reason": "half"}', '{"score": None, "reason": "why"}'],
    )
    assert states(found) == [
        ("scored", 1.0, b""),
        ("scored", 0.25, b""),
        ("scored", 1.0, b""),
        ("scored", 0.0, b""),
        ("no_score", None, b"the grader gave no score"),
        ("scored", 0.5, b"half"),
        ("no_score", None, b"why"),
    ]


def test_the_function_gets_the_answer_as_text_and_the_whole_case(grades: Any) -> None:
    case = Case(
        id="c7",
        input={"q": ["é", 1.0, None]},
        expected={"a": 2**70},
        has_expected=True,
        kind="guard",
        split="test",
        group="g",
        tags=("t",),
        fields={"lang": "de"},
    )
    source = """
import json
def grade(output, case):
    return {"score": 1, "reason": json.dumps([output, case])}
"""
    (found,) = grades(source, [b"x\xff\xed\xa0\xb5 \0 \xf0\x9f\xa6\x8a"], case=case)
    output, got = json.loads(found.reason)
    assert output == "x\ufffd\ufffd\ufffd\ufffd \0 🦊"
    assert got == {
        "id": "c7",
        "input": {"q": ["é", 1.0, None]},
        "expected": {"a": 2**70},
        "has_expected": True,
        "kind": "guard",
        "split": "test",
        "group": "g",
        "tags": ["t"],
        "fields": {"lang": "de"},
    }


NO_SCORES = [
    "float('nan')",
    "float('inf')",
    "-float('inf')",
    "1e400",
    "'nan'",
    "'0.5'",
    "1.0001",
    "-1",
    "10**400",
    "10**5000",
    "[1]",
    "object()",
    "b'1'",
    "1j",
    "{'score': float('nan')}",
    "{'score': '0.5'}",
    "{'reason': 'no score'}",
    "'x' * 5_000_000",
    "{'score': 'x' * 5_000_000}",
    "__import__('decimal').Decimal('0.5')",
    "__import__('numpy').float32('nan')",
    "__import__('numpy').ones(2)",
]


def test_k16_r40_what_is_no_number_is_the_error_of_that_case_alone(grades: Any) -> None:
    source = """
import os
def grade(output, case):
    return eval(output) if output else {"score": 1, "reason": os.getpid()}
"""
    found = grades(source, ["", *NO_SCORES, ""])
    for value, bad in zip(NO_SCORES, found[1:-1], strict=True):
        assert (bad.state, bad.score) == ("error", None), value
        assert bad.reason.startswith(b"not a number in [0, 1]: "), value
        assert len(bad.reason) < 200
    # One process all along: a bad value is no reason to start anew.
    assert states([found[0]]) == states([found[-1]])
    assert found[0].score == 1


def test_numbers_of_numpy_are_numbers(grades: Any) -> None:
    source = "import numpy\ndef grade(output, case):\n    return getattr(numpy, output)(1)\n"
    assert [grade.score for grade in grades(source, ["float64", "float32", "int8", "bool_"])] == [1.0] * 4


def test_whatever_the_function_prints_and_reads_the_reply_is_what_it_returns(grades: Any) -> None:
    source = """
import os, sys, subprocess
print("at import")
def grade(output, case):
    print("10\\n{}")
    sys.stdout.flush()
    os.write(1, b'13\\n{"value": 0.1}')
    os.write(2, b"x" * 100_000)
    subprocess.run(["echo", "of a child"])
    print("\\x00" * 100_000)
    return 1 if sys.stdin.read() == "" else 0
"""
    assert states(grades(source, ["a", "b"])) == [("scored", 1.0, b"")] * 2


def test_an_async_function_is_awaited_in_one_loop(grades: Any) -> None:
    source = """
import asyncio
queue = None
async def grade(output, case):
    global queue
    queue = queue or asyncio.Queue()
    await queue.put(output)
    await asyncio.sleep(0)
    return queue.qsize() / 4
"""
    assert [grade.score for grade in grades(source, ["a", "b"])] == [0.25, 0.5]


def test_a_function_may_run_a_loop_of_its_own(grades: Any) -> None:
    source = """
import asyncio
async def inner():
    return 1
def grade(output, case):
    return asyncio.run(inner())
"""
    assert [grade.score for grade in grades(source, ["a", "b"])] == [1.0, 1.0]


def test_an_exception_is_the_error_of_that_case_with_its_line(grades: Any) -> None:
    source = "def grade(output, case):\n    x = 1\n    return 1 / len(output)\n"
    found = grades(source, ["", "a"])
    assert states(found) == [
        ("error", None, b"g.py:grade raised ZeroDivisionError: division by zero (g.py, line 3)"),
        ("scored", 1.0, b""),
    ]


@pytest.mark.parametrize("line", ["sys.exit(0)", "raise KeyboardInterrupt", "raise SystemExit('x' * 5_000_000)"])
def test_an_attempt_to_leave_is_an_error_and_the_process_stays(grades: Any, line: str) -> None:
    source = f"import os, sys\ndef grade(output, case):\n    if output == 'leave':\n        {line}\n    return 1\n"
    left, stayed = grades(source, ["leave", "stay"])
    assert left.state == "error"
    assert left.reason.startswith((b"g.py:grade raised SystemExit", b"g.py:grade raised KeyboardInterrupt"))
    assert left.reason.endswith(b"(g.py, line 4)") or len(left.reason) == REASON_CAP
    assert stayed.score == 1


@pytest.mark.parametrize(
    ("line", "how"),
    [
        ("os._exit(3)", b"exit code 3"),
        ("os.kill(os.getpid(), 9)", b"ended by signal 9 (SIGKILL)"),
        ("__import__('ctypes').string_at(0)", b"ended by signal 11 (SIGSEGV)"),
    ],
)
def test_a_crash_is_the_error_of_that_case_and_the_next_finds_a_fresh_process(
    grades: Any, line: str, how: bytes
) -> None:
    source = f"""
import os, resource, sys
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
count = 0
def grade(output, case):
    global count
    count += 1
    print("last words", file=sys.stderr, flush=True)
    if output == "crash":
        {line}
    return {{"score": 1, "reason": str(count)}}
"""
    first, crash, after = grades(source, ["a", "crash", "b"])
    assert (first.score, first.reason) == (1.0, b"1")
    assert (crash.state, crash.score) == ("error", None)
    assert crash.reason.startswith(b"g.py:grade ended in the middle of a case: " + how)
    assert crash.reason.endswith(b"last words")
    assert (after.score, after.reason) == (1.0, b"1")


def test_a_function_past_its_limit_is_an_error_and_its_whole_tree_is_ended(grades: Any, reaper: Reaper) -> None:
    source = """
import signal, subprocess, time
def grade(output, case):
    if output == "slow":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        subprocess.Popen(["setsid", "sleep", "300"])
        time.sleep(300)
    return 1
"""
    began = time.monotonic()
    slow, after = grades(source, ["slow", "b"], timeout_s=1.0)
    assert time.monotonic() - began < 4
    assert states([slow]) == [("error", None, b"g.py:grade took longer than 1 s")]
    assert after.score == 1
    assert find_marked(mark_pairs(reaper.mark)[0]) == []


# A grader that finds the reply channel: among the descriptors above 2, the pipe that is open for writing.
ROGUE = """
import fcntl, os, stat
def send(data):
    for fd in range(3, 20):
        try:
            if stat.S_ISFIFO(os.fstat(fd).st_mode) and fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_WRONLY:
                os.write(fd, data)
        except OSError:
            pass
"""


@pytest.mark.parametrize("frame", ["garbage\\n", "9" * 40 + "\\n", "-1 1\\n{}", "2 1\\n[]", "2\\n[]", "4 1\\n{\\xff}}"])
def test_r40_garbage_on_the_private_channel_is_an_error_and_never_the_next_cases_score(grades: Any, frame: str) -> None:
    source = f"{ROGUE}\ndef grade(output, case):\n    output == 'bad' and send(b'{frame}')\n    return 1\n"
    bad, *after = grades(source, ["bad", "b", "c", "d"])
    assert (bad.state, bad.score) == ("error", None)
    assert b"is not a reply" in bad.reason
    # What stood behind the garbage was the reply to the bad case: it may cost the next one its score, never change it.
    assert {(grade.state, grade.score) for grade in after} <= {("scored", 1.0), ("error", None)}
    assert [grade.score for grade in after[1:]] == [1.0, 1.0]


def test_a_second_reply_to_one_case_is_never_taken_for_the_next(grades: Any) -> None:
    source = f"""{ROGUE}
def grade(output, case):
    if output == "twice":
        send(b'14 1\\n{{"value": 0.5}}')
    return 1 if output == "twice" else 0
"""
    twice, after, last = grades(source, ["twice", "b", "c"])
    assert (twice.state, twice.score) == ("scored", 0.5)
    assert (after.state, after.score) in (("error", None), ("scored", 0.0))
    assert last.score == 0


def test_a_long_reason_is_cut_and_its_score_kept(grades: Any) -> None:
    (found,) = grades("def grade(output, case):\n    return {'score': 1, 'reason': '🦊' * 3_000_000}\n", ["a"])
    assert (found.score, len(found.reason)) == (1.0, REASON_CAP)


def test_ten_megabytes_of_answer_are_graded(grades: Any) -> None:
    (found,) = grades("def grade(output, case):\n    return len(output) == 10_000_000\n", [b"\xff" * 10_000_000])
    assert found.score == 1


def test_helpers_beside_the_file_are_imported_and_ours_never(grades: Any, tmp_path: Path) -> None:
    # Names that a module of ours, or one that the runner itself needs, could take.
    for name in ("helper", "python_runner", "json", "fairtrial"):
        (tmp_path / f"{name}.py").write_text(f"WHO = 'own {name}'\n")
    source = """
import helper, python_runner, fairtrial, sys
def grade(output, case):
    assert not any("isolated" in entry for entry in sys.path)
    return {"score": 1, "reason": " ".join([helper.WHO, python_runner.WHO, fairtrial.WHO])}
"""
    for environ in ({}, {"PYTHONSAFEPATH": "1", "PYTHONPATH": str(tmp_path / "lib")}):
        (found,) = grades(source, ["a"], environ=environ)
        assert (found.state, found.reason) == ("scored", b"own helper own python_runner own fairtrial")


def test_pythonpath_still_counts_when_the_own_folder_is_left_out(grades: Any, tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "far.py").write_text("")
    environ = {"PYTHONSAFEPATH": "1", "PYTHONPATH": str(tmp_path / "lib")}
    (found,) = grades("import far\ndef grade(output, case):\n    return 1\n", ["a"], environ=environ)
    assert found.score == 1


def test_dataclasses_and_relative_file_names_work_as_in_a_program_of_the_folder(grades: Any, tmp_path: Path) -> None:
    (tmp_path / "table.json").write_text('{"q": 1}')
    source = """
from __future__ import annotations
import json
from dataclasses import dataclass
from pathlib import Path
@dataclass
class Row:
    q: int
def grade(output, case):
    return Row(**json.loads(Path("table.json").read_text())).q
"""
    assert [grade.score for grade in grades(source, ["a"])] == [1.0]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("def grade(:\n", r"SyntaxError: .*\(g\.py, line 1\)"),
        ("x = 1\nimport not_installed_anywhere\n", r"ModuleNotFoundError: .*\(g\.py, line 2\)"),
        ("def other(output, case):\n    return 1\n", r"there is no function 'grade' in g\.py"),
        ("grade = 3\n", r"there is no function 'grade'"),
        ("raise SystemExit(0)\n", r"SystemExit"),
        ("import os\nos._exit(7)\n", r"exit code 7"),
        ("x = '\0'\n", r"null bytes"),
    ],
)
def test_a_file_that_cannot_be_loaded_is_refused_by_prepare(
    build: Any, tmp_path: Path, source: str, message: str
) -> None:
    (tmp_path / "g.py").write_text(source)
    grader = build(kind="python", path="g.py", name="tone")
    assert isinstance(grader, FunctionGrader)

    async def prepare() -> None:
        try:
            await grader.prepare()
        finally:
            await grader.close()

    with pytest.raises(SpecError, match=rf'the grader "tone" \(g\.py:grade\) (?s:.*){message}'):
        asyncio.run(prepare())


def test_without_prepare_a_file_that_cannot_be_loaded_is_an_error_of_every_case(grades: Any) -> None:
    found = grades("def grade(:\n", ["a", "b"])
    assert [grade.state for grade in found] == ["error", "error"]
    assert all(b"SyntaxError" in grade.reason for grade in found)


def test_a_line_is_named_once_and_a_helpers_by_its_own_file(grades: Any, tmp_path: Path) -> None:
    (found,) = grades("x = 1\ndef grade(:\n", ["a"])
    assert found.reason == b"g.py:grade could not be loaded: SyntaxError: invalid syntax (g.py, line 2)"
    (tmp_path / "helper.py").write_text("\n\nx = = 1\n")
    (found,) = grades("import helper\n", ["a"])
    assert found.reason.endswith(b"SyntaxError: invalid syntax (helper.py, line 3) (g.py, line 1)")


def test_prepare_loads_once_and_the_first_case_finds_it_ready(build: Any, tmp_path: Path) -> None:
    (tmp_path / "g.py").write_text(
        "open('loads', 'a').write('x')\ndef grade(output, case):\n    return 1\n",
    )
    grader = build(kind="python", path="g.py")

    async def run() -> Grade:
        await grader.prepare()
        found: Grade = await grader.grade(b"a", case=CASE, mark={})
        await grader.close()
        await grader.close()
        return found

    assert asyncio.run(run()).score == 1
    assert (tmp_path / "loads").read_text() == "x"


def test_trials_in_flight_share_the_process_and_keep_their_own_scores(build: Any, tmp_path: Path) -> None:
    (tmp_path / "g.py").write_text("def grade(output, case):\n    return int(output) / 64\n")
    grader = build(kind="python", path="g.py")

    async def run() -> list[float | None]:
        try:
            outputs = [str(number).encode() for number in range(64)]
            found = await asyncio.gather(*(grader.grade(output, case=CASE, mark={}) for output in outputs))
            return [grade.score for grade in found]
        finally:
            await grader.close()

    assert asyncio.run(run()) == [number / 64 for number in range(64)]


def test_a_cancelled_grading_ends_the_process_and_the_next_case_finds_a_fresh_one(build: Any, tmp_path: Path) -> None:
    (tmp_path / "g.py").write_text(
        "import time\ndef grade(output, case):\n    output == 'slow' and time.sleep(300)\n    return 1\n"
    )
    grader = build(kind="python", path="g.py")

    async def run() -> Grade:
        await grader.prepare()
        slow = asyncio.create_task(grader.grade(b"slow", case=CASE, mark={}))
        await asyncio.sleep(0.1)
        slow.cancel()
        with pytest.raises(asyncio.CancelledError):
            await slow
        found: Grade = await grader.grade(b"a", case=CASE, mark={})
        await grader.close()
        return found

    assert asyncio.run(run()).score == 1


def test_an_interpreter_of_the_users_is_used(grades: Any, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    wrapper = tmp_path / "bin" / "mypython"
    wrapper.write_text(f'#!/bin/sh\nWRAPPED=yes exec "{sys.executable}" "$@"\n')
    wrapper.chmod(0o755)
    source = "import os\ndef grade(output, case):\n    return os.environ.get('WRAPPED') == 'yes'\n"
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    assert grades(source, ["a"])[0].score == 0
    assert grades(source, ["a"], interpreter="bin/mypython")[0].score == 1
    assert grades(source, ["a"], interpreter="mypython", environ={"PATH": path})[0].score == 1


def test_what_cannot_be_found_is_refused_with_its_key(build: Any, tmp_path: Path) -> None:
    (tmp_path / "g.py").write_text("")
    with pytest.raises(SpecError, match=r'graders\[0\]\.path: there is no file "gone\.py"'):
        build(kind="python", path="gone.py")
    for interpreter in ("no-such-python", "./gone", str(tmp_path)):
        with pytest.raises(SpecError, match=r"graders\[0\]\.interpreter: there is no interpreter"):
            build(kind="python", path="g.py", interpreter=interpreter)


def test_the_runner_is_written_in_the_language_of_python_3_8() -> None:
    runner = Path(isolated).with_name("python_runner.py")
    ast.parse(runner.read_text(), feature_version=(3, 8))
    # It stands first in its own search path: a name of the standard library would hide that module.
    taken = {path.stem for path in runner.parent.glob("*.py")} & set(sys.stdlib_module_names)
    assert taken == set()
