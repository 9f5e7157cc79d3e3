"""Vectors of wilson."""

from __future__ import annotations

from typing import Any

from stats.wilson import pass_share


def adapter(given: dict[str, Any]) -> dict[str, Any]:
    result = pass_share(given["passed"], given["n"], level=given["level"])
    return {"rate": result.share, "low": result.interval.low, "high": result.interval.high}
