"""Non-inferiority: does B lose less than a margin (`--margin`).

The bootstrap alone fails here. With few flips it is blind to flips that did not happen, and passes almost half of the
runs whose true loss is the margin; so for pass/fail the adjusted interval has a say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy.typing as npt

from stats.adjusted import adjusted_difference
from stats.decision import Hold, MarginDecision, margin_decision
from stats.results import LEVEL, Interval


@dataclass(frozen=True, slots=True)
class NonInferiority:
    """The decision on a margin and the two intervals it rests on, as shares.

    bootstrap   the interval it was given; None below two cases
    adjusted    pass/fail only, else None
    """

    decision: MarginDecision
    bootstrap: Interval | None
    adjusted: Interval | None


def non_inferiority(
    differences: npt.ArrayLike,
    *,
    bootstrap: Interval | None,
    kind: Literal["pass_fail", "scores"],
    margin: float,
    min_trials: int = 1,
    level: float = LEVEL,
    holds: Sequence[Hold] = (),
) -> NonInferiority:
    """Return whether the lower end of B − A lies strictly above −margin.

    differences  shape (cases,), complete
    bootstrap    expanded bootstrap interval of the same differences; with groups, the interval over groups
    kind         pass_fail: the lower end is the smaller of the bootstrap's and the adjusted interval's;
                 scores: the bootstrap's
    margin       share, at least 0
    min_trials   smallest number of graded trials of a side, for the adjusted interval

    Without a single flip a margin of 3 points needs 91 cases, one of 5 points 54.
    """
    adjusted = (
        adjusted_difference(differences, min_trials=min_trials, level=level).interval if kind == "pass_fail" else None
    )
    low = None if bootstrap is None else bootstrap.low
    if low is not None and adjusted is not None:
        low = min(low, adjusted.low)
    return NonInferiority(margin_decision(low=low, margin=margin, holds=holds), bootstrap, adjusted)
