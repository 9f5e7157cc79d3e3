"""Feeds the vectors of optimism_gap.json to the gap between train and test."""

from __future__ import annotations

from typing import Any

from stats.optimism import optimism_gap


def adapter(input: dict[str, Any]) -> dict[str, Any]:
    result = optimism_gap(input["train"], input["test"])
    return {"gap": result.gap, "interval": result.interval and [result.interval.low, result.interval.high]}
