"""Feeds the vectors of best_set.json to the plausibly best set; below three configurations there is none."""

from __future__ import annotations

import math
from typing import Any

from stats.best_set import best_set_pass_fail
from stats.results import NotEnoughData

VALUES = {"1": 1.0, "0": 0.0, "-": math.nan}


def adapter(input: dict[str, Any]) -> dict[str, Any]:
    names = list(input["configs"])
    values = [[VALUES[verdict] for verdict in verdicts] for verdicts in input["configs"].values()]
    try:
        result = best_set_pass_fail(values, alpha=input["alpha"])
    except NotEnoughData:
        return {"p": None, "best_set": None}
    return {
        "p": dict(zip(names, result.p, strict=True)),
        "best_set": [names[position] for position in result.members],
    }
