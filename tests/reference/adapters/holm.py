"""Vectors of holm."""

from __future__ import annotations

from typing import Any

from stats.holm import holm


def adapter(given: dict[str, Any]) -> dict[str, Any]:
    return {"adjusted": holm(given["p"])}
