"""The check of what earlier parts of a run stored, and the way back into the run for what is damaged.

The check goes on beside the new trials, so that it holds nobody up. Results are taken back only when no slice runs that
was told what is done: such a slice would wait for a trial that it takes for finished.
"""

from __future__ import annotations

import asyncio

from fairtrial.engine.open import OpenRun
from fairtrial.store.history import Key
from fairtrial.store.quarantine import Damaged, find_damaged, said, set_aside


async def check_stored(run: OpenRun) -> list[Damaged]:
    """Return the answers of earlier parts that cannot be read any more; a first part has nothing to check.

    Raises StoreError when the store does not answer.
    """
    if not run.loop.may_have_rows:
        return []
    return await asyncio.to_thread(
        find_damaged,
        run.engine,
        run.objects,
        run.record.id,
        before_fence=run.lease.fence,
        stop=run.loop.stop.is_set,
    )


async def mend(run: OpenRun, damaged: list[Damaged]) -> tuple[int, ...]:
    """Set damaged answers aside and return the slices that owe trials again, in plan order.

    Raises ConflictError when the lease was lost, StoreError.
    """
    if not damaged:
        return ()
    await asyncio.to_thread(set_aside, run.engine, run.objects, run.record.id, run.lease.fence, damaged)
    for each in damaged:
        run.loop.context.progress.uncount(each.output.key[0], each.output.outcome, each.output.value)
        run.loop.context.say(said(each))
    return slices_of(run, {each.output.key for each in damaged})


def slices_of(run: OpenRun, keys: set[Key]) -> tuple[int, ...]:
    """Return the numbers of the slices that hold these trials."""
    loop = run.loop
    names = [arm.name for arm in loop.arms]
    return tuple(
        number
        for number in range(loop.plan.n_slices)
        if any(
            (names[index], loop.cases.ids[block.case], block.repetition) in keys
            for block in loop.plan.slice(number)
            for index in block.arms
        )
    )
