"""Vectors of non_inferiority: `low` is the adjusted end, the decision is that of the product (the smaller end)."""

from __future__ import annotations

from typing import Any

import numpy as np

from stats.bootstrap import bootstrap_difference
from stats.noninferiority import non_inferiority


def adapter(given: dict[str, Any]) -> dict[str, Any]:
    same = given["both"] + given["neither"]
    differences = np.repeat([1.0, -1.0, 0.0], [given["improved"], given["regressed"], same])
    bootstrap = bootstrap_difference(differences, rng=np.random.default_rng(1), level=given["level"]).interval
    result = non_inferiority(
        differences, bootstrap=bootstrap, kind="pass_fail", margin=given["margin"], level=given["level"]
    )
    assert bootstrap is not None
    assert result.adjusted is not None
    return {
        "low": result.adjusted.low,
        "non_inferior": result.decision.outcome == "passed",
        "bootstrap_low_is_zero": bootstrap.low == bootstrap.high == 0.0,
    }
