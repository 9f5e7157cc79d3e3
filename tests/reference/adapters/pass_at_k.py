"""Vectors of pass_at_k."""

from __future__ import annotations

from typing import Any

from stats.trials import pass_all_k, pass_at_k


def adapter(given: dict[str, Any]) -> dict[str, Any]:
    trials, passed, k = given["trials"], given["passed"], given["k"]
    return {"pass_at_k": pass_at_k(trials, passed, k=k), "pass_all_k": pass_all_k(trials, passed, k=k)}
