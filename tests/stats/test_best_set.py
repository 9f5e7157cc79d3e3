"""The plausibly best set."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from stats.best_set import BestSet, best_set_pass_fail, best_set_scores
from stats.results import NotEnoughData

NAN = math.nan


def test_a_config_beaten_beyond_chance_is_left_out() -> None:
    good, bad = [1.0] * 12, [0.0] * 12
    result = best_set_pass_fail([good, bad, good])
    # By hand: 12 of 12 the one way, (1/2)**12, times K − 1 = 2.
    assert result.p == pytest.approx((1.0, 2 * 0.5**12, 1.0))
    assert result.members == (0, 2)
    assert result.leader == 0


def test_identical_configs_all_stay() -> None:
    result = best_set_pass_fail([[1, 0, 1]] * 4)
    assert result.members == (0, 1, 2, 3)
    assert result.p == (1.0,) * 4


def test_a_pair_is_compared_on_the_cases_both_ran() -> None:
    # By hand: on the 16 shared cases config 2 loses 14 and wins 1: 15 flips, P(Bin(15, 1/2) ≥ 14) = 16/2**15.
    second = [0.0] * 14 + [1.0, 1.0]
    first = [1.0] * 14 + [0.0, 1.0]
    result = best_set_pass_fail([[*first, NAN, NAN], [*second, NAN, NAN], [*first, 1.0, 1.0]])
    assert result.p[1] == pytest.approx(2 * 16 / 2**15)
    assert result.members == (0, 2)


def test_the_leader_stays_even_if_a_rival_beats_it_on_shared_cases() -> None:
    # The first has the highest mean by its easy cases alone; on the 8 shared ones the second wins all.
    first = [0.0] * 8 + [1.0] * 92
    second = [1.0] * 8 + [NAN] * 46 + [0.0] * 46
    result = best_set_pass_fail([first, second, [NAN] * 8 + [0.0] * 92])
    assert result.leader == 0
    assert 0 in result.members


def test_several_trials_count_by_their_direction_and_once_per_case() -> None:
    one = np.array([[1.0, 1.0, 1.0]] * 10)
    other = np.array([[1.0, 0.0, 1.0]] * 10)
    result = best_set_pass_fail(np.stack([one, other, one]))
    # By hand: 10 cases lean the one way whatever the number of trials: 2 · (1/2)**10.
    assert result.p[1] == pytest.approx(2 * 0.5**10)
    repeated = best_set_pass_fail(np.stack([np.tile(side, (1, 4)) for side in (one, other, one)]))
    assert repeated.p == result.p


def test_trials_a_config_lacks_are_left_out_of_its_means() -> None:
    values = np.array([[[1.0, NAN], [NAN, NAN]], [[0.0, 1.0], [1.0, 1.0]], [[0.0, 0.0], [0.0, NAN]]])
    assert best_set_pass_fail(values).leader == 0


def test_scores_use_the_one_sided_paired_t() -> None:
    rng = np.random.default_rng(3)
    values = rng.normal(size=(3, 30)) + np.array([[1.2], [0.0], [0.1]])
    result = best_set_scores(values)
    # scipy's own test, the same data.
    p = [scipy.stats.ttest_rel(values[0], values[j], alternative="greater").pvalue for j in (1, 2)]
    assert result.p[1] == pytest.approx(2 * p[0], rel=1e-9)
    assert result.p[2] == pytest.approx(2 * p[1], rel=1e-9)
    assert result.members == (0,)


def test_scores_that_differ_by_a_constant_fall_back_to_the_sign_test() -> None:
    base = np.array([0.1, 0.4, 0.2, 0.5, 0.9, 0.3, 0.7, 0.6])
    result = best_set_scores([base + 0.1, base, base])
    # By hand: eight of eight up, (1/2)**8, times 2; equal configurations reject nothing.
    assert result.p == pytest.approx((1.0, 2 * 0.5**8, 2 * 0.5**8))
    assert result.members == (0,)
    assert best_set_scores([base, base + 0.1, base]).members == (1,)


def test_one_shared_case_rejects_nothing() -> None:
    assert best_set_scores([[0.9], [0.1], [0.2]]).members == (0, 1, 2)


@pytest.mark.parametrize("make", [best_set_pass_fail, best_set_scores])
def test_two_configs_have_no_set(make: Callable[[list[list[float]]], BestSet]) -> None:
    with pytest.raises(NotEnoughData, match="3 configurations"):
        make([[1.0, 0.0], [0.0, 0.0]])


def test_a_config_without_a_case_cannot_be_placed() -> None:
    with pytest.raises(NotEnoughData, match="without a graded case"):
        best_set_pass_fail([[1.0, 0.0], [NAN, NAN], [1.0, 1.0]])


@pytest.mark.parametrize("values", [[1.0, 0.0, 1.0], [[math.inf, 0.0], [1.0, 0.0], [1.0, 0.0]]])
def test_what_is_no_table_of_scores_is_refused(values: list[object]) -> None:
    with pytest.raises(ValueError, match="values"):
        best_set_pass_fail(values)  # type: ignore[arg-type]


@given(arrays(np.float64, st.tuples(st.integers(3, 6), st.integers(1, 25)), elements=st.sampled_from([0.0, 1.0, NAN])))
def test_the_order_of_configs_and_cases_changes_nothing(values: np.ndarray) -> None:
    values[:, 0] = np.where(np.isnan(values[:, 0]), 1.0, values[:, 0])
    result = best_set_pass_fail(values)
    turned = best_set_pass_fail(values[::-1, ::-1])
    assert turned.p[::-1] == pytest.approx(result.p)
    assert result.members
    if np.count_nonzero(np.nanmean(values, axis=1) == np.nanmean(values, axis=1).max()) == 1:
        assert {len(values) - 1 - member for member in turned.members} == set(result.members)
