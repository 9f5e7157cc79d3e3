"""How far a run is, for whoever shows it. Counted by the trial loop, read by faces and artifacts."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from decimal import Decimal

from fairtrial.records.experiment import ArmSummary
from fairtrial.records.trial import Outcome, Usage


@dataclass(slots=True)
class ArmProgress:
    """Counts of one arm, over all parts of the run."""

    n_planned: int
    n_done: int = 0
    n_passed: int = 0
    n_valued: int = 0
    n_agent_failures: int = 0
    n_infra_losses: int = 0
    n_ungraded: int = 0


@dataclass(slots=True)
class Progress:
    """Counts of a whole run. Sums of what was not reported by every trial say how many did."""

    arms: dict[str, ArmProgress]
    started: float = field(default_factory=time.monotonic)
    n_at_start: int = 0
    cost_usd: Decimal = Decimal(0)
    n_with_cost: int = 0

    @property
    def n_planned(self) -> int:
        """Return all trials of the plan."""
        return sum(arm.n_planned for arm in self.arms.values())

    @property
    def n_done(self) -> int:
        """Return finished trials, earlier parts included."""
        return sum(arm.n_done for arm in self.arms.values())

    def eta_s(self) -> float | None:
        """Return the seconds left at the pace of this part; None before the first trial of it."""
        done_here = self.n_done - self.n_at_start
        if done_here <= 0:
            return None
        return (time.monotonic() - self.started) / done_here * (self.n_planned - self.n_done)

    def uncount(self, arm: str, outcome: Outcome | None, value: float | None) -> None:
        """Take back one result that was counted by an earlier part; outcome None for one that had not been counted.

        What it cost stays spent.
        """
        if outcome is None:
            return
        counts = self.arms[arm]
        counts.n_done -= 1
        counts.n_valued -= value is not None
        counts.n_passed -= value == 1.0
        counts.n_agent_failures -= outcome == "agent_failure"
        counts.n_infra_losses -= outcome == "infra_loss"
        counts.n_ungraded -= outcome == "ungraded"
        self.n_at_start -= 1

    def count(self, arm: str, outcome: Outcome, value: float | None, usage: Usage) -> None:
        """Count one finished trial."""
        counts = self.arms[arm]
        counts.n_done += 1
        counts.n_valued += value is not None
        counts.n_passed += value == 1.0
        counts.n_agent_failures += outcome == "agent_failure"
        counts.n_infra_losses += outcome == "infra_loss"
        counts.n_ungraded += outcome == "ungraded"
        if usage.cost_usd is not None:
            self.cost_usd += usage.cost_usd
            self.n_with_cost += 1


def progress_from(summaries: tuple[ArmSummary, ...], *, cost_usd: Decimal, n_with_cost: int) -> Progress:
    """Return the progress a run starts from: what earlier parts of it finished and what that cost."""
    arms = {
        summary.arm: ArmProgress(
            n_planned=summary.n_planned,
            n_done=summary.n_done,
            n_passed=summary.n_passed,
            n_valued=summary.n_valued,
            n_agent_failures=summary.n_agent_failures,
            n_infra_losses=summary.n_infra_losses,
            n_ungraded=summary.n_ungraded,
        )
        for summary in summaries
    }
    n_at_start = sum(arm.n_done for arm in arms.values())
    return Progress(arms=arms, n_at_start=n_at_start, cost_usd=cost_usd, n_with_cost=n_with_cost)
