"""How far a run is, as lines for a terminal and as JSON."""

from __future__ import annotations

from typing import Any, Final

from fairtrial.records.status import RunStatus
from fairtrial.reports.figures import NOT_REPORTED, count, duration, percent
from fairtrial.reports.safe import shorten, visible

OPEN_LONG_S: Final = 10.0
"""A call that has been open for this long is named on the screen."""

_NAME_WIDTH: Final = 60


def status_lines(status: RunStatus) -> list[str]:
    """Return one run's status: who and how far, passes by arm, time left and cost, and what it waits for."""
    lines = [
        f"{status.experiment}  {shorten(visible(status.name), _NAME_WIDTH)}  {_state(status)}",
        f"done     {status.n_done:,} of {count(status.n_planned, 'trial')} ({percent(_share(status))})",
        f"so far   {_passes(status)}",
    ]
    left = (
        f"about {duration(status.eta_s)} left   "
        if status.eta_s is not None and status.n_done < status.n_planned
        else ""
    )
    lines.append(f"time     {left}cost so far {_cost(status)}")
    for call in status.waiting:
        if call.open_s >= OPEN_LONG_S:
            where = f"case {shorten(visible(call.case), 40)} in {visible(call.arm)}"
            lines.append(f"waiting  {where} (trial {call.repetition}) has been open for {duration(call.open_s)}")
    if status.state == "partial":
        lines.append(f"next     exp run --resume {status.experiment}, or exp finish {status.experiment}")
    return lines


def status_json(status: RunStatus) -> dict[str, Any]:
    """Return one run's status as a JSON object; what nobody knows is null."""
    holder = status.holder
    return {
        "experiment": status.experiment,
        "name": status.name,
        "state": status.state,
        "n_done": status.n_done,
        "n_planned": status.n_planned,
        "arms": [
            {
                "name": arm.arm,
                "n_done": arm.n_done,
                "n_planned": arm.n_planned,
                "n_passed": arm.n_passed,
                "n_agent_failures": arm.n_agent_failures,
                "n_infra_losses": arm.n_infra_losses,
                "n_ungraded": arm.n_ungraded,
                "pass_share": arm.pass_share,
            }
            for arm in status.arms
        ],
        "eta_s": status.eta_s,
        "cost_usd": None if status.cost_usd is None else str(status.cost_usd),
        "n_with_cost": status.n_with_cost,
        "owner": (
            None
            if holder is None
            else {
                "host": holder.host,
                "pid": holder.pid,
                "last_seen_s": holder.last_seen_s,
                "alive": holder.alive,
            }
        ),
        "waiting": [
            {
                "arm": call.arm,
                "case": call.case,
                "repetition": call.repetition,
                "attempt": call.attempt,
                "open_s": call.open_s,
            }
            for call in status.waiting
        ],
    }


def _state(status: RunStatus) -> str:
    holder = status.holder
    if status.state == "running" and holder is not None:
        return f"running: process {holder.pid} on {visible(holder.host)}, last seen {duration(holder.last_seen_s)} ago"
    if status.state == "partial" and holder is not None:
        gone = f"process {holder.pid} on {visible(holder.host)} is gone, last seen {duration(holder.last_seen_s)} ago"
        return f"(partial): {gone}"
    return "(partial)" if status.state == "partial" else status.state


def _share(status: RunStatus) -> float | None:
    return status.n_done / status.n_planned if status.n_planned else None


def _passes(status: RunStatus) -> str:
    passes = []
    for arm in status.arms:
        share = percent(arm.pass_share) if arm.n_valued else "–"
        passes.append(f"{visible(arm.arm)} {share}" if len(status.arms) > 1 else f"pass {share}")
    lost = sum(arm.n_infra_losses + arm.n_ungraded for arm in status.arms)
    return ", ".join(passes) + (f", {lost:,} lost" if lost else "")


def _cost(status: RunStatus) -> str:
    if status.cost_usd is None:
        return NOT_REPORTED
    at_least = "at least " if status.n_with_cost < status.n_done else ""
    return f"{at_least}${status.cost_usd:f}"
