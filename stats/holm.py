"""Holm's correction of the p-values of one family of comparisons.

A comparison without a p-value is not a test: it stays None and does not make the others stricter.
"""

from __future__ import annotations

from collections.abc import Sequence


def holm(p: Sequence[float | None]) -> list[float | None]:
    """Return the step-down adjusted p-values, in the order given.

    p   p-values in [0, 1]; None where a comparison has none

    The adjusted values never fall when p rises and are capped at 1; compare each with the level of the whole family.
    Raises ValueError for a p outside [0, 1], NaN included. Holm 1979.
    """
    known = [(value, position) for position, value in enumerate(p) if value is not None]
    if any(not 0.0 <= value <= 1.0 for value, _ in known):
        raise ValueError(f"p-values must lie in [0, 1]: {list(p)}")
    adjusted: list[float | None] = [None] * len(p)
    largest = 0.0
    for rank, (value, position) in enumerate(sorted(known)):
        largest = max(largest, min(1.0, (len(known) - rank) * value))
        adjusted[position] = largest
    return adjusted
