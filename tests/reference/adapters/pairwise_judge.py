"""Feeds the vectors of pairwise_judge.json to the judge in both orders."""

from __future__ import annotations

from typing import Any

import numpy as np

from stats.pairwise import pairwise_judge


def adapter(input: dict[str, Any]) -> dict[str, Any]:
    answers = [(a_first, b_first) for a_first, b_first in input["verdicts"]]
    result = pairwise_judge(answers, rng=np.random.default_rng(0), n_resamples=100)
    return {
        "cases": result.outcome.cases,
        "incomplete": result.incomplete,
        "win_rate": result.outcome.win_rate,
        "inconsistent": result.inconsistent,
        "inconsistency_rate": result.inconsistency_rate,
        "first_position_rate": result.first_position_rate,
        "b_cases": result.outcome.b_cases,
        "a_cases": result.outcome.a_cases,
        "p": result.outcome.p,
    }
