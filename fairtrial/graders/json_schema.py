"""The json_schema grader: whether a schema allows the answer.

The schema is checked before a run; answers are checked in a process of ours, which is ended when one takes too long.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from fairtrial.errors import SpecError
from fairtrial.graders.isolated import __file__ as _isolated
from fairtrial.graders.json_reading import JsonReadingGrader, NotThere
from fairtrial.graders.schema_text import checked_schema, read_schema_file
from fairtrial.graders.worker import Worker, WorkerFailed
from fairtrial.records.trial import Grade
from fairtrial.spec.case import Case
from fairtrial.spec.models import JsonSchemaGrader
from fairtrial.subjects.child import ProcessCommand
from fairtrial.subjects.reaper import Reaper

_FOLDER: Final = Path(_isolated).parent
_START_S: Final = 30.0
"""Longest start of the process, in seconds; the time limit of an answer does not count it."""

_PROGRAM: Final = (str(_FOLDER / "python_runner.py"), str(_FOLDER / "schema_check.py"), "check")


class SchemaGrader(JsonReadingGrader):
    """1 when the schema allows the answer; else 0 with the path and the rule that it breaks."""

    def __init__(
        self,
        spec: JsonSchemaGrader,
        *,
        name: str,
        version: str,
        place: str,
        folder: Path,
        environ: Mapping[str, str],
        reaper: Reaper,
    ):
        super().__init__(spec, name=name, version=version, place=place)
        place = f"{place}.schema" if spec.path is None else f"{place}.path"
        schema = spec.inline if spec.path is None else read_schema_file(folder / spec.path, place=place)
        self._schema = checked_schema(schema, place=place)
        self._timeout_s = spec.timeout_s
        self._reaper = reaper
        self._worker = Worker(ProcessCommand((sys.executable, *_PROGRAM), {**environ, **reaper.mark}, str(folder)))

    async def prepare(self) -> None:
        """Start the process now, so that its start counts for no answer. Raises SpecError when that fails."""
        try:
            await self._started()
        except WorkerFailed as error:
            raise SpecError(f'the process of the grader "{self.name}" {error}.') from error

    async def judge(self, text: str, case: Case) -> Grade:
        try:
            value, _ = self.part_of(text)
        except NotThere as reason:
            return self.scored(0, str(reason))
        request = json.dumps({"output": json.dumps(value), "case": self._schema}).encode()
        try:
            await self._started()
            reply = await self._worker.ask(request, timeout_s=self._timeout_s, mark={})
        except WorkerFailed as error:
            return self.error(f"checking the answer {error}")
        if isinstance(reply, dict) and "value" in reply:
            return self.replied(reply["value"])
        said = reply.get("error") if isinstance(reply, dict) else None
        return self.error(f"checking the answer failed: {said}" if said else "the check sent no reply")

    async def close(self) -> None:
        await self._worker.close()

    async def _started(self) -> None:
        self._reaper.start()
        await self._worker.start(timeout_s=_START_S, mark={})
