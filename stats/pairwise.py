"""A judge that sees both outputs, in both orders.

One order alone is worth nothing: many judges prefer whatever is shown first. A case whose two answers name opposite
winners counts as a draw, and a case with one order missing is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from stats.bootstrap import bootstrap_difference
from stats.mcnemar import mcnemar_exact
from stats.results import LEVEL, Floats, Generator, Interval

Answer: TypeAlias = Literal["A", "B", "tie"]

INCONSISTENT_SHARE = 0.2
"""Above this share of cases with opposite winners the judge is called inconsistent."""

POSITION_ALPHA = 0.05
"""Level of the test whether the judge prefers a position."""

DECIMALS = 10
"""Case scores are rounded to this before they are compared with a half."""

_POINTS: dict[str, float] = {"A": 0.0, "tie": 0.5, "B": 1.0}


@dataclass(frozen=True, slots=True)
class WinRate:
    """How often B wins, over cases; everything None without a case.

    win_rate           mean case score, a share: 1 where B wins, ½ for a draw
    lead, interval     win_rate − ½ and its bootstrap interval; None below two cases. A verdict asks them about 0
    p                  exact sign test on the cases that are no draw
    a_cases, b_cases   cases won by either
    """

    cases: int
    win_rate: float | None
    lead: float | None
    interval: Interval | None
    p: float | None
    a_cases: int
    b_cases: int


@dataclass(frozen=True, slots=True, eq=False)
class PairwiseJudge:
    """One judge's result.

    outcome              the win rate over complete cases
    scores               one per complete case: 0, ¼, ½, ¾ or 1; `case_index` has their positions
    incomplete           cases with a missing order
    inconsistent         complete cases with opposite winners, and `inconsistency_rate` as a share of them
    decided_answers      answers of complete cases that name a winner
    first_position_rate  share of them that name the output shown first, with `position_p` of the exact test against ½;
                         both None without such an answer
    warnings             "inconsistent" and "position", where they apply
    """

    outcome: WinRate
    scores: Floats
    case_index: tuple[int, ...]
    incomplete: int
    inconsistent: int
    inconsistency_rate: float | None
    decided_answers: int
    first_position_rate: float | None
    position_p: float | None
    warnings: tuple[Literal["inconsistent", "position"], ...]


def pairwise_judge(
    answers: Sequence[tuple[Answer | None, Answer | None]],
    *,
    rng: Generator,
    n_resamples: int = 10_000,
    level: float = LEVEL,
) -> PairwiseJudge:
    """Return what one judge says about B against A.

    answers   per case: the winner when A was shown first, and when B was shown first; None for an answer that is
              missing or could not be read

    Zheng et al. 2023 for asking in both orders.
    """
    unknown = {answer for pair in answers for answer in pair if answer is not None} - _POINTS.keys()
    if unknown:
        raise ValueError(f"answers must be A, B, tie or None, not {sorted(map(str, unknown))}")
    complete = [(i, (a, b)) for i, (a, b) in enumerate(answers) if a is not None and b is not None]
    pairs = [pair for _, pair in complete]
    scores = np.array([(_POINTS[a_first] + _POINTS[b_first]) / 2.0 for a_first, b_first in pairs])
    inconsistent = sum({a_first, b_first} == {"A", "B"} for a_first, b_first in pairs)
    decided = sum(answer != "tie" for pair in pairs for answer in pair)
    first = sum((a_first == "A") + (b_first == "B") for a_first, b_first in pairs)
    rate = inconsistent / len(pairs) if pairs else None
    position_p = mcnemar_exact(improved=first, regressed=decided - first).p if decided else None
    warnings: list[Literal["inconsistent", "position"]] = []
    if rate is not None and rate > INCONSISTENT_SHARE:
        warnings.append("inconsistent")
    if position_p is not None and position_p < POSITION_ALPHA:
        warnings.append("position")
    return PairwiseJudge(
        outcome=win_rate(scores, rng=rng, n_resamples=n_resamples, level=level),
        scores=scores,
        case_index=tuple(i for i, _ in complete),
        incomplete=len(answers) - len(pairs),
        inconsistent=inconsistent,
        inconsistency_rate=rate,
        decided_answers=decided,
        first_position_rate=first / decided if decided else None,
        position_p=position_p,
        warnings=tuple(warnings),
    )


def joint_win_rate(
    judges: Sequence[PairwiseJudge], *, rng: Generator, n_resamples: int = 10_000, level: float = LEVEL
) -> WinRate:
    """Return the win rate by the mean of the judges' case scores, over the cases complete for every judge."""
    if not judges:
        raise ValueError("no judges")
    shared = sorted(set.intersection(*(set(judge.case_index) for judge in judges)))
    by_case = [dict(zip(judge.case_index, judge.scores, strict=True)) for judge in judges]
    scores = np.array([np.mean([scored[case] for scored in by_case]) for case in shared])
    return win_rate(scores, rng=rng, n_resamples=n_resamples, level=level)


def win_rate(scores: npt.ArrayLike, *, rng: Generator, n_resamples: int = 10_000, level: float = LEVEL) -> WinRate:
    """Return how often B wins, from case scores of the shape (cases,) in [0, 1], ½ for a draw."""
    lead = np.round(np.asarray(scores, dtype=np.float64) - 0.5, DECIMALS)
    a_cases, b_cases = int(np.count_nonzero(lead < 0.0)), int(np.count_nonzero(lead > 0.0))
    if not lead.size:
        return WinRate(0, None, None, None, None, a_cases, b_cases)
    difference = bootstrap_difference(lead, rng=rng, n_resamples=n_resamples, level=level)
    mean = float(lead.mean())
    p = mcnemar_exact(improved=b_cases, regressed=a_cases).p
    return WinRate(int(lead.size), mean + 0.5, mean, difference.interval, p, a_cases, b_cases)
