"""Human labels on some cases, a judge on all: the corrected B − A (PPI++).

The labelled cases must be a random part of all cases. Labels on the cases somebody found interesting correct nothing,
and no figure here can tell.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import special

from stats.results import LEVEL, Floats, Interval

Quantile: TypeAlias = Literal["t", "z"]

FEW_LABELS = 20
"""With fewer labels the interval comes with a warning."""

DECIMALS = 12
"""Differences are rounded to this before asking whether they have any spread."""


@dataclass(frozen=True, slots=True)
class PpiDifference:
    """The human B − A as corrected by a judge, in the units of the differences.

    n_labelled, n_other  cases with both a label and a judge's figure, and cases with the judge's alone
    weight       how much of the judge's figure is used, 0 to 1 (λ); 0 is the plain mean of the labels
    estimate, interval   None with fewer than two labels; interval None without any spread, too
    judge_only   mean of the judge's differences over all cases: what the judge alone would say; None without a case
    human_only   mean of the labels; None without one
    few_labels   fewer than 20 labels: say so beside the interval
    reason       why something is None, else None
    """

    n_labelled: int
    n_other: int
    weight: float
    estimate: float | None
    interval: Interval | None
    judge_only: float | None
    human_only: float | None
    few_labels: bool
    reason: str | None


def ppi_difference(
    human: npt.ArrayLike,
    judge_labelled: npt.ArrayLike,
    judge_other: npt.ArrayLike,
    *,
    level: float = LEVEL,
    quantile: Quantile = "t",
) -> PpiDifference:
    """Return B − A by human judgement, sharpened with a judge's figures on all cases.

    human, judge_labelled   shape (n,): B − A of each case labelled on both sides, by the labels and by the judge
    judge_other             shape (N,): B − A by the judge of all the other cases
    quantile                "t" with n − 1 degrees of freedom and n − 1 in the variances, to be shown; "z" with n in
                            the variances is what the ppi-python package prints, too narrow at 20 labels

    A judge without spread, or with fewer than two other cases, has weight 0. Angelopoulos, Duchi and Zrnic 2023.
    """
    y, f, other = (_complete(values) for values in (human, judge_labelled, judge_other))
    if y.size != f.size:
        raise ValueError(f"{y.size} labels with {f.size} figures of the judge: they must be the same cases")
    n, n_other = int(y.size), int(other.size)
    everything = np.concatenate([f, other])
    judge_only = float(everything.mean()) if everything.size else None
    human_only = float(y.mean()) if n else None
    if n < 2:
        reason = "fewer than two labelled cases"
        return PpiDifference(n, n_other, 0.0, None, None, judge_only, human_only, True, reason)
    weight = _weight(y, f, everything, n_other=n_other)
    ddof = 1 if quantile == "t" else 0
    estimate = float(y.mean())
    variance = _variance(y - weight * f, ddof=ddof) / n
    if weight > 0.0:
        estimate += weight * float(other.mean() - f.mean())
        variance += weight**2 * _variance(other, ddof=ddof) / n_other
    if variance == 0.0:
        reason = "no spread among the labels"
        return PpiDifference(n, n_other, weight, estimate, None, judge_only, human_only, n < FEW_LABELS, reason)
    upper = (1.0 + level) / 2.0
    half = float(special.stdtrit(n - 1, upper) if quantile == "t" else special.ndtri(upper)) * math.sqrt(variance)
    interval = Interval(estimate - half, estimate + half, level)
    return PpiDifference(n, n_other, weight, estimate, interval, judge_only, human_only, n < FEW_LABELS, None)


def _weight(y: Floats, f: Floats, everything: Floats, *, n_other: int) -> float:
    """Return the weight of the judge that makes the interval shortest, kept between 0 and 1."""
    n = y.size
    spread = _variance(everything, ddof=1)
    if n_other < 2 or spread == 0.0:
        return 0.0
    covariance = float(((y - y.mean()) * (f - f.mean())).mean())
    return min(max(covariance / ((1.0 + n / n_other) * spread), 0.0), 1.0)


def _variance(data: Floats, *, ddof: int) -> float:
    return float(data.var(ddof=ddof)) if np.ptp(np.round(data, DECIMALS)) > 0.0 else 0.0


def _complete(values: npt.ArrayLike) -> Floats:
    data: Floats = np.asarray(values, dtype=np.float64)
    if data.ndim != 1 or not np.isfinite(data).all():
        raise ValueError("differences must be finite and of the shape (cases,): leave missing cases out before")
    return data
