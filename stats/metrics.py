"""Two commands that print numbers, run in interleaved pairs: is a metric better, worse or unchanged?

Interval and sign test ask only which way each pair went, so one run spoiled by a slow disk decides nothing. A change
counts only after the correction for the number of metrics.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import special

from stats.holm import holm
from stats.mcnemar import mcnemar_exact
from stats.results import LEVEL, Floats, Interval

MetricVerdict: TypeAlias = Literal["better", "worse", "no-change", "too-few"]

PAIRS = 11
"""Pairs of runs unless an option says otherwise."""

MIN_PAIRS = 6
"""Below this no interval of the median reaches 95%, and the sign test cannot reach 5%."""

ALPHA = 0.05
"""Two-sided level of the sign tests of a family."""


@dataclass(frozen=True, slots=True)
class MetricComparison:
    """One metric of cand against base, in the metric's unit.

    pairs         pairs with a number on both sides; `dropped` pairs lack one
    median_base, median_cand, difference   medians, and the median of cand − base; None without a pair
    interval      two of the ordered differences; None below 6 pairs. `interval.level` is the level asked for and
                  `coverage` the one it has: on this ladder of differences only some levels exist
    positive, negative, zeros   pairs by the sign of cand − base
    sign_p        exact sign test without the zeros; None without a pair. `sign_p_holm` is corrected for the family
    verdict       "too-few" below 6 pairs
    """

    pairs: int
    dropped: int
    median_base: float | None
    median_cand: float | None
    difference: float | None
    interval: Interval | None
    coverage: float | None
    positive: int
    negative: int
    zeros: int
    sign_p: float | None
    sign_p_holm: float | None
    higher_is_better: bool
    verdict: MetricVerdict


@dataclass(frozen=True, slots=True)
class HodgesLehmann:
    """Median of all means of two differences, with the interval that the exact signed-rank test gives."""

    estimate: float
    interval: Interval


def compare_metrics(
    metrics: Mapping[str, tuple[npt.ArrayLike, npt.ArrayLike]],
    *,
    higher_is_better: frozenset[str] | set[str] = frozenset(),
    level: float = LEVEL,
    alpha: float = ALPHA,
) -> dict[str, MetricComparison]:
    """Return one comparison per metric, the sign tests corrected by Holm over all of them.

    metrics            name to (base, cand), each of the shape (pairs,), rows aligned by pair; NaN where a run did not
                       report the metric, which drops the pair for this metric only
    higher_is_better   names of metrics where more is better; less is for all others
    alpha              a verdict needs a corrected p below it, and an interval that excludes 0

    Equal numbers give a difference of exactly 0 in any unit, so ends are compared with 0 unrounded.
    Raises ValueError for an unknown name, rows that do not align or numbers that are not finite.
    """
    unknown = higher_is_better - metrics.keys()
    if unknown:
        raise ValueError(f"no such metric: {sorted(unknown)}")
    alone = {
        name: _compare(base, cand, name=name, higher_is_better=name in higher_is_better, level=level)
        for name, (base, cand) in metrics.items()
    }
    corrected = holm([metric.sign_p for metric in alone.values()])
    return {
        name: replace(metric, sign_p_holm=p, verdict=_verdict(metric, p, alpha=alpha))
        for (name, metric), p in zip(alone.items(), corrected, strict=True)
    }


def compare_metric(
    base: npt.ArrayLike,
    cand: npt.ArrayLike,
    *,
    higher_is_better: bool = False,
    level: float = LEVEL,
    alpha: float = ALPHA,
) -> MetricComparison:
    """Return the comparison of a metric that is the only one of its family."""
    names = {"value"} if higher_is_better else set[str]()
    return compare_metrics({"value": (base, cand)}, higher_is_better=names, level=level, alpha=alpha)["value"]


def median_interval_rank(n: int, *, level: float = LEVEL) -> int | None:
    """Return the largest k for which the k-th smallest to the k-th largest of n values covers the median often enough.

    None when even the smallest and the largest do not. The coverage is 1 − 2 P(Bin(n, ½) < k), whatever the shape.
    """
    ranks = np.arange(1, n // 2 + 1)
    covered = 1.0 - 2.0 * special.bdtr(ranks - 1, max(n, 1), 0.5)
    enough = ranks[covered >= level]
    return int(enough[-1]) if enough.size else None


def pairs_to_speak(n_metrics: int, *, alpha: float = ALPHA) -> int:
    """Return the least number of pairs at which one of this many metrics can reach a verdict at all.

    With fewer, all pairs going one way is not yet below the corrected level: 11 pairs fall silent above 51 metrics.
    """
    pairs = MIN_PAIRS
    while 2.0 * 0.5**pairs * max(n_metrics, 1) >= alpha:
        pairs += 1
    return pairs


def hodges_lehmann(differences: npt.ArrayLike, *, level: float = LEVEL) -> HodgesLehmann | None:
    """Return the Hodges-Lehmann estimate of a shift, an alternative to the median that no verdict here uses.

    differences   shape (pairs,), at least 6. Its interval supposes symmetric differences; benchmark timings are skewed,
                  and 20 such metrics would raise a false alarm in more than half of all A/A runs.
    returns       None when 0 or a tie makes the exact distribution wrong

    Hodges and Lehmann 1963; interval from the exact distribution of Wilcoxon's signed rank sum.
    """
    data: Floats = np.asarray(differences, dtype=np.float64)
    n = data.size
    sizes = np.unique(np.abs(data))
    if n < MIN_PAIRS or sizes.size < n or sizes[0] == 0.0:
        return None
    rows, columns = np.triu_indices(n)
    walsh = np.sort((data[rows] + data[columns]) / 2.0)
    ways = np.ones(1)
    for rank in range(1, n + 1):
        ways = np.convolve(ways, np.append(1.0, np.append(np.zeros(rank - 1), 1.0)))
    cut = max(1, int(np.searchsorted(np.cumsum(ways) / 2.0**n, (1.0 - level) / 2.0)))
    ends = Interval(float(walsh[cut - 1]), float(walsh[walsh.size - cut]), level)
    return HodgesLehmann(float(np.median(walsh)), ends)


def _compare(
    base: npt.ArrayLike, cand: npt.ArrayLike, *, name: str, higher_is_better: bool, level: float
) -> MetricComparison:
    a, b = _numbers(base, name), _numbers(cand, name)
    if a.shape != b.shape:
        raise ValueError(f"{name}: {a.size} runs of base and {b.size} of cand: rows must be pairs")
    both = ~np.isnan(a) & ~np.isnan(b)
    a, b = a[both], b[both]
    ordered = np.sort(b - a)
    n = int(ordered.size)
    positive, negative = int(np.count_nonzero(ordered > 0.0)), int(np.count_nonzero(ordered < 0.0))
    rank = median_interval_rank(n, level=level) if n >= MIN_PAIRS else None
    return MetricComparison(
        pairs=n,
        dropped=int(np.count_nonzero(~both)),
        median_base=_median(a),
        median_cand=_median(b),
        difference=_median(ordered),
        interval=None if rank is None else Interval(float(ordered[rank - 1]), float(ordered[n - rank]), level),
        coverage=None if rank is None else 1.0 - 2.0 * float(special.bdtr(rank - 1, n, 0.5)),
        positive=positive,
        negative=negative,
        zeros=n - positive - negative,
        sign_p=mcnemar_exact(improved=positive, regressed=negative).p if n else None,
        sign_p_holm=None,
        higher_is_better=higher_is_better,
        verdict="too-few",
    )


def _verdict(metric: MetricComparison, p: float | None, *, alpha: float) -> MetricVerdict:
    if metric.interval is None or p is None:
        return "too-few"
    sign = (metric.interval.low > 0.0) - (metric.interval.high < 0.0)
    if sign == 0 or not p < alpha:
        return "no-change"
    return "better" if (sign > 0) == metric.higher_is_better else "worse"


def _median(values: Floats) -> float | None:
    return float(np.median(values)) if values.size else None


def _numbers(values: npt.ArrayLike, name: str) -> Floats:
    data: Floats = np.asarray(values, dtype=np.float64)
    if data.ndim != 1 or np.isinf(data).any():
        raise ValueError(f"{name}: one finite number a run, NaN where a run did not report it")
    return data
