"""From the task of a spec to the subject that runs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from fairtrial.spec.case import Case
from fairtrial.spec.models import CommandTask, RecordedTask
from fairtrial.subjects.base import Subject
from fairtrial.subjects.command import CommandSubject
from fairtrial.subjects.reaper import Reaper
from fairtrial.subjects.recorded import RecordedSubject
from fairtrial.subjects.version import TaskVersion, task_version

__all__ = ["CheckedSubject", "TaskVersion", "build_subject", "task_version"]


class CheckedSubject(Subject, Protocol):
    """A subject that can say before the first trial what would go wrong."""

    def check(self, case_ids: Sequence[str]) -> list[str]:
        """Raise SpecError for what fails every trial; return warnings for people."""

    def check_cases(self, cases: Sequence[Case]) -> None:
        """Raise SpecError naming the first case that lacks what the task asks of it."""


def build_subject(
    task: CommandTask | RecordedTask, *, folder: Path, environ: Mapping[str, str], reaper: Reaper
) -> CheckedSubject:
    """Return the subject of `task`; nothing is started. Raises SpecError and InputError for what can be seen by now.

    folder   the spec file's folder, where relative names start
    environ  the environment programs inherit and `from_env` reads
    """
    if isinstance(task, RecordedTask):
        return RecordedSubject(task, folder=folder)
    return CommandSubject(task, folder=folder, environ=environ, reaper=reaper)
