"""What exp metrics promises: an A/A run stays quiet, however many metrics it prints. Seeded."""

from __future__ import annotations

import math

import numpy as np
import pytest

from stats.metrics import compare_metrics

pytestmark = pytest.mark.slow

RUNS = 2_000
PAIRS = 11


def speaks(metrics: int, *, shift: float, rng: np.random.Generator) -> list[bool]:
    """Return which metrics get a verdict; timings are skewed, and runs of a pair share what the machine is doing."""
    machine = rng.gamma(2.0, size=(metrics, PAIRS))
    base, cand = (machine + rng.gamma(2.0, size=(metrics, PAIRS)) for _ in range(2))
    rows = compare_metrics({f"m{i}": (base[i], cand[i] + shift) for i in range(metrics)})
    return [metric.verdict != "no-change" for metric in rows.values()]


@pytest.mark.parametrize("metrics", [1, 3, 4, 5, 20])
def test_c107_an_aa_run_speaks_in_at_most_5_percent(metrics: int) -> None:
    rng = np.random.default_rng(metrics)
    runs = RUNS if metrics < 20 else RUNS // 2
    wrong = sum(any(speaks(metrics, shift=0.0, rng=rng)) for _ in range(runs)) / runs
    assert wrong <= 0.05 + 3.0 * math.sqrt(0.05 * 0.95 / runs)


@pytest.mark.parametrize(
    ("metrics", "power"),
    # By hand: each pair goes up with Φ(2/√2) = 0.921; alone 10 of 11 suffice (0.79), among five it takes all 11 (0.41).
    [(1, 0.786), (5, 0.405)],
)
def test_a_shift_of_two_standard_deviations_is_mostly_seen_alone_and_seldom_among_five(
    metrics: int, power: float
) -> None:
    rng, runs, seen = np.random.default_rng(2), 2_000, 0
    for _ in range(runs):
        base, cand = rng.normal(size=(2, metrics, PAIRS))
        cand[0] += 2.0
        seen += compare_metrics({f"m{i}": (base[i], cand[i]) for i in range(metrics)})["m0"].verdict == "worse"
    assert seen / runs == pytest.approx(power, abs=0.035)
