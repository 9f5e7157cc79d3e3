"""Vectors of posterior: from a 2x2 table, or from counts of differences given as "j/k"."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from stats.posterior import p_b_better, p_b_better_by_trials


def adapter(given: dict[str, Any]) -> dict[str, Any]:
    if "difference_counts" not in given:
        return {"p_b_better": p_b_better(improved=given["improved"], regressed=given["regressed"])}
    counts = given["difference_counts"]
    differences = np.repeat([float(Fraction(value)) for value in counts], list(counts.values()))
    rng = np.random.default_rng(1)
    return {"p_b_better": p_b_better_by_trials(differences, min_trials=given["trials"], rng=rng)}
