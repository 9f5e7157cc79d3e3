"""Feeds the vectors of sequential_halving.json to the plan of a race; a refused plan is null."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from stats.halving import plan_halving
from stats.results import NotEnoughData


def adapter(input: dict[str, Any]) -> dict[str, Any]:
    try:
        plan = plan_halving(
            input["configs"], budget=input["budget"], trials=input["trials"], train_cases=input["train_cases"]
        )
    except NotEnoughData:
        return {"plan": None, "total_runs": None}
    return {"plan": [asdict(round_) for round_ in plan.rounds], "total_runs": plan.total_runs}
