"""Vectors of paired_difference: closed forms from a 2x2 table."""

from __future__ import annotations

from typing import Any

import numpy as np

from stats.adjusted import adjusted_difference, tango
from stats.results import Interval


def adapter(given: dict[str, Any]) -> dict[str, Any]:
    improved, regressed = given["improved"], given["regressed"]
    same = given["both"] + given["neither"]
    differences = np.repeat([1.0, -1.0, 0.0], [improved, regressed, same])
    adjusted = adjusted_difference(differences, level=given["level"])
    score = tango(improved=improved, regressed=regressed, n=differences.size, level=given["level"])
    return {"difference": adjusted.estimate, "adjusted": _ends(adjusted.interval), "tango": _ends(score)}


def _ends(interval: Interval | None) -> list[float] | None:
    return None if interval is None else [interval.low, interval.high]
