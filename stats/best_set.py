"""The plausibly best set of a sweep: the configurations that no rival beats beyond chance.

It holds the truly best configuration with 95%, whatever the sample size; being in it is no proof of being good, and a
pair is compared only on the cases both ran.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

from stats.pairing import pair_cases
from stats.results import PASS_THRESHOLD, Floats, Ints, NotEnoughData

ALPHA = 0.05
"""Chance that the truly best configuration is missing from the set."""

MIN_CONFIGS = 3
"""With two configurations the paired comparison says all there is."""

DECIMALS = 10
"""Differences and means are rounded to this before they are compared."""


@dataclass(frozen=True, slots=True)
class BestSet:
    """Which configurations may be the best; positions as given.

    p        per configuration, K − 1 times the smallest p of a rival being better, at most 1
    members  positions of those with p above alpha, and the leader, ascending
    leader   the highest mean over its own cases; ties go to the first
    """

    p: tuple[float, ...]
    members: tuple[int, ...]
    leader: int
    alpha: float


def best_set_pass_fail(values: npt.ArrayLike, *, alpha: float = ALPHA) -> BestSet:
    """Return the plausibly best set of pass/fail configurations.

    values   shape (configurations, cases) or (configurations, cases, trials); at least 0.5 passes, NaN is a case or
             trial the configuration lacks

    A configuration stays unless a rival is better at level alpha/(K − 1) by the one-sided exact McNemar test. For the
    truly best one every such rejection is an error, and together they happen with at most alpha: no model of how the
    configurations hang together is needed, nor large samples. With several trials a case counts by its direction, as
    in stats/pairing.py.
    Raises NotEnoughData below three configurations.
    """
    table = _table(values, dims=(2, 3))
    wins = _wins(table) if table.ndim == 2 else _wins_by_trials(table)
    flips = wins + wins.T
    p = np.where(wins > 0, special.bdtrc(wins - 1.0, np.maximum(flips, 1), 0.5), 1.0)
    return _best_set(p, table, alpha=alpha)


def best_set_scores(values: npt.ArrayLike, *, alpha: float = ALPHA) -> BestSet:
    """Return the plausibly best set of scored configurations.

    values   shape (configurations, cases): one score per case, the mean of its trials; NaN is a case it lacks

    As for pass/fail with the one-sided paired t test; where all differences of a pair are equal, t does not exist and
    the one-sided sign test takes its place. Pairs with fewer than two cases in common reject nothing.
    """
    table = _table(values, dims=(2,))
    k = table.shape[0]
    p = np.ones((k, k))
    for i in range(k):
        for j in range(i):
            both = ~np.isnan(table[i]) & ~np.isnan(table[j])
            p[i, j], p[j, i] = _t_better(np.round(table[i, both] - table[j, both], DECIMALS))
    return _best_set(p, table, alpha=alpha)


def _best_set(p_better: Floats, table: Floats, *, alpha: float) -> BestSet:
    """Return the set from p_better[i, j], the p of "configuration i is better than j"."""
    k = table.shape[0]
    rivals = p_better.copy()
    np.fill_diagonal(rivals, 1.0)
    p = np.minimum(1.0, (k - 1) * rivals.min(axis=0))
    leader = int(np.argmax(np.round(_means(table), DECIMALS)))
    members = tuple(i for i in range(k) if p[i] > alpha or i == leader)
    return BestSet(p=tuple(map(float, p)), members=members, leader=leader, alpha=alpha)


def _table(values: npt.ArrayLike, *, dims: tuple[int, ...]) -> Floats:
    table: Floats = np.asarray(values, dtype=np.float64)
    if table.ndim not in dims:
        raise ValueError(f"values must have the shape (configurations, cases[, trials]), not {table.shape}")
    if np.isinf(table).any():
        raise ValueError("values hold an infinite score")
    if table.shape[0] < MIN_CONFIGS:
        raise NotEnoughData(f"a plausibly best set needs {MIN_CONFIGS} configurations, not {table.shape[0]}")
    if np.isnan(table.reshape(table.shape[0], -1)).all(axis=1).any():
        raise NotEnoughData("a configuration without a graded case cannot be placed")
    return table


def _wins(table: Floats) -> Ints:
    """Return in how many cases configuration i passes and j fails, both having run it, at [i, j]."""
    passes = np.where(np.isnan(table), False, table >= PASS_THRESHOLD).astype(np.int64)
    fails = np.where(np.isnan(table), False, table < PASS_THRESHOLD).astype(np.int64)
    wins: Ints = passes @ fails.T
    return wins


def _wins_by_trials(table: Floats) -> Ints:
    k = table.shape[0]
    wins = np.zeros((k, k), dtype=np.int64)
    for i in range(k):
        for j in range(i):
            pair = pair_cases(table[j], table[i])
            wins[i, j], wins[j, i] = pair.improved, pair.regressed
    return wins


def _t_better(differences: Floats) -> tuple[float, float]:
    """Return the one-sided p of the differences lying above 0, and of their lying below."""
    n = int(differences.size)
    if n < 2 or not differences.any():
        return 1.0, 1.0
    if np.ptp(differences) == 0.0:
        return (0.5**n, 1.0) if differences[0] > 0.0 else (1.0, 0.5**n)
    t = float(differences.mean() / (differences.std(ddof=1) / math.sqrt(n)))
    return float(special.stdtr(n - 1, -t)), float(special.stdtr(n - 1, t))


def _means(table: Floats) -> Floats:
    """Return the mean over its own cases per configuration, each case weighing the same."""
    return np.array([_case_means(rows).mean() for rows in table])


def _case_means(rows: Floats) -> Floats:
    if rows.ndim == 1:
        return rows[~np.isnan(rows)]
    graded = ~np.isnan(rows)
    counts = graded.sum(axis=1)
    sums = np.where(graded, rows, 0.0).sum(axis=1)
    means: Floats = sums[counts > 0] / counts[counts > 0]
    return means
