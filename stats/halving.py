"""The race of a sweep: sequential halving, its plan and who goes on.

Every round takes cases no earlier round has used, the same ones for all configurations still in; a configuration is
judged by the round it is in, because only there do all rivals share the cases.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stats.results import NotEnoughData

DECIMALS = 10
"""Means that agree to this many decimals are tied."""


@dataclass(frozen=True, slots=True)
class Round:
    """One round: `configs` configurations run the same `cases` fresh cases; `runs` counts configs x cases x trials."""

    configs: int
    cases: int
    runs: int


@dataclass(frozen=True, slots=True)
class HalvingPlan:
    """The rounds of a race; empty with one configuration, which wins without a run."""

    rounds: tuple[Round, ...]
    total_runs: int
    total_cases: int


def plan_halving(configs: int, *, budget: int, trials: int = 1, train_cases: int) -> HalvingPlan:
    """Return how many configurations run how many cases in each round.

    configs       number of configurations, at least 1
    budget        case runs the race may make: configurations x cases x trials, over all rounds
    train_cases   cases of the train split; a round takes what the earlier ones left, and no more

    Raises NotEnoughData when a round would get less than one case, naming the least budget, or the largest one that
    the train split can feed. Karnin, Koren and Somekh 2013.
    """
    if configs < 1 or trials < 1 or budget < 0 or train_cases < 0:
        raise ValueError(f"not a race: configs={configs}, trials={trials}, budget={budget}, train_cases={train_cases}")
    if configs > 1 and budget < least_budget(configs, trials=trials):
        raise NotEnoughData(
            f"a budget of {budget} leaves a round without a case: {configs} configurations with {trials} trial(s) a "
            f"case need at least {least_budget(configs, trials=trials)}"
        )
    left = train_cases
    rounds: list[Round] = []
    for racing, cases in _wanted(configs, budget=budget, trials=trials):
        taken = min(cases, left)
        if taken < 1:
            raise NotEnoughData(_out_of_cases(configs, trials=trials, train_cases=train_cases, round_=len(rounds) + 1))
        left -= taken
        rounds.append(Round(configs=racing, cases=taken, runs=racing * taken * trials))
    return HalvingPlan(tuple(rounds), sum(round_.runs for round_ in rounds), train_cases - left)


def n_rounds(configs: int) -> int:
    """Return the number of rounds that halve this many configurations down to one: ⌈log₂ configs⌉."""
    return (configs - 1).bit_length()


def least_budget(configs: int, *, trials: int = 1) -> int:
    """Return the smallest budget that gives every round a case; the first round asks for the most."""
    return configs * n_rounds(configs) * trials


def largest_budget(configs: int, *, trials: int = 1, train_cases: int) -> int | None:
    """Return the largest budget whose rounds all find as many fresh train cases as they want, None without one."""

    def wanted(budget: int) -> int:
        return sum(cases for _, cases in _wanted(configs, budget=budget, trials=trials))

    low, high = least_budget(configs, trials=trials), configs * n_rounds(configs) * trials * (train_cases + 1)
    if configs < 2 or wanted(low) > train_cases:
        return None
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if wanted(middle) <= train_cases else (low, middle - 1)
    return low


def survivors(round_means: Sequence[float], *, overall_means: Sequence[float]) -> list[int]:
    """Return the positions of the better half of a round, rounded up, best first.

    round_means     mean of each configuration over the cases of this round
    overall_means   mean over all its rounds so far; decides ties, and after it the order given
    """
    return ranking(round_means, overall_means=overall_means)[: (len(round_means) + 1) // 2]


def ranking(round_means: Sequence[float], *, overall_means: Sequence[float]) -> list[int]:
    """Return the positions of all configurations of a round, best first; the first of the last round is the winner."""
    if len(round_means) != len(overall_means):
        raise ValueError(f"{len(round_means)} means of this round for {len(overall_means)} over all rounds")
    keys = [
        (-round(this, DECIMALS), -round(overall, DECIMALS))
        for this, overall in zip(round_means, overall_means, strict=True)
    ]
    return sorted(range(len(keys)), key=lambda position: keys[position])


def _wanted(configs: int, *, budget: int, trials: int) -> list[tuple[int, int]]:
    """Return configurations and cases of each round as the budget alone would have them."""
    total, racing, rounds = n_rounds(configs), configs, []
    for _ in range(total):
        rounds.append((racing, budget // (racing * total * trials)))
        racing = (racing + 1) // 2
    return rounds


def _out_of_cases(configs: int, *, trials: int, train_cases: int, round_: int) -> str:
    fitting = largest_budget(configs, trials=trials, train_cases=train_cases)
    advice = f"a budget of at most {fitting} fits them" if fitting else f"{n_rounds(configs)} rounds need more"
    return f"the {train_cases} train cases are used up before round {round_}: {advice}"
