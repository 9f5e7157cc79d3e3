"""Vectors of mcnemar_power: power, ceiling and exact MDE, by `kind`."""

from __future__ import annotations

from typing import Any

from stats.power import mcnemar_ceiling, mcnemar_mde, mcnemar_power


def adapter(given: dict[str, Any]) -> dict[str, Any]:
    n, discordance, alpha = given["n"], given["discordance"], given["alpha"]
    if given["kind"] == "power":
        return {"power": mcnemar_power(n, discordance=discordance, effect=given["effect"], alpha=alpha)}
    if given["kind"] == "ceiling":
        return {"ceiling": mcnemar_ceiling(n, discordance=discordance, alpha=alpha)}
    effect = mcnemar_mde(n, discordance=discordance, alpha=alpha, power=given["power"])
    return {"ceiling": effect.ceiling, "mde": effect.mde}
