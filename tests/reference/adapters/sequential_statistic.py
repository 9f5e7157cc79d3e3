"""Feeds the vectors of sequential_statistic.json to the z of a look."""

from __future__ import annotations

from typing import Any

import numpy as np

from stats.sequential import differences_z, flips_z


def adapter(input: dict[str, Any]) -> dict[str, Any]:
    if input["kind"] == "pass-fail":
        return {"z": flips_z(improved=input["improved"], regressed=input["regressed"])}
    return {"z": differences_z(np.subtract(input["b"], input["a"]))}
