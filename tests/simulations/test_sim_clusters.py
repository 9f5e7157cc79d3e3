"""What intervals over groups promise with few groups of unequal size.

2,000 data sets a row, seeded; three binomial standard errors are allowed.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from stats.clusters import ClusterDifference, cluster_difference
from stats.decision import decide
from stats.results import Generator

pytestmark = pytest.mark.slow

RUNS = 2_000
TRUE_GAIN = 0.1


def slack(bound: float) -> float:
    return 3.0 * math.sqrt(bound * (1.0 - bound) / RUNS)


def run(n_groups: int, rng: Generator, gain: float = TRUE_GAIN) -> ClusterDifference:
    """Return the result for groups of 3 to 12 cases that share an effect of their own."""
    sizes = rng.integers(3, 13, size=n_groups)
    labels = np.repeat(np.arange(n_groups), sizes)
    data = gain + rng.normal(0.0, 0.3, size=n_groups)[labels] + rng.normal(0.0, 0.5, size=labels.size)
    return cluster_difference(data, labels.tolist(), rng=rng, n_resamples=2_000)


@pytest.mark.parametrize("n_groups", [5, 10, 20, 50])
def test_cr2_covers_from_five_groups_on_and_the_bootstrap_from_ten(n_groups: int) -> None:
    rng = np.random.default_rng(171)
    by_cr2 = by_bootstrap = 0
    for _ in range(RUNS):
        result = run(n_groups, rng)
        assert result.cr2 is not None
        assert result.bootstrap is not None
        by_cr2 += result.cr2.interval.holds(TRUE_GAIN)
        by_bootstrap += result.bootstrap.holds(TRUE_GAIN)
    assert by_cr2 / RUNS >= 0.94 - slack(0.94)
    if n_groups >= 10:
        assert by_bootstrap / RUNS >= 0.935 - slack(0.935)


@pytest.mark.parametrize("n_groups", [4, 8, 12])
def test_groups_speak_in_at_most_five_percent_when_nothing_changed(n_groups: int) -> None:
    rng = np.random.default_rng(172)
    spoken = 0
    for _ in range(RUNS):
        result = run(n_groups, rng, gain=0.0)
        p = None if result.cr2 is None else result.cr2.p
        decision = decide(estimate=result.estimate, interval=result.interval, exact_p=p, kind="clusters")
        spoken += decision.outcome != "inconclusive"
    assert spoken / RUNS <= 0.05 + slack(0.05)
