"""Tests and effect sizes of paired scores: t, Wilcoxon with ties, the exact sign test, Cohen's d.

Differences are rounded to 10 decimals before anything looks at their signs, ranks or spread: 0.8 − 0.7 and 0.7 − 0.6
differ in the last bit, and a t-test on that bit reports p = 5e-47.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

from stats.bootstrap import RANK_DECIMALS
from stats.mcnemar import ExactTest, mcnemar_exact
from stats.results import Floats

EXACT_UP_TO = 50
"""Non-zero differences up to which the permutation distribution of Wilcoxon's statistic is counted out."""


@dataclass(frozen=True, slots=True)
class Wilcoxon:
    """The signed-rank test on the non-zero differences.

    statistic        the smaller of the rank sums of the positive and of the negative differences
    p                two-sided; 1 when every difference is 0
    n_nonzero, zeros how many differences were ranked, and how many were dropped for being 0
    exact            whether p was counted out given the ties, or comes from the normal approximation
    """

    statistic: float
    p: float
    n_nonzero: int
    zeros: int
    exact: bool


@dataclass(frozen=True, slots=True)
class PairedTests:
    """What two lists of paired scores say about their difference, b − a.

    mean_difference  None without a pair
    t, p_t           paired t-test; None below two pairs, and when the differences have no spread
    d_z              mean over standard deviation of the differences, the size that power goes by
    d_av             mean difference over the root mean variance of the two lists, the size to report (Cohen's d)
    wilcoxon         None below two pairs
    sign             exact sign test; p is 1 without a non-zero difference
    reason           why t, p_t and d_z are None
    """

    n: int
    mean_difference: float | None
    zeros: int
    t: float | None
    p_t: float | None
    d_z: float | None
    d_av: float | None
    wilcoxon: Wilcoxon | None
    sign: ExactTest
    reason: str | None


def paired_tests(a: npt.ArrayLike, b: npt.ArrayLike) -> PairedTests:
    """Return the paired t-test, Wilcoxon's test, the sign test and both effect sizes of two score lists.

    a, b   shape (cases,), the same cases in the same order, complete: pairs with a missing side are dropped before

    Cohen's d as d_av: Cumming 2012, Lakens 2013.
    """
    first, second = _scores(a), _scores(b)
    if first.size != second.size:
        raise ValueError(f"{first.size} scores against {second.size}: the lists must be paired")
    differences: Floats = second - first
    n = int(differences.size)
    rounded = np.round(differences, RANK_DECIMALS)
    zeros = int(np.count_nonzero(rounded == 0.0))
    sign = sign_test(differences)
    if n < 2:
        reason = "too few: one pair" if n else "no pairs"
        return PairedTests(n, float(differences[0]) if n else None, zeros, None, None, None, None, None, sign, reason)
    mean = math.fsum(differences.tolist()) / n
    pooled = math.sqrt((float(first.var(ddof=1)) + float(second.var(ddof=1))) / 2.0)
    d_av = mean / pooled if round(pooled, RANK_DECIMALS) > 0.0 else None
    if float(np.ptp(rounded)) == 0.0:
        reason = "identical" if zeros == n else "differences have no spread, t-test not meaningful"
        return PairedTests(n, mean, zeros, None, None, None, d_av, wilcoxon(differences), sign, reason)
    sd = float(differences.std(ddof=1))
    t = mean / (sd / math.sqrt(n))
    p_t = float(2.0 * special.stdtr(n - 1, -abs(t)))
    return PairedTests(n, mean, zeros, t, p_t, mean / sd, d_av, wilcoxon(differences), sign, None)


def sign_test(differences: npt.ArrayLike) -> ExactTest:
    """Return the exact sign test of paired differences; zeros, to 10 decimals, play no part."""
    rounded = np.round(_scores(differences), RANK_DECIMALS)
    return mcnemar_exact(improved=int(np.count_nonzero(rounded > 0)), regressed=int(np.count_nonzero(rounded < 0)))


def wilcoxon(differences: npt.ArrayLike) -> Wilcoxon:
    """Return Wilcoxon's signed-rank test, exact given the ties up to 50 non-zero differences.

    differences   shape (cases,), complete; zeros are dropped (not ranked as Pratt does), equal sizes share a mid-rank

    Above 50 the normal approximation with the variance of the mid-ranks, without continuity correction.
    Wilcoxon 1945; the exact distribution by counting subset sums of doubled ranks, Streitberg and Röhmel 1986.
    """
    rounded = np.round(_scores(differences), RANK_DECIMALS)
    ranked = rounded[rounded != 0.0]
    n, zeros = int(ranked.size), int(rounded.size - ranked.size)
    if n == 0:
        return Wilcoxon(statistic=0.0, p=1.0, n_nonzero=0, zeros=zeros, exact=True)
    _, size, ties = np.unique(np.abs(ranked), return_inverse=True, return_counts=True)
    # Doubled mid-ranks are whole numbers, so ties cost nothing in exactness.
    doubled = (2 * np.cumsum(ties) - ties + 1)[size]
    positive, total = int(doubled[ranked > 0].sum()), int(doubled.sum())
    smaller = min(positive, total - positive)
    if n <= EXACT_UP_TO:
        p = _exact_p(doubled.tolist(), smaller)
    else:
        z = (smaller - total / 2.0) / math.sqrt(float((doubled.astype(np.float64) ** 2).sum()) / 4.0)
        p = float(2.0 * special.ndtr(z))
    return Wilcoxon(statistic=smaller / 2.0, p=min(1.0, p), n_nonzero=n, zeros=zeros, exact=n <= EXACT_UP_TO)


def _exact_p(doubled: list[int], smaller: int) -> float:
    """Return twice the share of sign patterns whose doubled rank sum is at most `smaller`."""
    ways = np.zeros(sum(doubled) + 1, dtype=np.int64)
    ways[0] = 1
    for rank in doubled:
        ways[rank:] += ways[: ways.size - rank].copy()
    return math.ldexp(int(ways[: smaller + 1].sum()), 1 - len(doubled))


def _scores(values: npt.ArrayLike) -> Floats:
    scores: Floats = np.asarray(values, dtype=np.float64)
    if scores.ndim != 1 or not np.isfinite(scores).all():
        raise ValueError(
            "scores must be a list of finite numbers: drop pairs with a missing side before, and count them"
        )
    return scores
