"""The paired bootstrap: right distribution, bounded memory, no dependence on order, mirror images."""

from __future__ import annotations

import itertools
import tracemalloc

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from stats import bootstrap
from stats.bootstrap import (
    bca_interval,
    bootstrap_difference,
    expanded_tail,
    resampled_means,
)
from stats.results import Interval, NotEnoughData

SEED = 20240501


def rng(seed: int = SEED) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_no_cases_have_nothing_and_one_case_has_an_estimate_alone() -> None:
    none, one = bootstrap_difference([], rng=rng()), bootstrap_difference([0.25], rng=rng())
    assert (none.n, none.estimate, none.interval, none.reason) == (0, None, None, "no paired cases")
    assert (one.n, one.estimate, one.interval) == (1, 0.25, None)
    assert one.reason == "one paired case: no interval"


def test_two_cases_with_one_regression_reach_from_minus_one_to_zero() -> None:
    # By hand: the means of two draws from (0, −1) are 0, −1/2 and −1, the ends with probability 1/4 each.
    result = bootstrap_difference([0.0, -1.0], rng=rng())
    assert result.interval == Interval(-1.0, 0.0)
    assert result.estimate == -0.5


def test_k20_equal_differences_give_an_interval_without_width() -> None:
    result = bootstrap_difference([1.0] * 4, rng=rng())
    assert (result.estimate, result.interval) == (1.0, Interval(1.0, 1.0))


def test_no_flip_gives_zero_and_not_minus_zero() -> None:
    result = bootstrap_difference([0.0] * 40, rng=rng())
    assert result.interval == Interval(0.0, 0.0)
    assert str(result.interval.low) == "0.0"


def test_the_expanded_tail_has_its_published_size() -> None:
    # Hesterberg 2015 as worked out in R 4.2.2: pnorm(sqrt(n/(n-1)) * qt(.025, n-1)).
    assert expanded_tail(20) == pytest.approx(0.015880829920347925, abs=1e-12)
    assert expanded_tail(100) == pytest.approx(0.023064387207087624, abs=1e-12)
    assert expanded_tail(2) == pytest.approx(1.695219072605391e-72, rel=1e-9)
    with pytest.raises(NotEnoughData):
        expanded_tail(1)


def test_an_end_that_is_zero_on_the_lattice_is_exactly_zero() -> None:
    # Thirds: sums such as 1/3 + 1/3 + 1/3 − 1 are 0 only after rounding.
    data = [1 / 3] * 6 + [-1 / 3] * 3 + [-1.0] + [0.0] * 5
    means = resampled_means(data, rng=rng())
    assert np.count_nonzero(np.abs(means) < 1e-9) > 100
    # Every end the result can have is a multiple of 1/45, to the 12 decimals it is rounded to.
    interval = bootstrap_difference(data, rng=rng()).interval
    assert interval is not None
    assert [round(round(end * 45) / 45, 12) for end in (interval.low, interval.high)] == [interval.low, interval.high]


def exact_mean_distribution(values: list[float], n: int) -> dict[float, float]:
    """Return P(mean) of n draws with replacement by going through all of them."""
    chance: dict[float, float] = {}
    for drawn in itertools.product(values, repeat=n):
        mean = round(sum(drawn) / n, 9)
        chance[mean] = chance.get(mean, 0.0) + len(values) ** -n
    return chance


