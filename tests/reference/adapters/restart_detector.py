"""Feeds the vectors of restart_detector.json to the plateau detector."""

from __future__ import annotations

from typing import Any

from stats.restart_detector import Betting, detect_plateau, round_of_flips, version_to_ship

BETTING: dict[str, Betting] = {"agrapa": "adaptive", "mixture": "mixture"}


def adapter(input: dict[str, Any]) -> dict[str, Any]:
    rounds = [round_of_flips(fixed=fixed, broken=broken, n=input["n"]) for fixed, broken in input["rounds"]]
    result = detect_plateau(
        rounds,
        eps=input["eps"],
        delta=input["delta"],
        betting=BETTING[input["betting"]],
        min_rounds=input["min_rounds"],
    )
    return {
        "alarm_round": result.alarm_round,
        "change_point": result.change_point,
        "ship": version_to_ship(result, input["incumbents"]),
        "log_m": list(result.log_m),
    }
