"""Vectors of case_pairing: ragged trials become a rectangle, padded beyond what was planned."""

from __future__ import annotations

from typing import Any

import numpy as np

from stats.pairing import pair_cases


def adapter(given: dict[str, Any]) -> dict[str, Any]:
    cases = given["cases"]
    pairs = pair_cases(
        _table([case["a"] for case in cases]),
        _table([case["b"] for case in cases]),
        planned_a=[len(case["a"]) for case in cases],
        planned_b=[len(case["b"]) for case in cases],
    )
    return {
        "paired": [cases[position]["id"] for position in pairs.case_index],
        "n": pairs.n,
        "estimate": pairs.estimate,
        "improved": pairs.improved,
        "regressed": pairs.regressed,
        "fixed": len(pairs.fixed),
        "broke": len(pairs.broke),
        "lost_a": pairs.lost_a,
        "lost_b": pairs.lost_b,
    }


def _table(trials: list[list[float | None]]) -> np.ndarray:
    table = np.full((len(trials), max((len(row) for row in trials), default=0)), np.nan)
    for position, row in enumerate(trials):
        table[position, : len(row)] = [np.nan if value is None else value for value in row]
    return table
