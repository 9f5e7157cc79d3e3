"""Bounds of a running A/B and the statistic a look compares with them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stats.sequential import (
    UNREACHABLE,
    Z_LIMIT,
    add_look,
    boundaries,
    classic_bounds,
    differences_z,
    flips_z,
    planned_looks,
    spent,
    start,
    take_look,
)


def test_five_equal_looks_have_the_bounds_of_the_spending_form() -> None:
    # R rpact 3.3.4, getDesignGroupSequential(typeOfDesign="asOF", sided=1, alpha=0.025).
    expected = (4.87688494879076, 3.35701192170382, 2.68028006702662, 2.28981677442789, 2.03103206306696)
    assert boundaries([40, 80, 120, 160, 200], n_max=200).bounds == pytest.approx(expected, abs=1e-6)


def test_classic_bounds_are_the_published_table() -> None:
    # O'Brien and Fleming 1979; Jennison and Turnbull 2000, table 2.3: C(5, 0.05) = 2.040.
    factor = classic_bounds([1, 2, 3, 4, 5], n_max=5)[-1]
    assert factor == pytest.approx(2.040, abs=5e-4)
    assert classic_bounds([1, 2, 3, 4, 5], n_max=5)[0] == pytest.approx(factor * math.sqrt(5), abs=1e-6)


def test_classic_bounds_that_end_early_are_still_paid_for_once() -> None:
    # By hand: a single look is the ordinary two-sided test, wherever it falls.
    assert classic_bounds([50], n_max=100)[0] == pytest.approx(1.959963985, abs=1e-6)


def test_a_single_look_at_the_end_is_the_ordinary_test() -> None:
    # By hand: the 97.5% point of the standard normal.
    assert boundaries([37], n_max=37).bounds == pytest.approx((1.959963984540054,), abs=1e-12)


def test_all_looks_together_spend_half_of_alpha_on_each_side() -> None:
    assert spent(1.0) == pytest.approx(0.025, abs=1e-15)
    assert spent(1.0, alpha=0.01) == pytest.approx(0.005, abs=1e-15)
    # By hand: at a quarter of the cases 2·(1 − Φ(2.2414·2)), 2.2414 the 98.75% point.
    assert spent(0.25) == pytest.approx(7.3664e-6, rel=1e-4)


def test_the_kept_density_holds_exactly_the_runs_that_go_on() -> None:
    boundary = boundaries(planned_looks(200), n_max=200)
    for fraction, density in zip(boundary.fractions, boundary.densities, strict=True):
        assert np.exp(density.log_mass).sum() == pytest.approx(1.0 - 2.0 * spent(fraction), abs=1e-8)


def test_a_further_look_leaves_the_earlier_bounds_alone() -> None:
    three = boundaries([20, 40, 60], n_max=200)
    four = add_look(three, fraction=0.4)
    assert four.bounds[:3] == three.bounds
    assert four.densities[:3] == three.densities
    assert four.bounds == boundaries([20, 40, 60, 80], n_max=200).bounds


def test_a_run_that_lost_trials_spends_what_is_left_at_its_last_look() -> None:
    planned = boundaries([20, 40, 60, 80, 100], n_max=100)
    looks = boundaries([20, 40, 60, 80], n_max=100)
    cut_short = take_look(looks, z=2.1, n_cases=93, n_max=100, last=True)
    assert cut_short.fraction == 1.0
    assert cut_short.bound == planned.bounds[-1]
    assert cut_short.stop


def test_no_look_is_taken_before_20_paired_cases() -> None:
    with pytest.raises(ValueError, match="before 20"):
        take_look(start(), z=30.0, n_cases=19, n_max=200)
    assert planned_looks(200)[0] == 20


def test_a_run_of_fewer_than_20_cases_has_its_one_look_at_the_end() -> None:
    assert planned_looks(12) == (12,)
    look = take_look(start(), z=1.97, n_cases=12, n_max=12, last=True)
    assert look.stop
    assert look.bound == pytest.approx(1.959963985)


def test_looks_fall_every_10_cases_and_at_the_end() -> None:
    assert planned_looks(20) == (20,)
    assert planned_looks(45) == (20, 30, 40, 45)
    assert planned_looks(50) == (20, 30, 40, 50)


@pytest.mark.parametrize("z", [4.877, -4.877])
def test_reaching_the_bound_exactly_stops_in_both_directions(z: float) -> None:
    bound = boundaries([40], n_max=200).bounds[0]
    assert not take_look(start(), z=math.copysign(bound - 1e-9, z), n_cases=40, n_max=200).stop
    assert take_look(start(), z=math.copysign(bound, z), n_cases=40, n_max=200).stop


def test_a_look_that_may_spend_nothing_a_float_can_hold_never_stops() -> None:
    boundary = boundaries([20, 40], n_max=1_000_000)
    assert boundary.bounds == (UNREACHABLE, UNREACHABLE)
    assert not take_look(start(), z=flips_z(improved=20, regressed=0), n_cases=20, n_max=1_000_000).stop
    assert differences_z(np.linspace(1.0, 1.0001, 2000)) == Z_LIMIT < UNREACHABLE


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: planned_looks(0), "at least 1"),
        (lambda: start(alpha=0.0), "between 0 and 1"),
        (lambda: spent(0.0), "lies in"),
        (lambda: spent(1.1), "lies in"),
        (lambda: boundaries([40, 40], n_max=100), "must come after"),
        (lambda: boundaries([40, 30], n_max=100), "must come after"),
        (lambda: take_look(start(), z=0.0, n_cases=101, n_max=100), "101 paired cases of at most 100"),
        (lambda: differences_z([0.1, math.nan]), "finite"),
        (lambda: differences_z([[0.1, 0.2]]), "finite"),
    ],
)
def test_what_is_no_plan_of_looks_is_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


@given(st.lists(st.integers(20, 299), min_size=1, max_size=6, unique=True))
def test_bounds_fall_below_no_single_look_and_end_near_it(counts: list[int]) -> None:
    boundary = boundaries([*sorted(counts), 300], n_max=300)
    assert all(bound >= 1.9599 for bound in boundary.bounds)
    # Looks right before the end cost at most what Bonferroni would take for all of them.
    assert boundary.bounds[-1] < 2.75


def test_z_of_flips_is_the_midp_turned_round() -> None:
    # scipy 1.17.1, norm.isf(p_mid / 2): 20 against 5, and 3 against 9.
    assert flips_z(improved=20, regressed=5) == pytest.approx(3.024078408230258, abs=1e-9)
    assert flips_z(improved=3, regressed=9) == pytest.approx(-1.68346475764399, abs=1e-9)


@given(st.integers(0, 200), st.integers(0, 200))
def test_swapping_a_and_b_turns_the_sign_of_z(improved: int, regressed: int) -> None:
    assert flips_z(improved=improved, regressed=regressed) == -flips_z(improved=regressed, regressed=improved)


@pytest.mark.parametrize("differences", [[], [0.3], [0.0, 0.0, 0.0], [0.1] * 7, [0.9 - 0.8, 0.8 - 0.7, 0.7 - 0.6]])
def test_no_spread_or_no_cases_gives_z_of_0(differences: list[float]) -> None:
    assert differences_z(differences) == 0.0


def test_z_of_scores_is_t_turned_into_z() -> None:
    # Student's sleep data: t = 4.0621 with 9 degrees of freedom; scipy 1.17.1, norm.isf(t.sf(4.0621, 9)).
    a = np.array([0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0])
    b = np.array([1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4])
    assert differences_z(b - a) == pytest.approx(2.985312210589913, abs=1e-7)
    assert differences_z(a - b) == -differences_z(b - a)


def test_one_more_look_costs_one_step() -> None:
    # 19 looks took 40 ms on a small machine, 0.6 s is the figure to stay near; a step must not redo the others.
    before = time.perf_counter()
    boundary = boundaries(planned_looks(200), n_max=200)
    all_looks = time.perf_counter() - before
    assert all_looks < 1.2
    short = boundaries(planned_looks(200)[:-1], n_max=200)
    before = time.perf_counter()
    after = add_look(short, fraction=1.0)
    assert time.perf_counter() - before < max(0.1, all_looks / 3)
    assert after.bounds == boundary.bounds
