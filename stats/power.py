"""What a comparison of this size could have seen: exact McNemar power, its ceiling, and the smallest visible effect.

Power rises with the effect but not with n (the test is discrete), so a search runs over effects, never over n.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from stats.results import Floats, Ints

POWER = 0.8
"""Power at which an effect counts as detectable."""

ALPHA = 0.05
"""Two-sided level of the test whose power is asked for."""


@dataclass(frozen=True, slots=True)
class DetectableEffect:
    """The smallest effect a comparison of this size sees with the wanted power, as a share.

    ceiling      the most power any effect can reach here; None for a mean, which has no ceiling
    mde          None when the ceiling is below the wanted power, or nothing is known about the spread
    at_aa_rate   whether `mde` was raised to the A/A flip rate
    reason       why `mde` is None
    """

    ceiling: float | None
    mde: float | None
    at_aa_rate: bool
    reason: str | None


def mcnemar_power(n: int, *, discordance: float, effect: float, alpha: float = ALPHA) -> float:
    """Return the exact power of the exact McNemar test before any case has run.

    n            paired cases, one direction each
    discordance  P(a case flips), in [0, 1]
    effect       P(improved) − P(regressed), in [0, discordance]
    returns      P(significant in the direction of the effect); rejections the wrong way do not count
    """
    _check(n, discordance)
    if not 0.0 <= effect <= discordance:
        raise ValueError(f"an effect lies between 0 and the discordance: {effect} against {discordance}")
    return _power(_plan(n, discordance=discordance, alpha=alpha), discordance=discordance, effect=effect)


def mcnemar_ceiling(n: int, *, discordance: float, alpha: float = ALPHA) -> float:
    """Return the power when every flip is an improvement: P(enough flips for a significant test at all)."""
    _check(n, discordance)
    # With m0 flips all one way the test is significant, with one fewer it is not.
    return float(special.bdtrc(least_flips(alpha=alpha) - 1, n, discordance)) if n >= least_flips(alpha=alpha) else 0.0


def least_flips(*, alpha: float = ALPHA) -> int:
    """Return how many flips, all one way, the exact test needs to be significant: 6 at 5%."""
    flips = 1
    while 2.0 * 0.5**flips >= alpha:
        flips += 1
    return flips


def mcnemar_mde(
    n: int,
    *,
    discordance: float,
    aa_flip_rate: float | None = None,
    alpha: float = ALPHA,
    power: float = POWER,
) -> DetectableEffect:
    """Return the smallest effect that the exact McNemar test sees with the wanted power, and the ceiling.

    discordance   observed flips over n
    aa_flip_rate  share of cases that flip between two runs of one config; the discordance is at least this, and an
                  effect below it is not called detectable
    """
    psi = max(discordance, aa_flip_rate or 0.0)
    ceiling = mcnemar_ceiling(n, discordance=psi, alpha=alpha)
    if ceiling < power:
        reason = f"no {power:.0%} power at this n (exact McNemar ceiling {ceiling:.0%})"
        return DetectableEffect(ceiling, None, False, reason)
    plan = _plan(n, discordance=psi, alpha=alpha)
    low, high = 0.0, psi
    for _ in range(40):
        middle = (low + high) / 2.0
        if _power(plan, discordance=psi, effect=middle) < power:
            low = middle
        else:
            high = middle
    return _floored(high, aa_flip_rate, ceiling=ceiling)


def mean_mde(
    n: int, *, sd: float, aa_flip_rate: float | None = None, alpha: float = ALPHA, power: float = POWER
) -> DetectableEffect:
    """Return the smallest mean difference that the paired t-test sees with the wanted power.

    n, sd   cases, and the standard deviation of their differences; the result is in the units of sd

    From the non-central t distribution, counting rejections in the direction of the effect.
    """
    if n < 2 or sd <= 0.0:
        reason = "too few paired cases" if n < 2 else "the differences have no spread"
        return DetectableEffect(None, None, False, reason)
    critical = float(special.stdtrit(n - 1, 1.0 - alpha / 2.0))
    low, high = 0.0, 1.0
    while _t_power(high, n=n, critical=critical) < power:
        low, high = high, 2.0 * high
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (middle, high) if _t_power(middle, n=n, critical=critical) < power else (low, middle)
    return _floored(high * sd / math.sqrt(n), aa_flip_rate, ceiling=None)


@dataclass(frozen=True, slots=True)
class _Plan:
    """Every number of flips that may happen, how likely it is, and how many improvements are then significant."""

    flips: Ints
    weight: Floats
    needed: Ints


def _check(n: int, discordance: float) -> None:
    if n < 0 or not 0.0 <= discordance <= 1.0:
        raise ValueError(f"n must be at least 0 and the discordance a share: n={n}, discordance={discordance}")


def _plan(n: int, *, discordance: float, alpha: float) -> _Plan:
    # Ten standard deviations around the expected number of flips leave out less than 1e-20.
    reach = 10.0 * math.sqrt(n * discordance * (1.0 - discordance)) + 10.0
    first = max(least_flips(alpha=alpha), math.floor(n * discordance - reach))
    flips = np.arange(first, min(n, math.ceil(n * discordance + reach)) + 1, dtype=np.int64)
    logs = special.gammaln(n + 1) - special.gammaln(flips + 1) - special.gammaln(n - flips + 1)
    weight = np.exp(logs + special.xlogy(flips, discordance) + special.xlog1py(n - flips, -discordance))
    return _Plan(flips, weight, flips - _most_regressed(flips, alpha=alpha))


def _most_regressed(flips: Ints, *, alpha: float) -> Ints:
    """Return for each number of flips the largest count of regressions that still leaves a significant win."""
    low, high = np.zeros_like(flips), flips // 2
    while (low < high).any():
        middle = (low + high + 1) // 2
        significant = 2.0 * special.bdtr(middle, flips, 0.5) < alpha
        low, high = np.where(significant, middle, low), np.where(significant, high, middle - 1)
    return low


def _power(plan: _Plan, *, discordance: float, effect: float) -> float:
    if discordance == 0.0:
        return 0.0
    improve = min((discordance + effect) / (2.0 * discordance), 1.0)
    return float(plan.weight @ special.bdtrc(plan.needed - 1, plan.flips, improve))


def _t_power(shift: float, *, n: int, critical: float) -> float:
    return float(1.0 - special.nctdtr(n - 1, shift, critical))


def _floored(mde: float, aa_flip_rate: float | None, *, ceiling: float | None) -> DetectableEffect:
    if aa_flip_rate is not None and mde < aa_flip_rate:
        return DetectableEffect(ceiling, aa_flip_rate, True, None)
    return DetectableEffect(ceiling, mde, False, None)
