"""Vectors of mean_mde."""

from __future__ import annotations

from typing import Any

from stats.power import mean_mde


def adapter(given: dict[str, Any]) -> dict[str, Any]:
    return {"mde": mean_mde(given["n"], sd=given["sd"], alpha=given["alpha"], power=given["power"]).mde}
