"""The command grader: a program of the user's, started once for every answer.

It reads {"output", "case"} as one JSON object from stdin and prints a number, true or false, null, or
{"score", "reason"}. Anything else it prints, says or does is the grader's error for that case.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from fairtrial.errors import InputError, SpecError
from fairtrial.graders.reading import case_for_graders, text_of
from fairtrial.graders.score import GraderBase
from fairtrial.records.trial import Grade
from fairtrial.spec.case import Case
from fairtrial.spec.models import CommandGrader
from fairtrial.spec.strict import parse_json
from fairtrial.subjects.child import ProcessCommand
from fairtrial.subjects.ending import exit_line, signal_name
from fairtrial.subjects.environment import check_env, redactor_for, resolve_env
from fairtrial.subjects.process import ProcessResult, run_process
from fairtrial.subjects.reaper import Reaper
from fairtrial.subjects.starting import check_program

_REPLY_CAP: Final = 1_000_000
_SAID: Final = 2_000


class ProgramGrader(GraderBase):
    """Runs the program and reads its reply. Secrets given by `from_env` are taken out of reasons and errors."""

    def __init__(
        self,
        spec: CommandGrader,
        *,
        name: str,
        version: str,
        place: str,
        folder: Path,
        environ: Mapping[str, str],
        reaper: Reaper,
    ):
        super().__init__(name, version)
        check_env(spec.env, environ, place=f"{place}.env")
        argv = ("/bin/sh", "-c", spec.command) if isinstance(spec.command, str) else tuple(spec.command)
        cwd = folder / spec.cwd if spec.cwd is not None else folder
        if not cwd.is_dir():
            raise SpecError(f'the working folder "{cwd}" is not a folder.', place=f"{place}.cwd")
        env = resolve_env(spec.env, environ)
        check_program(argv[0], env=env, cwd=cwd, place=f"{place}.command")
        self._is_shell = isinstance(spec.command, str)
        self._timeout_s = spec.timeout_s
        self._reaper = reaper
        self._redactor = redactor_for(spec.env, environ)
        self._command = ProcessCommand(argv, {**env, **reaper.mark}, str(cwd))

    async def grade(self, output: bytes, *, case: Case, mark: dict[str, str]) -> Grade:
        """Return what the program says of `output`."""
        self._reaper.start()
        request = json.dumps({"output": text_of(output), "case": case_for_graders(case)}).encode() + b"\n"
        command = ProcessCommand(self._command.argv, {**self._command.env, **mark}, self._command.cwd)
        result = await run_process(command, stdin=request, timeout_s=self._timeout_s, output_cap=_REPLY_CAP)
        failure = self._failure(result)
        if failure:
            said = self._redactor.redact(result.stderr)[-_SAID:].decode("utf-8", "replace").strip()
            return self.error(self._redactor.redact_text(failure) + (f"\n{said}" if said else ""))
        printed = self._redactor.redact(result.stdout)
        try:
            return self.replied(parse_json(printed, place="output of the grader"))
        except InputError as error:
            return self.error(f"not a number in [0, 1]: what was printed is not JSON ({error})")

    def _failure(self, result: ProcessResult) -> str:
        """Return what went wrong before anything could be read, "" when nothing did."""
        if result.start_error is not None:
            return result.start_message
        if result.timed_out:
            return f"took longer than {self._timeout_s:g} s"
        if result.exit_code is None:
            return f"ended by {signal_name(result.signal or 9)}"
        if result.exit_code != 0:
            return exit_line(result.exit_code, is_shell=self._is_shell)
        if not result.stdout.strip():
            return "printed nothing"
        return f"printed more than {_REPLY_CAP:,} bytes" if result.stdout_cut else ""
