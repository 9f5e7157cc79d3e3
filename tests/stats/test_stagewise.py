"""Inference after a stop: p, interval and estimate that allow for the looks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

from stats.sequential import Boundary, boundaries, planned_looks, start
from stats.stagewise import _Above, in_units, stagewise

FIVE = boundaries([40, 80, 120, 160, 200], n_max=200)


def first_looks(k: int) -> Boundary:
    return Boundary(FIVE.alpha, FIVE.fractions[:k], FIVE.bounds[:k], FIVE.densities[:k])


def test_a_stop_at_the_third_of_five_looks_gives_the_reference_inference() -> None:
    # R rpact 3.3.4: getFinalPValue, getFinalConfidenceInterval, getRepeatedConfidenceIntervals, asOF design.
    result = stagewise(first_looks(3), z=2.9)
    assert result.p == pytest.approx(0.00410141848809142, abs=1e-8)
    assert (result.interval.low, result.interval.high) == pytest.approx((0.9192165970, 4.8519109916), abs=1e-6)
    assert result.median_unbiased == pytest.approx(2.888125747, abs=1e-6)
    assert (result.repeated.low, result.repeated.high) == pytest.approx((0.2197199330, 5.5802800670), abs=1e-6)
    assert result.stopped_by_bound
    assert result.look == 3


def test_with_one_look_it_is_the_ordinary_inference() -> None:
    result = stagewise(boundaries([50], n_max=50), z=1.3)
    # By hand: nothing to allow for, so p, estimate and interval are those of z itself.
    assert result.p == pytest.approx(2.0 * special.ndtr(-1.3), abs=1e-12)
    assert result.median_unbiased == pytest.approx(1.3, abs=1e-10)
    assert (result.interval.low, result.interval.high) == pytest.approx(
        (1.3 - 1.959963985, 1.3 + 1.959963985), abs=1e-8
    )
    assert not result.stopped_by_bound


@given(st.floats(-8.0, 8.0), st.integers(1, 5))
def test_swapping_a_and_b_mirrors_everything(z: float, look: int) -> None:
    one, other = stagewise(first_looks(look), z=z), stagewise(first_looks(look), z=-z)
    assert one.p == other.p
    assert one.median_unbiased == -other.median_unbiased
    assert (one.repeated.low, one.repeated.high) == (-other.repeated.high, -other.repeated.low)
    if z:
        assert (one.interval.low, one.interval.high) == (-other.interval.high, -other.interval.low)


@given(st.floats(-6.0, 6.0), st.integers(1, 5))
def test_the_interval_excludes_0_exactly_when_p_is_below_5_percent(z: float, look: int) -> None:
    result = stagewise(first_looks(look), z=z)
    if abs(result.p - 0.05) > 1e-6:
        assert result.interval.holds(0.0) == (result.p > 0.05)
    assert result.interval.low < result.median_unbiased < result.interval.high
    assert 0.0 <= result.p <= 1.0


def test_a_stop_by_the_bound_is_significant_and_the_last_look_without_one_is_not() -> None:
    for look in range(1, 6):
        at_bound = stagewise(first_looks(look), z=FIVE.bounds[look - 1])
        assert at_bound.p <= 0.05 + 1e-9
        assert at_bound.repeated.low == 0.0
    assert stagewise(FIVE, z=FIVE.bounds[-1] - 1e-6).p > 0.05 - 1e-9


def test_an_earlier_stop_is_stronger_evidence_than_a_later_one() -> None:
    p = [stagewise(first_looks(look), z=FIVE.bounds[look - 1]).p for look in range(1, 6)]
    assert p == sorted(p)
    # By hand: at its bound the last look has spent all of alpha.
    assert p[-1] == pytest.approx(0.05, abs=1e-7)


def test_the_adjusted_estimate_is_drawn_towards_0() -> None:
    result = stagewise(first_looks(4), z=2.5)
    assert 0.0 < result.median_unbiased < 2.5


def test_a_z_no_run_would_reach_still_has_ordered_ends() -> None:
    boundary = boundaries(planned_looks(1000), n_max=1000)
    result = stagewise(boundary, z=-30.0)
    assert result.interval.low < result.median_unbiased < result.interval.high < 0.0
    assert 0.0 < result.p < 0.05


def test_without_a_look_there_is_nothing_to_say() -> None:
    with pytest.raises(ValueError, match="no look"):
        stagewise(start(), z=1.0)


def test_in_units_of_the_differences_everything_is_scaled_by_the_standard_error() -> None:
    result = stagewise(first_looks(3), z=2.9)
    difference = in_units(result, estimate=0.15, standard_error=0.05)
    assert difference.raw == 0.15
    assert difference.adjusted == pytest.approx(0.05 * result.median_unbiased)
    assert difference.interval is not None
    assert difference.repeated is not None
    assert difference.interval.low == pytest.approx(0.05 * result.interval.low)
    assert difference.repeated.high == pytest.approx(0.05 * result.repeated.high)
    assert (difference.p, difference.reason) == (result.p, None)


def test_without_spread_only_the_raw_mean_is_left() -> None:
    difference = in_units(stagewise(FIVE, z=0.0), estimate=0.0, standard_error=0.0)
    assert (difference.adjusted, difference.interval, difference.repeated) == (None, None, None)
    assert difference.reason == "the differences have no spread"
    with pytest.raises(ValueError, match="at least 0"):
        in_units(stagewise(FIVE, z=0.0), estimate=0.0, standard_error=-1.0)


def test_the_tilted_density_is_the_density_under_that_effect() -> None:
    """The chance to go on past two looks under an effect, against 200,000 drawn paths."""
    rng = np.random.default_rng(5)
    effect, boundary = 2.0, first_looks(3)
    times = np.array(boundary.fractions)
    steps = np.sqrt(np.diff(times, prepend=0.0)) * rng.standard_normal((200_000, 3)) + effect * np.diff(
        times, prepend=0.0
    )
    z = np.cumsum(steps, axis=1) / np.sqrt(times)
    stopped_up = (z[:, 0] >= boundary.bounds[0]) | (
        (abs(z[:, 0]) < boundary.bounds[0]) & (z[:, 1] >= boundary.bounds[1])
    )
    on = (abs(z[:, 0]) < boundary.bounds[0]) & (abs(z[:, 1]) < boundary.bounds[1])
    simulated = (stopped_up | (on & (z[:, 2] >= 1.0))).mean()
    assert _Above(boundary, z=1.0).chance(effect) == pytest.approx(simulated, abs=4 * 0.5 / np.sqrt(200_000))
