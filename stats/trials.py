"""Several trials of a case: how often one of k passes, what was gained and lost, how noisy a config is by itself.

Trials describe a case more closely; they never make more cases.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from stats.pairing import PairedCases, pair_cases, trial_tables
from stats.results import LEVEL, Floats, Interval, Ints
from stats.wilson import wilson


@dataclass(frozen=True, slots=True)
class PassAtK:
    """Mean over cases of passing at least once, and every time, in k trials; None where no case has k trials.

    n_cases, n_left_out   cases the means are over, and cases with fewer than k graded trials
    """

    k: int
    pass_at_k: float | None
    pass_all_k: float | None
    n_cases: int
    n_left_out: int


@dataclass(frozen=True, slots=True)
class Coverage:
    """Cases solved at least once on one side and never on the other: positions among the input rows.

    net   gained minus lost, in cases; a net gain can hide losses, so both lists are shown
    """

    gained: Ints
    lost: Ints
    net: int


@dataclass(frozen=True, slots=True)
class FlipRate:
    """Share of cases whose verdict changed between two runs of one config; `share` is None when n is 0."""

    flips: int
    n: int
    share: float | None
    interval: Interval


@dataclass(frozen=True, slots=True)
class VarianceParts:
    """Where the variance of the mean difference comes from.

    between          part of the differences between cases, already divided by n; more trials do not touch it
    within_a         part of the trials of a, divided by n; more trials of a remove it
    within_b         the same for b
    within_share     (within_a + within_b) over everything
    reason           why the parts are None: a side without repeated trials cannot tell them apart
    """

    n: int
    between: float | None
    within_a: float | None
    within_b: float | None
    within_share: float | None
    reason: str | None


def pass_at_k(trials: int, passed: int, *, k: int) -> float | None:
    """Return the chance that at least one of k trials drawn from these passes; None when k exceeds them.

    Chen et al. 2021: counting combinations is unbiased, 1 − (1 − c/n)^k is not.
    """
    _check(trials, passed, k)
    return None if k > trials else 1 - math.comb(trials - passed, k) / math.comb(trials, k)


def pass_all_k(trials: int, passed: int, *, k: int) -> float | None:
    """Return the chance that all of k trials drawn from these pass; None when k exceeds them. Yao et al. 2024."""
    _check(trials, passed, k)
    return None if k > trials else math.comb(passed, k) / math.comb(trials, k)


def mean_pass_at_k(trials: Sequence[int], passed: Sequence[int], *, k: int) -> PassAtK:
    """Return both means over the cases that have at least k graded trials."""
    pairs = [(int(n), int(c)) for n, c in zip(trials, passed, strict=True)]
    usable = [(n, c) for n, c in pairs if n >= k]
    once = [value for n, c in usable if (value := pass_at_k(n, c, k=k)) is not None]
    always = [value for n, c in usable if (value := pass_all_k(n, c, k=k)) is not None]
    return PassAtK(k, _mean(once), _mean(always), len(usable), len(pairs) - len(usable))


def coverage(pairs: PairedCases) -> Coverage:
    """Return the cases gained and lost, comparing the same number of trials on both sides of a case."""
    gained = pairs.case_index[(pairs.passes_b > 0) & (pairs.passes_a == 0)]
    lost = pairs.case_index[(pairs.passes_a > 0) & (pairs.passes_b == 0)]
    return Coverage(gained, lost, int(gained.size - lost.size))


def flip_rate(flips: int, n: int, *, level: float = LEVEL) -> FlipRate:
    """Return the A/A flip rate with its Wilson interval, so that no flip is an upper limit and not a bare zero."""
    return FlipRate(int(flips), int(n), flips / n if n else None, wilson(flips, n, level=level))


def trial_disagreement(passes: Sequence[int], trials: Sequence[int]) -> float | None:
    """Return the chance that two trials of one case disagree, averaged over cases with two trials or more.

    passes, trials   per case: c passes of k trials. The mean of c(k − c)/C(k, 2); None when no case has two trials.
    """
    shares: list[Fraction] = []
    for c, k in zip(passes, trials, strict=True):
        _check(k, c, 1)
        if k >= 2:
            shares.append(Fraction(int(c) * (int(k) - int(c)), math.comb(int(k), 2)))
    return float(sum(shares) / len(shares)) if shares else None


def variance_parts(a: npt.ArrayLike, b: npt.ArrayLike) -> VarianceParts:
    """Return how much of the variance of the mean difference lies between cases and within them.

    a, b   shape (cases, trials of that side), rows aligned by case; NaN is a missing trial, as in `pair_cases`

    The trial variance of a side is the mean over its cases with two trials or more of the sample variance, which for
    pass/fail is p(1 − p)k/(k − 1). The part between cases is what remains, at least 0. Miller 2024.
    """
    pairs = pair_cases(a, b)
    if pairs.n < 2:
        return VarianceParts(pairs.n, None, None, None, None, "too few paired cases")
    table_a, table_b = trial_tables(a, b)
    within_a = _mean_error(table_a[pairs.case_index])
    within_b = _mean_error(table_b[pairs.case_index])
    if within_a is None or within_b is None:
        return VarianceParts(pairs.n, None, None, None, None, "needs repeated trials on both sides")
    between = max(float(pairs.differences.var(ddof=1)) - within_a - within_b, 0.0)
    total = between + within_a + within_b
    return VarianceParts(
        n=pairs.n,
        between=between / pairs.n,
        within_a=within_a / pairs.n,
        within_b=within_b / pairs.n,
        within_share=(within_a + within_b) / total if total > 0.0 else None,
        reason=None if total > 0.0 else "nothing varies",
    )


def _mean_error(table: Floats) -> float | None:
    """Return the variance that a case's mean has from its trials, averaged over cases; None without repeats."""
    graded = ~np.isnan(table)
    k = graded.sum(axis=1)
    repeated = k >= 2
    if not repeated.any():
        return None
    values = np.where(graded, table, 0.0)
    means = values.sum(axis=1) / k
    squares = np.where(graded, (values - means[:, None]) ** 2, 0.0).sum(axis=1)
    trial_variance = float((squares[repeated] / (k[repeated] - 1)).mean())
    return trial_variance * float((1.0 / k).mean())


def _mean(values: list[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def _check(trials: int, passed: int, k: int) -> None:
    if not 0 <= passed <= trials or k < 1:
        raise ValueError(f"{passed} passes of {trials} trials, k = {k}")
