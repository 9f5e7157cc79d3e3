"""Regression to the mean."""

from __future__ import annotations

import numpy as np
import pytest

from stats.decision import decide
from stats.regression import (
    ExpectedRerun,
    expected_rerun_from_aa,
    expected_rerun_from_trials,
    failing_subset_hold,
)
from stats.results import Interval


def test_two_runs_of_one_config() -> None:
    # By hand: 35 failed first, 6 of them passed the second time.
    assert expected_rerun_from_aa(improved=6, neither=29).expected_pass == pytest.approx(6 / 35)
    assert expected_rerun_from_aa(improved=0, neither=0) == ExpectedRerun(None, "no case failed")
    with pytest.raises(ValueError, match="negative"):
        expected_rerun_from_aa(improved=-1, neither=0)


def test_trials_of_a_itself() -> None:
    # By hand: c(k − c)/(k(k − 1)) is 1/2 and 0; (k − c)/k is 1/2 and 1: 0.5/1.5.
    assert expected_rerun_from_trials([1, 0], [2, 2]).expected_pass == pytest.approx(1 / 3)
    # A case with one trial is left out.
    assert expected_rerun_from_trials([1, 0, 0], [2, 2, 1]).expected_pass == pytest.approx(1 / 3)


def test_nothing_to_say_has_a_reason() -> None:
    assert expected_rerun_from_trials([0], [1]).reason == "no case has two trials"
    assert expected_rerun_from_trials([3], [3]).reason == "no case failed"
    with pytest.raises(ValueError, match="passes of"):
        expected_rerun_from_trials([3], [2])


def test_k36_cases_that_failed_a_coin_pass_half_the_time_on_a_rerun() -> None:
    trials = np.random.default_rng(36).random((2_000, 2)) < 0.5
    by_trials = expected_rerun_from_trials(trials.sum(axis=1).tolist(), [2] * 2_000).expected_pass
    first, second = trials.T
    by_rerun = expected_rerun_from_aa(
        improved=int((~first & second).sum()), neither=int((~first & ~second).sum())
    ).expected_pass
    # A fair coin: one half; three standard errors of a share from 1,000 failed cases.
    assert by_trials == pytest.approx(0.5, abs=0.05)
    assert by_rerun == pytest.approx(0.5, abs=0.05)


def test_k36_a_failing_subset_is_inconclusive_whatever_the_figures() -> None:
    hold = failing_subset_hold(ExpectedRerun(0.5, None))
    decision = decide(estimate=0.5, interval=Interval(0.4, 0.6), exact_p=1e-9, kind="pass_fail", holds=[hold])
    assert (decision.outcome, decision.reasons[0].code) == ("inconclusive", "failing-subset")
    assert "about 50.0%" in decision.reasons[0].text
    assert "about" not in failing_subset_hold().text
