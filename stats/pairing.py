"""From two tables of trials to paired cases: the difference of each case and the counts the exact test uses.

The case is the unit: trials of one case are averaged first and never counted as cases. NaN means "left out" at this
door and nowhere else, because a rectangular array needs a filler; nothing that comes out of here holds a NaN.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from stats.results import PASS_THRESHOLD, Floats, Ints

Bools: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class PairedCases:
    """The cases with at least one graded trial on each side, and what changed in them.

    case_index   positions of the paired cases among the input rows, ascending
    differences  mean of b minus mean of a, one per paired case, each over all its graded trials
    n            number of paired cases
    estimate     mean of the differences, every case weighing the same; None without a paired case
    improved     cases with more passes in b than in a among the first m graded trials of each side (m: the smaller)
    regressed    cases with fewer
    direction    +1 improved, -1 regressed, 0 neither; one per paired case
    fixed, broke positions of the cases whose verdict (at least half of the m trials pass) changed; for listing only
    lost_a       trials of side a left out, over all cases, paired or not
    lost_b       the same for side b
    min_trials   smallest number of graded trials on any side of a paired case; 0 when n is 0
    compared     m of each paired case
    passes_a     passes of a among those m trials, one per paired case
    passes_b     the same for b
    """

    case_index: Ints
    differences: Floats
    n: int
    estimate: float | None
    improved: int
    regressed: int
    direction: Ints
    fixed: Ints
    broke: Ints
    lost_a: int
    lost_b: int
    min_trials: int
    compared: Ints
    passes_a: Ints
    passes_b: Ints


def pair_cases(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    *,
    planned_a: npt.ArrayLike | None = None,
    planned_b: npt.ArrayLike | None = None,
) -> PairedCases:
    """Return the paired cases of two sides.

    a, b                  shape (cases, trials of that side), rows aligned by case, values in any unit; NaN is a trial
                          without a score. An agent failure is a score of 0, not NaN: the caller writes the 0.
    planned_a, planned_b  trials planned per case, shape (cases,), when rows are padded to a common width: the padding
                          is then not counted as lost. By default every column was planned for every case.

    A case lost on either side counts in neither. Passes are compared on the first m graded trials of each side, because
    the majority of three against a single trial favours one of them even when nothing changed.
    Raises ValueError when the rows do not align, a value is infinite or more trials are graded than were planned.
    """
    table_a, table_b = trial_tables(a, b)
    graded_a, graded_b = ~np.isnan(table_a), ~np.isnan(table_b)
    n_a, n_b = _counts(graded_a), _counts(graded_b)
    lost_a, lost_b = _lost(n_a, table_a, planned_a, "a"), _lost(n_b, table_b, planned_b, "b")

    paired = np.flatnonzero((n_a > 0) & (n_b > 0))
    table_a, table_b, graded_a, graded_b = table_a[paired], table_b[paired], graded_a[paired], graded_b[paired]
    n_a, n_b = n_a[paired], n_b[paired]
    # One quotient instead of two: sums of passes are whole numbers, so equal fractions come out as equal floats.
    sum_a = np.where(graded_a, table_a, 0.0).sum(axis=1)
    sum_b = np.where(graded_b, table_b, 0.0).sum(axis=1)
    differences: Floats = (sum_b * n_a - sum_a * n_b) / (n_a * n_b)

    compared = np.minimum(n_a, n_b)
    passes_a, passes_b = _passes(table_a, graded_a, compared), _passes(table_b, graded_b, compared)
    direction: Ints = np.sign(passes_b - passes_a)
    verdict_a, verdict_b = 2 * passes_a >= compared, 2 * passes_b >= compared
    n = int(paired.size)
    return PairedCases(
        case_index=paired.astype(np.int64),
        differences=differences,
        n=n,
        # fsum is exact, so the order of the cases cannot change the last digit.
        estimate=math.fsum(differences.tolist()) / n if n else None,
        improved=int(np.count_nonzero(direction > 0)),
        regressed=int(np.count_nonzero(direction < 0)),
        direction=direction,
        fixed=paired[~verdict_a & verdict_b].astype(np.int64),
        broke=paired[verdict_a & ~verdict_b].astype(np.int64),
        lost_a=lost_a,
        lost_b=lost_b,
        min_trials=int(compared.min()) if n else 0,
        compared=compared,
        passes_a=passes_a,
        passes_b=passes_b,
    )


def trial_tables(a: npt.ArrayLike, b: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Return both sides as arrays of shape (cases, trials), checked: same cases, nothing infinite, NaN left in."""
    table_a, table_b = _table(a, "a"), _table(b, "b")
    if table_a.shape[0] != table_b.shape[0]:
        raise ValueError(f"a has {table_a.shape[0]} cases and b has {table_b.shape[0]}: rows must be the same cases")
    return table_a, table_b


def _table(values: npt.ArrayLike, name: str) -> Floats:
    table: Floats = np.asarray(values, dtype=np.float64)
    if table.ndim != 2:
        raise ValueError(f"{name} must have the shape (cases, trials), not {table.shape}")
    if np.isinf(table).any():
        raise ValueError(f"{name} holds an infinite score")
    return table


def _counts(mask: Bools) -> Ints:
    counts: Ints = mask.sum(axis=1, dtype=np.int64)
    return counts


def _lost(graded: Ints, table: Floats, planned: npt.ArrayLike | None, name: str) -> int:
    if planned is None:
        return int(table.size - graded.sum())
    expected: Ints = np.asarray(planned, dtype=np.int64)
    if expected.shape != graded.shape or (graded > expected).any():
        raise ValueError(f"planned_{name} must hold one count per case, at least the number of graded trials")
    return int((expected - graded).sum())


def _passes(table: Floats, graded: Bools, first: Ints) -> Ints:
    """Count the passes among the first `first` graded trials of each row."""
    rank = np.cumsum(graded, axis=1)
    return _counts(graded & (rank <= first[:, None]) & (np.where(graded, table, 0.0) >= PASS_THRESHOLD))
