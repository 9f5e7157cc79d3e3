"""How far a run is, read from totals, lease and open attempts; no trial's text is touched."""

from __future__ import annotations

from typing import Final

from sqlalchemy import Connection

from fairtrial.records.experiment import ArmSummary, ExperimentRecord
from fairtrial.records.status import Holding, OpenCall, RunState, RunStatus
from fairtrial.store.experiments import summaries_of
from fairtrial.store.lease import Holder, database_clock, holder
from fairtrial.store.trials import cost_of, count_done_by, open_trials

MOST_WAITING: Final = 5


def status_of(connection: Connection, record: ExperimentRecord) -> RunStatus:
    """Return how far an experiment is now."""
    arms = summaries_of(connection, [record.id])[record.id]
    held = holder(connection, record.id)
    state = state_of(record, arms, held)
    cost, n_with_cost = cost_of(connection, record.id)
    return RunStatus(
        experiment=record.id,
        name=record.name,
        state=state,
        arms=arms,
        holder=None if held is None else Holding(held.host, held.pid, held.last_seen_s, held.alive),
        eta_s=_eta_s(connection, record, arms, held) if state == "running" and held is not None else None,
        cost_usd=cost if n_with_cost else None,
        n_with_cost=n_with_cost,
        waiting=_waiting(connection, record, held) if state == "running" and held is not None else (),
    )


def state_of(record: ExperimentRecord, arms: tuple[ArmSummary, ...], held: Holder | None) -> RunState:
    """Return whether a run is at its end, under way, or waits for a resume."""
    if record.state == "closed":
        return "closed"
    if record.state == "finished" and all(arm.n_done == arm.n_planned for arm in arms):
        return "finished"
    return "running" if held is not None and held.alive else "partial"


def _eta_s(
    connection: Connection, record: ExperimentRecord, arms: tuple[ArmSummary, ...], held: Holder
) -> float | None:
    done_here = count_done_by(connection, record.id, held.fence)
    if not done_here:
        return None
    left = sum(arm.n_planned - arm.n_done for arm in arms)
    return held.held_s / done_here * left


def _waiting(connection: Connection, record: ExperimentRecord, held: Holder) -> tuple[OpenCall, ...]:
    now = database_clock(connection)
    return tuple(
        OpenCall(each.arm, each.case, each.repetition, each.attempt, max(now - each.started_at, 0.0))
        for each in open_trials(connection, record.id, held.fence, limit=MOST_WAITING)
    )
