"""Cases in groups."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from stats.bootstrap import bootstrap_difference
from stats.clusters import cluster_difference, cr2_mean, resampled_group_means
from stats.results import Interval


def rng() -> np.random.Generator:
    return np.random.default_rng(11)


def test_k25_one_group_has_no_interval_and_divides_by_nothing() -> None:
    result = cluster_difference([0.1, 0.2, 0.3], ["x"] * 3, rng=rng())
    assert result.estimate == pytest.approx(0.2)
    assert (result.interval, result.cr2, result.se_clustered, result.n_groups) == (None, None, None, 1)
    assert result.reason == "one group, no interval"


def test_k25_four_groups_have_an_interval_and_the_warning() -> None:
    data = rng().normal(0.1, 0.3, size=40)
    result = cluster_difference(data, np.repeat(list("abcd"), 10).tolist(), rng=rng())
    assert result.few_groups
    assert result.cr2 is not None
    assert result.interval == result.cr2.interval
    plain = bootstrap_difference(data, rng=rng()).interval
    assert plain is not None
    assert result.interval.high - result.interval.low > plain.high - plain.low


def test_c17_identical_cases_within_a_repository_make_the_interval_wider() -> None:
    data = np.repeat([1.0, 0.0, 0.0, -1.0, 1.0, 0.0, 0.0, 1.0, -1.0, 0.0, 1.0, 0.0], 10)
    result = cluster_difference(data, np.repeat(np.arange(12), 10).tolist(), rng=rng())
    plain = bootstrap_difference(data, rng=rng()).interval
    assert not result.few_groups
    assert result.interval == result.bootstrap
    assert plain is not None
    assert result.interval is not None
    assert result.interval.high - result.interval.low > 2 * (plain.high - plain.low)


def test_k25_a_group_named_all_is_an_ordinary_group() -> None:
    data = [0.1, 0.2, 0.3, 0.4]
    one = cluster_difference(data, ["all", "all", "b", "b"], rng=rng())
    assert one.n_groups == 2
    assert one == cluster_difference(data, ["a", "a", "b", "b"], rng=rng())


def test_k25_a_case_without_a_group_is_refused() -> None:
    with pytest.raises(ValueError, match="without a group"):
        cluster_difference([0.1, 0.2], ["a", None], rng=rng())


def test_k25_the_number_one_and_the_text_one_are_the_same_group() -> None:
    assert cluster_difference([0.1, 0.2, 0.3], [1, "1", "2"], rng=rng()).n_groups == 2


def test_no_case_has_a_reason() -> None:
    result = cluster_difference([], [], rng=rng())
    assert (result.estimate, result.n_groups, result.reason) == (None, 0, "no paired cases")


def test_groups_without_spread_have_no_test() -> None:
    # By hand: every group has the mean 0.1, once with the rounding error of 0.1 · 3.
    result = cluster_difference([0.1, 0.1, 0.1, 0.1, 0.3, -0.1], ["a", "a", "a", "b", "c", "c"], rng=rng())
    assert result.cr2 is None
    assert result.interval == Interval(0.1, 0.1)
    assert result.reason == "no spread between groups: no CR2 test"
    assert cr2_mean(np.array([1.0]), np.array([3])) is None


def test_input_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="labels"):
        cluster_difference([0.1, 0.2], ["a"], rng=rng())
    with pytest.raises(ValueError, match="finite"):
        cluster_difference([0.1, float("nan")], ["a", "b"], rng=rng())


def test_groups_of_one_case_are_the_ordinary_t_test() -> None:
    data = rng().normal(0.1, 1.0, size=25)
    result = cluster_difference(data, list(range(25)), rng=rng())
    expected = scipy.stats.ttest_1samp(data, 0.0)
    ends = expected.confidence_interval()
    assert result.cr2 is not None
    assert result.cr2.df == pytest.approx(24)
    assert result.cr2.p == pytest.approx(expected.pvalue)
    assert (result.cr2.interval.low, result.cr2.interval.high) == pytest.approx((ends.low, ends.high))


def test_the_uncorrected_error_is_the_one_of_statsmodels() -> None:
    api = pytest.importorskip("statsmodels.api")
    data = rng().normal(size=60)
    labels = rng().integers(0, 12, size=60)
    fit = api.OLS(data, np.ones(60)).fit(cov_type="cluster", cov_kwds={"groups": labels, "use_correction": False})
    assert cluster_difference(data, labels.tolist(), rng=rng()).se_clustered == pytest.approx(float(fit.bse[0]))


def degrees_of_freedom_by_matrix(sizes: np.ndarray) -> float:
    """Satterthwaite's degrees of freedom from the full matrix, as it is written in Pustejovsky and Tipton."""
    n = sizes.sum()
    a = 1.0 / (n * np.sqrt(1.0 - sizes / n))
    matrix = np.outer(a, a) * (np.diag(sizes.astype(float)) - np.outer(sizes, sizes) / n)
    return float(np.trace(matrix) ** 2 / np.trace(matrix @ matrix))


@given(st.lists(st.integers(1, 20), min_size=2, max_size=12))
@settings(max_examples=40)
def test_the_traces_without_a_matrix_are_those_of_the_matrix(sizes: list[int]) -> None:
    array = np.array(sizes)
    cr2 = cr2_mean(np.arange(len(sizes), dtype=float) * array, array)
    assert cr2 is not None
    assert cr2.df == pytest.approx(degrees_of_freedom_by_matrix(array))


def test_the_order_of_cases_changes_nothing_and_swapping_sides_mirrors() -> None:
    data, labels = rng().choice([-1.0, 0.0, 0.1, 1 / 3, 1.0], size=80), rng().integers(0, 14, size=80)
    order = np.random.default_rng(5).permutation(80)
    one = cluster_difference(data, labels.tolist(), rng=rng())
    assert cluster_difference(data[order], labels[order].tolist(), rng=rng()) == one
    mirror = cluster_difference(-data, labels.tolist(), rng=rng())
    assert one.bootstrap is not None
    assert mirror.bootstrap == Interval(-one.bootstrap.high, -one.bootstrap.low)


def test_resampled_groups_weigh_by_their_cases() -> None:
    # By hand: groups of 1 and 3 cases with sums 1 and 0: the mean of a sample is 1, 1/4 or 0.
    means = resampled_group_means(np.array([1.0, 0.0]), np.array([1, 3]), rng=rng(), n_resamples=1_000)
    assert sorted(set(means.tolist())) == [0.0, 0.25, 1.0]
