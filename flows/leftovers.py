"""Flow runs of processes that are gone: on a server of one's own nothing else ends them, so they show as running.

Only runs of an experiment whose lease was taken over are touched: its owner is known to be dead by then.
"""

from __future__ import annotations

from uuid import UUID

from prefect.client.orchestration import get_client
from prefect.client.schemas import State
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterState,
    FlowRunFilterStateType,
    FlowRunFilterTags,
)
from prefect.client.schemas.objects import StateType
from prefect.states import Crashed


async def mark_crashed(experiment: str, *, except_for: UUID | None, gone: str) -> int:
    """Set the unfinished flow runs of an experiment, but for one, to Crashed; return how many there were.

    gone    who is gone, in words that go into the state's message
    """
    wanted = FlowRunFilter(
        tags=FlowRunFilterTags(all_=[experiment]),
        state=FlowRunFilterState(type=FlowRunFilterStateType(any_=[StateType.RUNNING, StateType.PENDING])),
    )
    async with get_client() as client:
        found = [run for run in await client.read_flow_runs(flow_run_filter=wanted) if run.id != except_for]
        for run in found:
            state: State[None] = Crashed(message=f"{gone}: gone, and a resume has taken over")
            await client.set_flow_run_state(run.id, state, force=True)
    return len(found)
