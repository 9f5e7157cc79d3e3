"""The mean score of one run with a bootstrap interval over items.

Items are resampled, so several trials of an item must be averaged before.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stats.bootstrap import cut, resampled_means
from stats.results import LEVEL, Floats, Generator, Interval

N_RESAMPLES = 2_000
"""Resamples of the interval of one run's mean."""


@dataclass(frozen=True, slots=True)
class MeanInterval:
    """A mean with its percentile bootstrap interval; both None without an item, `reason` then says so."""

    n: int
    mean: float | None
    interval: Interval | None
    n_resamples: int
    reason: str | None


def mean_interval(
    scores: npt.ArrayLike, *, rng: Generator, n_resamples: int = N_RESAMPLES, level: float = LEVEL
) -> MeanInterval:
    """Return the mean of the scores and its percentile bootstrap interval.

    scores   shape (items,), complete; a NaN is an error
    returns  with one item, or when all are equal, the interval is the mean itself

    The same seed gives the same digits; the order of items plays no part. Efron and Tibshirani 1993.
    """
    data: Floats = np.asarray(scores, dtype=np.float64)
    if data.ndim != 1 or not np.isfinite(data).all():
        raise ValueError("scores must be a list of finite numbers: leave missing ones out before, and count them")
    n = int(data.size)
    if n == 0:
        return MeanInterval(0, None, None, n_resamples, "no scores")
    mean = math.fsum(data.tolist()) / n
    if n == 1 or float(np.ptp(data)) == 0.0:
        return MeanInterval(n, mean, Interval(mean, mean, level), n_resamples, None)
    tail = (1.0 - level) / 2.0
    means = resampled_means(data, rng=rng, n_resamples=n_resamples)
    return MeanInterval(n, mean, cut(means, lower=tail, upper=tail, level=level), n_resamples, None)
