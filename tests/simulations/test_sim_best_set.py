"""What a sweep promises: the plausibly best set holds the best configuration, after a race too.

Seeded; equal configurations are the hardest truth, because then any of them may be called the best.
"""

from __future__ import annotations

import numpy as np
import pytest

from stats.best_set import best_set_pass_fail, best_set_scores
from stats.halving import plan_halving, survivors
from stats.optimism import optimism_gap

pytestmark = pytest.mark.slow

BOUND = 0.95 - 0.015
RUNS = 2_000


def verdicts(configs: int, cases: int, *, rng: np.random.Generator) -> np.ndarray:
    """Return verdicts of equal configurations that agree on easy and on hard cases, shape (configs, cases)."""
    return (rng.random((configs, cases)) < rng.beta(2.0, 1.0, size=cases)).astype(float)


@pytest.mark.parametrize("configs", [3, 4, 8])
@pytest.mark.parametrize("cases", [30, 200])
def test_c56_the_set_holds_the_best_of_equal_configs(configs: int, cases: int) -> None:
    rng = np.random.default_rng(configs * 1000 + cases)
    held = sum(0 in best_set_pass_fail(verdicts(configs, cases, rng=rng)).members for _ in range(RUNS))
    assert held / RUNS >= BOUND


@pytest.mark.parametrize("configs", [3, 8])
def test_the_set_holds_the_best_of_equal_scored_configs(configs: int) -> None:
    rng = np.random.default_rng(configs)
    values = rng.normal(size=(RUNS, configs, 50)) + rng.normal(size=(RUNS, 1, 50))
    held = sum(0 in best_set_scores(run).members for run in values)
    assert held / RUNS >= BOUND


@pytest.mark.parametrize("configs", [3, 4, 8])
def test_after_a_race_the_set_still_holds_the_best_and_the_winner_looks_better_than_it_is(configs: int) -> None:
    rng = np.random.default_rng(configs + 50)
    plan = plan_halving(configs, budget=100 * configs, train_cases=1000)
    held, gaps = 0, []
    for _ in range(RUNS):
        everything = verdicts(configs, plan.total_cases + 100, rng=rng)
        train, test = everything[:, : plan.total_cases], everything[:, plan.total_cases :]
        seen = np.full_like(train, np.nan)
        racing, used = list(range(configs)), 0
        for round_ in plan.rounds:
            fresh = slice(used, used + round_.cases)
            seen[racing, fresh] = train[racing, fresh]
            order = survivors(
                train[racing, fresh].mean(axis=1).tolist(), overall_means=np.nanmean(seen[racing], axis=1).tolist()
            )
            racing, used = [racing[position] for position in order], used + round_.cases
        held += 0 in best_set_pass_fail(seen).members
        winner = racing[0]
        gaps.append(optimism_gap(seen[winner][~np.isnan(seen[winner])], test[winner]).gap)
    assert held / RUNS >= BOUND
    # Luck does not travel: the winner of equal configurations lost one to four points on cases it never saw.
    assert 0.005 < np.mean(gaps) < 0.04
