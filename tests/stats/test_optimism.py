"""The optimism gap of a winner."""

from __future__ import annotations

import numpy as np
import pytest

from stats.optimism import optimism_gap


def test_gap_is_train_minus_test_with_welchs_interval() -> None:
    # scipy 1.17.1: ttest_ind(train, test, equal_var=False).confidence_interval(0.95).
    result = optimism_gap([1.0] * 42 + [0.0] * 8, [1.0] * 35 + [0.0] * 15)
    assert result.gap == pytest.approx(0.14)
    assert result.interval is not None
    assert (result.interval.low, result.interval.high) == pytest.approx((-0.0264712113, 0.3064712113), abs=1e-9)
    assert (result.train_mean, result.test_mean) == (0.84, 0.7)


def test_one_side_without_spread_still_has_an_interval() -> None:
    # scipy 1.17.1: ttest_ind([1]*5, [1, 1, 0, 1], equal_var=False): 0.25 ± 0.7956115.
    result = optimism_gap([1.0] * 5, [1.0, 1.0, 0.0, 1.0])
    assert result.interval is not None
    assert result.interval.high - 0.25 == pytest.approx(0.7956115, abs=1e-6)


@pytest.mark.parametrize(("train", "test"), [([1.0, 0.0], []), ([], [1.0]), ([], [])])
def test_without_a_case_on_a_side_there_is_no_gap(train: list[float], test: list[float]) -> None:
    result = optimism_gap(train, test)
    assert (result.gap, result.interval) == (None, None)
    assert result.reason == "no case on one of the sides"


@pytest.mark.parametrize(
    ("train", "test", "reason"),
    [
        ([1.0, 0.0, 1.0], [1.0], "fewer than two cases on a side"),
        ([1.0] * 10, [1.0] * 10, "no spread on either side"),
        ([0.1 + 0.2, 0.3], [0.3, 0.3], "no spread on either side"),
    ],
)
def test_without_spread_or_with_one_case_there_is_a_gap_and_no_interval(
    train: list[float], test: list[float], reason: str
) -> None:
    result = optimism_gap(train, test)
    assert result.gap == pytest.approx(np.mean(train) - np.mean(test))
    assert (result.interval, result.reason) == (None, reason)


def test_missing_scores_are_refused() -> None:
    with pytest.raises(ValueError, match="train must be finite"):
        optimism_gap([np.nan, 1.0], [1.0])
    with pytest.raises(ValueError, match="test must be finite"):
        optimism_gap([1.0], [[1.0]])
