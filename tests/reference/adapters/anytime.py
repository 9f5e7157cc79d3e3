"""Feeds the vectors of anytime.json to the always-valid e-value and confidence sequences."""

from __future__ import annotations

from typing import Any

from stats.anytime import SequenceMethod, confidence_sequence, flips_e_value


def adapter(input: dict[str, Any]) -> dict[str, Any]:
    if input["kind"] == "e-value":
        evidence = flips_e_value(improved=input["improved"], regressed=input["regressed"])
        return {"e_value": evidence.e_value, "significant": evidence.significant}

    def ends(method: SequenceMethod) -> list[float]:
        interval = confidence_sequence(input["differences"], method=method).after(input["after"])
        return [interval.low, interval.high]

    return {"empirical_bernstein": ends("empirical-bernstein"), "betting": ends("betting")}
