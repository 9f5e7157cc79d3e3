"""Evidence that may be looked at whenever one likes, without a plan and without a cap.

That freedom costs power: where the number of cases is capped beforehand, the bounds of stats/sequential.py see the same
effect with fewer cases.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from stats.results import LEVEL, Floats, Interval

SequenceMethod: TypeAlias = Literal["betting", "empirical-bernstein"]

ALPHA = 0.05
"""Chance that the e-value ever reaches 1/alpha when nothing differs."""

LARGEST_BET = 0.5
"""Largest bet of the empirical-Bernstein sequence, and share of the possible that the betting sequence stakes."""

GRID_STEPS = 2000
"""Steps of the grid of means the betting sequence tests, over a range of 2: ends are outward by at most 0.002."""

DECIMALS = 12
"""The log of the e-value is rounded to this before it is compared."""


@dataclass(frozen=True, slots=True)
class EValue:
    """Evidence against "improving is as likely as regressing".

    e_value      1 is no evidence; at most the largest float, with `log_e` exact beyond it
    significant  reached 1/alpha; may be read at any time and stays true
    """

    e_value: float
    log_e: float
    significant: bool


@dataclass(frozen=True, slots=True, eq=False)
class ConfidenceSequence:
    """Intervals of the mean difference after each case that hold all at once, at the level given.

    low, high   shape (cases,), in [−1, 1]; they only ever narrow
    empty_from  number of cases from which no mean fits any more, None when one always does: the mean has drifted, or
                this is one of the 5%. From there the last interval before is repeated
    """

    low: Floats
    high: Floats
    level: float
    empty_from: int | None

    def after(self, n_cases: int) -> Interval:
        """Return the interval after this many cases, at least 1."""
        if not 1 <= n_cases <= self.low.size:
            raise ValueError(f"{n_cases} of {self.low.size} cases")
        return Interval(float(self.low[n_cases - 1]), float(self.high[n_cases - 1]), self.level)


def flips_e_value(*, improved: int, regressed: int, alpha: float = ALPHA) -> EValue:
    """Return the always-valid evidence of flipped cases, one trial per case.

    improved, regressed   counts of cases; without a flip the e-value is 1

    2^m/((m+1) C(m, improved)), m = flips: the chance of these flips in this order under every rate of improving alike,
    over the chance under ½. Reading 20 at any time errs in at most 5% of runs (Ville 1939); the beta-binomial mixture
    of Howard et al. 2021 with a uniform weight.
    """
    if improved < 0 or regressed < 0:
        raise ValueError(f"counts cannot be negative: improved={improved}, regressed={regressed}")
    m = improved + regressed
    log_choose = math.lgamma(m + 1) - (math.lgamma(improved + 1) + math.lgamma(regressed + 1))
    log_e = m * math.log(2.0) - math.log(m + 1) - log_choose
    e_value = math.exp(log_e) if log_e < math.log(sys.float_info.max) else sys.float_info.max
    return EValue(e_value, log_e, significant=round(log_e + math.log(alpha), DECIMALS) >= 0.0)


def confidence_sequence(
    differences: npt.ArrayLike, *, level: float = LEVEL, method: SequenceMethod = "betting"
) -> ConfidenceSequence:
    """Return intervals of the mean B − A that may be read after every case.

    differences   shape (cases,), in [−1, 1], in the order in which the cases finished by plan
    method        "betting" is the tighter one; "empirical-bernstein" has a closed form

    Each case must be a fresh draw given those before it. Waudby-Smith and Ramdas 2024.
    """
    data: Floats = np.asarray(differences, dtype=np.float64)
    if data.ndim != 1 or not np.isfinite(data).all() or (np.abs(data) > 1.0).any():
        raise ValueError("differences must be finite, in [−1, 1] and of the shape (cases,)")
    unit = (data + 1.0) / 2.0
    alpha = 1.0 - level
    if method == "betting":
        low, high = _betting(unit, alpha=alpha)
    else:
        low, high = _lower(unit, alpha=alpha / 2.0), 1.0 - _lower(1.0 - unit, alpha=alpha / 2.0)
    low = np.maximum.accumulate(np.clip(2.0 * low - 1.0, -1.0, 1.0))
    high = np.minimum.accumulate(np.clip(2.0 * high - 1.0, -1.0, 1.0))
    empty = np.flatnonzero(low > high)
    if empty.size:
        first = int(empty[0])
        low[first:], high[first:] = low[first - 1], high[first - 1]
    return ConfidenceSequence(low, high, level, empty_from=int(empty[0]) + 1 if empty.size else None)


def _bets(unit: Floats, *, alpha: float) -> Floats:
    """Return the bet before each case, from the spread of the cases before it.

    The running mean and variance begin with one made-up case of mean ½ and variance ¼.
    """
    t = np.arange(1, unit.size + 1)
    mean = (0.5 + np.cumsum(unit)) / (t + 1)
    variance = (0.25 + np.cumsum((unit - mean) ** 2)) / (t + 1)
    before = np.append(0.25, variance[:-1])
    bets: Floats = np.sqrt(2.0 * math.log(1.0 / alpha) / (t * np.log(1.0 + t) * before))
    return bets


def _lower(unit: Floats, *, alpha: float) -> Floats:
    """Return the one-sided empirical-Bernstein lower ends of the mean of values in [0, 1]."""
    bets = np.minimum(_bets(unit, alpha=alpha), LARGEST_BET)
    t = np.arange(1, unit.size + 1)
    mean_before = np.append(0.0, (np.cumsum(unit) / t)[:-1])
    cost = (unit - mean_before) ** 2 * (-np.log1p(-bets) - bets)
    staked = np.cumsum(bets)
    low: Floats = (np.cumsum(bets * unit) - np.cumsum(cost) - math.log(1.0 / alpha)) / staked
    return low


def _betting(unit: Floats, *, alpha: float) -> tuple[Floats, Floats]:
    """Return the ends of the means in [0, 1] against which no bet has won 1/alpha.

    Half of the stake bets that the true mean lies above the candidate, half that it lies below.
    """
    means = np.linspace(0.0, 1.0, GRID_STEPS + 1)
    bets = _bets(unit, alpha=alpha / 2.0)
    low, high = np.empty(unit.size), np.empty(unit.size)
    log_up, log_down = np.zeros(means.size), np.zeros(means.size)
    limit = math.log(2.0 / alpha)
    with np.errstate(divide="ignore"):
        most_up, most_down = LARGEST_BET / means, LARGEST_BET / (1.0 - means)
    for i, value in enumerate(unit):
        log_up += np.log1p(np.minimum(bets[i], most_up) * (value - means))
        log_down += np.log1p(-np.minimum(bets[i], most_down) * (value - means))
        inside = np.flatnonzero(np.maximum(log_up, log_down) <= limit)
        # One step outwards: the true end lies between this mean and the next one tested.
        low[i] = means[max(inside[0] - 1, 0)] if inside.size else 1.0
        high[i] = means[min(inside[-1] + 1, GRID_STEPS)] if inside.size else 0.0
    return low, high
