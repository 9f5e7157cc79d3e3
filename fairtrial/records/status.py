"""How far a run is at one moment. Times are seconds; None where nobody knows."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Literal, TypeAlias

from fairtrial.records.experiment import ArmSummary

RunState: TypeAlias = Literal["running", "partial", "finished", "closed"]


@dataclass(frozen=True, slots=True)
class OpenCall:
    """A trial whose answer is awaited, and for how long by now."""

    arm: str
    case: str
    repetition: int
    attempt: int
    open_s: float


@dataclass(frozen=True, slots=True)
class Holding:
    """The process that runs an experiment, or ran it and was not seen to end."""

    host: str
    pid: int
    last_seen_s: float
    alive: bool


@dataclass(frozen=True, slots=True)
class RunStatus:
    """One run at one moment.

    eta_s       time left at the pace of the present part; None before its first trial, and when nobody works on it
    cost_usd    exact sum of what was reported so far; None when nothing was
    n_with_cost results that reported a cost
    waiting     the calls that have been open longest
    """

    experiment: str
    name: str
    state: RunState
    arms: tuple[ArmSummary, ...]
    holder: Holding | None
    eta_s: float | None
    cost_usd: Decimal | None
    n_with_cost: int
    waiting: tuple[OpenCall, ...]

    @property
    def running(self) -> bool:
        """Return whether a live process works on it."""
        return self.state == "running"

    @property
    def n_done(self) -> int:
        """Return finished trials over all arms."""
        return sum(arm.n_done for arm in self.arms)

    @property
    def n_planned(self) -> int:
        """Return planned trials over all arms."""
        return sum(arm.n_planned for arm in self.arms)
