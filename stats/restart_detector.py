"""When a loop of improvements has stopped paying: the restart e-detector.

It answers for the candidates of the rounds: "still at least ε better than the incumbent". False alarms come no sooner
than every 1/δ rounds on average. That is a run length and not an error rate: a loop that runs long enough sees one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
from scipy import special

from stats.results import Floats, NotEnoughData

Betting: TypeAlias = Literal["adaptive", "mixture"]
Version = TypeVar("Version")

EPS = 0.05
"""Gain per round, a share, below which a round no longer pays."""

DELTA = 0.05
"""False alarms come on average no sooner than every 1/delta rounds."""

MIN_ROUNDS = 5
"""Rounds a bettor must have played before it may raise the alarm; 1 is the published procedure."""

FIRST_BET = 0.1
"""Bet of the adaptive rule on a bettor's first round, before it has seen anything."""

LARGEST_BET = 0.5
"""Largest bet: the wealth then stays above 0 whatever a round brings."""

MIXTURE = (0.1, 0.2, 0.4)
"""Bets of the mixture, in equal parts."""

DECIMALS = 12
"""Log wealth is rounded to this before it is compared."""


@dataclass(frozen=True, slots=True)
class RoundResult:
    """What a round did to each case both versions ran: the distinct differences candidate − incumbent, and how often.

    values   in [−1, 1]
    counts   how many cases each, at least one in all
    """

    values: tuple[float, ...]
    counts: tuple[int, ...]

    @property
    def n(self) -> int:
        return sum(self.counts)

    @property
    def gain(self) -> float:
        """Mean difference: what the round gained."""
        return math.fsum(v * c for v, c in zip(self.values, self.counts, strict=True)) / self.n

    @property
    def square(self) -> float:
        """Mean squared difference; for pass/fail the share of cases that flipped."""
        return math.fsum(v * v * c for v, c in zip(self.values, self.counts, strict=True)) / self.n


@dataclass(frozen=True, slots=True)
class Plateau:
    """Whether and since when the rounds no longer gain; rounds are counted from 1.

    alarm_round    first round at which the evidence reached 1/delta; None while the loop should go on
    change_point   round the plateau began: ship the incumbent that this round was compared against
    log_m          log of the evidence after each round up to the alarm; None while no bettor counts
    """

    alarm_round: int | None
    change_point: int | None
    log_m: tuple[float | None, ...]
    log_threshold: float


def round_of_flips(*, fixed: int, broken: int, n: int) -> RoundResult:
    """Return a pass/fail round with one trial per case.

    fixed, broken   cases the candidate passes and the incumbent fails, and the reverse
    n               cases both ran, at least 1
    """
    if fixed < 0 or broken < 0 or fixed + broken > n:
        raise ValueError(f"{fixed} fixed and {broken} broken of {n} cases")
    if n < 1:
        raise NotEnoughData("a round without a case that both versions ran")
    return RoundResult((1.0, -1.0, 0.0), (fixed, broken, n - fixed - broken))


def round_of_differences(differences: npt.ArrayLike) -> RoundResult:
    """Return a round of scores, several trials per case, or groups of cases.

    differences   shape (cases,), candidate − incumbent in [−1, 1], complete. Cases that hang together enter as one
                  value, the mean of their group: the bound needs cases that are independent given the candidate.
    """
    data: Floats = np.asarray(differences, dtype=np.float64)
    if data.ndim != 1 or not np.isfinite(data).all() or (np.abs(data) > 1.0).any():
        raise ValueError("differences must be finite, in [−1, 1] and of the shape (cases,)")
    if not data.size:
        raise NotEnoughData("a round without a case that both versions ran")
    values, counts = np.unique(data, return_counts=True)
    return RoundResult(tuple(map(float, values)), tuple(map(int, counts)))


