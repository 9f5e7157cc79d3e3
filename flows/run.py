"""One experiment: a run of one arm, or several arms side by side.

Starts: by `exp run`; the experiment and its plan are in the store before this flow begins.
Runs:   every slice of the plan that the journal does not have whole, a few in flight; then the verdict.
Costs:  what the subjects and graders of the spec cost; a finished trial is never asked for again.
Writes: trials and grades in the store; verdict.json and report.md; a progress bar, the report and a table in the UI.
Resume: `exp run --resume <experiment>` starts it again; finished slices show as cached.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any, Final
from uuid import UUID

from prefect import flow
from prefect.client.schemas import State
from prefect.context import TagsContext
from prefect.runtime import flow_run
from prefect.states import Completed

from fairtrial.engine.loop import slice_result
from fairtrial.engine.mend import check_stored, mend
from fairtrial.engine.open import OpenRun
from fairtrial.errors import FairtrialError
from flows.leftovers import mark_crashed
from flows.slice_results import may_be_read, result_place
from tasks.slice import OPEN_RUNS, StoppedEarly, slice_text, stored_under
from tasks.verdict import ProgressArtifact, in_ui, verdict_task

MOST_CACHED: Final = 200
"""Finished slices that a resume shows as cached; the rest would cost more than they tell."""


@flow(name="run", flow_run_name="{title}", persist_result=False, validate_parameters=False, log_prints=False)
async def run_flow(experiment: str, title: str) -> State[None]:
    """Run what the experiment owes and publish its verdict; the run's state says its outcome in a word."""
    run = OPEN_RUNS[experiment]
    run.on_begin()
    # Tasks would inherit the flow's tags, and Prefect asks its server for the limits of each tag before a task starts:
    # with a server that went away the slices that are left would fail without having run.
    with TagsContext(current_tags=set()):
        if run.lease.taken_from is not None:
            mine = flow_run.get_id()
            await in_ui(mark_crashed(experiment, except_for=UUID(mine) if mine else None, gone=run.lease.taken_from))
        async with ProgressArtifact(run):
            await run_slices(run)
            # Inside: the bar's last state waits for the server, and the verdict does not.
            outcome = await verdict_task(experiment)
    return Completed(message=outcome)


async def run_slices(run: OpenRun) -> None:
    """Run the unfinished slices; then those that have a stored answer which cannot be read any more."""
    slices = stored_under(await result_place(run))
    # What the journal does not have whole is run, whatever Prefect has stored for it.
    fresh = slices.with_options(refresh_cache=True)
    checking = asyncio.create_task(check_stored(run))
    try:
        await _run_all(run, fresh, run.unfinished)
        damaged = await checking
    except BaseException:
        # Ends the check too: its thread cannot be cancelled, and the process would wait for it.
        run.loop.stop.set()
        checking.cancel()
        raise
    if run.loop.stop.is_set():
        return
    again = await mend(run, damaged)
    await _run_all(run, fresh, again)
    for number in [number for number in run.finished if number not in again][:MOST_CACHED]:
        if run.loop.stop.is_set():
            return
        await _show_finished(run, slices, fresh, number)


async def _run_all(run: OpenRun, fresh: Any, owed: Sequence[int]) -> None:
    """Run slices, a few in flight so that the gate is never idle at a slice's end."""
    numbers = iter(owed)
    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(run.loop.slices_in_flight, len(owed))):
                run.working.add(group.create_task(_work(run, fresh, numbers)))
    except* FairtrialError as failures:
        raise failures.exceptions[0] from None


async def _work(run: OpenRun, slices: Any, numbers: Iterator[int]) -> None:
    for number in numbers:
        if run.loop.stop.is_set():
            return
        try:
            await slices(**_parameters(run, number))
        except StoppedEarly:
            return


async def _show_finished(run: OpenRun, slices: Any, fresh: Any, number: int) -> None:
    parameters = _parameters(run, number)
    stored = await slices(**parameters) if await may_be_read(run.objects, parameters) else None
    if stored != slice_text(await slice_result(run.loop, number)):
        await fresh(**parameters)


def _parameters(run: OpenRun, number: int) -> dict[str, Any]:
    return {
        "experiment": run.record.id,
        "number": number,
        "label": f"{number + 1}/{run.loop.plan.n_slices}",
        "plan_hash": run.record.plan_hash,
        "result_version": run.record.result_version,
    }
