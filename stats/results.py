"""What every statistic gives back: small frozen results, and a typed way to say nothing.

A quantity that is not defined is None with a reason beside it, never 0 and never NaN.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]
Generator: TypeAlias = np.random.Generator
AnyArray: TypeAlias = npt.NDArray[Any]

LEVEL = 0.95
"""Two-sided level of every interval unless an option says otherwise."""

PASS_THRESHOLD = 0.5
"""A score of at least this passes."""


@dataclass(frozen=True, slots=True)
class Interval:
    """Two ends in the units of the estimate; ends are inclusive."""

    low: float
    high: float
    level: float = LEVEL

    def holds(self, value: float) -> bool:
        """Return whether the interval includes `value`; an end exactly at it counts as included."""
        return self.low <= value <= self.high


class NotEnoughData(ValueError):
    """The statistic is not defined on this data; the message says why."""


def exact_fraction(value: float | str | Decimal | Fraction) -> Fraction:
    """Return the number a person wrote, without what binary floats add to it: 0.1 is one tenth.

    A float means the shortest decimal that reads back as it. Raises ValueError for what is not a finite number.
    """
    try:
        return Fraction(str(value)) if isinstance(value, float) else Fraction(value)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"not a finite number: {value!r}") from error
