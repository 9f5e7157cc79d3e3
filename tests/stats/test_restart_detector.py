"""The plateau detector of a series."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stats.restart_detector import (
    RoundResult,
    detect_plateau,
    keeps_candidate,
    round_of_differences,
    round_of_flips,
    rounds_needed,
    version_to_ship,
)
from stats.results import NotEnoughData


def flat(n: int, *, fixed: int, broken: int, times: int) -> list[RoundResult]:
    return [round_of_flips(fixed=fixed, broken=broken, n=n)] * times


def test_the_published_gsm8k_run_stops_in_round_4_and_ships_step_1() -> None:
    # Yin, Liu and Qi 2026, trace gsm8k-deepseek, eps 0.01, delta 0.05 (STOPS, commit 23af05b).
    flips = [(28, 0), (0, 1), (1, 3), (0, 1), (0, 2), (0, 0)]
    rounds = [round_of_flips(fixed=fixed, broken=broken, n=200) for fixed, broken in flips]
    result = detect_plateau(rounds, eps=0.01, min_rounds=1)
    assert (result.alarm_round, result.change_point) == (4, 2)
    assert result.log_m == pytest.approx((-2.7470865412, 0.295119424, 1.8158594051, 3.217173064), abs=1e-9)
    assert version_to_ship(result, ["initial", *["step_0001"] * 5]) == "step_0001"


def test_c75_gains_of_10_8_and_then_nothing_stop_and_ship_the_version_before_the_flat_part() -> None:
    rounds = [
        round_of_flips(fixed=25, broken=5, n=200),
        round_of_flips(fixed=21, broken=5, n=200),
        *flat(200, fixed=6, broken=6, times=12),
    ]
    result = detect_plateau(rounds)
    assert result.alarm_round is not None
    assert result.alarm_round >= 5
    assert result.change_point == 3
    assert version_to_ship(result, ["v0", "v1", *["v2"] * 12]) == "v2"


def test_the_first_rounds_wealth_is_worked_out_by_hand() -> None:
    # By hand: bet 0.1, eps 0.05, 2 fixed, 1 broken, 7 equal: factors 0.905, 1.105 and 1.005.
    result = detect_plateau(flat(10, fixed=2, broken=1, times=1), min_rounds=1)
    assert result.log_m[0] == pytest.approx(2 * math.log(0.905) + math.log(1.105) + 7 * math.log(1.005))


def test_steady_gains_above_eps_raise_no_alarm() -> None:
    result = detect_plateau(flat(200, fixed=26, broken=6, times=60))
    assert (result.alarm_round, result.change_point) == (None, None)
    assert len(result.log_m) == 60
    assert version_to_ship(result, ["v"] * 60) is None


def test_no_bettor_counts_before_its_fifth_round() -> None:
    result = detect_plateau(flat(200, fixed=0, broken=20, times=6))
    assert result.log_m[:4] == (None,) * 4
    assert result.alarm_round == 5
    assert detect_plateau(flat(200, fixed=0, broken=20, times=6), min_rounds=1).alarm_round == 2


def test_waiting_longer_never_brings_the_alarm_forward() -> None:
    rng = np.random.default_rng(11)
    for _ in range(20):
        rounds = [
            round_of_flips(fixed=int(fixed), broken=int(broken), n=50)
            for fixed, broken in zip(rng.binomial(25, 0.15, 40), rng.binomial(25, 0.12, 40), strict=True)
        ]
        alarms = [detect_plateau(rounds, min_rounds=wait).alarm_round or math.inf for wait in (1, 3, 5, 8)]
        assert alarms == sorted(alarms)


def test_the_mixture_is_the_mean_wealth_of_its_three_bets() -> None:
    # By hand: one round of 4 cases, all broken: mean of (1 + λ·1.05)**4 over λ = 0.1, 0.2, 0.4.
    result = detect_plateau(flat(4, fixed=0, broken=4, times=1), betting="mixture", min_rounds=1)
    wealth = sum((1 + bet * 1.05) ** 4 for bet in (0.1, 0.2, 0.4)) / 3
    assert result.log_m[0] == pytest.approx(math.log(wealth))


def test_reaching_1_over_delta_exactly_is_an_alarm() -> None:
    # By hand: one broken case at eps 0.05 multiplies the wealth by 1.105.
    assert detect_plateau(flat(1, fixed=0, broken=1, times=1), delta=1 / 1.105, min_rounds=1).alarm_round == 1
    assert detect_plateau(flat(1, fixed=0, broken=1, times=1), delta=1 / 1.106, min_rounds=1).alarm_round is None


def test_without_edge_and_without_spread_there_is_no_bet() -> None:
    # Every case gains exactly eps: after the first round mean and spread leave nothing to bet on.
    rounds = [round_of_differences([0.05] * 10)] * 3
    result = detect_plateau(rounds, eps=0.05, min_rounds=1)
    assert result.log_m == pytest.approx((0.0, 0.0, 0.0))


def test_no_round_is_no_alarm() -> None:
    assert detect_plateau([]).log_m == ()


def test_scores_and_flips_of_the_same_cases_agree() -> None:
    flips = round_of_flips(fixed=3, broken=2, n=10)
    scores = round_of_differences([1.0] * 3 + [-1.0] * 2 + [0.0] * 5)
    assert (flips.n, flips.gain, flips.square) == (scores.n, scores.gain, scores.square) == (10, 0.1, 0.5)
    one, other = (detect_plateau([round_] * 9, min_rounds=1) for round_ in (flips, scores))
    assert one.log_m == pytest.approx(other.log_m)


def test_a_greedy_loop_keeps_what_gained_anything() -> None:
    assert keeps_candidate(round_of_flips(fixed=3, broken=2, n=100))
    assert not keeps_candidate(round_of_flips(fixed=2, broken=2, n=100))
    # Thirds that add up to nothing are no gain.
    assert not keeps_candidate(round_of_differences([1 / 3, 1 / 3, -2 / 3]))


def test_rounds_needed_falls_with_the_size_of_the_dataset() -> None:
    # By hand: ln 20 / (200 · 0.5 · 0.05) with a bet at its limit, and λ = 0.05/0.2025 at 20% flips.
    assert rounds_needed(n_cases=200, flip_share=0.0) == pytest.approx(math.log(20) / 5)
    assert rounds_needed(n_cases=20, flip_share=0.2) == pytest.approx(math.log(20) / (20 * 0.05 / 0.2025 * 0.05))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: round_of_flips(fixed=-1, broken=0, n=5), "fixed and"),
        (lambda: round_of_flips(fixed=3, broken=3, n=5), "fixed and"),
        (lambda: round_of_differences([1.5]), "in \\[−1, 1\\]"),
        (lambda: round_of_differences([math.nan]), "finite"),
        (lambda: detect_plateau([], eps=1.0), "eps lies"),
        (lambda: detect_plateau([], delta=0.0), "eps lies"),
        (lambda: detect_plateau([], min_rounds=0), "eps lies"),
        (lambda: rounds_needed(n_cases=0, flip_share=0.1), "n_cases=0"),
    ],
)
def test_what_is_no_round_is_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_a_round_without_a_shared_case_says_so() -> None:
    with pytest.raises(NotEnoughData):
        round_of_flips(fixed=0, broken=0, n=0)
    with pytest.raises(NotEnoughData):
        round_of_differences([])


@given(
    st.lists(st.tuples(st.integers(0, 10), st.integers(0, 10)), min_size=1, max_size=15),
    st.floats(0.0, 0.3),
)
def test_the_order_of_cases_within_a_round_changes_nothing(flips: list[tuple[int, int]], eps: float) -> None:
    rounds = [round_of_flips(fixed=fixed, broken=broken, n=20) for fixed, broken in flips]
    shuffled = [
        round_of_differences([0.0] * (20 - fixed - broken) + [-1.0] * broken + [1.0] * fixed) for fixed, broken in flips
    ]
    one, other = (detect_plateau(series, eps=eps, min_rounds=1) for series in (rounds, shuffled))
    assert (one.alarm_round, one.change_point) == (other.alarm_round, other.change_point)
    assert one.change_point is None or one.alarm_round is None or one.change_point <= one.alarm_round
