"""The paired bootstrap of a mean difference: what B − A is, and how far chance could move it.

Resample cases, never trials. The interval alone is no verdict: four equal differences give it zero width, so the
exact test has to agree (stats/decision.py).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import special

from stats.results import LEVEL, Floats, Generator, Interval, Ints, NotEnoughData

Method: TypeAlias = Literal["expanded", "percentile", "bca"]

END_DECIMALS = 12
"""Ends are rounded to this, so that 1e-17 of floating error cannot decide whether 0 is inside."""

RANK_DECIMALS = 10
"""Differences that agree to this many decimals are the same difference."""

BCA_MIN_CASES = 30
"""Below this the bias correction of BCa does more harm than good."""

CHUNK_VALUES = 200_000
"""Numbers held at once while resampling (1.6 MB of them fits a cache); the chunk is what bounds memory."""

FAST_INDEX_CASES = 2**16
"""Up to this many cases an index is cut out of 32 random bits; the most it favours a case is one part in 65,536."""


@dataclass(frozen=True, slots=True)
class BootstrapDifference:
    """A mean difference with its bootstrap interval, both in the units of the differences.

    estimate   mean difference; None when n is 0
    interval   None when n is below 2
    method     the cut that was used; differs from the one asked for only when `reason` says so
    reason     why something is None or another method was used, else None
    """

    n: int
    estimate: float | None
    interval: Interval | None
    method: Method
    n_resamples: int
    reason: str | None


def bootstrap_difference(
    differences: npt.ArrayLike,
    *,
    rng: Generator,
    n_resamples: int = 10_000,
    level: float = LEVEL,
    method: Method = "expanded",
) -> BootstrapDifference:
    """Return the mean of the differences and a bootstrap interval.

    differences   shape (cases,), any unit, complete: a NaN is an error, the caller leaves missing cases out
    method        "expanded" cuts further out, as t does against z (Hesterberg 2015); "percentile" is too narrow below
                  30 cases; "bca" (Efron 1987) is for scores with at least 30 cases
    returns       ends rounded to 12 decimals; equal differences give an interval without width

    The result depends on the multiset of differences and the state of `rng` alone: the order of cases plays no part,
    and swapping A and B gives the same interval with its signs turned.
    Raises NotEnoughData for "bca" below 30 cases and ValueError for "bca" on pass/fail differences (-1, 0, 1), where
    its bias correction misreads the lattice. With several pass/fail trials per case the caller must not ask for it
    either; the differences alone do not tell that apart from coarse scores. Efron and Tibshirani 1993.
    """
    data = _complete(differences)
    n = int(data.size)
    if n < 2:
        return BootstrapDifference(
            n=n,
            estimate=float(data[0]) if n else None,
            interval=None,
            method=method,
            n_resamples=n_resamples,
            reason="one paired case: no interval" if n else "no paired cases",
        )
    if method == "bca":
        _refuse_bca(data)
    means = resampled_means(data, rng=rng, n_resamples=n_resamples)
    estimate = _exact_sum(data) / n
    reason = None
    interval = _bca(data, means, level=level) if method == "bca" else None
    if method == "bca" and interval is None:
        method, reason = "percentile", "BCa is not defined on these differences: percentile used"
    if interval is None:
        tail = expanded_tail(n, level=level) if method == "expanded" else (1.0 - level) / 2.0
        interval = cut(means, lower=tail, upper=tail, level=level)
    return BootstrapDifference(n, estimate, interval, method, n_resamples, reason)


def bca_interval(
    differences: npt.ArrayLike, *, rng: Generator, n_resamples: int = 10_000, level: float = LEVEL
) -> Interval | None:
    """Return the BCa interval of a mean whatever the number and kind of differences, None where it is not defined.

    The bare method, for checking and for study; `bootstrap_difference` is the one that knows where it may be used.
    Acceleration from the jackknife, which for a mean is the skewness of the differences. Efron 1987.
    """
    data = _complete(differences)
    if data.size < 2:
        return None
    return _bca(data, resampled_means(data, rng=rng, n_resamples=n_resamples), level=level)


def expanded_tail(n: int, *, level: float = LEVEL) -> float:
    """Return the share to cut off at each side so that a percentile interval is as wide as t would make it.

    n   independent units that are resampled (cases, or groups of cases), at least 2

    Φ(√(n/(n−1)) · t), t the lower quantile of Student's t with n − 1 degrees of freedom. Hesterberg 2015.
    """
    if n < 2:
        raise NotEnoughData(f"an expanded interval needs at least two units, not {n}")
    return float(special.ndtr(math.sqrt(n / (n - 1)) * special.stdtrit(n - 1, (1.0 - level) / 2.0)))


def resampled_means(differences: npt.ArrayLike, *, rng: Generator, n_resamples: int = 10_000) -> Floats:
    """Return the means of `n_resamples` samples with replacement, shape (n_resamples,), in no particular order.

    With few distinct values (pass/fail, coarse scores) only their counts are drawn: a multinomial draw is the same
    distribution as gathering case by case, at a cost that does not grow with the number of cases.
    """
    data = np.sort(_complete(differences))
    if not data.size:
        raise NotEnoughData("no cases to resample")
    sign = mirror_sign(data)
    if sign < 0:
        data = -data[::-1]
    values, counts = distinct_values(data)
    if _few_distinct(values.size, data.size):
        means = _means_by_counts(values, counts, rng=rng, n_resamples=n_resamples)
    else:
        means = _means_by_gathering(data, rng=rng, n_resamples=n_resamples)
    return sign * means


def distinct_values(ordered: Floats) -> tuple[Floats, Ints]:
    """Return the distinct values of sorted data and how often each occurs; equal means equal to 10 decimals.

    One of the given values stands for each, unrounded: rounded thirds no longer add up to a whole.
    """
    keys = np.round(ordered, RANK_DECIMALS)
    first = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1])))
    return ordered[first], np.diff(np.append(first, ordered.size)).astype(np.int64)


def mirror_sign(ordered: Floats) -> int:
    """Return -1 when the mirror image of sorted data is to be resampled instead, so that both draw the same samples."""
    mirrored = -ordered[::-1]
    gap = np.flatnonzero(ordered != mirrored)
    return -1 if gap.size and ordered[gap[0]] > mirrored[gap[0]] else 1


def cut(resampled: Floats, *, lower: float, upper: float, level: float) -> Interval:
    """Return the interval that leaves out the share `lower` of resampled values below it and `upper` above it.

    Both ends are observed values (inverse of the distribution function), counted from their own side, so that turning
    every sign turns the interval and nothing else. Ends are rounded to 12 decimals.
    """
    ordered = np.sort(resampled)
    low, high = ordered[_rank(lower, ordered.size) - 1], ordered[ordered.size - _rank(upper, ordered.size)]
    return Interval(_rounded(float(low)), _rounded(float(high)), level)


def _rank(share: float, size: int) -> int:
    # Rounded first: 0.025 of 10,000 may come out as 250.00000000000003, which is not the 251st.
    return min(max(math.ceil(round(share * size, 9)), 1), size)


def _complete(differences: npt.ArrayLike) -> Floats:
    data: Floats = np.asarray(differences, dtype=np.float64)
    if data.ndim != 1:
        raise ValueError(f"differences must have the shape (cases,), not {data.shape}")
    if not np.isfinite(data).all():
        raise ValueError("differences must be finite: leave missing cases out before, and count them")
    return data


def _exact_sum(data: Floats) -> float:
    """Return a sum whose last digit does not depend on the order of the cases."""
    # Whole numbers add up exactly anyway, and pass/fail differences are whole.
    return float(data.sum()) if (data == np.rint(data)).all() else math.fsum(data.tolist())


def _rounded(value: float) -> float:
    # Adding 0.0 turns -0.0 into 0.0, which would otherwise print as "-0.0pp".
    return round(value, END_DECIMALS) + 0.0


def _few_distinct(n_distinct: int, n: int) -> bool:
    # A binomial draw costs about as much as gathering a dozen cases; below nine values both are cheap.
    return n_distinct <= max(9, n // 16)


def _means_by_counts(values: Floats, counts: Ints, *, rng: Generator, n_resamples: int) -> Floats:
    n = int(counts.sum())
    # Counts of all values but the commonest (most cases do not flip): one draw less, and the first is the cheap kind.
    common = int(np.argmax(counts))
    others, other_counts = np.delete(values, common), np.delete(counts, common)
    if not others.size:
        return np.full(n_resamples, values[common])
    n_others = int(other_counts.sum())
    rows = max(1, CHUNK_VALUES // values.size)
    means = np.empty(n_resamples)
    for start in range(0, n_resamples, rows):
        stop = min(start + rows, n_resamples)
        # Sorted, because equal numbers in a row spare numpy its set-up; the order of resamples carries nothing.
        drawn = np.sort(rng.binomial(n, n_others / n, size=stop - start))
        sums = rng.multinomial(drawn, other_counts / n_others) @ others
        means[start:stop] = (sums + (n - drawn) * values[common]) / n
    return means


def _means_by_gathering(data: Floats, *, rng: Generator, n_resamples: int) -> Floats:
    rows = min(max(1, CHUNK_VALUES // data.size), n_resamples)
    means = np.empty(n_resamples)
    drawn = np.empty((rows, data.size))
    for start in range(0, n_resamples, rows):
        stop = min(start + rows, n_resamples)
        index = _indices(rows * data.size, data.size, rng=rng).reshape(rows, data.size)
        # The indices are in range by construction; "clip" lets numpy write into the buffer without a copy.
        np.take(data, index, out=drawn, mode="clip")
        means[start:stop] = drawn.mean(axis=1)[: stop - start]
    return means


def _indices(size: int, n: int, *, rng: Generator) -> Ints:
    """Return `size` positions among n cases, each as likely as any other."""
    if n > FAST_INDEX_CASES:
        return rng.integers(0, n, size=size)
    halves = rng.integers(0, 2**64, size=(size + 1) // 2, dtype=np.uint64).view(np.uint32)[:size]
    # The upper half of a 32-bit draw times n: what a bounded draw does too, without its test for rejection.
    wide = np.multiply(halves, np.uint64(n), dtype=np.uint64)
    return np.right_shift(wide, np.uint64(32), out=wide).view(np.int64)


def _refuse_bca(data: Floats) -> None:
    if np.isin(data, (-1.0, 0.0, 1.0)).all():
        raise ValueError("BCa is not for pass/fail differences: use expanded or percentile")
    if data.size < BCA_MIN_CASES:
        raise NotEnoughData(f"BCa needs at least {BCA_MIN_CASES} cases, not {data.size}")


def _bca(data: Floats, means: Floats, *, level: float) -> Interval | None:
    if np.ptp(np.round(data, RANK_DECIMALS)) == 0.0:
        return None
    centred = data - data.mean()
    # Means that equal the estimate up to rounding count half: on a lattice they are many.
    gaps = np.round(means - data.mean(), END_DECIMALS)
    below = (np.count_nonzero(gaps < 0) + np.count_nonzero(gaps <= 0)) / (2 * means.size)
    if not 0.0 < below < 1.0:
        return None
    bias = special.ndtri(below)
    acceleration = float((centred**3).sum()) / (6.0 * float((centred**2).sum()) ** 1.5)
    z_low, z_high = bias - special.ndtri((1.0 + level) / 2.0), bias + special.ndtri((1.0 + level) / 2.0)
    lower = float(special.ndtr(bias + z_low / (1.0 - acceleration * z_low)))
    upper = float(special.ndtr(-(bias + z_high / (1.0 - acceleration * z_high))))
    return cut(means, lower=lower, upper=upper, level=level)
