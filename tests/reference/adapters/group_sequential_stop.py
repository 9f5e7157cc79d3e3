"""Feeds the vectors of group_sequential_stop.json to the inference after a stop; looks after the stop are not taken."""

from __future__ import annotations

from typing import Any

from stats.sequential import boundaries
from stats.stagewise import stagewise


def adapter(input: dict[str, Any]) -> dict[str, Any]:
    taken = input["looks"][: input["stop_look"]]
    result = stagewise(boundaries(taken, n_max=input["n_max"], alpha=input["alpha"]), z=input["z"])
    return {
        "p": result.p,
        "interval": [result.interval.low, result.interval.high],
        "median_unbiased": result.median_unbiased,
        "repeated_interval": [result.repeated.low, result.repeated.high],
        "stopped_by_boundary": result.stopped_by_bound,
    }
