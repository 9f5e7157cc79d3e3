"""Closed-form intervals of a pass/fail difference, for data with few flips.

A bootstrap cannot see a flip that did not happen; these can. Trials are averaged per case before: n counts cases.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

from stats.bootstrap import END_DECIMALS
from stats.results import LEVEL, Floats, Interval

FEW_FLIPS = 10
"""With fewer flipped cases than this the adjusted interval is shown beside the bootstrap's."""


@dataclass(frozen=True, slots=True)
class AdjustedDifference:
    """A pass/fail difference with its adjusted interval, as shares.

    estimate   mean difference of the n cases, without the pseudo-cases; None when n is 0
    interval   None when n is below 2
    reason     why the interval is None
    """

    n: int
    estimate: float | None
    interval: Interval | None
    reason: str | None


def adjusted_difference(differences: npt.ArrayLike, *, min_trials: int = 1, level: float = LEVEL) -> AdjustedDifference:
    """Return the interval of a mean pass/fail difference after adding one pseudo-case each way.

    differences  shape (cases,), shares in [-1, 1], complete
    min_trials   smallest number of graded trials of any side of a case; the pseudo-cases sit at ± 1/min_trials,
                 one step of the finest difference a case can show
    returns      ends clipped to [-1, 1]; without a flip the interval is symmetric about 0 and not empty

    Bonett and Price 2012 for one trial; the pseudo-cases at ± 1/k are the same idea for k.
    """
    if min_trials < 1:
        raise ValueError(f"every paired case has at least one trial: min_trials={min_trials}")
    data: Floats = np.asarray(differences, dtype=np.float64)
    if data.ndim != 1 or not np.isfinite(data).all() or (np.abs(data) > 1.0).any():
        raise ValueError("differences must be a list of shares between -1 and 1")
    n = int(data.size)
    if n < 2:
        reason = "one paired case: no interval" if n else "no paired cases"
        return AdjustedDifference(n, float(data[0]) if n else None, None, reason)
    step = 1.0 / min_trials
    total, squares = math.fsum(data.tolist()), math.fsum((data * data).tolist()) + 2.0 * step * step
    mean = total / (n + 2)
    variance = max(squares / (n + 2) - mean * mean, 0.0)
    half = float(special.ndtri((1.0 + level) / 2.0)) * math.sqrt(variance / (n + 2))
    return AdjustedDifference(n, total / n, _clipped(mean - half, mean + half, level), None)


def tango(*, improved: int, regressed: int, n: int, level: float = LEVEL) -> Interval | None:
    """Return the score interval of a paired difference of shares, None without a case.

    improved, regressed, n   counts of cases, one trial each, improved + regressed <= n

    As good as the adjusted interval and wants a root search; kept as an independent check of it. Tango 1998.
    """
    if min(improved, regressed) < 0 or improved + regressed > n:
        raise ValueError(f"counts do not fit: improved={improved}, regressed={regressed}, n={n}")
    if n == 0:
        return None
    z = float(special.ndtri((1.0 + level) / 2.0))
    estimate = (improved - regressed) / n

    def score(delta: float) -> float:
        return _tango_score(delta, improved=improved, regressed=regressed, n=n)

    low = _crossing(score, inside=estimate, outside=-1.0, z=z)
    high = _crossing(score, inside=estimate, outside=1.0, z=z)
    return _clipped(low, high, level)


def _tango_score(delta: float, *, improved: int, regressed: int, n: int) -> float:
    """Return the score statistic at a hypothetical difference, in standard errors."""
    # The share regressed that is most likely when the difference is delta solves 2n q² + b q − c = 0.
    b = (2 * n - improved + regressed) * delta - improved - regressed
    c = regressed * delta * (1.0 - delta)
    q = (math.sqrt(max(b * b + 8.0 * n * c, 0.0)) - b) / (4.0 * n)
    variance = n * (2.0 * q + delta * (1.0 - delta))
    gap = improved - regressed - n * delta
    return gap / math.sqrt(variance) if variance > 0.0 else math.copysign(math.inf, gap) if gap else 0.0


def _crossing(score: Callable[[float], float], *, inside: float, outside: float, z: float) -> float:
    """Return where |score| passes z between a point that is inside the interval and one that may not be."""
    for _ in range(60):
        middle = (inside + outside) / 2.0
        if abs(score(middle)) <= z:
            inside = middle
        else:
            outside = middle
    return inside


def _clipped(low: float, high: float, level: float) -> Interval:
    low, high = round(max(low, -1.0), END_DECIMALS) + 0.0, round(min(high, 1.0), END_DECIMALS) + 0.0
    return Interval(low, high, level)
