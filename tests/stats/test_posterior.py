"""P(B > A)."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from stats.posterior import p_b_better, p_b_better_by_trials


def rng() -> np.random.Generator:
    return np.random.default_rng(21)


def test_small_tables_by_hand() -> None:
    # P(Bin(flips + 1, 1/2) <= improved): one regression 1/4; five fixed 63/64; no flip 1/2.
    assert p_b_better(improved=0, regressed=1) == pytest.approx(1 / 4)
    assert p_b_better(improved=5, regressed=0) == pytest.approx(63 / 64)
    assert p_b_better(improved=0, regressed=0) == 0.5


@given(st.integers(0, 200), st.integers(0, 200))
def test_is_the_tail_of_the_beta_posterior_and_mirrors(improved: int, regressed: int) -> None:
    p = p_b_better(improved=improved, regressed=regressed)
    assert p == pytest.approx(scipy.stats.beta.sf(0.5, improved + 1, regressed + 1), abs=1e-9)
    assert p + p_b_better(improved=regressed, regressed=improved) == pytest.approx(1.0)


def test_one_trial_per_case_is_the_closed_form() -> None:
    data = [1.0] * 7 + [-1.0] + [0.0] * 12
    assert p_b_better_by_trials(data, min_trials=1, rng=rng()) == p_b_better(improved=7, regressed=1)


def test_draws_agree_with_the_closed_form() -> None:
    # Differences of ± 1 with the prior of three trials lie close to, and beyond, the closed form of one trial.
    drawn = p_b_better_by_trials([1.0, 1.0, 1.0, -1.0, 0.0], min_trials=3, rng=rng())
    assert 0.75 < drawn < p_b_better(improved=3, regressed=1) + 0.06


def test_known_mixture_of_thirds() -> None:
    # Four million draws in numpy 2.4.6: 12 cases unmoved, two at +1/3 gives 0.8749.
    assert p_b_better_by_trials([0.0] * 12 + [1 / 3] * 2, min_trials=3, rng=rng()) == pytest.approx(0.8749, abs=0.006)


def test_no_moved_case_says_one_half_and_swapping_mirrors_exactly() -> None:
    assert p_b_better_by_trials([0.0] * 5, min_trials=3, rng=rng()) == 0.5
    assert p_b_better_by_trials([], min_trials=3, rng=rng()) == 0.5
    data = np.array([1 / 3, 2 / 3, -1 / 3, 0.0, 1.0])
    one, other = (p_b_better_by_trials(sign * data, min_trials=3, rng=rng()) for sign in (1, -1))
    assert one + other == 1.0


def test_what_is_not_data_is_refused() -> None:
    with pytest.raises(ValueError, match="negative"):
        p_b_better(improved=-1, regressed=0)
    with pytest.raises(ValueError, match="at least one trial"):
        p_b_better_by_trials([1.0], min_trials=0, rng=rng())
    with pytest.raises(ValueError, match="finite"):
        p_b_better_by_trials([float("nan")], min_trials=3, rng=rng())
