"""The Wilson interval."""

from __future__ import annotations

import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from stats.results import Interval
from stats.wilson import pass_share, pooled_share, wilson


@pytest.mark.parametrize(
    ("passed", "n", "low", "high"),
    [
        # R 4.2.2: prop.test(passed, n, correct = FALSE)$conf.int, in percent with one decimal.
        (5, 5, 56.6, 100.0),
        (0, 5, 0.0, 43.4),
        (100, 100, 96.3, 100.0),
        (0, 200, 0.0, 1.9),
        (1, 1, 20.7, 100.0),
    ],
)
def test_k34_ends_at_the_edges(passed: int, n: int, low: float, high: float) -> None:
    interval = wilson(passed, n)
    assert (round(100 * interval.low, 1), round(100 * interval.high, 1)) == (low, high)
    assert interval.high - interval.low > 0.0


def test_ends_are_exactly_zero_and_one_at_the_edges() -> None:
    assert wilson(0, 10).low == 0.0
    assert wilson(10, 10).high == 1.0


def test_no_case_has_no_share_and_an_interval_that_excludes_nothing() -> None:
    result = pass_share(0, 0)
    assert (result.share, result.interval) == (None, Interval(0.0, 1.0))


def test_k34_groups_pool_with_one_weighting() -> None:
    # By hand: (1 + 90) of (2 + 100); the mean of the two shares would be 0.7.
    pooled = pooled_share([1, 90], [2, 100])
    assert pooled == pass_share(91, 102)
    assert pooled.share is not None
    assert pooled.interval.holds(pooled.share)
    assert pooled_share([], []).share is None


def test_counts_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="between 0 and n"):
        wilson(3, 2)
    with pytest.raises(ValueError, match="groups"):
        pooled_share([1], [1, 2])
    with pytest.raises(ValueError, match="every group"):
        pooled_share([2, 0], [1, 2])


@given(st.integers(0, 300).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), st.floats(0.5, 0.999))
def test_agrees_with_scipy(counts: tuple[int, int], level: float) -> None:
    passed, n = counts
    if n == 0:
        return
    expected = scipy.stats.binomtest(passed, n).proportion_ci(level, method="wilson")
    interval = wilson(passed, n, level=level)
    assert (interval.low, interval.high) == pytest.approx((expected.low, expected.high), abs=1e-9)
