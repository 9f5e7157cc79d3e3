"""What a matrix promises: a grid of equal cells seldom names any of them better or worse.

Seeded; three binomial standard errors are allowed.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from stats.bootstrap import bootstrap_difference
from stats.decision import decide
from stats.holm import holm
from stats.mcnemar import ExactTest, mcnemar_exact
from stats.pairing import PairedCases, pair_cases

pytestmark = pytest.mark.slow

RUNS = 400
CELLS = 20
CASES = 40


def test_k27_a_grid_of_equal_cells_speaks_in_at_most_five_percent() -> None:
    rng = np.random.default_rng(27)
    spoken = uncorrected = 0
    for _ in range(RUNS):
        verdicts = rng.integers(0, 2, size=(CELLS, CASES, 1))
        pairs = [pair_cases(verdicts[0], cell) for cell in verdicts[1:]]
        tests = [mcnemar_exact(improved=pair.improved, regressed=pair.regressed) for pair in pairs]
        adjusted = holm([test.p for test in tests])
        # An interval is asked only where the test leaves anything to decide.
        spoken += any(speaks(*cell, rng=rng) for cell in zip(pairs, tests, adjusted, strict=True))
        uncorrected += any(test.p < 0.05 for test in tests)
    assert spoken / RUNS <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / RUNS)
    # Without the correction about a quarter of such grids raise a false alarm.
    assert uncorrected / RUNS > 0.15


def speaks(pair: PairedCases, test: ExactTest, adjusted_p: float | None, *, rng: np.random.Generator) -> bool:
    if test.p >= 0.05:
        return False
    result = bootstrap_difference(pair.differences, rng=rng, n_resamples=2_000)
    decision = decide(
        estimate=result.estimate,
        interval=result.interval,
        exact_p=test.p,
        kind="pass_fail",
        adjusted_p=adjusted_p,
    )
    return decision.outcome != "inconclusive"
