"""Looking at an A/B while it runs: O'Brien-Fleming bounds by Lan-DeMets spending, and the z that a look compares.

When to look must be fixed before the results are known (the first at 20 paired cases, then every 10): a look that is
taken because the figures look good is not paid for by these bounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

from stats.mcnemar import mcnemar_exact
from stats.results import Floats

ALPHA = 0.05
"""Two-sided chance of a stop, over all looks, when nothing differs."""

FIRST_LOOK = 20
"""Paired cases before the first look; below it the z of pass/fail cases is too far from normal."""

LOOK_EVERY = 10
"""Paired cases between looks."""

Z_LIMIT = 37.0
"""Largest |z| a look reports: the p of a larger one is not a float."""

UNREACHABLE = 40.0
"""Bound of a look that may spend less than the smallest float: no z gets there."""

MIN_POINTS = 401
"""Points of the density at a look; with Simpson's rule the bounds are then right to about 1e-8."""

MAX_STEP = 0.05
"""Largest distance of two points, in z: wide early bounds get more points."""

DECIMALS = 12
"""Differences are rounded to this before asking whether they have any spread."""


@dataclass(frozen=True, slots=True, eq=False)
class Density:
    """How z is distributed at a look among the runs that go on after it, when nothing differs.

    z         points between minus and plus the bound
    log_mass  log of density times Simpson weight at each point; the masses add up to the chance of going on
    fraction  information fraction of the look
    """

    z: Floats
    log_mass: Floats
    fraction: float


@dataclass(frozen=True, slots=True)
class Boundary:
    """The looks taken so far; a stored run rebuilds the same bounds from the same fractions.

    fractions   information fraction of each look, ascending, the last at most 1
    bounds      stop at look k when |z| is at least bounds[k]
    densities   one per look: what makes a further look cost one step, and an estimate after stopping cost no more
    """

    alpha: float
    fractions: tuple[float, ...]
    bounds: tuple[float, ...]
    densities: tuple[Density, ...]


@dataclass(frozen=True, slots=True)
class Look:
    """One look at a running comparison.

    boundary   the boundary with this look added: give it to the next look
    n_cases    paired cases the look covers
    fraction   information fraction: n_cases / n_max, or 1 at the last look
    z, bound   the statistic and what |z| had to reach
    stop       whether the answer is clear
    """

    boundary: Boundary
    n_cases: int
    fraction: float
    z: float
    bound: float
    stop: bool


def planned_looks(n_max: int, *, first: int = FIRST_LOOK, every: int = LOOK_EVERY) -> tuple[int, ...]:
    """Return after how many paired cases to look: first, first + every, …, and n_max as the last.

    n_max   the most paired cases the run can reach, at least 1; up to `first` there is one look, at the end
    """
    if n_max < 1 or first < 1 or every < 1:
        raise ValueError(f"counts of cases must be at least 1: n_max={n_max}, first={first}, every={every}")
    return (*range(first, n_max, every), n_max)


def spent(fraction: float, *, alpha: float = ALPHA) -> float:
    """Return the chance of a false stop on one side that may be used up by this information fraction.

    fraction   in (0, 1]; at 1 it is alpha / 2

    2 − 2Φ(z_{1−α/4}/√t) on each side, the form of Lan and DeMets 1983 whose bounds resemble O'Brien and Fleming 1979.
    """
    if not 0.0 < fraction <= 1.0:
        raise ValueError(f"an information fraction lies in (0, 1]: {fraction}")
    return 2.0 * float(special.ndtr(special.ndtri(alpha / 4.0) / math.sqrt(fraction)))


def start(*, alpha: float = ALPHA) -> Boundary:
    """Return the boundary before any look."""
    if not 0.0 < alpha < 1.0:
        raise ValueError(f"alpha must lie between 0 and 1: {alpha}")
    return Boundary(alpha=alpha, fractions=(), bounds=(), densities=())


def add_look(boundary: Boundary, *, fraction: float) -> Boundary:
    """Return the boundary with one look more, whose bound spends what the earlier looks left up to this fraction.

    fraction   information fraction of the new look, above the last one; 1 for the last look of the run even when
               trials were lost and fewer cases than planned were paired: it then spends all that is left

    The bound solves P(no stop before, Z ≥ bound) = increase of `spent`, with the correlation √(t_i/t_j) of Brownian
    motion, by the recursion of Armitage, McPherson and Rowe 1969. At the last look of a run that lost trials the true
    correlation is higher than this one, which makes a false stop less likely than alpha, never more.
    """
    allowed = spent(fraction, alpha=boundary.alpha)
    if boundary.fractions:
        if fraction <= boundary.fractions[-1]:
            raise ValueError(f"a look at {fraction} must come after the one at {boundary.fractions[-1]}")
        allowed -= spent(boundary.fractions[-1], alpha=boundary.alpha)
    previous = boundary.densities[-1] if boundary.densities else None
    bound = _solve_falling(lambda z: _above(z, previous, fraction) - allowed) if allowed > 0.0 else UNREACHABLE
    return Boundary(
        alpha=boundary.alpha,
        fractions=(*boundary.fractions, fraction),
        bounds=(*boundary.bounds, bound),
        densities=(*boundary.densities, _going_on(previous, fraction=fraction, bound=bound)),
    )


def boundaries(looks: Sequence[int], *, n_max: int, alpha: float = ALPHA) -> Boundary:
    """Return the boundary of looks after these numbers of paired cases.

    looks   ascending, the last at most n_max. Only a look at n_max spends all of alpha.
    """
    boundary = start(alpha=alpha)
    for n_cases in looks:
        boundary = add_look(boundary, fraction=n_cases / n_max)
    return boundary


