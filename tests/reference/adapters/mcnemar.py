"""Vectors of mcnemar: the exact test looks at the flips of the 2x2 table alone."""

from __future__ import annotations

from typing import Any

from stats.mcnemar import mcnemar_exact


def adapter(given: dict[str, Any]) -> dict[str, Any]:
    test = mcnemar_exact(improved=given["improved"], regressed=given["regressed"])
    return {"flips": test.flips, "p_exact": test.p, "p_mid": test.mid_p}
