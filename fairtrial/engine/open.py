"""Opening a stored experiment to run it: plan, cases, subjects and graders, under a lease."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter
from sqlalchemy import Engine

from fairtrial.engine.cases import stored_cases
from fairtrial.engine.journal import Journal
from fairtrial.engine.loop import RunLoop
from fairtrial.engine.plan import split_slices
from fairtrial.engine.progress import progress_from
from fairtrial.engine.stored_plan import find_plan, store_again
from fairtrial.engine.trial import ArmRuntime, TrialContext
from fairtrial.errors import StoreError
from fairtrial.graders.build import build_graders
from fairtrial.hashing import canonical_json
from fairtrial.records.experiment import ArmRecord, ExperimentRecord
from fairtrial.records.verdict import RunDocument
from fairtrial.spec.models import GraderSpec, Limits, Task
from fairtrial.store.done import case_ids_of, iter_done
from fairtrial.store.experiments import get_experiment, set_state, summaries_of
from fairtrial.store.history import TakenBack, take_back_errors
from fairtrial.store.lease import Lease, Owner, acquire
from fairtrial.store.objects import ObjectStore
from fairtrial.store.quarantine import UNREADABLE
from fairtrial.store.trials import cost_of
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
    taken_back              errors of earlier parts that run again
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
    taken_back: tuple[TakenBack, ...]
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
    arms: Sequence[ArmRecord] | None = None,
    retry_errors: bool = False,
    say: Callable[[str], None] = lambda _line: None,
) -> OpenRun:
    """Take the lease and return the experiment ready to run; slices that owe nothing are in `finished`.

    arms            the arms as they are given again, checked to measure the same: folder and retries may differ from
                    the stored ones; None takes those
    retry_errors    take back agent failures and infra losses first, so that they run again
    say             takes a line for people, when something happens to the run that they should know

    Raises ConflictError (run_owned), StoreError, SpecError.
    """
    with engine.connect() as connection:
        record = get_experiment(connection, experiment)
        if arms is not None:
            record = replace(record, arms=tuple(arms))
        case_ids = case_ids_of(connection, experiment)
    cases = stored_cases(record, case_ids, _dataset_content(objects, record))
    found = find_plan(objects, record, case_ids)
    plan = found.plan
    reaper = Reaper()
    runtimes = [_arm(record, arm, environ=environ, reaper=reaper) for arm in record.arms]
    limit = concurrency if concurrency is not None else default_concurrency(record)
    # Last, so that a run that cannot be opened holds nobody up. From here on every trial's row is ours alone, and what
    # is read of them stays true.
    lease = acquire(engine, experiment, owner)
    if found.to_store is not None:
        say(store_again(objects, experiment, found.to_store))
    taken_back = take_back_errors(engine, experiment, lease.fence) if retry_errors else []
    if taken_back:
        record = replace(record, result_version=record.result_version + 1)
    if record.state != "running":
        set_state(engine, experiment, "running", fence=lease.fence)
    with engine.connect() as connection:
        split = split_slices(plan, _places(iter_done(connection, experiment), record, case_ids))
        cost_usd, n_with_cost = cost_of(connection, experiment)
        summaries = summaries_of(connection, [experiment])[experiment]
    writer = Writer(engine, experiment, lease.fence)
    context = TrialContext(
        experiment=experiment,
        seed=record.seed,
        journal=Journal(engine, objects, writer, experiment=experiment, fence=lease.fence),
        progress=progress_from(summaries, cost_usd=cost_usd, n_with_cost=n_with_cost),
        mark=reaper.mark,
        say=say,
    )
    loop = RunLoop(
        context=context,
        plan=plan,
        cases=cases,
        arms=runtimes,
        concurrency=limit,
        gate=asyncio.Semaphore(limit),
        # A first owner finds nothing: no slice needs to ask the journal what it still owes.
        may_have_rows=lease.fence > 1,
    )
    return OpenRun(
        engine, objects, record, loop, lease, split.unfinished, split.finished, writer, reaper, tuple(taken_back)
    )


def default_concurrency(record: ExperimentRecord) -> int:
    """Return the trials in flight when nobody says: what the most careful kind of task among the arms takes."""
    return min(DEFAULT_CONCURRENCY[str(arm.task["kind"])] for arm in record.arms)


def _dataset_content(objects: ObjectStore, record: ExperimentRecord) -> bytes:
    try:
        return objects.get_blob(record.dataset.hash)
    except StoreError as error:
        if error.code not in UNREADABLE:
            raise
        raise StoreError(
            f"the stored dataset of {record.id} is lost or damaged.",
            code=error.code,
            hint=f"Resume with the spec and the same dataset, which stores it again: exp run SPEC --resume {record.id}",
        ) from error


def _places(
    keys: Iterable[tuple[str, str, int]], record: ExperimentRecord, case_ids: Sequence[str]
) -> Iterator[tuple[int, int, int]]:
    """Yield (case, repetition, arm) of trials named by (arm, case id, repetition), case and arm as positions."""
    arm_at = {arm.name: index for index, arm in enumerate(record.arms)}
    case_at = {case_id: index for index, case_id in enumerate(case_ids)}
    for arm, case_id, repetition in keys:
        yield case_at[case_id], repetition, arm_at[arm]


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