def take_look(boundary: Boundary, *, z: float, n_cases: int, n_max: int, last: bool = False) -> Look:
    """Return whether to stop at this look.

    z         `flips_z` or `differences_z` of the first n_cases paired cases of the plan
    n_max     the smaller of the cap and the dataset; fixed for the whole run
    last      no further cases will come: the look then counts as a full one, whatever was lost

    Raises ValueError for a look before 20 paired cases that is not the last one.
    """
    if n_cases < FIRST_LOOK and not last:
        raise ValueError(f"no look before {FIRST_LOOK} paired cases: {n_cases}")
    if n_cases > n_max:
        raise ValueError(f"{n_cases} paired cases of at most {n_max}")
    fraction = 1.0 if last else n_cases / n_max
    after = add_look(boundary, fraction=fraction)
    return Look(after, n_cases, fraction, z=z, bound=after.bounds[-1], stop=abs(z) >= after.bounds[-1])


def flips_z(*, improved: int, regressed: int) -> float:
    """Return the z of a look at pass/fail cases with one trial each: positive when B is ahead, 0 without flips.

    improved, regressed   counts of flipped cases

    The mid-p of McNemar's test turned into z. d̄/se itself stops too often: it is far from normal at few flips.
    """
    mid_p = mcnemar_exact(improved=improved, regressed=regressed).mid_p
    return _signed(float(improved - regressed), tail=mid_p / 2.0)


def differences_z(differences: npt.ArrayLike) -> float:
    """Return the z of a look at scores or at several trials per case; 0 without spread or below two cases.

    differences   shape (cases,), B − A per paired case, complete

    Student's t turned into z through its p. The t itself, read as z, stops too often at 20 to 60 cases.
    """
    given: Floats = np.asarray(differences, dtype=np.float64)
    data = np.round(given, DECIMALS)
    if data.ndim != 1 or not np.isfinite(data).all():
        raise ValueError("differences must be finite: leave missing cases out before")
    n = int(data.size)
    if n < 2 or np.ptp(data) == 0.0:
        return 0.0
    t = float(data.mean() / (data.std(ddof=1) / math.sqrt(n)))
    return _signed(t, tail=float(special.stdtr(n - 1, -abs(t))))


def classic_bounds(looks: Sequence[int], *, n_max: int, alpha: float = ALPHA) -> tuple[float, ...]:
    """Return the bounds of O'Brien and Fleming's 1979 table, C/√t, for comparison with published designs.

    They hold only when all looks are taken as planned, the last at n_max; nothing here stops a run by them.
    """
    fractions = [n_cases / n_max for n_cases in looks]
    # One look alone, and all looks added up, enclose the answer.
    least, most = (-special.ndtri(alpha / 2.0 / n_looks) * math.sqrt(fractions[-1]) for n_looks in (1, len(fractions)))
    factor = _solve_falling(lambda c: _crossed(c, fractions) - alpha / 2.0, low=least, high=most, steps=22)
    return tuple(factor / math.sqrt(fraction) for fraction in fractions)


def _signed(direction: float, *, tail: float) -> float:
    if direction == 0.0:
        return 0.0
    return math.copysign(min(-float(special.ndtri(tail)), Z_LIMIT), direction)


def _above(bound: float, previous: Density | None, fraction: float) -> float:
    """Return P(no stop before, Z ≥ bound) at a look, when nothing differs."""
    if previous is None:
        return float(special.ndtr(-bound))
    gap = math.sqrt(fraction - previous.fraction)
    reached = (previous.z * math.sqrt(previous.fraction) - bound * math.sqrt(fraction)) / gap
    return float(np.exp(previous.log_mass) @ special.ndtr(reached))


def _going_on(previous: Density | None, *, fraction: float, bound: float) -> Density:
    """Return the density of z at a look among the runs that do not stop there: one step of the recursion."""
    # The points must also resolve the step from look to look, whose spread is this share of one z.
    spread = math.sqrt(1.0 - previous.fraction / fraction) if previous else 1.0
    edge = min(bound, Z_LIMIT)
    n_points = max(MIN_POINTS, 1 + 2 * math.ceil(edge / min(MAX_STEP, spread / 3.0)))
    z, weights = _simpson(edge, n_points)
    if previous is None:
        density = np.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
    else:
        scaled = (z[:, None] - previous.z * math.sqrt(previous.fraction / fraction)) / spread
        np.multiply(scaled, scaled, out=scaled)
        scaled *= -0.5
        density = np.exp(scaled, out=scaled) @ np.exp(previous.log_mass) / (spread * math.sqrt(2.0 * math.pi))
    # A mass too small for a float stays too small for anything that is computed from it.
    log_mass = np.log(np.maximum(density * weights, np.finfo(np.float64).tiny))
    return Density(z=z, log_mass=log_mass, fraction=fraction)


def _simpson(edge: float, n_points: int) -> tuple[Floats, Floats]:
    weights = np.where(np.arange(n_points) % 2 == 1, 4.0, 2.0)
    weights[[0, -1]] = 1.0
    return np.linspace(-edge, edge, n_points), weights * (2.0 * edge / (n_points - 1) / 3.0)


def _crossed(factor: float, fractions: Sequence[float]) -> float:
    """Return the chance to leave the bounds factor/√t upwards at any of the looks."""
    total, previous = 0.0, None
    for fraction in fractions:
        bound = factor / math.sqrt(fraction)
        total += _above(bound, previous, fraction)
        previous = _going_on(previous, fraction=fraction, bound=bound)
    return total


def _solve_falling(
    function: Callable[[float], float], *, low: float = 0.0, high: float = UNREACHABLE, steps: int = 60
) -> float:
    """Return where a falling function crosses 0 between low and high, from above it, by bisection."""
    for _ in range(steps):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if function(middle) > 0.0 else (low, middle)
    return high