@pytest.mark.parametrize("few", [True, False])
def test_both_ways_of_resampling_have_the_exact_distribution(few: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    data = [1.0, 1.0, 0.5, 0.0, -1.0]
    monkeypatch.setattr(bootstrap, "_few_distinct", lambda n_distinct, n: few)
    runs = 40_000
    means = np.round(resampled_means(data, rng=rng(), n_resamples=runs), 9)
    for mean, chance in exact_mean_distribution(data, 5).items():
        # By enumeration; five standard errors of a share from 40,000 draws.
        share = np.count_nonzero(means == mean) / runs
        assert share == pytest.approx(chance, abs=5 * (chance * (1 - chance) / runs) ** 0.5 + 1e-9)


def test_few_values_are_drawn_as_counts_and_many_are_gathered() -> None:
    assert bootstrap._few_distinct(3, 20)
    assert bootstrap._few_distinct(201, 10_000)
    assert not bootstrap._few_distinct(200, 200)


def test_many_cases_use_indices_without_any_bias(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap, "FAST_INDEX_CASES", 100)
    index = bootstrap._indices(100_000, 1_000, rng=rng())
    assert (index.min(), index.max()) == (0, 999)
    assert bootstrap._indices(7, 10, rng=rng()).shape == (7,)


def test_fast_indices_are_uniform() -> None:
    index = bootstrap._indices(200_000, 50, rng=rng())
    assert (index.min(), index.max()) == (0, 49)
    # Chi-square of 50 equal cells: 99.9% quantile with 49 degrees of freedom is 85.4 (R 4.2.2 qchisq).
    assert float(((np.bincount(index, minlength=50) - 4_000) ** 2 / 4_000).sum()) < 85.4


def test_scores_agree_with_scipy() -> None:
    data = rng(1).normal(0.05, 0.2, size=200)
    ours = bootstrap_difference(data, rng=rng(2), method="percentile", n_resamples=20_000)
    theirs = scipy.stats.bootstrap((data,), np.mean, n_resamples=20_000, method="percentile", rng=rng(3))
    step = 0.15 * theirs.standard_error
    assert ours.interval is not None
    assert ours.interval.low == pytest.approx(theirs.confidence_interval.low, abs=step)
    assert ours.interval.high == pytest.approx(theirs.confidence_interval.high, abs=step)


def test_bca_agrees_with_scipy_on_skewed_scores() -> None:
    data = rng(4).exponential(0.2, size=60) - 0.15
    ours = bootstrap_difference(data, rng=rng(5), method="bca", n_resamples=20_000)
    theirs = scipy.stats.bootstrap((data,), np.mean, n_resamples=20_000, method="BCa", rng=rng(6))
    step = 0.2 * theirs.standard_error
    assert (ours.method, ours.reason) == ("bca", None)
    assert ours.interval is not None
    assert ours.interval.low == pytest.approx(theirs.confidence_interval.low, abs=step)
    assert ours.interval.high == pytest.approx(theirs.confidence_interval.high, abs=step)


def test_bca_is_refused_for_pass_fail_and_below_thirty_cases() -> None:
    with pytest.raises(ValueError, match="pass/fail"):
        bootstrap_difference([1.0, 0.0, -1.0] * 20, rng=rng(), method="bca")
    with pytest.raises(NotEnoughData, match="at least 30"):
        bootstrap_difference(rng().normal(size=29), rng=rng(), method="bca")


def test_bca_falls_back_where_it_is_not_defined() -> None:
    result = bootstrap_difference([0.25] * 30, rng=rng(), method="bca")
    assert (result.method, result.interval) == ("percentile", Interval(0.25, 0.25))
    assert result.reason is not None
    assert bca_interval([0.25] * 30, rng=rng()) is None
    assert bca_interval([0.25], rng=rng()) is None
    # Three resamples cannot lie on both sides of the estimate for every seed.
    assert None in [bca_interval(rng(0).normal(size=30), rng=rng(s), n_resamples=3) for s in range(30)]


@pytest.mark.parametrize("data", [[[1.0]], [float("nan"), 1.0], [float("inf")]])
def test_incomplete_differences_are_refused(data: list) -> None:
    with pytest.raises(ValueError, match=r"shape|finite"):
        bootstrap_difference(data, rng=rng())


def test_nothing_to_resample_says_so() -> None:
    with pytest.raises(NotEnoughData):
        resampled_means([], rng=rng())


differences = st.lists(st.sampled_from([-1.0, 0.0, 1.0, 1 / 3, -2 / 3, 0.1, 0.2, 0.7]), min_size=2, max_size=30)


@given(differences, st.randoms(use_true_random=False))
@settings(max_examples=40)
def test_the_order_of_cases_changes_nothing(data: list[float], random: object) -> None:
    shuffled = list(data)
    random.shuffle(shuffled)
    one, other = (bootstrap_difference(d, rng=rng(), n_resamples=500) for d in (data, shuffled))
    assert one == other


@given(differences, st.sampled_from(["expanded", "percentile"]))
@settings(max_examples=40)
def test_swapping_a_and_b_mirrors_the_interval(data: list[float], method: bootstrap.Method) -> None:
    one = bootstrap_difference(data, rng=rng(), n_resamples=500, method=method)
    other = bootstrap_difference([-d for d in data], rng=rng(), n_resamples=500, method=method)
    assert one.interval is not None
    assert other.interval is not None
    assert (one.interval.low, one.interval.high) == (-other.interval.high, -other.interval.low)
    assert one.estimate == -other.estimate


@given(differences)
@settings(max_examples=40)
def test_the_expanded_interval_holds_the_percentile_interval(data: list[float]) -> None:
    wide, narrow = (
        bootstrap_difference(data, rng=rng(), n_resamples=500, method=method).interval
        for method in ("expanded", "percentile")
    )
    assert wide is not None
    assert narrow is not None
    assert wide.low <= narrow.low <= narrow.high <= wide.high


def test_memory_stays_bounded_when_cases_are_many() -> None:
    data = rng().normal(size=200_000)
    tracemalloc.start()
    try:
        bootstrap_difference(data, rng=rng(), n_resamples=50)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # The full table of draws would be 50 · 200,000 · 8 bytes = 80 MB for the values alone.
    assert peak < 40_000_000


def test_the_same_seed_gives_the_same_digits() -> None:
    data = rng(9).normal(size=100)
    assert bootstrap_difference(data, rng=rng()) == bootstrap_difference(data, rng=rng())
