"""Lost trials: is the loss uneven between the sides, and is it over its limit.

Only infra losses count here. An agent failure is a score of 0 and part of the comparison.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from stats.decision import Hold, format_p
from stats.results import AnyArray, Floats

ALPHA = 0.05
"""Level of the test for an uneven loss."""

GAP = 0.05
"""Loss shares this far apart are uneven, whatever the test says, once enough trials were lost."""

GAP_MIN_LOST = 10
"""Trials lost on both sides together from which the gap alone is enough."""

MAX_LOSS = 0.05
"""Share of a side's planned trials that may be lost before nothing is shipped on the run."""


@dataclass(frozen=True, slots=True)
class LossBalance:
    """How two sides compare in lost trials.

    share_a, share_b  lost share of the planned trials of a side; None when it planned none
    p                 Fisher's exact test, two-sided; None when a side planned none
    uneven            whether to warn
    """

    lost_a: int
    planned_a: int
    lost_b: int
    planned_b: int
    share_a: float | None
    share_b: float | None
    p: float | None
    uneven: bool


def loss_balance(*, lost_a: int, planned_a: int, lost_b: int, planned_b: int) -> LossBalance:
    """Return the loss of both sides and whether it is uneven.

    lost, planned   counts of trials, 0 <= lost <= planned

    Uneven: Fisher's exact p below 5%, or shares at least 5 points apart with at least 10 trials lost in all.
    """
    for lost, planned in ((lost_a, planned_a), (lost_b, planned_b)):
        if not 0 <= lost <= planned:
            raise ValueError(f"{lost} lost of {planned} planned trials")
    if planned_a == 0 or planned_b == 0:
        share_a = lost_a / planned_a if planned_a else None
        share_b = lost_b / planned_b if planned_b else None
        return LossBalance(lost_a, planned_a, lost_b, planned_b, share_a, share_b, None, False)
    share_a, share_b = lost_a / planned_a, lost_b / planned_b
    p = fisher_exact(lost_a, planned_a - lost_a, lost_b, planned_b - lost_b)
    apart = round(abs(share_a - share_b), 12) >= GAP and lost_a + lost_b >= GAP_MIN_LOST
    return LossBalance(lost_a, planned_a, lost_b, planned_b, share_a, share_b, p, p < ALPHA or apart)


def uneven_loss_hold(balance: LossBalance) -> Hold | None:
    """Return the hold of an uneven loss, None when it is even."""
    if not balance.uneven or balance.p is None:
        return None
    sides = f"A lost {balance.lost_a} of {balance.planned_a} trials, B {balance.lost_b} of {balance.planned_b}"
    return Hold("uneven-loss", f"uneven loss: {sides} (Fisher p = {format_p(balance.p)})")


def over_limit_hold(balance: LossBalance, *, max_loss: float = MAX_LOSS) -> Hold | None:
    """Return the hold of a side that lost more than `max_loss` of its planned trials; exactly the limit is not over."""
    for side, lost, planned in (
        ("A", balance.lost_a, balance.planned_a),
        ("B", balance.lost_b, balance.planned_b),
    ):
        if planned and round(lost / planned - max_loss, 12) > 0.0:
            text = f"{side} lost {lost} of {planned} trials, over the limit of {max_loss:.1%}"
            return Hold("over-loss-limit", text)
    return None


def fisher_exact(a: int, b: int, c: int, d: int) -> float:
    """Return the two-sided exact p of the 2x2 table [[a, b], [c, d]]: all tables no likelier than this one.

    The same p as `scipy.stats.fisher_exact`, without the second that importing scipy.stats takes. Fisher 1935.
    """
    row, column, n = a + b, a + c, a + b + c + d
    counts = np.arange(max(0, row + column - n), min(row, column) + 1)
    logs = _log_choose(column, counts) + _log_choose(n - column, row - counts) - _log_choose(n, np.array(row))
    observed = logs[a - int(counts[0])]
    # Tables equally likely come out a few bits apart; the margin is the one R and scipy use.
    return min(1.0, math.fsum(np.exp(logs[logs <= observed + 1e-7]).tolist()))


def _log_choose(n: int, k: AnyArray) -> Floats:
    return special.gammaln(n + 1) - special.gammaln(k + 1) - special.gammaln(n - k + 1)
