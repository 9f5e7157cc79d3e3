"""The python grader: a function of the user's, `grade(output, case)`, in a process that stays for the whole run.

What goes wrong in it is the error of that case alone; the next case finds a fresh process.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from fairtrial.errors import SpecError
from fairtrial.graders.isolated import __file__ as _isolated
from fairtrial.graders.reading import case_for_graders, text_of
from fairtrial.graders.score import GraderBase
from fairtrial.graders.worker import Worker, WorkerFailed
from fairtrial.records.trial import Grade
from fairtrial.spec.case import Case
from fairtrial.spec.models import PythonGrader
from fairtrial.subjects.child import ProcessCommand
from fairtrial.subjects.reaper import Reaper

_RUNNER: Final = Path(_isolated).with_name("python_runner.py")


class FunctionGrader(GraderBase):
    """Asks the function in the user's interpreter. Cases are graded one at a time."""

    def __init__(
        self,
        spec: PythonGrader,
        *,
        name: str,
        version: str,
        place: str,
        folder: Path,
        environ: Mapping[str, str],
        reaper: Reaper,
    ):
        super().__init__(name, version)
        path = folder / spec.path
        if not path.is_file():
            raise SpecError(f'there is no file "{spec.path}" in {folder}.', place=f"{place}.path")
        # Absolute, because the program's folder is its own matter; parents resolved, as in the grader's version.
        path = path.parent.resolve() / path.name
        interpreter = _interpreter(spec.interpreter, folder=folder, environ=environ, place=place)
        self._function = f"{path.name}:{spec.function}"
        self._timeout_s = spec.timeout_s
        self._reaper = reaper
        self._worker = Worker(
            ProcessCommand(
                (interpreter, str(_RUNNER), str(path), spec.function), {**environ, **reaper.mark}, str(folder)
            )
        )

    async def prepare(self) -> None:
        """Load the function now. Raises SpecError when that fails, so that no answer is paid for in vain."""
        self._reaper.start()
        try:
            await self._worker.start(timeout_s=self._timeout_s, mark={})
        except WorkerFailed as error:
            raise SpecError(f'the grader "{self.name}" ({self._function}) {error}.') from error

    async def grade(self, output: bytes, *, case: Case, mark: dict[str, str]) -> Grade:
        """Return what the function says of `output`; its crash, time-out or odd reply is the grader's error."""
        self._reaper.start()
        request = json.dumps({"output": text_of(output), "case": case_for_graders(case)}).encode()
        try:
            reply = await self._worker.ask(request, timeout_s=self._timeout_s, mark=mark)
        except WorkerFailed as error:
            return self.error(f"{self._function} {error}")
        if isinstance(reply, dict) and "value" in reply:
            return self.replied(reply["value"])
        if isinstance(reply, dict) and isinstance(reply.get("error"), str):
            return self.error(f"{self._function} raised {reply['error']}")
        return self.error(f"{self._function} sent something that is not a reply")

    async def close(self) -> None:
        await self._worker.close()


def _interpreter(wanted: str | None, *, folder: Path, environ: Mapping[str, str], place: str) -> str:
    """Return the interpreter's path: ours when none is wanted, relative to the folder, or found in PATH."""
    if wanted is None:
        return sys.executable
    found = str(folder / wanted) if "/" in wanted else shutil.which(wanted, path=environ.get("PATH"))
    if found is None or not Path(found).is_file():
        raise SpecError(f'there is no interpreter "{wanted}".', place=f"{place}.interpreter")
    return found
