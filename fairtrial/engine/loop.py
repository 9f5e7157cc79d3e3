"""Running slices of a plan: blocks in parallel through one gate, the trials of a block one after the other."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from fairtrial.engine.cases import StoredCases
from fairtrial.engine.plan import Block, Plan
from fairtrial.engine.trial import ArmRuntime, TrialContext, run_trial
from fairtrial.errors import ConflictError, StoreError
from fairtrial.hashing import content_hash
from fairtrial.store.trials import Progressed

Known = Mapping[tuple[str, str, int], Progressed]


@dataclass(frozen=True, slots=True)
class SliceResult:
    """What one slice came to: trials by outcome, and a digest of its rows."""

    number: int
    counts: dict[str, int]
    digest: str
    complete: bool


@dataclass(slots=True)
class RunLoop:
    """The parts of a running experiment that its slices share.

    gate            blocks in flight, which is trials in flight: a block runs one at a time
    stop            set when no new trial may start
    may_have_rows   an earlier process may have finished trials; else only slices entered twice ask the journal
    """

    context: TrialContext
    plan: Plan
    cases: StoredCases
    arms: Sequence[ArmRuntime]
    concurrency: int
    gate: asyncio.Semaphore
    may_have_rows: bool
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    entered: set[int] = field(default_factory=set)

    @property
    def slices_in_flight(self) -> int:
        """Return how many slices keep the gate busy, so that none waits for another one's end."""
        return -(-self.concurrency // self.plan.slice_blocks) + 1


async def run_slice(loop: RunLoop, number: int) -> SliceResult:
    """Run what slice `number` still owes and return its counts; complete is False when the run was stopped.

    Raises StoreError, and ConflictError when the lease was lost.
    """
    blocks = loop.plan.slice(number)
    known: Known = {}
    if loop.may_have_rows or number in loop.entered:
        known = await loop.context.journal.progress(arms=_names(loop), cases=_case_ids(loop, blocks))
    loop.entered.add(number)
    pending = iter(blocks)
    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(loop.concurrency, len(blocks))):
                group.create_task(_work(loop, pending, known))
    except* Exception as failures:
        # The workers fail together when the store does; one of them says it.
        raise failures.exceptions[0] from None
    return await slice_result(loop, number)


async def slice_result(loop: RunLoop, number: int) -> SliceResult:
    """Return what the journal has of slice `number`."""
    blocks = loop.plan.slice(number)
    rows = await loop.context.journal.results(arms=_names(loop), cases=_case_ids(loop, blocks))
    owed = {
        (loop.arms[index].name, loop.cases.ids[block.case], block.repetition)
        for block in blocks
        for index in block.arms
    }
    mine = sorted(row for row in rows if row[:3] in owed)
    return SliceResult(
        number=number,
        counts=dict(sorted(Counter(outcome for *_, outcome, _value in mine).items())),
        digest=content_hash([list(row) for row in mine]),
        complete=len(mine) == len(owed),
    )


async def _work(loop: RunLoop, pending: Iterator[Block], known: Known) -> None:
    for block in pending:
        keys = {index: (loop.arms[index].name, loop.cases.ids[block.case], block.repetition) for index in block.arms}
        owed = [index for index, key in keys.items() if key not in known or known[key].state != "done"]
        if not owed:
            continue
        async with loop.gate:
            case = loop.cases[block.case]
            for index in owed:
                if loop.stop.is_set():
                    return
                try:
                    await run_trial(
                        loop.context, loop.arms[index], case, block.repetition, known=known.get(keys[index])
                    )
                except (StoreError, ConflictError):
                    # Before the gate opens: whoever waits for it would begin a call whose answer finds no store.
                    loop.stop.set()
                    raise


def _names(loop: RunLoop) -> list[str]:
    return [arm.name for arm in loop.arms]


def _case_ids(loop: RunLoop, blocks: Sequence[Block]) -> list[str]:
    return sorted({loop.cases.ids[block.case] for block in blocks})
