"""Feeds the vectors of metrics.json to the comparison of numeric commands: one metric, or a family of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from stats.metrics import compare_metric, compare_metrics, hodges_lehmann


def adapter(input: dict[str, Any]) -> dict[str, Any]:
    if "metrics" in input:
        family = compare_metrics(
            {name: (_numbers(m["base"]), _numbers(m["cand"])) for name, m in input["metrics"].items()},
            higher_is_better={name for name, m in input["metrics"].items() if m.get("higher_is_better")},
        )
        return {
            "sign_p_holm": {name: metric.sign_p_holm for name, metric in family.items()},
            "verdict": {name: metric.verdict for name, metric in family.items()},
        }
    base, cand = _numbers(input["base"]), _numbers(input["cand"])
    metric = compare_metric(base, cand, higher_is_better=bool(input.get("higher_is_better")))
    differences = cand - base
    shift = hodges_lehmann(differences[~np.isnan(differences)])
    return {
        "pairs": metric.pairs,
        "median_base": metric.median_base,
        "median_cand": metric.median_cand,
        "difference": metric.difference,
        "interval": metric.interval and [metric.interval.low, metric.interval.high],
        "coverage": metric.coverage,
        "sign_p": metric.sign_p,
        "verdict": metric.verdict,
        "hodges_lehmann": shift and {"estimate": shift.estimate, "interval": [shift.interval.low, shift.interval.high]},
    }


def _numbers(values: list[float | None]) -> npt.NDArray[np.float64]:
    return np.array(values, dtype=np.float64)
