"""The mean difference when cases come in groups (a repository, a document, an author).

Groups are resampled, not cases, and cases keep their weight. A test on single cases is not valid here; the p-value
comes from the CR2 standard error, which stays honest with a handful of groups.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

from stats.bootstrap import CHUNK_VALUES, END_DECIMALS, cut, expanded_tail
from stats.results import LEVEL, Floats, Generator, Interval, Ints

FEW_GROUPS = 10
"""Below this many groups the bootstrap over groups is too narrow: a warning, and the CR2 interval instead."""


@dataclass(frozen=True, slots=True)
class CR2:
    """A mean tested with the bias-reduced clustered standard error and Satterthwaite's degrees of freedom.

    se, df     standard error in the units of the differences; degrees of freedom, rarely whole
    interval   mean ± t · se
    p          two-sided, of a mean of 0
    """

    se: float
    df: float
    interval: Interval
    p: float


@dataclass(frozen=True, slots=True)
class ClusterDifference:
    """A mean difference over cases in groups, in the units of the differences.

    n, n_groups    cases and groups
    estimate       mean over all cases; None without a case
    interval       the one to go by: CR2 below 10 groups, else the expanded bootstrap; None below two groups
    bootstrap      expanded bootstrap interval over groups; None below two groups
    cr2            None below two groups, and where no group deviates from the mean
    se_clustered   uncorrected clustered standard error (CR0), too small with few groups; for comparison with others
    few_groups     whether there are fewer than 10 groups, which deserves a warning
    reason         why something is None
    """

    n: int
    n_groups: int
    estimate: float | None
    interval: Interval | None
    bootstrap: Interval | None
    cr2: CR2 | None
    se_clustered: float | None
    few_groups: bool
    n_resamples: int
    reason: str | None


def cluster_difference(
    differences: npt.ArrayLike,
    groups: Sequence[Hashable],
    *,
    rng: Generator,
    n_resamples: int = 10_000,
    level: float = LEVEL,
) -> ClusterDifference:
    """Return the mean difference with intervals and a test that know about groups.

    differences   shape (cases,), complete
    groups        the group of each case. Labels are compared as text, so 1 and "1" are one group and "all" is a
                  group like any other; a case without a group (None) must get a name of its own first

    Depends on the cases as a set: their order plays no part. Raises ValueError when the lengths differ, a label is
    None, or a difference is not finite.
    """
    data: Floats = np.asarray(differences, dtype=np.float64)
    if data.ndim != 1 or data.size != len(groups):
        raise ValueError(f"{data.size} differences for {len(groups)} group labels")
    if not np.isfinite(data).all():
        raise ValueError("differences must be finite: leave missing cases out before, and count them")
    sums, sizes = _group_sums(data, groups)
    n, n_groups = int(data.size), int(sizes.size)
    estimate = math.fsum(data.tolist()) / n if n else None
    if estimate is None or n_groups < 2:
        reason = "one group, no interval" if n else "no paired cases"
        return ClusterDifference(n, n_groups, estimate, None, None, None, None, True, n_resamples, reason)
    means = resampled_group_means(sums, sizes, rng=rng, n_resamples=n_resamples)
    tail = expanded_tail(n_groups, level=level)
    bootstrap = cut(means, lower=tail, upper=tail, level=level)
    cr2 = cr2_mean(sums, sizes, level=level)
    few = n_groups < FEW_GROUPS
    return ClusterDifference(
        n=n,
        n_groups=n_groups,
        estimate=estimate,
        interval=cr2.interval if few and cr2 is not None else bootstrap,
        bootstrap=bootstrap,
        cr2=cr2,
        se_clustered=math.sqrt(float((_deviations(sums, sizes) ** 2).sum())) / n,
        few_groups=few,
        n_resamples=n_resamples,
        reason=None if cr2 is not None else "no spread between groups: no CR2 test",
    )


def cr2_mean(sums: Floats, sizes: Ints, *, level: float = LEVEL) -> CR2 | None:
    """Return the CR2 test of a plain mean from the sum and size of each group; None below two groups or without spread.

    With groups of one case it is the ordinary t-test. Bell and McCaffrey 2002; degrees of freedom as in Pustejovsky
    and Tipton 2018, whose matrix is diagonal plus rank one here, so its traces need no matrix.
    """
    if sizes.size < 2:
        return None
    n = int(sizes.sum())
    deviations = _deviations(sums, sizes)
    # 1e-17 of rounding error must not pass for spread, or t becomes astronomic.
    if not np.round(deviations / sizes, END_DECIMALS).any():
        return None
    kept = 1.0 - sizes / n
    se = math.sqrt(float((deviations**2 / kept).sum())) / n
    diagonal = sizes / (n * n * kept)
    outer = diagonal * sizes
    trace = float(diagonal.sum() - outer.sum() / n)
    trace_squared = float((diagonal**2).sum() - 2.0 * (diagonal * outer).sum() / n + (outer.sum() / n) ** 2)
    df = trace * trace / trace_squared
    mean = float(sums.sum()) / n
    half = float(special.stdtrit(df, (1.0 + level) / 2.0)) * se
    interval = Interval(round(mean - half, END_DECIMALS) + 0.0, round(mean + half, END_DECIMALS) + 0.0, level)
    return CR2(se=se, df=df, interval=interval, p=float(2.0 * special.stdtr(df, -abs(mean) / se)))


def resampled_group_means(sums: Floats, sizes: Ints, *, rng: Generator, n_resamples: int = 10_000) -> Floats:
    """Return means over cases of resampled groups, shape (n_resamples,): sum of drawn sums over sum of sizes."""
    n_groups = int(sizes.size)
    rows = max(1, CHUNK_VALUES // n_groups)
    means = np.empty(n_resamples)
    for start in range(0, n_resamples, rows):
        stop = min(start + rows, n_resamples)
        drawn = rng.integers(0, n_groups, size=(stop - start, n_groups))
        means[start:stop] = sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1)
    return means


def _group_sums(data: Floats, groups: Sequence[Hashable]) -> tuple[Floats, Ints]:
    """Return the sum and the size of each group, in the order of the labels as text."""
    if any(label is None for label in groups):
        raise ValueError("a case without a group: give it a name of its own, or leave it out and count it")
    if not data.size:
        return np.empty(0), np.empty(0, dtype=np.int64)
    _, index = np.unique(np.asarray([str(label) for label in groups]), return_inverse=True)
    # Sorted by group, then value: the sum of a group then has one possible last digit.
    order = np.lexsort((data, index))
    starts = np.flatnonzero(np.diff(index[order], prepend=-1))
    sizes = np.diff(np.append(starts, data.size)).astype(np.int64)
    return np.add.reduceat(data[order], starts), sizes


def _deviations(sums: Floats, sizes: Ints) -> Floats:
    """Return how far each group's sum is from what the overall mean would give it."""
    deviations: Floats = sums - sizes * (float(sums.sum()) / int(sizes.sum()))
    return deviations
