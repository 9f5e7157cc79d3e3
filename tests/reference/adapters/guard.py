"""Feeds the vectors of guard.json to the guard of a sweep."""

from __future__ import annotations

import math
from typing import Any

from stats.guard import guard

VALUES = {"1": 1.0, "0": 0.0, "-": math.nan}


def adapter(input: dict[str, Any]) -> dict[str, Any]:
    start, winner = ([VALUES[verdict] for verdict in input[side]] for side in ("start", "winner"))
    result = guard(start, winner, tau=input["tau"])
    return {"solved": result.solved, "broken": result.broken, "share": result.share, "holds": result.holds}
