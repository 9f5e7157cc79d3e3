"""The Wilson score interval of a pass share.

One verdict per case: several trials of a case are not several cases, or the interval comes out too narrow.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scipy import special

from stats.results import LEVEL, Interval


@dataclass(frozen=True, slots=True)
class PassShare:
    """How many of `n` cases passed; `share` is None when n is 0, and the interval is then all of [0, 1]."""

    passed: int
    n: int
    share: float | None
    interval: Interval


def wilson(passed: int, n: int, *, level: float = LEVEL) -> Interval:
    """Return the Wilson score interval of a pass share, without continuity correction.

    passed, n   counts of cases, 0 <= passed <= n
    returns     shares in [0, 1]; low is exactly 0 when passed is 0, high exactly 1 when passed is n; [0, 1] when n is 0

    Wilson 1927; formula as in Newcombe 1998, method 3.
    """
    if not 0 <= passed <= n:
        raise ValueError(f"passed must be between 0 and n: {passed} of {n}")
    if n == 0:
        return Interval(0.0, 1.0, level)
    z = float(special.ndtri((1.0 + level) / 2.0))
    share = passed / n
    centre = (share + z * z / (2 * n)) / (1.0 + z * z / n)
    half = z / (1.0 + z * z / n) * math.sqrt(share * (1.0 - share) / n + z * z / (4.0 * n * n))
    low = 0.0 if passed == 0 else centre - half
    high = 1.0 if passed == n else centre + half
    return Interval(low, high, level)


def pass_share(passed: int, n: int, *, level: float = LEVEL) -> PassShare:
    """Return the share of cases that passed with its Wilson interval; the share is None when n is 0."""
    interval = wilson(passed, n, level=level)
    return PassShare(passed=int(passed), n=int(n), share=passed / n if n else None, interval=interval)


def pooled_share(passed: Sequence[int], n: Sequence[int], *, level: float = LEVEL) -> PassShare:
    """Return the share over several groups of cases, each weighing its size, with an interval of the same weights.

    passed, n   counts per group. Adding the counts keeps mean and interval on the same footing; a mean of shares with
                an interval of the sum, or the reverse, would not.
    """
    if len(passed) != len(n):
        raise ValueError(f"{len(passed)} pass counts for {len(n)} groups")
    if any(not 0 <= part <= whole for part, whole in zip(passed, n, strict=True)):
        raise ValueError("passed must be between 0 and n in every group")
    return pass_share(sum(passed), sum(n), level=level)
