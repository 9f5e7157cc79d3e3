"""Vectors of paired_bootstrap: each cut with its own seeded generator."""

from __future__ import annotations

from typing import Any

import numpy as np

from stats.bootstrap import bca_interval, bootstrap_difference, expanded_tail
from stats.results import Interval


def adapter(given: dict[str, Any]) -> dict[str, Any]:
    if "difference_counts" in given:
        counts = given["difference_counts"]
        differences = np.repeat([float(value) for value in counts], list(counts.values()))
    else:
        differences = np.array(given["b"]) - np.array(given["a"])
    level = given["level"]
    expanded = bootstrap_difference(differences, rng=np.random.default_rng(1), level=level)
    percentile = bootstrap_difference(differences, rng=np.random.default_rng(2), level=level, method="percentile")
    return {
        "estimate": expanded.estimate,
        "percentile": _ends(percentile.interval),
        "expanded": _ends(expanded.interval),
        "expanded_tail": expanded_tail(expanded.n, level=level) if expanded.n > 1 else None,
        "bca": _ends(bca_interval(differences, rng=np.random.default_rng(3), level=level)),
    }


def _ends(interval: Interval | None) -> list[float] | None:
    return None if interval is None else [interval.low, interval.high]
