"""A program under test: it gets a case on stdin or in its arguments, and what it prints is the answer.

Case text reaches a program as bytes of its own, never through a shell. What a program does wrong is an answer with
`error_kind`; only a full machine is an InfraError.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from fairtrial.errors import InfraError, SpecError
from fairtrial.hashing import canonical_json
from fairtrial.records.trial import Answer
from fairtrial.spec.case import Case
from fairtrial.spec.models import CommandTask
from fairtrial.spec.template import MissingVariable, Template, json_as_text, parse_template
from fairtrial.subjects.base import TrialRequest
from fairtrial.subjects.child import ProcessCommand
from fairtrial.subjects.ending import exit_line, signal_name
from fairtrial.subjects.environment import check_env, redactor_for, resolve_env
from fairtrial.subjects.process import ProcessResult, run_process
from fairtrial.subjects.reaper import Reaper
from fairtrial.subjects.starting import OUR_SIDE, check_program

ERROR_TAIL: Final = 8 * 1024
"""Bytes of stderr that an answer keeps: the last ones, after redaction."""

_HALF_PAIR: Final = re.compile("[\ud800-\udfff]")


class CommandSubject:
    """Runs a program once a trial.

    environ  the environment exp was started in; the spec's `env` comes on top
    reaper   ends what is left if we are killed; started with the first trial
    """

    def __init__(self, task: CommandTask, *, folder: Path, environ: Mapping[str, str], reaper: Reaper):
        self._task = task
        self._cwd = folder / task.cwd if task.cwd is not None else folder
        self._environ = environ
        self._reaper = reaper
        self._env = resolve_env(task.env, environ)
        self._redactor = redactor_for(task.env, environ)
        self._argv = _parse_argv(task.command)

    def check(self, case_ids: Sequence[str]) -> list[str]:
        """Raise SpecError for what would fail every trial: unset variables, no working folder, no program.

        Returns warnings for people; a command has none, whatever the cases.
        """
        check_env(self._task.env, self._environ, place="task.env")
        if not self._cwd.is_dir():
            raise SpecError(f'the working folder "{self._cwd}" is not a folder.', place="task.cwd")
        program = self._argv[0].texts[0] if not self._argv[0].paths else None
        if program is not None:
            check_program(program, env=self._env, cwd=self._cwd, place="task.command")
        return []

    def check_cases(self, cases: Sequence[Case]) -> None:
        """Raise SpecError when the command asks for a variable that one of `cases` does not have."""
        for case in cases:
            for template in self._argv:
                template.render(case)

    async def answer(self, request: TrialRequest) -> Answer:
        """Run the program for one case. Raises InfraError when this machine could not start it."""
        self._reaper.start()
        try:
            argv = tuple(template.render(request.case).encode("utf-8", "surrogatepass") for template in self._argv)
        except MissingVariable as error:
            raise InfraError(str(error), kind="template", retryable=False) from error
        result = await run_process(
            ProcessCommand(argv, self._environment(request), str(self._cwd)),
            stdin=self._stdin(request),
            timeout_s=request.timeout_s,
        )
        if result.start_error in OUR_SIDE:
            raise InfraError(result.start_message, kind=result.start_error or "no_resources")
        return self._read(result)

    async def close(self) -> None:
        """Nothing is held between trials."""

    def _environment(self, request: TrialRequest) -> dict[str, str | bytes]:
        return {
            **self._env,
            "FAIRTRIAL_CASE_ID": request.case.id.encode("utf-8", "surrogatepass"),
            "FAIRTRIAL_REPETITION": str(request.repetition),
            "FAIRTRIAL_SEED": str(request.seed),
            **self._reaper.mark,
            **request.mark,
        }

    def _stdin(self, request: TrialRequest) -> bytes:
        if self._task.stdin == "none":
            return b""
        if self._task.stdin == "text":
            return json_as_text(request.case.input).encode("utf-8", "surrogatepass")
        return case_document(request)

    def _read(self, result: ProcessResult) -> Answer:
        kind, line = self._failure(result)
        error = b""
        if kind is not None:
            said = self._redactor.redact(result.stderr)[-ERROR_TAIL:]
            error = b"\n".join(part for part in (self._redactor.redact_text(line).encode(), said) if part)
        return Answer(
            output=self._redactor.redact(result.stdout, is_cut=result.stdout_cut),
            error_kind=kind,
            error=error,
            cut=result.stdout_cut,
            latency_s=None if result.start_error else result.duration_s,
        )

    def _failure(self, result: ProcessResult) -> tuple[str | None, str]:
        """Return the kind of the failure and its line, None and "" for an answer."""
        if result.start_error is not None:
            return "not_started", f"{result.start_error}: {result.start_message}"
        if result.timed_out:
            return "timeout", f"not finished after {result.duration_s:.1f} s; the output so far is kept"
        if result.signal is not None:
            return "signal", f"ended by {signal_name(result.signal)}"
        if result.exit_code is None:
            return "signal", "killed, but stuck in the kernel"
        if result.exit_code != 0:
            return "exit_code", exit_line(result.exit_code, is_shell=isinstance(self._task.command, str))
        if not result.stdout.strip():
            return "empty", "exit code 0, but nothing was printed"
        return None, ""


def case_document(request: TrialRequest) -> bytes:
    """Return the case as one line of JSON, without its label.

    Half a surrogate pair is written as an escape, so that every JSON reader takes the line.
    """
    case = request.case
    document = {
        "id": case.id,
        "input": case.input,
        "kind": case.kind,
        "split": case.split,
        "group": case.group,
        "tags": list(case.tags),
        "fields": case.fields,
        "repetition": request.repetition,
        "seed": request.seed,
    }
    text = canonical_json(document).decode("utf-8", "surrogatepass")
    return _HALF_PAIR.sub(lambda half: f"\\u{ord(half.group()):04x}", text).encode() + b"\n"


def _parse_argv(command: list[str] | str) -> list[Template]:
    if isinstance(command, str):
        return [Template((part,), ()) for part in ("/bin/sh", "-c", command)]
    return [parse_template(part, place=f"task.command[{index}]") for index, part in enumerate(command)]
