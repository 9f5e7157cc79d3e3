"""Vectors of flip_rate: two runs of one config, or passes of k trials."""

from __future__ import annotations

from typing import Any

from stats.trials import flip_rate, trial_disagreement


def adapter(given: dict[str, Any]) -> dict[str, Any]:
    if given["kind"] == "trials":
        passes, trials = zip(*given["passes"], strict=True)
        return {"trial_disagreement": trial_disagreement(passes, trials)}
    rate = flip_rate(given["flips"], given["n"])
    return {"rate": rate.share, "low": rate.interval.low, "high": rate.interval.high}
