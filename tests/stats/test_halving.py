"""The race of a sweep: plan and survivors."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stats.halving import Round, largest_budget, least_budget, n_rounds, plan_halving, ranking, survivors
from stats.results import NotEnoughData


def test_three_configs_and_300_runs_give_50_then_75_cases() -> None:
    plan = plan_halving(3, budget=300, train_cases=1000)
    assert plan.rounds == (Round(3, 50, 150), Round(2, 75, 150))
    assert (plan.total_runs, plan.total_cases) == (300, 125)


def test_eight_configs_are_halved_down_to_two() -> None:
    assert [round_.configs for round_ in plan_halving(8, budget=800, train_cases=1000).rounds] == [8, 4, 2]


def test_an_odd_field_keeps_the_larger_half() -> None:
    # By hand: 9 → 5 → 3 → 2 → 1.
    assert [round_.configs for round_ in plan_halving(9, budget=1000, train_cases=1000).rounds] == [9, 5, 3, 2]


def test_trials_count_against_the_budget() -> None:
    assert plan_halving(3, budget=300, trials=3, train_cases=1000).rounds == (Round(3, 16, 144), Round(2, 25, 150))


def test_one_config_wins_without_a_run() -> None:
    plan = plan_halving(1, budget=0, train_cases=0)
    assert (plan.rounds, plan.total_runs) == ((), 0)


def test_too_small_a_budget_is_refused_and_the_least_one_is_named() -> None:
    # By hand: 8 configurations, 3 rounds, 1 case: 24.
    with pytest.raises(NotEnoughData, match="at least 24"):
        plan_halving(8, budget=23, train_cases=1000)
    assert plan_halving(8, budget=24, train_cases=1000).rounds == (Round(8, 1, 8), Round(4, 2, 8), Round(2, 4, 8))


def test_a_round_takes_what_the_train_split_has_left() -> None:
    # By hand: 50 wanted and 50 there; 75 wanted and 10 left.
    assert plan_halving(3, budget=300, train_cases=60).rounds == (Round(3, 50, 150), Round(2, 10, 20))


def test_a_split_used_up_before_the_last_round_is_refused_with_the_budget_that_fits() -> None:
    with pytest.raises(NotEnoughData, match="before round 2: a budget of at most 123 fits"):
        plan_halving(3, budget=300, train_cases=50)
    # By hand: ⌊123/6⌋ + ⌊123/4⌋ = 20 + 30; at 124 the second round wants 31.
    assert largest_budget(3, train_cases=50) == 123
    assert plan_halving(3, budget=123, train_cases=50).total_cases == 50


def test_a_split_smaller_than_the_number_of_rounds_fits_no_budget() -> None:
    assert largest_budget(8, train_cases=2) is None
    assert largest_budget(1, train_cases=2) is None
    with pytest.raises(NotEnoughData, match="3 rounds need more"):
        plan_halving(8, budget=100, train_cases=2)


@pytest.mark.parametrize(("configs", "trials", "budget"), [(0, 1, 10), (2, 0, 10), (2, 1, -1)])
def test_what_is_no_race_is_refused(configs: int, trials: int, budget: int) -> None:
    with pytest.raises(ValueError, match="not a race"):
        plan_halving(configs, budget=budget, trials=trials, train_cases=10)


@given(st.integers(2, 40), st.integers(0, 5000), st.integers(1, 4), st.integers(0, 500))
def test_a_plan_never_passes_its_budget_or_its_cases(configs: int, budget: int, trials: int, train_cases: int) -> None:
    try:
        plan = plan_halving(configs, budget=budget, trials=trials, train_cases=train_cases)
    except NotEnoughData:
        fitting = largest_budget(configs, trials=trials, train_cases=train_cases)
        assert budget < least_budget(configs, trials=trials) or fitting is None or budget > fitting
        return
    assert plan.total_runs <= budget
    assert plan.total_cases <= train_cases
    assert all(round_.cases >= 1 for round_ in plan.rounds)
    assert len(plan.rounds) == n_rounds(configs)
    assert plan.rounds[-1].configs == 2


@given(st.integers(2, 20), st.integers(1, 3), st.integers(1, 300))
def test_the_largest_budget_is_the_last_that_fits(configs: int, trials: int, train_cases: int) -> None:
    fitting = largest_budget(configs, trials=trials, train_cases=train_cases)
    if fitting is None:
        return

    def wants(budget: int) -> int:
        return plan_halving(configs, budget=budget, trials=trials, train_cases=10**9).total_cases

    assert wants(fitting) <= train_cases < wants(fitting + 1)


def test_the_better_half_goes_on_by_this_round_alone() -> None:
    assert survivors([0.5, 0.9, 0.7, 0.8], overall_means=[1.0, 0.1, 1.0, 0.1]) == [1, 3]


def test_ties_go_to_the_mean_over_all_rounds_and_then_to_the_order_given() -> None:
    assert ranking([0.5, 0.5, 0.5], overall_means=[0.2, 0.4, 0.2]) == [1, 0, 2]


def test_floating_noise_breaks_no_tie() -> None:
    assert ranking([0.1 + 0.2, 0.3], overall_means=[0.5, 0.5]) == [0, 1]
    assert ranking([0.3, 0.1 + 0.2], overall_means=[0.5, 0.5]) == [0, 1]


def test_means_must_be_of_the_same_configs() -> None:
    with pytest.raises(ValueError, match="2 means of this round for 1"):
        ranking([0.1, 0.2], overall_means=[0.1])
