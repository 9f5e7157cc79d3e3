"""The guard of a sweep: of the old cases the start solves, how many the winner breaks.

Cases that were picked because the start solved them break by chance too: run the start afresh on the guard in the same
batch, and read the share next to the A/A flip rate.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from stats.results import LEVEL, PASS_THRESHOLD, Floats, Interval, exact_fraction
from stats.wilson import wilson

TAU = Fraction(1, 10)
"""Share of the solved cases the winner may break, unless an option says otherwise."""


@dataclass(frozen=True, slots=True)
class Guard:
    """What became of the guard cases.

    solved        cases the start solves, of those both ran
    broken        solved cases the winner fails; `broken_index` has their positions
    share         broken / solved; None when nothing is solved
    interval      Wilson interval of the share; all of [0, 1] when nothing is solved
    holds         broken / solved is at most tau, compared as fractions; true when nothing is solved
    left_out      cases one side lacks
    reason        a warning when the guard says nothing, else None
    """

    solved: int
    broken: int
    broken_index: tuple[int, ...]
    share: float | None
    interval: Interval
    tau: Fraction
    holds: bool
    left_out: int
    reason: str | None


def guard(
    start: npt.ArrayLike,
    winner: npt.ArrayLike,
    *,
    tau: float | str | Decimal | Fraction = TAU,
    level: float = LEVEL,
) -> Guard:
    """Return whether the winner keeps enough of what the start solves.

    start, winner   shape (cases,), rows aligned by case: the verdict of each case, at least 0.5 is solved; NaN is a
                    case that side lacks, and is left out
    tau             share in [0, 1]; a float means the decimal it prints as, so 3 broken of 30 hold at 0.1
    """
    before, after = _verdicts(start, "start"), _verdicts(winner, "winner")
    if before.shape != after.shape:
        raise ValueError(f"start has {before.size} cases and winner {after.size}: they must be the same cases")
    allowed = exact_fraction(tau)
    if not 0 <= allowed <= 1:
        raise ValueError(f"tau is a share in [0, 1]: {tau}")
    both = ~np.isnan(before) & ~np.isnan(after)
    is_solved = both & (np.where(both, before, 0.0) >= PASS_THRESHOLD)
    broken_index = np.flatnonzero(is_solved & (np.where(both, after, 1.0) < PASS_THRESHOLD))
    solved, broken = int(np.count_nonzero(is_solved)), int(broken_index.size)
    return Guard(
        solved=solved,
        broken=broken,
        broken_index=tuple(map(int, broken_index)),
        share=broken / solved if solved else None,
        interval=wilson(broken, solved, level=level),
        tau=allowed,
        holds=broken <= allowed * solved,
        left_out=int(np.count_nonzero(~both)),
        reason=None if solved else "the start solves no case of the guard, so it guards nothing",
    )


def _verdicts(values: npt.ArrayLike, name: str) -> Floats:
    data: Floats = np.asarray(values, dtype=np.float64)
    if data.ndim != 1 or np.isinf(data).any():
        raise ValueError(f"{name} must hold one verdict per case, NaN where it lacks the case")
    return data
