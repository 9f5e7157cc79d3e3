"""Feeds the vectors of group_sequential.json to the bounds of looks."""

from __future__ import annotations

from typing import Any

from stats.sequential import boundaries, classic_bounds


def adapter(input: dict[str, Any]) -> dict[str, Any]:
    plan = {"n_max": input["n_max"], "alpha": input["alpha"]}
    return {
        "spending": list(boundaries(input["looks"], **plan).bounds),
        "classic": list(classic_bounds(input["looks"], **plan)),
    }
