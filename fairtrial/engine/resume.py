"""Whether a stored run may go on: what was measured must be what would be measured now.

A refusal names what changed and touches nothing. What is not measured (concurrency, retries, output files, spelling of
the spec) may change freely.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter

from fairtrial.engine.create import Prepared
from fairtrial.errors import ChangedInputs
from fairtrial.graders.build import grader_version
from fairtrial.hashing import canonical_json
from fairtrial.records.experiment import CaseRef, ExperimentRecord, GraderRecord
from fairtrial.spec.models import GraderSpec, Task
from fairtrial.subjects.build import task_version

MOST_NAMED: Final = 5

_TASK: TypeAdapter[Any] = TypeAdapter(Task)
_GRADER: TypeAdapter[Any] = TypeAdapter(GraderSpec)


def check_same(stored: ExperimentRecord, cases: Sequence[CaseRef], asked: Prepared, *, seed: int | None) -> None:
    """Raise ChangedInputs naming what differs between a stored run and what a person asks for now.

    seed    the one that is asked for; None takes the stored one, whatever it was drawn as
    """
    now = asked.record
    changes = _case_changes(cases, asked)
    changes += _grader_changes(stored.graders, now.graders)
    for before, after in zip(stored.arms, now.arms, strict=True):
        where = f"arm {before.name}: " if len(stored.arms) > 1 else ""
        changes += [where + line for line in _part_changes(before.task_parts, after.task_parts)]
        if before.limits["trial_timeout_s"] != after.limits["trial_timeout_s"]:
            changes.append(f"{where}limits.trial_timeout_s")
    if stored.trials != now.trials:
        changes.append(f"trials ({stored.trials} → {now.trials})")
    if seed is not None and seed != stored.seed:
        changes.append(f"seed ({stored.seed} → {seed})")
    _refuse(stored, changes)


def check_files(stored: ExperimentRecord) -> None:
    """Raise ChangedInputs when a stored run's code is no longer what it ran with; for a resume without its spec."""
    changes = []
    for arm in stored.arms:
        where = f"arm {arm.name}: " if len(stored.arms) > 1 else ""
        task = task_version(_TASK.validate_json(canonical_json(arm.task)), folder=Path(arm.folder))
        changes += [where + line for line in _part_changes(arm.task_parts, task.parts)]
    folder = Path(stored.arms[0].folder)
    for index, grader in enumerate(stored.graders, start=1):
        version = grader_version(_GRADER.validate_json(canonical_json(grader.spec)), folder)
        if version.hash != grader.version:
            parts = _part_changes(grader.parts, version.parts)
            changes.append(f"grader {index} ({', '.join(parts) or 'its rules'})")
    _refuse(stored, changes)


def _refuse(stored: ExperimentRecord, changes: Sequence[str]) -> None:
    if changes:
        raise ChangedInputs(
            f"{stored.id} cannot be resumed, because that would mix two measurements. Changed: {'; '.join(changes)}.",
            hint="Start a new run without --resume, or change it back.",
        )


def _case_changes(cases: Sequence[CaseRef], asked: Prepared) -> list[str]:
    now = {case.id: case for case in asked.cases}
    before = {case.id for case in cases}
    edited = []
    for case in cases:
        other = now.get(case.id)
        if other is None:
            continue
        parts = ["input"] if case.input_hash != other.input_hash else []
        parts += ["expected"] if case.label_hash != other.label_hash else []
        if parts:
            edited.append(f"case {case.id} ({', '.join(parts)})")
    gone = [f"case {case.id} (gone)" for case in cases if case.id not in now]
    new = [f"case {case.id} (new)" for case in asked.cases if case.id not in before]
    changes = edited + gone + new
    more = f" and {len(changes) - MOST_NAMED:,} more" if len(changes) > MOST_NAMED else ""
    return [f"dataset: {', '.join(changes[:MOST_NAMED])}{more}"] if changes else []


def _grader_changes(before: Sequence[GraderRecord], after: Sequence[GraderRecord]) -> list[str]:
    changes = []
    for index, (old, new) in enumerate(zip(before, after, strict=False), start=1):
        if old.version != new.version:
            parts = ["kind"] if old.kind != new.kind else _part_changes(old.parts, new.parts)
            changes.append(f"grader {index} ({', '.join(parts) or 'its rules'})")
    if len(before) != len(after):
        changes.append(f"graders ({len(before)} → {len(after)})")
    return changes


def _part_changes(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    return [part for part in sorted({**before, **after}) if before.get(part) != after.get(part)]
