"""Paired tests and effect sizes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from stats.paired_tests import paired_tests, sign_test, wilcoxon

SLEEP_A = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]
SLEEP_B = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]


def test_student_sleep_data() -> None:
    # R 4.2.2 t.test(b, a, paired = TRUE): t = 4.0621, p = 0.002833; exactRankTests: p = 0.003906; d_z by effectsize.
    result = paired_tests(SLEEP_A, SLEEP_B)
    assert result.t == pytest.approx(4.06212768338204)
    assert result.p_t == pytest.approx(0.00283289019738427)
    assert result.d_z == pytest.approx(1.28455756259105)
    assert result.d_av == pytest.approx(0.8321810813495395)
    assert result.wilcoxon is not None
    assert (result.wilcoxon.statistic, result.wilcoxon.p) == (0.0, pytest.approx(0.00390625))
    assert (result.zeros, result.wilcoxon.zeros, result.sign.flips) == (1, 1, 9)


def test_k21_equal_differences_have_no_t_test() -> None:
    a, b = [0.8, 0.7, 0.6, 0.2], [0.9, 0.8, 0.7, 0.3]
    result = paired_tests(a, b)
    assert (result.t, result.p_t, result.d_z) == (None, None, None)
    assert result.reason == "differences have no spread, t-test not meaningful"
    # By hand: four differences, all positive: 2/16 for the sign test and for Wilcoxon.
    assert result.sign.p == pytest.approx(0.125)
    assert result.wilcoxon is not None
    assert result.wilcoxon.p == pytest.approx(0.125)
    # What a plain paired t-test makes of the rounding error in these differences.
    with pytest.warns(RuntimeWarning, match="nearly identical"):
        assert scipy.stats.ttest_rel(b, a).pvalue < 1e-40


def test_k21_equal_lists_are_identical() -> None:
    result = paired_tests([0.5, 0.7, 0.9], [0.5, 0.7, 0.9])
    assert (result.reason, result.t, result.d_av, result.zeros) == ("identical", None, 0.0, 3)
    assert result.wilcoxon is not None
    assert (result.wilcoxon.p, result.sign.p) == (1.0, 1.0)


def test_k21_one_pair_is_too_few() -> None:
    result = paired_tests([0.5], [0.75])
    assert (result.mean_difference, result.t, result.wilcoxon, result.reason) == (0.25, None, None, "too few: one pair")
    assert paired_tests([], []).mean_difference is None
    assert paired_tests([], []).reason == "no pairs"


def test_lists_without_spread_have_no_effect_size() -> None:
    assert paired_tests([0.2, 0.2, 0.2], [0.5, 0.5, 0.5]).d_av is None


def test_input_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="paired"):
        paired_tests([0.1], [0.1, 0.2])
    with pytest.raises(ValueError, match="finite"):
        paired_tests([float("nan")], [0.1])


def test_a_difference_of_rounding_error_is_a_zero() -> None:
    # 0.1 + 0.2 − 0.3 is 5.6e-17.
    assert sign_test([0.1 + 0.2 - 0.3, 0.5]).flips == 1
    assert wilcoxon([0.1 + 0.2 - 0.3, 0.5]).zeros == 1


def wilcoxon_by_enumeration(differences: list[float]) -> float:
    """Return the two-sided p by going through all signs of the mid-ranks."""
    nonzero = [d for d in differences if d != 0]
    ranks = scipy.stats.rankdata(np.abs(nonzero))
    centre = ranks.sum() / 2
    observed = abs(sum(r for r, d in zip(ranks, nonzero, strict=True) if d > 0) - centre)
    sums = [sum(itertools.compress(ranks, signs)) for signs in itertools.product([0, 1], repeat=len(ranks))]
    return float(np.mean([abs(value - centre) >= observed - 1e-9 for value in sums]))


@given(st.lists(st.integers(-3, 3).map(lambda q: q / 4), min_size=1, max_size=9))
@settings(max_examples=60)
def test_wilcoxon_with_ties_is_the_permutation_test(differences: list[float]) -> None:
    assert wilcoxon(differences).p == pytest.approx(wilcoxon_by_enumeration(differences) if any(differences) else 1.0)


def test_wilcoxon_without_ties_agrees_with_scipy_at_fifty_and_above() -> None:
    rng = np.random.default_rng(12)
    for n, method in ((50, "exact"), (51, "asymptotic"), (300, "asymptotic")):
        data = rng.normal(0.1, 1.0, size=n)
        result = wilcoxon(data)
        assert result.exact == (method == "exact")
        assert result.p == pytest.approx(scipy.stats.wilcoxon(data, method=method, correction=False).pvalue)


def test_wilcoxon_above_fifty_corrects_for_ties_as_scipy_does() -> None:
    data = np.random.default_rng(13).choice([-0.5, -0.25, 0.25, 0.5, 0.75], size=80)
    expected = scipy.stats.wilcoxon(data, method="asymptotic", correction=False).pvalue
    assert wilcoxon(data).p == pytest.approx(expected)


scores = st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=3, max_size=30)


@given(scores)
def test_the_t_test_is_that_of_scipy_where_there_is_spread(pairs: list[tuple[float, float]]) -> None:
    a, b = (list(side) for side in zip(*pairs, strict=True))
    result = paired_tests(a, b)
    if result.t is not None and np.std(np.subtract(b, a)) > 1e-6:
        expected = scipy.stats.ttest_rel(b, a)
        assert (result.t, result.p_t) == pytest.approx((expected.statistic, expected.pvalue), rel=1e-6, abs=1e-12)


@given(scores)
def test_swapping_the_lists_turns_signs_and_no_p(pairs: list[tuple[float, float]]) -> None:
    a, b = (list(side) for side in zip(*pairs, strict=True))
    one, other = paired_tests(a, b), paired_tests(b, a)
    assert (one.p_t is None) == (other.p_t is None)
    assert one.wilcoxon == other.wilcoxon
    assert one.sign.p == other.sign.p
    if one.t is not None and other.t is not None:
        assert one.t == pytest.approx(-other.t)
