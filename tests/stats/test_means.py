"""The mean of one run."""

from __future__ import annotations

import numpy as np
import pytest

from stats.means import mean_interval
from stats.results import Interval


def rng() -> np.random.Generator:
    return np.random.default_rng(3)


def test_no_score_has_no_mean() -> None:
    result = mean_interval([], rng=rng())
    assert (result.mean, result.interval, result.reason) == (None, None, "no scores")


@pytest.mark.parametrize("scores", [[0.4], [0.4, 0.4, 0.4]])
def test_one_score_or_equal_scores_have_an_interval_of_the_mean_alone(scores: list[float]) -> None:
    result = mean_interval(scores, rng=rng())
    assert result.mean is not None
    assert result.interval == Interval(result.mean, result.mean)


def test_student_sleep_data() -> None:
    # R boot 1.3-28.1 on the second drug of Student's sleep data: mean 2.33, [1.20, 3.53] with 100,000 resamples.
    result = mean_interval([1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4], rng=rng())
    assert result.mean == pytest.approx(2.33)
    assert result.interval is not None
    assert (result.interval.low, result.interval.high) == pytest.approx((1.20, 3.53), abs=0.21)
    assert result.n_resamples == 2_000


def test_the_same_seed_gives_the_same_digits_in_any_order() -> None:
    scores = np.random.default_rng(8).random(50)
    one = mean_interval(scores, rng=rng())
    assert one == mean_interval(scores, rng=rng()) == mean_interval(scores[::-1], rng=rng())


def test_a_missing_score_is_refused() -> None:
    with pytest.raises(ValueError, match="finite"):
        mean_interval([0.1, float("nan")], rng=rng())
