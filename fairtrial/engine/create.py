"""Making an experiment from what was asked: everything is checked and stored before the first trial."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from sqlalchemy import Engine

from fairtrial.engine.plan import dump_plan, plan_blocks, plan_hash
from fairtrial.engine.seeds import draw_seed
from fairtrial.errors import SpecError
from fairtrial.graders.build import build_graders, grader_version
from fairtrial.hashing import JsonValue
from fairtrial.ids import new_experiment_id
from fairtrial.records.experiment import ArmRecord, CaseRef, DatasetRef, ExperimentRecord, GraderRecord
from fairtrial.spec.arms import ArmSpec
from fairtrial.spec.case import Case
from fairtrial.spec.dataset import Dataset
from fairtrial.spec.selection import Selection, select
from fairtrial.store.experiments import save_experiment
from fairtrial.store.objects import ObjectStore
from fairtrial.subjects.build import build_subject, task_version
from fairtrial.subjects.reaper import Reaper

ONLY_ARM = "main"
"""Name of the arm of an experiment that has one."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a person asked for, files read and flags applied. seed None: one is drawn."""

    name: str
    arms: tuple[ArmSpec, ...]
    dataset: Dataset
    dataset_name: str
    selection: Selection
    slice_blocks: int


@dataclass(frozen=True, slots=True)
class Prepared:
    """An experiment that was not stored yet, and the cases it runs."""

    record: ExperimentRecord
    cases: tuple[Case, ...]
    plan: bytes


def prepare(asked: Asked, *, environ: Mapping[str, str]) -> Prepared:
    """Return the experiment that `asked` makes, with its plan, after every check that needs no trial.

    Raises SpecError; nothing is stored, started or asked of a subject.
    """
    cases = select(asked.dataset.cases, asked.selection)
    graders = _same_graders(asked, environ)
    asyncio.run(_load_graders(asked.arms[0], environ))
    warnings = [*asked.dataset.warnings, *_check(asked, cases, environ)]
    spec = asked.arms[0].loaded.spec
    seed = spec.seed if spec.seed is not None else draw_seed()
    plan = plan_blocks(
        [case.id for case in cases],
        n_arms=len(asked.arms),
        trials=spec.trials,
        seed=seed,
        slice_blocks=asked.slice_blocks,
    )
    dumped = dump_plan(plan)
    record = ExperimentRecord(
        id=new_experiment_id(),
        name=asked.name,
        kind="ab" if len(asked.arms) > 1 else "run",
        state="running",
        created_at=time.time(),
        finished_at=None,
        seed=seed,
        trials=spec.trials,
        dataset=DatasetRef(
            name=asked.dataset_name,
            hash=asked.dataset.hash,
            source=asked.dataset.source,
            n_cases=len(asked.dataset.cases),
        ),
        graders=graders,
        arms=tuple(arm_record(arm) for arm in asked.arms),
        selection=asked.selection.to_json(),
        tags=tuple(spec.tags),
        description=spec.description,
        n_cases=len(cases),
        n_blocks=len(plan.blocks),
        slice_blocks=asked.slice_blocks,
        plan_hash=plan_hash(dumped),
        warnings=tuple(warnings),
    )
    return Prepared(record=record, cases=cases, plan=dumped)


def store(prepared: Prepared, dataset: Dataset, *, engine: Engine, objects: ObjectStore) -> None:
    """Store a prepared experiment: objects first, so that no row names what is not there. Raises StoreError."""
    record = prepared.record
    objects.put_blob(dataset.content)
    objects.put(plan_key(record.id), prepared.plan)
    refs = (
        CaseRef(position, case.id, case.input_hash, case.label_hash, case.kind)
        for position, case in enumerate(prepared.cases)
    )
    save_experiment(engine, record, refs)


def plan_key(experiment: str) -> str:
    """Return the key of an experiment's plan in the object store."""
    return f"experiments/{experiment}/plan.json"


def arm_record(arm: ArmSpec) -> ArmRecord:
    """Return an arm as it is stored: the parsed task with its defaults, its limits, and its code's version."""
    spec = arm.loaded.spec
    version = task_version(spec.task, folder=arm.loaded.folder)
    return ArmRecord(
        name=arm.name,
        task=_as_json(spec.task.model_dump(mode="json")),
        limits=_as_json(spec.limits.model_dump(mode="json")),
        folder=str(arm.loaded.folder),
        task_hash=version.hash,
        task_parts=dict(version.parts),
    )


def grader_records(arm: ArmSpec, *, environ: Mapping[str, str]) -> tuple[GraderRecord, ...]:
    """Return the graders with the versions their grades will carry. Raises SpecError when there is none."""
    specs, folder = arm.loaded.spec.graders, arm.loaded.folder
    if not specs:
        raise SpecError(
            "there are no graders, so nothing could be scored.",
            hint="""Add "graders" to the spec, or pass one: -g '{"kind": "exact"}'""",
            place=str(arm.loaded.path or arm.name),
        )
    graders = build_graders(specs, folder=folder, environ=environ, reaper=Reaper())
    return tuple(
        GraderRecord(
            name=grader.name,
            kind=spec.kind,
            version=grader.version,
            spec=_as_json(spec.model_dump(mode="json")),
            parts=grader_version(spec, folder).parts,
        )
        for grader, spec in zip(graders, specs, strict=True)
    )


def _same_graders(asked: Asked, environ: Mapping[str, str]) -> tuple[GraderRecord, ...]:
    """Return the graders that all arms share; their files may lie in different folders but must be equal."""
    first, *others = [grader_records(arm, environ=environ) for arm in asked.arms]
    for arm, records in zip(asked.arms[1:], others, strict=True):
        for mine, theirs in zip(first, records, strict=True):
            if mine.version != theirs.version:
                parts = sorted(part for part in mine.parts if mine.parts[part] != theirs.parts.get(part))
                raise SpecError(
                    f"grader {mine.name} of arm {asked.arms[0].name} and of arm {arm.name} differ: {', '.join(parts)}.",
                    code="arms_disagree",
                    hint="Arms of one experiment are graded alike: use one grader file.",
                )
    return first


async def _load_graders(arm: ArmSpec, environ: Mapping[str, str]) -> None:
    """Load every grader once and let it go: one that cannot be loaded is found before the first answer is paid for."""
    reaper = Reaper()
    graders = build_graders(arm.loaded.spec.graders, folder=arm.loaded.folder, environ=environ, reaper=reaper)
    try:
        for grader in graders:
            await grader.prepare()
    finally:
        for grader in graders:
            await grader.close()
        reaper.close()


def _check(asked: Asked, cases: Sequence[Case], environ: Mapping[str, str]) -> list[str]:
    warnings = []
    for arm in asked.arms:
        limits = arm.loaded.spec.limits
        for name, cap in (("max_cost_usd", limits.max_cost_usd), ("max_tokens", limits.max_tokens)):
            if cap is not None:
                raise SpecError(
                    f"a {arm.loaded.spec.task.kind} task does not say what a call will cost before it is made, so this "
                    "cap could not hold.",
                    hint="Take it out; --first-n and --trial-timeout bound the run instead.",
                    place=f"limits.{name}",
                )
        subject = build_subject(arm.loaded.spec.task, folder=arm.loaded.folder, environ=environ, reaper=Reaper())
        found = subject.check([case.id for case in cases])
        subject.check_cases(cases)
        warnings += [f"{arm.name}: {line}" if len(asked.arms) > 1 else line for line in found]
    return warnings


def _as_json(document: object) -> dict[str, JsonValue]:
    return cast("dict[str, JsonValue]", document)
