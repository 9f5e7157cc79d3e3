"""Intervals that see flips that did not happen."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stats.adjusted import adjusted_difference, tango
from stats.results import Interval


def flips(improved: int, regressed: int, n: int) -> np.ndarray:
    return np.repeat([1.0, -1.0, 0.0], [improved, regressed, n - improved - regressed])


def test_published_table_of_bentur() -> None:
    # R contingencytables 3.0.1, data of Bentur et al. 2009: 7 improved, 1 regressed, 21 cases.
    adjusted = adjusted_difference(flips(7, 1, 21))
    assert adjusted.interval is not None
    assert (adjusted.interval.low, adjusted.interval.high) == pytest.approx((0.01337982, 0.50835931), abs=1e-7)
    score = tango(improved=7, regressed=1, n=21)
    assert score is not None
    assert (score.low, score.high) == pytest.approx((0.0260030, 0.5172323), abs=2e-6)


@pytest.mark.parametrize("n", [10, 40, 91])
def test_without_a_flip_the_interval_is_symmetric_and_not_empty(n: int) -> None:
    # By hand: variance 2/(n + 2), so the half width is 1.96 · √2/(n + 2) = 2.7718/(n + 2).
    interval = adjusted_difference(np.zeros(n)).interval
    assert interval is not None
    assert interval.high == -interval.low == pytest.approx(2.771808 / (n + 2), abs=1e-6)


def test_more_trials_make_smaller_pseudo_cases() -> None:
    # By hand: with three trials a pseudo-case is a third of one.
    one, three = (adjusted_difference(np.zeros(20), min_trials=k).interval for k in (1, 3))
    assert one is not None
    assert three is not None
    assert three.high == pytest.approx(one.high / 3)


def test_ends_stay_within_one() -> None:
    assert adjusted_difference(flips(0, 1, 2)).interval.low == -1.0
    assert adjusted_difference(flips(4, 0, 4)).interval.high == 1.0
    assert tango(improved=4, regressed=0, n=4).high == 1.0
    assert tango(improved=0, regressed=4, n=4).low == -1.0


def test_too_few_cases_have_no_interval() -> None:
    assert adjusted_difference([]).reason == "no paired cases"
    one = adjusted_difference([1.0])
    assert (one.estimate, one.interval, one.reason) == (1.0, None, "one paired case: no interval")
    assert tango(improved=0, regressed=0, n=0) is None


def test_what_is_not_a_share_difference_is_refused() -> None:
    for data in ([1.5, 0.0], [float("nan"), 0.0], [[0.0]]):
        with pytest.raises(ValueError, match="shares"):
            adjusted_difference(data)
    with pytest.raises(ValueError, match="at least one trial"):
        adjusted_difference([0.0, 0.0], min_trials=0)
    with pytest.raises(ValueError, match="do not fit"):
        tango(improved=2, regressed=2, n=3)


tables = st.tuples(st.integers(0, 30), st.integers(0, 30), st.integers(0, 60)).filter(lambda t: sum(t) >= 2)


@given(tables)
def test_swapping_a_and_b_mirrors_both_intervals(table: tuple[int, int, int]) -> None:
    improved, regressed, _ = table
    n = sum(table)
    one, other = adjusted_difference(flips(improved, regressed, n)), adjusted_difference(flips(regressed, improved, n))
    assert (one.interval.low, one.interval.high) == pytest.approx((-other.interval.high, -other.interval.low))
    score, mirrored = (tango(improved=i, regressed=r, n=n) for i, r in ((improved, regressed), (regressed, improved)))
    assert (score.low, score.high) == pytest.approx((-mirrored.high, -mirrored.low), abs=1e-9)


@given(tables)
def test_both_intervals_are_close_when_there_are_many_cases(table: tuple[int, int, int]) -> None:
    improved, regressed, same = (40 + part for part in table)
    n = improved + regressed + same
    adjusted, score = (
        adjusted_difference(flips(improved, regressed, n)).interval,
        tango(improved=improved, regressed=regressed, n=n),
    )
    assert isinstance(adjusted, Interval)
    assert (adjusted.low, adjusted.high) == pytest.approx((score.low, score.high), abs=0.02)
