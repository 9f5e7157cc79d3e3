"""Opening a stored experiment to run it: plan, cases, subjects and graders, under a lease."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter
from sqlalchemy import Engine

from fairtrial.engine.create import plan_key
from fairtrial.engine.journal import Journal
from fairtrial.engine.loop import RunLoop
from fairtrial.engine.plan import Plan, load_plan, plan_hash
from fairtrial.engine.progress import progress_from
from fairtrial.engine.trial import ArmRuntime, TrialContext
from fairtrial.errors import StoreError
from fairtrial.graders.build import build_graders
from fairtrial.hashing import canonical_json, parse_canonical
from fairtrial.records.experiment import ArmRecord, ExperimentRecord
from fairtrial.records.verdict import RunDocument
from fairtrial.spec.case import Case
from fairtrial.spec.dataset import dataset_from_content
from fairtrial.spec.models import GraderSpec, Limits, Task
from fairtrial.store.experiments import cases_of, get_experiment, summaries_of
from fairtrial.store.lease import Lease, Owner, acquire
from fairtrial.store.objects import ObjectStore
from fairtrial.store.trials import done_keys
from fairtrial.store.writer import Writer
from fairtrial.subjects.build import build_subject
from fairtrial.subjects.reaper import Reaper

DEFAULT_CONCURRENCY: Final = {"command": 1, "python": 1, "recorded": 64, "prompt": 8, "http": 8}
"""Trials in flight by kind of task, unless asked otherwise. Reading a recording asks nothing of anybody."""

_TASK: TypeAdapter[Any] = TypeAdapter(Task)
_GRADER: TypeAdapter[Any] = TypeAdapter(GraderSpec)


@dataclass(slots=True)
class OpenRun:
    """An experiment this process owns and can run.

    unfinished, finished    slices that owe trials, and slices the journal has whole, in plan order
    on_begin                called when the flow has begun
    on_verdict              called with the stored verdict, before anything that only decorates it
    working                 what runs the slices; cancelling these leaves the trials in flight to a resume
    """

    engine: Engine
    objects: ObjectStore
    record: ExperimentRecord
    loop: RunLoop
    lease: Lease
    unfinished: tuple[int, ...]
    finished: tuple[int, ...]
    writer: Writer
    reaper: Reaper
    on_begin: Callable[[], None] = lambda: None
    on_verdict: Callable[[RunDocument], None] = lambda _document: None
    working: set[asyncio.Task[None]] = field(default_factory=set)

    async def close(self) -> None:
        """Give everything back: subjects, graders, processes, the lease. Safe to call twice."""
        for arm in self.loop.arms:
            await arm.subject.close()
            for grader in arm.graders:
                await grader.close()
        self.reaper.close()
        await asyncio.to_thread(self.writer.close)


def open_run(
    engine: Engine,
    objects: ObjectStore,
    experiment: str,
    *,
    owner: Owner,
    environ: Mapping[str, str],
    concurrency: int | None = None,
) -> OpenRun:
    """Take the lease and return the experiment ready to run; slices that owe nothing are in `finished`.

    Raises ConflictError (run_owned), StoreError, SpecError.
    """
    with engine.connect() as connection:
        record = get_experiment(connection, experiment)
        refs = cases_of(connection, experiment)
    by_id = {case.id: case for case in dataset_from_content(objects.get_blob(record.dataset.hash)).cases}
    cases = [by_id[ref.id] for ref in refs]
    plan = read_plan(objects, record)
    reaper = Reaper()
    arms = [_arm(record, arm, environ=environ, reaper=reaper) for arm in record.arms]
    limit = concurrency if concurrency is not None else default_concurrency(record)
    # Last, so that a run that cannot be opened holds nobody up. From here on every trial's row is ours alone, and what
    # is read of them stays true.
    lease = acquire(engine, experiment, owner)
    with engine.connect() as connection:
        done = done_keys(connection, experiment)
        summaries = summaries_of(connection, [experiment])[experiment]
    unfinished, finished = _split(plan, cases, record, set(done))
    writer = Writer(engine, experiment, lease.fence)
    context = TrialContext(
        experiment=experiment,
        seed=record.seed,
        journal=Journal(engine, objects, writer, experiment=experiment, fence=lease.fence),
        progress=progress_from(summaries),
        mark=reaper.mark,
    )
    loop = RunLoop(
        context=context,
        plan=plan,
        cases=cases,
        arms=arms,
        concurrency=limit,
        gate=asyncio.Semaphore(limit),
        # A first owner finds nothing: no slice needs to ask the journal what it still owes.
        may_have_rows=lease.fence > 1,
    )
    return OpenRun(engine, objects, record, loop, lease, unfinished, finished, writer, reaper)


def default_concurrency(record: ExperimentRecord) -> int:
    """Return the trials in flight when nobody says: what the most careful kind of task among the arms takes."""
    return min(DEFAULT_CONCURRENCY[str(arm.task["kind"])] for arm in record.arms)


def read_plan(objects: ObjectStore, record: ExperimentRecord) -> Plan:
    """Return the stored plan of an experiment, checked. Raises StoreError (missing_object, damaged_record)."""
    dumped = objects.get(plan_key(record.id))
    if dumped is None:
        raise StoreError(f"the plan of {record.id} is not in {objects.url}.", code="missing_object")
    if plan_hash(dumped) != record.plan_hash:
        raise StoreError(f"the plan of {record.id} does not match its checksum.", code="damaged_record")
    return load_plan(parse_canonical(dumped))


def _split(
    plan: Plan, cases: list[Case], record: ExperimentRecord, done: set[tuple[str, str, int]]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    if not done:
        return tuple(range(plan.n_slices)), ()
    names = [arm.name for arm in record.arms]
    unfinished: list[int] = []
    finished: list[int] = []
    for number in range(plan.n_slices):
        owes = any(
            (names[index], cases[block.case].id, block.repetition) not in done
            for block in plan.slice(number)
            for index in block.arms
        )
        (unfinished if owes else finished).append(number)
    return tuple(unfinished), tuple(finished)


def _arm(record: ExperimentRecord, arm: ArmRecord, *, environ: Mapping[str, str], reaper: Reaper) -> ArmRuntime:
    folder = Path(arm.folder)
    limits = Limits.model_validate_json(canonical_json(arm.limits))
    # The graders' paths are those of the first arm's spec: the graders of all arms agree.
    grader_folder = Path(record.arms[0].folder)
    specs = [_GRADER.validate_json(canonical_json(grader.spec)) for grader in record.graders]
    return ArmRuntime(
        name=arm.name,
        subject=build_subject(
            _TASK.validate_json(canonical_json(arm.task)), folder=folder, environ=environ, reaper=reaper
        ),
        graders=build_graders(specs, folder=grader_folder, environ=environ, reaper=reaper),
        trial_timeout_s=limits.trial_timeout_s,
        retries=limits.retries,
    )
