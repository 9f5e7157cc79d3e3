"""The outcome of a workflow A/B and whether B meets the bar for use.

Every edge is met exactly: an end of 0 is "same", a low end of −0.05 and 5 points more failures still qualify. So shares
are compared as fractions, never as floats that are one bit off.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Literal, TypeAlias

from stats.results import Interval, exact_fraction

Outcome: TypeAlias = Literal["too_few", "better", "worse", "same"]
Missed: TypeAlias = Literal["items", "interval", "failures", "cost"]
Number: TypeAlias = float | Decimal | Fraction

MIN_ITEMS = 10
"""Items both arms answered, below which there is no outcome."""

BAR_ITEMS = 20
"""Items B needs to qualify."""

BAR_LOW = Fraction(-1, 20)
"""Lowest lower end of B − A that qualifies, a share."""

BAR_FAILURES = Fraction(1, 20)
"""How much larger B's share of failed items may be than A's."""

DECIMALS = 12
"""Interval ends come from floating sums and are rounded to this."""


@dataclass(frozen=True, slots=True)
class AbOutcome:
    """The outcome by the interval alone, and the bar.

    qualifies   B may be used; then `missed` is empty
    missed      which parts of the bar B misses, in the order items, interval, failures, cost
    """

    outcome: Outcome
    qualifies: bool
    missed: tuple[Missed, ...]


def ab_outcome(
    *,
    items: int,
    interval: Interval | None,
    failed_a: Number,
    failed_b: Number,
    cost_ratio: Number | None,
) -> AbOutcome:
    """Return the outcome of an A/B over the items both arms answered.

    items               count
    interval            95% interval of B − A of the mean F1; None only below 10 items
    failed_a, failed_b  share of the started items each arm failed on; give Fraction(failed, started), since a float
                        means the decimal it prints as
    cost_ratio          B's cost per item over A's, see `cost_ratio`; None when unknown, and then only better qualifies
    """
    if items >= MIN_ITEMS and interval is None:
        raise ValueError(f"{items} items without an interval")
    low, high = (None, None) if interval is None else (_end(interval.low), _end(interval.high))
    outcome: Outcome = "same"
    if items < MIN_ITEMS or low is None or high is None:
        outcome = "too_few"
    elif low > 0:
        outcome = "better"
    elif high < 0:
        outcome = "worse"
    cheaper = cost_ratio is not None and exact_fraction(cost_ratio) < 1
    misses: dict[Missed, bool] = {
        "items": items < BAR_ITEMS,
        "interval": low is None or low < BAR_LOW,
        "failures": exact_fraction(failed_b) > exact_fraction(failed_a) + BAR_FAILURES,
        "cost": not cheaper and outcome != "better",
    }
    missed = tuple(part for part, is_missed in misses.items() if is_missed)
    return AbOutcome(outcome=outcome, qualifies=not missed, missed=missed)


def cost_ratio(*, cost_a: Decimal | Fraction | None, cost_b: Decimal | Fraction | None) -> Fraction | None:
    """Return B's cost per item over A's, None when either is unknown or A is free.

    cost_a, cost_b   cost per item in one currency, at least 0; None is a cost nobody reported, which is not 0
    """
    if cost_a is None or cost_b is None:
        return None
    a, b = exact_fraction(cost_a), exact_fraction(cost_b)
    if a < 0 or b < 0:
        raise ValueError(f"a cost is at least 0: {cost_a}, {cost_b}")
    return b / a if a else None


def _end(value: float) -> Fraction:
    return exact_fraction(round(value, DECIMALS))
