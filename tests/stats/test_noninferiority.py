"""Non-inferiority."""

from __future__ import annotations

import numpy as np
import pytest

from stats.bootstrap import bootstrap_difference
from stats.decision import Hold
from stats.noninferiority import NonInferiority, non_inferiority


def judged(differences: list[float], margin: float, kind: str = "pass_fail", **options: object) -> NonInferiority:
    bootstrap = bootstrap_difference(differences, rng=np.random.default_rng(4)).interval
    return non_inferiority(differences, bootstrap=bootstrap, kind=kind, margin=margin, **options)


@pytest.mark.parametrize(("n", "margin", "outcome"), [(90, 0.03, "missed"), (91, 0.03, "passed"), (54, 0.05, "passed")])
def test_without_a_flip_the_number_of_cases_decides(n: int, margin: float, outcome: str) -> None:
    # By hand: the adjusted lower end is −2.7718/(n + 2): −0.03013 with 90 cases, −0.02980 with 91, −0.0495 with 54.
    assert judged([0.0] * n, margin).decision.outcome == outcome


def test_the_bootstrap_alone_would_pass_what_it_cannot_see() -> None:
    result = judged([0.0] * 20, 0.03)
    assert result.bootstrap is not None
    assert result.bootstrap.low == 0.0
    assert (result.decision.outcome, result.decision.low) == ("missed", result.adjusted.low)


def test_scores_go_by_the_bootstrap() -> None:
    differences = np.random.default_rng(5).normal(0.0, 0.1, size=80).tolist()
    result = judged(differences, 0.05, kind="scores")
    assert (result.adjusted, result.decision.low) == (None, result.bootstrap.low)
    assert result.decision.outcome == "passed"


def test_the_smaller_of_both_ends_counts() -> None:
    result = judged([-1.0] * 30 + [1.0] * 26 + [0.0] * 200, 0.2)
    assert result.decision.low == min(result.bootstrap.low, result.adjusted.low)


def test_too_few_cases_and_holds_are_undecided() -> None:
    assert judged([1.0], 0.03).decision.outcome == "undecided"
    held = judged([0.0] * 200, 0.03, holds=[Hold("failing-subset", "regression to the mean")])
    assert (held.decision.outcome, held.decision.reasons[0].code) == ("undecided", "failing-subset")


def test_more_trials_need_fewer_cases() -> None:
    assert judged([0.0] * 40, 0.03).decision.outcome == "missed"
    assert judged([0.0] * 40, 0.03, min_trials=3).decision.outcome == "passed"
