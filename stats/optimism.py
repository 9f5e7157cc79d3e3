"""The optimism gap: how much better the winner of a race looked on its train cases than on cases the race never saw.

Expect it above 0. The best of several equal configurations won by luck in part, and luck does not travel: 2 points are
normal, and no sign of a fault.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

from stats.results import LEVEL, Floats, Interval

DECIMALS = 12
"""Scores are rounded to this before asking whether they have any spread."""


@dataclass(frozen=True, slots=True)
class OptimismGap:
    """Train mean minus test mean of one configuration, a share.

    gap       None when a side has no case
    interval  Welch; None when a side has fewer than two cases or neither side has spread
    reason    why something is None, else None
    """

    n_train: int
    n_test: int
    train_mean: float | None
    test_mean: float | None
    gap: float | None
    interval: Interval | None
    reason: str | None


def optimism_gap(train: npt.ArrayLike, test: npt.ArrayLike, *, level: float = LEVEL) -> OptimismGap:
    """Return the optimism gap of a winner.

    train   shape (cases,): its score per case over all rounds it raced in, trials averaged, complete
    test    shape (cases,): its score per case of the test split

    The cases are other cases, so the comparison is not paired. Welch 1947.
    """
    sides = [_complete(train, "train"), _complete(test, "test")]
    n_train, n_test = (int(side.size) for side in sides)
    train_mean, test_mean = (float(side.mean()) if side.size else None for side in sides)
    if train_mean is None or test_mean is None:
        return OptimismGap(n_train, n_test, train_mean, test_mean, None, None, "no case on one of the sides")
    gap = train_mean - test_mean
    interval, reason = _welch(sides[0], sides[1], gap, level=level)
    return OptimismGap(n_train, n_test, train_mean, test_mean, gap, interval, reason)


def _welch(a: Floats, b: Floats, gap: float, *, level: float) -> tuple[Interval | None, str | None]:
    if a.size < 2 or b.size < 2:
        return None, "fewer than two cases on a side"
    parts = [_variance_of_mean(side) for side in (a, b)]
    total = sum(parts)
    if total == 0.0:
        return None, "no spread on either side"
    df = total**2 / (parts[0] ** 2 / (a.size - 1) + parts[1] ** 2 / (b.size - 1))
    half = float(special.stdtrit(df, (1.0 + level) / 2.0)) * math.sqrt(total)
    return Interval(gap - half, gap + half, level), None


def _variance_of_mean(side: Floats) -> float:
    return float(side.var(ddof=1)) / side.size if np.ptp(np.round(side, DECIMALS)) > 0.0 else 0.0


def _complete(values: npt.ArrayLike, name: str) -> Floats:
    data: Floats = np.asarray(values, dtype=np.float64)
    if data.ndim != 1 or not np.isfinite(data).all():
        raise ValueError(f"{name} must be finite scores of the shape (cases,): leave missing cases out before")
    return data
