"""Feeds the vectors of ab_outcome.json to the outcome and the bar."""

from __future__ import annotations

from typing import Any

from stats.ab_outcome import ab_outcome
from stats.results import Interval


def adapter(input: dict[str, Any]) -> dict[str, Any]:
    ends = input["ci_low"], input["ci_high"]
    result = ab_outcome(
        items=input["items"],
        interval=None if None in ends else Interval(*ends),
        failed_a=input["failed_a"],
        failed_b=input["failed_b"],
        cost_ratio=input["cost_ratio"],
    )
    return {"outcome": result.outcome, "qualifies": result.qualifies}
