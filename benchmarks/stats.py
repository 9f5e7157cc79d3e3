"""How fast the statistics are, against scipy in the same process and against the targets.

Run with `python -m benchmarks.stats`. Ratios are to `scipy.stats.bootstrap` on the same data, best of several runs on
both sides, so that a busy machine slows both. Exit status 1 when a ratio or the memory bound is missed.
"""

from __future__ import annotations

import sys
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy.stats

from stats.bootstrap import bootstrap_difference
from stats.clusters import cluster_difference
from stats.means import mean_interval
from stats.pairing import pair_cases
from stats.posterior import p_b_better_by_trials
from stats.power import mcnemar_mde
from stats.sequential import boundaries

N = 10_000
REPEATS = 7
SCIPY_REPEATS = 3
SCIPY_BATCH = 250
SHORT_WORK_S = 0.33
MEMORY_LIMIT_MB = 40.0


@dataclass(frozen=True, slots=True)
class Row:
    """One measured piece of work: seconds seen here, and the most it may take (twice what was seen elsewhere)."""

    work: str
    seconds: float
    target_s: float | None


def best(run: Callable[[], object], repeats: int = REPEATS) -> float:
    """Return the shortest run in seconds, after one to warm up; short work is repeated for a third of a second."""
    run()
    seen: list[float] = []
    while len(seen) < repeats or sum(seen) < SHORT_WORK_S:
        start = time.perf_counter()
        run()
        seen.append(time.perf_counter() - start)
    return min(seen)


def ours(data: np.ndarray, n_resamples: int = 10_000) -> Callable[[], object]:
    return lambda: bootstrap_difference(data, rng=np.random.default_rng(1), n_resamples=n_resamples)


def scipys(data: np.ndarray, method: Literal["percentile", "BCa"] = "percentile") -> Callable[[], object]:
    return lambda: scipy.stats.bootstrap(
        (data,), np.mean, n_resamples=10_000, method=method, batch=SCIPY_BATCH, rng=np.random.default_rng(1)
    )


def peak_mb(run: Callable[[], object]) -> float:
    tracemalloc.start()
    try:
        run()
        return tracemalloc.get_traced_memory()[1] / 1e6
    finally:
        tracemalloc.stop()


def main() -> int:
    rng = np.random.default_rng(17)
    pass_fail = rng.choice([-1.0, 0.0, 1.0], size=N, p=[0.08, 0.80, 0.12])
    scores = rng.normal(0.02, 0.3, size=N)
    few = rng.normal(0.02, 0.3, size=200)
    labels = rng.integers(0, 50, size=N).tolist()
    trials_a, trials_b = (rng.integers(0, 2, size=(100_000, 3)).astype(float) for _ in range(2))
    thirds = pair_cases(trials_a[:99], trials_b[:99]).differences

    pass_fail_s, scores_s = best(ours(pass_fail)), best(ours(scores))
    scipy_pass_fail_s, scipy_scores_s = best(scipys(pass_fail), SCIPY_REPEATS), best(scipys(scores), SCIPY_REPEATS)
    bca_s = best(lambda: bootstrap_difference(scores, rng=np.random.default_rng(1), method="bca"), SCIPY_REPEATS)
    rows = [
        Row("10,000 resamples of 10,000 pass/fail cases", pass_fail_s, 0.006),
        Row("  the same through scipy.stats.bootstrap(batch=250)", scipy_pass_fail_s, None),
        Row("10,000 resamples of 10,000 scores", scores_s, 3.0),
        Row("  the same through scipy.stats.bootstrap(batch=250)", scipy_scores_s, None),
        Row("10,000 resamples of 10,000 scores, BCa", bca_s, 3.0),
        Row("  the same through scipy.stats.bootstrap(batch=250)", best(scipys(scores, "BCa"), 1), None),
        Row("10,000 resamples of 200 scores", best(ours(few)), 0.080),
        Row("2,000 resamples of 200 scores", best(ours(few, 2_000)), 0.014),
        Row("mean interval of 200 scores, 2,000 resamples", best(lambda: mean_interval(few, rng=rng)), 0.014),
        Row("boundaries of 19 looks", best(lambda: boundaries(range(20, 201, 10), n_max=200), SCIPY_REPEATS), 1.2),
        Row(
            "10,000 cases in 50 groups, 10,000 resamples",
            best(lambda: cluster_difference(scores, labels, rng=rng)),
            None,
        ),
        Row("exact MDE at 1,000 cases", best(lambda: mcnemar_mde(1_000, discordance=0.2)), None),
        Row("pairing 100,000 cases of 3 trials", best(lambda: pair_cases(trials_a, trials_b)), 1.0),
        Row("P(B>A) by trials, 99 cases", best(lambda: p_b_better_by_trials(thirds, min_trials=3, rng=rng)), None),
    ]
    print(f"{'work':<56}{'seen':>12}{'at most':>12}")
    for row in rows:
        target = "" if row.target_s is None else f"{row.target_s * 1000:.1f} ms"
        print(f"{row.work:<56}{f'{row.seconds * 1000:.2f} ms':>12}{target:>12}")

    memory = peak_mb(ours(scores))
    memory_large = peak_mb(lambda: bootstrap_difference(rng.normal(size=1_000_000), rng=rng, n_resamples=20))
    # The ideal bootstrap by convolution and resampling by a matrix product are not part of the product.
    checks = [
        ("pass/fail, times faster than scipy", scipy_pass_fail_s / pass_fail_s, 300.0),
        ("scores, times faster than scipy", scipy_scores_s / scores_s, 1.5),
        (f"memory of 10,000 scores: {memory:.1f} MB; room below the limit", MEMORY_LIMIT_MB / memory, 1.0),
    ]
    print()
    for text, value, least in checks:
        print(f"{text}: {value:.1f} (at least {least:g}) {'ok' if value >= least else 'MISSED'}")
    print(f"memory of 1,000,000 scores, 8 MB of data: {memory_large:.1f} MB")
    slow = [row.work for row in rows if row.target_s is not None and row.seconds > row.target_s]
    if slow:
        print(f"slower than its target: {', '.join(slow)}")
    return int(bool(slow) or any(value < least for _, value, least in checks))


if __name__ == "__main__":
    sys.exit(main())
