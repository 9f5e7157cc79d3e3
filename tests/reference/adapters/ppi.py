"""Feeds the vectors of ppi.json to the corrected B − A."""

from __future__ import annotations

from typing import Any

from stats.ppi import Quantile, ppi_difference


def adapter(input: dict[str, Any]) -> dict[str, Any]:
    def result(quantile: Quantile) -> Any:
        return ppi_difference(
            input["human"],
            input["judge_labelled"],
            input["judge_unlabelled"],
            level=input["level"],
            quantile=quantile,
        )

    by_t, by_z = result("t"), result("z")
    return {
        "n_labelled": by_t.n_labelled,
        "lambda_": by_t.weight,
        "estimate": by_t.estimate,
        "interval": by_t.interval and [by_t.interval.low, by_t.interval.high],
        "z_interval": by_z.interval and [by_z.interval.low, by_z.interval.high],
        "judge_only": by_t.judge_only,
        "classical": by_t.human_only,
    }
