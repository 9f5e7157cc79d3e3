"""What a stopped A/B measured: p, interval and estimate that allow for the looks taken on the way.

A run stops early because its figures look good, so the plain mean and its interval are too bright; print them only
beside these. The repeated interval is wider and holds whatever made the run stop.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from stats.results import LEVEL, Floats, Interval
from stats.sequential import Boundary

SPAN = 12.0
"""How far beyond |z|, in z units, an end or the estimate is searched; a tail further out is below 1e-30."""


@dataclass(frozen=True, slots=True)
class Stagewise:
    """Inference after the last look of a boundary, all on the z scale of that look; mirrored when z is mirrored.

    look               number of the look, from 1
    p                  two-sided
    median_unbiased    the effect that would be exceeded half the time
    interval           stage-wise, at the level asked for
    repeated           z ∓ bound, level 1 − alpha: holds even if the run went on or stopped against the rule
    stopped_by_bound   |z| reached the bound
    """

    look: int
    z: float
    p: float
    median_unbiased: float
    interval: Interval
    repeated: Interval
    stopped_by_bound: bool


@dataclass(frozen=True, slots=True)
class StoppedDifference:
    """B − A of a stopped run in the units of the differences.

    raw        mean of the differences so far
    adjusted   median unbiased estimate
    interval, repeated   as in Stagewise, times the standard error
    reason     why adjusted and intervals are None, else None
    """

    raw: float
    adjusted: float | None
    interval: Interval | None
    repeated: Interval | None
    p: float
    reason: str | None


def stagewise(boundary: Boundary, *, z: float, level: float = LEVEL) -> Stagewise:
    """Return the inference for a run whose last look is the last of the boundary.

    z   statistic of that look; at the earlier looks |z| stayed below the bounds

    Outcomes are ordered by when and where a run leaves the bounds (up early is the most extreme, then up late, then
    down late, then down early), so p and interval need no look that was not taken. Tsiatis, Rosner and Mehta 1984; the
    repeated interval is in Jennison and Turnbull 2000, chapter 9.
    Raises ValueError for a boundary without a look.
    """
    if not boundary.bounds:
        raise ValueError("no look has been taken")
    # Worked out for the positive side and turned: the small tail stays exact, and B against A mirrors A against B.
    above = _Above(boundary, z=abs(z))
    root, bound = math.sqrt(boundary.fractions[-1]), boundary.bounds[-1]
    tail = (1.0 - level) / 2.0
    low, middle, high = (above.effect(target) * root for target in (tail, 0.5, 1.0 - tail))
    return Stagewise(
        look=len(boundary.bounds),
        z=z,
        p=min(1.0, 2.0 * above.chance(0.0)),
        median_unbiased=math.copysign(middle, z) if z else 0.0,
        interval=Interval(low, high, level) if z >= 0.0 else Interval(-high, -low, level),
        repeated=Interval(z - bound, z + bound, 1.0 - boundary.alpha),
        stopped_by_bound=abs(z) >= bound,
    )


def in_units(result: Stagewise, *, estimate: float, standard_error: float) -> StoppedDifference:
    """Return the same inference in the units of the differences.

    estimate         mean of the differences of the cases the look covers
    standard_error   s/√n of those differences, at least 0; 0 leaves nothing to scale by
    """
    if not standard_error >= 0.0:
        raise ValueError(f"a standard error is at least 0: {standard_error}")
    if standard_error == 0.0:
        return StoppedDifference(estimate, None, None, None, result.p, "the differences have no spread")
    return StoppedDifference(
        raw=estimate,
        adjusted=result.median_unbiased * standard_error,
        interval=_scaled(result.interval, standard_error),
        repeated=_scaled(result.repeated, standard_error),
        p=result.p,
        reason=None,
    )


def _scaled(interval: Interval, factor: float) -> Interval:
    return Interval(interval.low * factor, interval.high * factor, interval.level)


class _Above:
    """The chance of an outcome at least as far up as the one seen, as a function of the true effect.

    An effect θ changes the density of a look by the factor exp(θx − θ²t/2) at score x = z√t, so the densities kept for
    the bounds serve every θ and nothing has to be integrated again.
    """

    def __init__(self, boundary: Boundary, *, z: float) -> None:
        times = boundary.fractions
        limits = [bound * math.sqrt(time) for bound, time in zip(boundary.bounds, times, strict=True)]
        # At the last look the outcome seen takes the place of the bound.
        limits[-1] = z * math.sqrt(times[-1])
        self._first_limit, self._first_time = limits[0], times[0]
        self._largest = (abs(z) + SPAN) / math.sqrt(times[-1])
        before = boundary.densities[:-1]
        sizes = [density.z.size for density in before]
        self._score: Floats = _joined([density.z * math.sqrt(density.fraction) for density in before])
        self._log_mass: Floats = _joined([density.log_mass for density in before])
        self._time: Floats = np.repeat(times[:-1], sizes)
        self._gap: Floats = np.repeat(np.diff(times), sizes)
        self._missing: Floats = np.repeat(limits[1:], sizes) - self._score

    def chance(self, effect: float) -> float:
        first = (effect * self._first_time - self._first_limit) / math.sqrt(self._first_time)
        mass = np.exp(self._log_mass + effect * (self._score - 0.5 * effect * self._time))
        return float(
            special.ndtr(first) + mass @ special.ndtr((effect * self._gap - self._missing) / np.sqrt(self._gap))
        )

    def effect(self, target: float) -> float:
        """Return the effect at which the chance is `target`; it rises with the effect."""
        low, high = -self._largest, self._largest
        for _ in range(42):
            middle = 0.5 * (low + high)
            low, high = (low, middle) if self.chance(middle) > target else (middle, high)
        return 0.5 * (low + high)


def _joined(parts: list[Floats]) -> Floats:
    return np.concatenate(parts) if parts else np.empty(0)
