"""What the bootstrap promises for scores and for several trials per case.

4,000 data sets a row and 2,000 resamples each, seeded; an observed share of a property may lie three binomial
standard errors beyond its bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from stats.bootstrap import bootstrap_difference
from stats.decision import decide
from stats.mcnemar import mcnemar_exact
from stats.paired_tests import sign_test
from stats.pairing import pair_cases
from stats.results import Floats, Generator

pytestmark = pytest.mark.slow

RUNS = 4_000
N_RESAMPLES = 2_000
TRUE_GAIN = 0.08


def slack(bound: float, runs: int = RUNS) -> float:
    """Return three binomial standard errors of a share at its bound."""
    return 3.0 * math.sqrt(bound * (1.0 - bound) / runs)


def normal_scores(n: int, rng: Generator) -> Floats:
    return rng.normal(TRUE_GAIN, 0.3, size=n)


def three_trials(n: int, rng: Generator, gain: float = TRUE_GAIN) -> Floats:
    """Return differences of three pass/fail trials a side; each case has its own pass rate, raised by the gain."""
    rate = rng.uniform(0.1, 0.8, size=(n, 1))
    a, b = rng.random((n, 3)) < rate, rng.random((n, 3)) < rate + gain
    return pair_cases(a, b).differences


@pytest.mark.parametrize("draw", [normal_scores, three_trials])
@pytest.mark.parametrize(("n", "low", "high"), [(20, 0.94, 1.0), (50, 0.945, 1.0), (100, 0.945, 0.965)])
def test_the_expanded_bootstrap_covers_the_true_gain(
    draw: Callable[[int, Generator], Floats], n: int, low: float, high: float
) -> None:
    rng = np.random.default_rng(161)
    covered = 0
    for _ in range(RUNS):
        interval = bootstrap_difference(draw(n, rng), rng=rng, n_resamples=N_RESAMPLES).interval
        assert interval is not None
        covered += interval.holds(TRUE_GAIN)
    assert low - slack(low) <= covered / RUNS <= high + (slack(high) if high < 1.0 else 0.0)


@pytest.mark.parametrize("n", [4, 10, 20, 60])
def test_three_trials_speak_in_at_most_five_percent_when_nothing_changed(n: int) -> None:
    rng = np.random.default_rng(162)
    spoken = 0
    for _ in range(RUNS):
        rate = rng.uniform(0.05, 0.95, size=(n, 1))
        pairs = pair_cases(rng.random((n, 3)) < rate, rng.random((n, 3)) < rate)
        result = bootstrap_difference(pairs.differences, rng=rng, n_resamples=N_RESAMPLES)
        p = mcnemar_exact(improved=pairs.improved, regressed=pairs.regressed).p
        decision = decide(estimate=result.estimate, interval=result.interval, exact_p=p, kind="pass_fail")
        spoken += decision.outcome != "inconclusive"
    assert spoken / RUNS <= 0.05 + slack(0.05)


@pytest.mark.parametrize("n", [4, 8, 20, 60])
def test_scores_that_seldom_change_speak_in_at_most_five_percent_when_nothing_changed(n: int) -> None:
    rng = np.random.default_rng(163)
    spoken = 0
    for _ in range(RUNS):
        differences = np.where(rng.random(n) < 0.3, 0.0, rng.normal(0.0, 0.3, size=n))
        result = bootstrap_difference(differences, rng=rng, n_resamples=N_RESAMPLES)
        test = sign_test(differences)
        decision = decide(
            estimate=result.estimate, interval=result.interval, exact_p=test.p, kind="scores", n_nonzero=test.flips
        )
        spoken += decision.outcome != "inconclusive"
    assert spoken / RUNS <= 0.05 + slack(0.05)


def test_unequal_numbers_of_trials_do_not_favour_a_side() -> None:
    # One trial against three of the same config: by majority verdict up to 18% of such runs would be significant.
    rng = np.random.default_rng(164)
    rejected = 0
    for _ in range(RUNS):
        rate = rng.uniform(0.05, 0.95, size=(200, 1))
        pairs = pair_cases(rng.random((200, 1)) < rate, rng.random((200, 3)) < rate)
        rejected += mcnemar_exact(improved=pairs.improved, regressed=pairs.regressed).p < 0.05
    assert rejected / RUNS <= 0.05 + slack(0.05)
