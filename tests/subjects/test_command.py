"""The command subject: what a program gets, and what its end means."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairtrial.errors import InfraError, SpecError
from fairtrial.hashing import JsonValue
from fairtrial.records.trial import Answer
from fairtrial.spec.case import Case
from fairtrial.spec.models import CommandTask
from fairtrial.subjects.base import TrialRequest
from fairtrial.subjects.build import build_subject
from fairtrial.subjects.command import ERROR_TAIL, CommandSubject
from fairtrial.subjects.ending import exit_line, signal_name
from fairtrial.subjects.reaper import Reaper, find_marked, mark_pairs

PYTHON = sys.executable


@pytest.fixture(scope="module")
def reaper() -> Iterator[Reaper]:
    reaper = Reaper()
    yield reaper
    reaper.close()


@pytest.fixture
def ask(tmp_path: Path, reaper: Reaper) -> Any:
    """Return a function that runs one trial of a command task."""

    def run(
        command: list[str] | str,
        *,
        input: JsonValue = "in",
        case: Case | None = None,
        timeout_s: float | None = 30,
        environ: dict[str, str] | None = None,
        **task: Any,
    ) -> Answer:
        subject = build_subject(
            CommandTask(kind="command", command=command, **task),
            folder=tmp_path,
            environ={**os.environ, **(environ or {})},
            reaper=reaper,
        )
        request = TrialRequest(
            "exp_1", "main", case or Case(id="c1", input=input), 2, 77, timeout_s, {"FAIRTRIAL_MARK_TEST": "1"}
        )

        async def once() -> Answer:
            try:
                return await subject.answer(request)
            finally:
                await subject.close()

        return asyncio.run(once())

    return run


def test_c03_an_agent_script_sees_its_own_environment(ask: Any, tmp_path: Path) -> None:
    (tmp_path / "agent.mjs").write_text("console.log(process.env.MODEL + ' ' + process.env.HELLO)")
    answer = ask("node agent.mjs", env={"MODEL": "stub-small"}, environ={"HELLO": "inherited"})
    assert (answer.output, answer.error_kind) == (b"stub-small inherited\n", None)


def test_what_ours_adds_to_the_environment(ask: Any) -> None:
    line = 'echo "$FAIRTRIAL_CASE_ID $FAIRTRIAL_REPETITION $FAIRTRIAL_SEED $FAIRTRIAL_MARK_TEST"'
    assert ask(line).output == b"c1 2 77 1\n"


def test_the_programs_bear_the_marks_of_the_trial_and_of_the_reaper(ask: Any, reaper: Reaper) -> None:
    (name,) = reaper.mark
    assert ask(f"printenv {name}").output == b"1\n"
    assert find_marked(mark_pairs(reaper.mark)[0]) == []
    assert reaper.pid is not None


def test_the_default_folder_is_the_specs_and_cwd_starts_from_it(ask: Any, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    assert ask("pwd -P").output.decode().strip() == str(tmp_path.resolve())
    assert ask("pwd -P", cwd="sub").output.decode().strip() == str((tmp_path / "sub").resolve())


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ("plain\ntext", b"plain\ntext"),
        ({"b": 1, "a": [True, None, 1.5]}, b'{"a":[true,null,1.5],"b":1}'),
        (7, b"7"),
        ("é\ud835\0", "é".encode() + b"\xed\xa0\xb5\0"),
    ],
)
def test_k85_stdin_text_is_the_input_as_it_is_and_other_values_as_canonical_json(
    ask: Any, value: JsonValue, read: bytes
) -> None:
    assert ask(["cat"], input=value).output == read


def test_stdin_json_is_the_case_without_its_label(ask: Any) -> None:
    case = Case(
        id="c1",
        input={"q": "half \ud835 pair"},
        expected="LABEL",
        has_expected=True,
        kind="guard",
        split="test",
        group="g",
        tags=("t1", "t2"),
        fields={"lang": "de"},
    )
    answer = ask(["cat"], case=case, stdin="json")
    assert b"LABEL" not in answer.output
    assert b"expected" not in answer.output
    # A reader that knows UTF-8 only can read it: the half pair is an escape.
    assert json.loads(answer.output.decode("utf-8")) == {
        "id": "c1",
        "input": {"q": "half \ud835 pair"},
        "kind": "guard",
        "split": "test",
        "group": "g",
        "tags": ["t1", "t2"],
        "fields": {"lang": "de"},
        "repetition": 2,
        "seed": 77,
    }


def test_stdin_none_gives_nothing_to_read(ask: Any) -> None:
    assert ask("wc -c", stdin="none").output.strip() == b"0"


NASTY = [
    "; touch {canary}",
    "$(touch {canary})",
    "`touch {canary}`",
    "| touch {canary}",
    "&& touch {canary}",
    "\ntouch {canary}\n",
    "' ; touch {canary} ; '",
    '" ; touch {canary} ; "',
    "-rf",
    "--help",
    "{{input}} {{7*7}} {{fields.x}}",
    "%n %s ${{HOME}} $HOME ~ *",
    '{{"__class__": "subprocess.getoutput", "data": {{"cmd": "touch {canary}"}}}}',
    "!!python/object/apply:os.system ['touch {canary}']",
]


@pytest.mark.parametrize("text", NASTY)
def test_r57_case_text_reaches_a_program_as_it_is_and_runs_nothing(ask: Any, tmp_path: Path, text: str) -> None:
    canary = tmp_path / "canary"
    payload = text.format(canary=canary) if "{canary}" in text else text
    echo = [PYTHON, "-c", "import sys; sys.stdout.write(sys.argv[1] + '|' + sys.stdin.read())"]
    answer = ask([*echo, "{{input}}"], input=payload)
    assert answer.output.decode() == f"{payload}|{payload}"
    assert ask("cat", input=payload).output.decode() == payload
    # The id reaches the program by a variable.
    assert ask('printf %s "$FAIRTRIAL_CASE_ID"', case=Case(id=payload, input="")).output.decode() == payload
    assert not canary.exists()


def test_r57_text_of_200_kb_in_an_argument_fails_by_name(ask: Any) -> None:
    answer = ask(["echo", "{{input}}"], input="x" * 200_000)
    assert answer.error_kind == "not_started"
    assert answer.error.startswith(b"too_long: ")
    assert len(answer.error) < 1000


def test_k85_a_nul_in_an_argument_fails_by_name_and_half_a_pair_passes(ask: Any) -> None:
    answer = ask(["echo", "{{input}}"], input="a\0b")
    assert (answer.error_kind, answer.error[:9]) == ("not_started", b"nul_byte:")
    assert ask(["printf", "%s", "{{input}}"], input="\ud835").output == b"\xed\xa0\xb5"


def test_r33_output_is_kept_as_bytes_with_its_last_newline(ask: Any) -> None:
    everything = bytes(range(256))
    code = "import sys; sys.stdout.buffer.write(bytes(range(256)) + b'\\n')"
    answer = ask([PYTHON, "-c", code])
    assert (answer.output, answer.error_kind, answer.cut) == (everything + b"\n", None, False)
    assert answer.latency_s > 0


@pytest.mark.parametrize("printed", ["", "\\n", " \\t\\r\\n "])
def test_w22_an_empty_answer_is_a_failure_of_its_own_kind(ask: Any, printed: str) -> None:
    answer = ask(f"printf '{printed}'")
    assert answer.error_kind == "empty"
    assert b"exit code 0" in answer.error


def test_c84_a_failure_of_the_task_is_an_answer_and_is_never_raised_for_a_retry(ask: Any, tmp_path: Path) -> None:
    answer = ask("echo x >> runs; echo partial; echo why >&2; exit 3")
    assert (answer.error_kind, answer.output, answer.error) == ("exit_code", b"partial\n", b"exit code 3\nwhy\n")
    assert (tmp_path / "runs").read_text() == "x\n"


@pytest.mark.parametrize(
    ("line", "kind", "first"),
    [
        ("exit 137", "exit_code", b"exit code 137 (128 + signal 9 (SIGKILL))"),
        ("no-such-program-anywhere", "exit_code", b"exit code 127: the shell did not find the command"),
        ("./plain", "exit_code", b"exit code 126: the shell could not execute the command"),
        ("kill -SEGV $$", "signal", b"ended by signal 11 (SIGSEGV)"),
        ("kill -9 $$", "signal", b"ended by signal 9 (SIGKILL)"),
    ],
)
def test_r35_every_end_has_its_kind_and_its_words(ask: Any, tmp_path: Path, line: str, kind: str, first: bytes) -> None:
    (tmp_path / "plain").write_text("x")
    answer = ask(line)
    assert (answer.error_kind, answer.error.splitlines()[0]) == (kind, first)


def test_r35_signals_without_a_name_are_shown_by_number() -> None:
    assert signal_name(9) == "signal 9 (SIGKILL)"
    assert signal_name(50) == "signal 50"
    assert exit_line(255, is_shell=True) == "exit code 255"
    assert exit_line(127, is_shell=False) == "exit code 127"


def test_c85_k13_a_timeout_keeps_the_partial_output_and_ends_in_time(ask: Any, reaper: Reaper) -> None:
    began = time.monotonic()
    answer = ask("echo half; sleep 60", timeout_s=2)
    assert time.monotonic() - began <= 3
    assert (answer.error_kind, answer.output) == ("timeout", b"half\n")
    assert b"2.0 s" in answer.error
    assert find_marked(mark_pairs(reaper.mark)[0]) == []


def test_a_program_that_cannot_start_is_a_failed_answer_without_a_time(ask: Any, tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("x")
    answer = ask(["./plain"])
    assert (answer.error_kind, answer.output, answer.latency_s) == ("not_started", b"", None)
    assert answer.error.startswith(b"not_executable: ")


def test_only_the_end_of_stderr_is_kept(ask: Any) -> None:
    code = "import sys; sys.stderr.write('a' * 100_000 + 'the end'); sys.exit(1)"
    answer = ask([PYTHON, "-c", code])
    assert answer.error.endswith(b"aathe end")
    assert len(answer.error) == len(b"exit code 1\n") + ERROR_TAIL


def test_r32_longer_output_than_the_cap_is_marked_as_cut(ask: Any) -> None:
    answer = ask("head -c 11000000 /dev/zero | tr '\\0' x")
    assert (answer.error_kind, len(answer.output), answer.cut) == (None, 10_000_000, True)


SECRET = "sk-live-0123456789"


def test_k99_a_secret_printed_by_the_agent_is_nowhere_in_the_answer(ask: Any) -> None:
    line = "echo key=$API_KEY; echo failed with $API_KEY >&2; echo $API_KEY | base64 >&2; exit 1"
    answer = ask(line, env={"API_KEY": {"from_env": "THE_KEY"}}, environ={"THE_KEY": SECRET})
    assert answer.output == b"key=[redacted:THE_KEY]\n"
    assert b"failed with [redacted:THE_KEY]" in answer.error
    assert SECRET.encode() not in answer.output + answer.error
    # base64 by hand: python3 -c "import base64; print(base64.b64encode(b'sk-live-0123456789'))"
    assert b"c2stbGl2ZS0wMTIzNDU2Nzg5" not in answer.error


def test_k99_a_secret_at_the_beginning_of_the_kept_error_is_not_left_half(ask: Any) -> None:
    code = f"import os,sys; sys.stderr.write(os.environ['K'] + 'x' * {ERROR_TAIL - 10}); sys.exit(1)"
    answer = ask([PYTHON, "-c", code], env={"K": {"from_env": "K"}}, environ={"K": SECRET})
    assert SECRET[-10:].encode() not in answer.error


def test_k99_a_secret_at_the_cut_is_not_left_half(ask: Any) -> None:
    code = "import os,sys; sys.stdout.write('x' * (10_000_000 - 10) + os.environ['K'] + 'more')"
    answer = ask([PYTHON, "-c", code], env={"K": {"from_env": "K"}}, environ={"K": SECRET})
    assert answer.cut
    assert answer.output.endswith(b"x[redacted:K]")


def subject_of(tmp_path: Path, environ: dict[str, str] | None = None, **task: Any) -> CommandSubject:
    return CommandSubject(
        CommandTask(kind="command", **task), folder=tmp_path, environ=environ or dict(os.environ), reaper=Reaper()
    )


def test_check_refuses_an_unset_variable_before_the_run(tmp_path: Path) -> None:
    subject = subject_of(tmp_path, {"PATH": "/bin"}, command="true", env={"KEY": {"from_env": "NOT_SET"}})
    with pytest.raises(SpecError, match=r"task\.env\.KEY: .*NOT_SET is not set"):
        subject.check(["c1"])


def test_check_refuses_a_program_or_folder_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("x")
    for command in (["no-such-program-anywhere"], ["./gone"], ["./plain"]):
        with pytest.raises(SpecError, match=r"task\.command: the program .* was not found"):
            subject_of(tmp_path, command=command).check(["c1"])
    with pytest.raises(SpecError, match=r"task\.cwd: "):
        subject_of(tmp_path, command="true", cwd="nowhere").check(["c1"])
    assert subject_of(tmp_path, command=["sh", "-c", "true"]).check(["c1"]) == []
    assert subject_of(tmp_path, command="true").check(["c1"]) == []


def test_check_cases_names_the_first_case_that_lacks_a_variable(tmp_path: Path) -> None:
    subject = subject_of(tmp_path, command=["echo", "{{fields.lang}}"])
    good, bad = Case(id="c1", input="", fields={"lang": "de"}), Case(id="c2", input="")
    subject.check_cases([good])
    with pytest.raises(SpecError, match=r'case "c2" has no \{\{fields\.lang\}\}'):
        subject.check_cases([good, bad])


def test_a_case_that_lacks_a_variable_is_a_loss_and_not_a_failed_answer(ask: Any) -> None:
    with pytest.raises(InfraError, match="c1") as caught:
        ask(["echo", "{{fields.lang}}"])
    assert (caught.value.kind, caught.value.retryable) == ("template", False)
