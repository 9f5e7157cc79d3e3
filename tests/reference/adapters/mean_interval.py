"""Vectors of mean_interval."""

from __future__ import annotations

from typing import Any

import numpy as np

from stats.means import mean_interval


def adapter(given: dict[str, Any]) -> dict[str, Any]:
    result = mean_interval(
        given["values"], rng=np.random.default_rng(1), n_resamples=given["resamples"], level=given["level"]
    )
    interval = result.interval
    return {"mean": result.mean, "interval": None if interval is None else [interval.low, interval.high]}
