"""Vectors of paired_tests: pairs with a missing side are dropped here, before the product sees them."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import stats as scipy_stats

from stats.paired_tests import paired_tests


def adapter(given: dict[str, Any]) -> dict[str, Any]:
    pairs = [(a, b) for a, b in zip(given["a"], given["b"], strict=True) if a is not None and b is not None]
    a, b = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    result = paired_tests(a, b)
    signed_rank = None
    if result.wilcoxon is not None:
        signed_rank = {
            "statistic": result.wilcoxon.statistic,
            "p": result.wilcoxon.p,
            "p_scipy_auto": _scipy_auto(np.round(np.array(b) - np.array(a), 10)),
        }
    return {
        "n": result.n,
        "mean_difference": result.mean_difference,
        "zeros": result.zeros,
        "t": result.t,
        "p_t": result.p_t,
        "d_z": result.d_z,
        "d_av": result.d_av,
        "wilcoxon": signed_rank,
    }


def _scipy_auto(differences: np.ndarray) -> float:
    """What scipy alone would say: in the vectors for comparison, not something the product computes."""
    if not differences.any():
        return 1.0
    return float(scipy_stats.wilcoxon(differences, zero_method="wilcox", correction=False, method="auto").pvalue)
