"""The exact McNemar test and its mid-p.

Works on counts of flipped cases only: cases that did not flip carry no information here, and trials are not cases.
"""

from __future__ import annotations

from dataclasses import dataclass

from scipy import special


@dataclass(frozen=True, slots=True)
class ExactTest:
    """A two-sided exact test of "improving is as likely as regressing".

    p          doubled smaller tail, capped at 1; never anti-conservative, so verdicts use it
    mid_p      the same with half the weight of the observed table; can exceed its level (up to 7%), so it is shown only
    improved, regressed, flips   counts of cases; flips = improved + regressed
    """

    p: float
    mid_p: float
    improved: int
    regressed: int
    flips: int


def mcnemar_exact(*, improved: int, regressed: int) -> ExactTest:
    """Return the exact conditional McNemar test of two counts of flipped cases.

    improved, regressed   counts of cases, at least 0; without a flip both p are 1

    The counts are whole cases; the same function is the exact sign test of any paired differences.
    McNemar 1947; mid-p as in Fagerland, Lydersen and Laake 2013.
    """
    if improved < 0 or regressed < 0:
        raise ValueError(f"counts cannot be negative: improved={improved}, regressed={regressed}")
    fewer, flips = int(min(improved, regressed)), int(improved + regressed)
    tail = float(special.bdtr(fewer, flips, 0.5))
    # By symmetry the tail up to the middle of an even number of flips is (1 + P(X = fewer)) / 2.
    mid_p = 1.5 - tail if 2 * fewer == flips else tail + _below(fewer, flips)
    if flips == 0:
        mid_p = 1.0
    return ExactTest(p=min(1.0, 2.0 * tail), mid_p=mid_p, improved=int(improved), regressed=int(regressed), flips=flips)


def _below(count: int, flips: int) -> float:
    """Return P(X < count) for X ~ Bin(flips, 1/2)."""
    return float(special.bdtr(count - 1, flips, 0.5)) if count > 0 else 0.0