def detect_plateau(
    rounds: Sequence[RoundResult],
    *,
    eps: float = EPS,
    delta: float = DELTA,
    betting: Betting = "adaptive",
    min_rounds: int = MIN_ROUNDS,
) -> Plateau:
    """Return whether the rounds have stopped gaining at least eps each.

    rounds       in order, each comparing a candidate with the incumbent of its time, kept or not
    eps          share in [0, 1)
    betting      "adaptive" sets each bet from the bettor's own past rounds; "mixture" plays three fixed bets at once
    min_rounds   only bettors that have played this many rounds count towards the alarm. It cannot weaken the bound,
                 and it keeps one unlucky draw among proposals of very mixed quality from reading as a plateau

    At every round a bettor starts with wealth 1 and multiplies it, that round and later, by Π(1 + λ(ε − X)) over the
    cases. The evidence is the wealth of the richest; while every round gains eps, each wealth is a supermartingale,
    the sum over bettors grows by at most 1 a round, and so the mean time to the first alarm is at least 1/delta.
    Yin, Liu and Qi 2026, on the e-detectors of Shin, Ramdas and Rinaldo 2024.
    """
    if not 0.0 <= eps < 1.0 or not 0.0 < delta < 1.0 or min_rounds < 1:
        raise ValueError(f"eps lies in [0, 1), delta in (0, 1), min_rounds from 1: {eps}, {delta}, {min_rounds}")
    log_threshold = -math.log(delta)
    gains, squares = np.array([r.gain for r in rounds]), np.array([r.square for r in rounds])
    wealth = np.zeros((0, 1 if betting == "adaptive" else len(MIXTURE)))
    log_m: list[float | None] = []
    for t, result in enumerate(rounds):
        wealth = np.vstack([wealth, np.zeros((1, wealth.shape[1]))])
        if betting == "adaptive":
            bets = _adaptive_bets(gains[:t], squares[:t], eps=eps)[:, None]
        else:
            bets = np.tile(MIXTURE, (t + 1, 1))
        wealth += _log_growth(bets, result, eps=eps)
        log_wealth = np.round(special.logsumexp(wealth, axis=1) - math.log(wealth.shape[1]), DECIMALS)
        counted = log_wealth[: max(0, t + 2 - min_rounds)]
        log_m.append(float(counted.max()) if counted.size else None)
        if counted.size and round(float(counted.max()) - log_threshold, DECIMALS) >= 0.0:
            # The richest of all, not only of those that count: it says where the plateau began.
            return Plateau(t + 1, int(np.argmax(log_wealth)) + 1, tuple(log_m), log_threshold)
    return Plateau(None, None, tuple(log_m), log_threshold)


def version_to_ship(plateau: Plateau, incumbents: Sequence[Version]) -> Version | None:
    """Return the incumbent from before the plateau, None while there is no alarm.

    incumbents   the version each round was compared against, in the order of the rounds
    """
    return None if plateau.change_point is None else incumbents[plateau.change_point - 1]


def keeps_candidate(result: RoundResult) -> bool:
    """Return whether a greedy loop makes the candidate its incumbent: it gained anything at all on the shared cases.

    On one dataset used again and again this keeps noise too; `flips_e_value` of stats/anytime.py is a stricter door.
    """
    return round(result.gain, DECIMALS) > 0.0


def rounds_needed(*, n_cases: int, flip_share: float, eps: float = EPS, delta: float = DELTA) -> float:
    """Return about how many rounds without any gain it takes to see the plateau: ln(1/δ)/(n λ ε).

    flip_share   share of cases that flip in a round without gain, at least 0; sets the bet λ

    A dataset for which this is more rounds than the loop will ever run is too small for its eps.
    """
    if n_cases < 1 or flip_share < 0.0 or not 0.0 < eps < 1.0:
        raise ValueError(f"n_cases={n_cases}, flip_share={flip_share}, eps={eps}")
    bet = min(LARGEST_BET, eps / (flip_share + eps * eps))
    return -math.log(delta) / (n_cases * bet * eps)


def _adaptive_bets(gains: Floats, squares: Floats, *, eps: float) -> Floats:
    """Return the bet of each bettor for the coming round, from the rounds it has played; the last has played none."""
    played = np.arange(gains.size, 0, -1)
    mean_gain = np.cumsum(gains[::-1])[::-1] / played
    mean_square = np.cumsum(squares[::-1])[::-1] / played
    edge = eps - mean_gain
    second_moment = np.maximum(mean_square - mean_gain**2, 0.0) + edge**2
    # Without edge and spread there is nothing to bet on.
    bets = np.divide(edge, second_moment, out=np.zeros_like(edge), where=second_moment > 0.0)
    return np.append(np.clip(bets, 0.0, LARGEST_BET), FIRST_BET)


def _log_growth(bets: Floats, result: RoundResult, *, eps: float) -> Floats:
    growth = np.log1p(bets[..., None] * (eps - np.array(result.values)))
    log_growth: Floats = growth @ np.array(result.counts, dtype=np.float64)
    return log_growth
