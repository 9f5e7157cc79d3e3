"""Several trials of a case."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stats.pairing import pair_cases
from stats.trials import (
    coverage,
    flip_rate,
    mean_pass_at_k,
    pass_all_k,
    pass_at_k,
    trial_disagreement,
    variance_parts,
)

cells = st.integers(1, 6).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n)))


@given(cells)
def test_pass_at_k_counts_the_ways_to_draw_k_trials(cell: tuple[int, int, int]) -> None:
    n, passed, k = cell
    drawn = list(itertools.combinations([True] * passed + [False] * (n - passed), k))
    assert pass_at_k(n, passed, k=k) == pytest.approx(sum(any(d) for d in drawn) / len(drawn))
    assert pass_all_k(n, passed, k=k) == pytest.approx(sum(all(d) for d in drawn) / len(drawn))


def test_more_trials_than_there_are_have_no_value() -> None:
    assert pass_at_k(2, 1, k=3) is None
    assert pass_all_k(0, 0, k=1) is None
    with pytest.raises(ValueError, match="passes of"):
        pass_at_k(2, 3, k=1)
    with pytest.raises(ValueError, match="k = 0"):
        pass_at_k(2, 1, k=0)


def test_the_mean_is_over_cases_with_enough_trials_and_counts_the_others() -> None:
    # By hand, k = 2: 3 of 4 gives 1 and 1/2; 1 of 2 gives 1 and 0; the case with one trial is left out.
    result = mean_pass_at_k([4, 2, 1], [3, 1, 1], k=2)
    assert (result.pass_at_k, result.pass_all_k) == (1.0, 0.25)
    assert (result.n_cases, result.n_left_out) == (2, 1)
    assert mean_pass_at_k([1], [1], k=2).pass_at_k is None


def test_c33_a_net_gain_shows_the_cases_it_lost() -> None:
    a = [[0, 0]] * 5 + [[1, 0]] * 3 + [[1, 1]] * 2
    b = [[0, 1]] * 5 + [[0, 0]] * 3 + [[1, 0]] * 2
    result = coverage(pair_cases(a, b))
    assert (result.gained.tolist(), result.lost.tolist(), result.net) == ([0, 1, 2, 3, 4], [5, 6, 7], 2)


def test_a_case_is_not_gained_by_having_more_trials() -> None:
    assert coverage(pair_cases([[0.0, math.nan, math.nan]], [[0.0, 0.0, 1.0]])).net == 0


def test_k29_no_flip_has_an_upper_limit() -> None:
    # R prop.test(0, 20, correct = FALSE): upper end 0.1611.
    rate = flip_rate(0, 20)
    assert (rate.share, rate.interval.low) == (0.0, 0.0)
    assert rate.interval.high == pytest.approx(0.1611251580528194)
    assert flip_rate(0, 0).share is None


def test_disagreement_of_two_trials() -> None:
    # By hand: 1 of 2 disagrees always, 2 of 2 never; 3 of 5: 6 of 10 pairs; one trial has no pair.
    assert trial_disagreement([1, 2], [2, 2]) == 0.5
    assert trial_disagreement([3, 1], [5, 1]) == 0.6
    assert trial_disagreement([1], [1]) is None


def test_the_parts_of_the_variance_add_up() -> None:
    rng = np.random.default_rng(2)
    a, b = (rng.random((200, 4)) < rng.random((200, 1))).astype(float), (rng.random((200, 4)) < 0.5).astype(float)
    parts = variance_parts(a, b)
    total = pair_cases(a, b).differences.var(ddof=1) / 200
    assert parts.between + parts.within_a + parts.within_b == pytest.approx(total)
    assert parts.within_share == pytest.approx((parts.within_a + parts.within_b) / total)
    # Miller 2024, for pass/fail: the mean of p(1 − p)k/(k − 1), over k and n.
    p = a.mean(axis=1)
    assert parts.within_a == pytest.approx((p * (1 - p) * 4 / 3).mean() / 4 / 200)


def test_noise_alone_is_all_within() -> None:
    rng = np.random.default_rng(3)
    parts = variance_parts(rng.integers(0, 2, (400, 5)), rng.integers(0, 2, (400, 5)))
    # A fair coin on both sides: between is 0 but for chance; three standard errors of a variance from 400 cases.
    assert parts.within_share == pytest.approx(1.0, abs=0.22)


def test_the_parts_say_why_they_are_missing() -> None:
    assert variance_parts([[1.0]], [[1.0]]).reason == "too few paired cases"
    assert variance_parts([[1.0], [0.0]], [[1.0, 1.0], [0.0, 1.0]]).reason == "needs repeated trials on both sides"
    constant = variance_parts([[1.0, 1.0]] * 3, [[1.0, 1.0]] * 3)
    assert (constant.within_share, constant.reason) == (None, "nothing varies")


def test_unequal_numbers_of_trials_use_what_each_case_has() -> None:
    # By hand: a: (0, 1) has variance 1/2, the single trial none; 1/k averages (1/2 + 1)/2 = 3/4; so 3/8, over n = 2.
    parts = variance_parts([[0.0, 1.0], [1.0, math.nan]], [[1.0, 1.0], [1.0, 1.0]])
    assert parts.within_a == pytest.approx(3 / 16)
