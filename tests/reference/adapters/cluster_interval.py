"""Vectors of cluster_interval: CR2 and both cuts of the bootstrap over groups."""

from __future__ import annotations

from typing import Any

import numpy as np

from stats.bootstrap import cut
from stats.clusters import cluster_difference, resampled_group_means
from stats.results import Interval


def adapter(given: dict[str, Any]) -> dict[str, Any]:
    level = given["level"]
    result = cluster_difference(given["d"], given["cluster"], rng=np.random.default_rng(1), level=level)
    cr2 = result.cr2
    return {
        "groups": result.n_groups,
        "mean": result.estimate,
        "warn": result.few_groups,
        "se_clustered": result.se_clustered,
        "cr2_se": None if cr2 is None else cr2.se,
        "cr2_df": None if cr2 is None else cr2.df,
        "cr2_interval": None if cr2 is None else _ends(cr2.interval),
        "bootstrap_percentile": _percentile(given) if result.n_groups > 1 else None,
        "bootstrap_expanded": _ends(result.bootstrap),
    }


def _percentile(given: dict[str, Any]) -> list[float] | None:
    """Cut the group bootstrap as a plain percentile interval; the product only prints the expanded one."""
    labels, index = np.unique(given["cluster"], return_inverse=True)
    sums = np.bincount(index, weights=given["d"], minlength=labels.size).astype(np.float64)
    sizes = np.bincount(index, minlength=labels.size).astype(np.int64)
    means = resampled_group_means(sums, sizes, rng=np.random.default_rng(2))
    tail = (1.0 - given["level"]) / 2.0
    return _ends(cut(means, lower=tail, upper=tail, level=given["level"]))


def _ends(interval: Interval | None) -> list[float] | None:
    return None if interval is None else [interval.low, interval.high]
