"""Vectors of regression_to_mean: from an A/A table, or from the trials of A."""

from __future__ import annotations

from typing import Any

from stats.regression import expected_rerun_from_aa, expected_rerun_from_trials


def adapter(given: dict[str, Any]) -> dict[str, Any]:
    if given["kind"] == "aa-table":
        result = expected_rerun_from_aa(improved=given["improved"], neither=given["neither"])
    else:
        passes, trials = zip(*given["passes"], strict=True)
        result = expected_rerun_from_trials(passes, trials)
    return {"expected_pass": result.expected_pass}
