"""Pairing: the case is the unit, and a trial that is missing is missing."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stats.mcnemar import mcnemar_exact
from stats.pairing import PairedCases, pair_cases

NAN = math.nan


def table(*rows: list[float]) -> np.ndarray:
    """Return ragged trials as a rectangle, padded with NaN."""
    full = np.full((len(rows), max((len(row) for row in rows), default=0)), NAN)
    for position, row in enumerate(rows):
        full[position, : len(row)] = row
    return full


def test_one_trial_each_gives_the_flips_of_mcnemar() -> None:
    # By hand: case 0 passes both, case 1 broke, case 2 was fixed, case 3 fails both.
    pairs = pair_cases([[1], [1], [0], [0]], [[1], [0], [1], [0]])
    assert (pairs.n, pairs.improved, pairs.regressed, pairs.estimate) == (4, 1, 1, 0.0)
    assert pairs.direction.tolist() == [0, -1, 1, 0]
    assert pairs.fixed.tolist() == [2]
    assert pairs.broke.tolist() == [1]
    assert pairs.min_trials == 1


def test_a_case_lost_in_one_arm_counts_in_neither() -> None:
    pairs = pair_cases([[1], [NAN], [0]], [[1], [1], [NAN]])
    assert pairs.case_index.tolist() == [0]
    assert (pairs.n, pairs.estimate, pairs.lost_a, pairs.lost_b) == (1, 0.0, 1, 1)


def test_every_case_weighs_the_same_whatever_its_number_of_trials() -> None:
    # By hand: case 0: 2/3 − 0 = 2/3 over four trials; case 1: 0 − 1 = −1 over two; mean −1/6.
    pairs = pair_cases(table([0], [1]), table([1, 1, 0], [0]))
    assert pairs.differences.tolist() == [pytest.approx(2 / 3), -1.0]
    assert pairs.estimate == pytest.approx(-1 / 6)


def test_passes_are_compared_on_the_same_number_of_trials() -> None:
    # By hand: m = 1; the first trial of b fails like a's, though its majority passes.
    pairs = pair_cases(table([0]), table([0, 1, 1]))
    assert (pairs.improved, pairs.regressed, pairs.fixed.size) == (0, 0, 0)
    assert pairs.estimate == pytest.approx(2 / 3)


def test_the_first_graded_trials_are_compared_not_the_first_columns() -> None:
    # By hand: b's first trial was lost, so its second is the one that is compared.
    pairs = pair_cases(table([0]), table([NAN, 1, 0]))
    assert (pairs.improved, pairs.compared.tolist(), pairs.passes_b.tolist()) == (1, [1], [1])


def test_half_of_the_trials_is_a_pass_of_the_case() -> None:
    # By hand: 1 of 2 passes, 0 of 2 does not.
    pairs = pair_cases([[1, 0]], [[0, 0]])
    assert pairs.broke.tolist() == [0]


def test_padding_is_not_a_lost_trial() -> None:
    a, b = table([1, 1], [1]), table([1, 1], [NAN])
    assert pair_cases(a, b).lost_a == 1
    pairs = pair_cases(a, b, planned_a=[2, 1], planned_b=[2, 1])
    assert (pairs.lost_a, pairs.lost_b) == (0, 1)


def test_no_paired_case_has_no_estimate() -> None:
    for a, b in (([[NAN]], [[1.0]]), (np.empty((0, 2)), np.empty((0, 1)))):
        pairs = pair_cases(a, b)
        assert (pairs.n, pairs.estimate, pairs.min_trials, pairs.differences.size) == (0, None, 0, 0)


def test_equal_fractions_come_out_as_equal_floats() -> None:
    # 2/3 − 1/3 and 1/3 − 0 differ in the last bit when subtracted as floats.
    pairs = pair_cases([[1, 0, 0], [0, 0, 0]], [[1, 1, 0], [1, 0, 0]])
    assert pairs.differences[0] == pairs.differences[1] == 1 / 3


def test_scores_keep_their_size_and_pass_from_one_half() -> None:
    pairs = pair_cases([[0.5], [0.49]], [[0.49], [0.5]])
    assert pairs.direction.tolist() == [-1, 1]
    assert pairs.differences == pytest.approx([-0.01, 0.01])


@pytest.mark.parametrize(
    ("a", "b", "planned"),
    [
        ([[1.0]], [[1.0], [0.0]], None),
        ([1.0], [1.0], None),
        ([[math.inf]], [[1.0]], None),
        ([[1.0, 0.0]], [[1.0]], [1]),
        ([[1.0, 0.0]], [[1.0]], [2, 2]),
    ],
)
def test_tables_that_do_not_fit_are_refused(a: list, b: list, planned: list[int] | None) -> None:
    with pytest.raises(ValueError, match=r"cases|shape|infinite|planned"):
        pair_cases(a, b, planned_a=planned)


def test_k23_repeating_every_trial_does_not_make_more_cases() -> None:
    a, b = np.array([[0.0]] * 5 + [[1.0]]), np.array([[1.0]] * 5 + [[0.0]])
    once = pair_cases(a, b)
    four = pair_cases(np.repeat(a, 4, axis=1), np.repeat(b, 4, axis=1))
    for pairs in (once, four):
        # By hand: 5 against 1: 2 · (1 + 6)/64 = 0.21875. Counting trials, 20 against 4, would give 0.0015.
        assert mcnemar_exact(improved=pairs.improved, regressed=pairs.regressed).p == pytest.approx(0.21875)
    assert four.estimate == once.estimate
    assert four.min_trials == 4
    assert mcnemar_exact(improved=20, regressed=4).p == pytest.approx(0.0015, abs=1e-4)


def test_k24_shuffling_the_rows_changes_no_figure() -> None:
    # 120 both right, 18 only B, 6 only A, 56 neither; exact McNemar 0.0227 (scipy 1.17.1 binomtest(18, 24)).
    verdicts = [(1, 1)] * 120 + [(0, 1)] * 18 + [(1, 0)] * 6 + [(0, 0)] * 56
    a, b = (np.array(side, dtype=float)[:, None] for side in zip(*verdicts, strict=True))
    pairs = pair_cases(a, b)
    assert mcnemar_exact(improved=pairs.improved, regressed=pairs.regressed).p == pytest.approx(0.0227, abs=5e-5)
    order = np.random.default_rng(24).permutation(200)
    shuffled = pair_cases(a[order], b[order])
    assert (shuffled.estimate, shuffled.improved, shuffled.regressed) == (pairs.estimate, 18, 6)


trial = st.sampled_from([0.0, 1.0, 0.3, NAN])
sides = st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(0, 6)).flatmap(
    lambda shape: st.tuples(
        st.lists(st.lists(trial, min_size=shape[0], max_size=shape[0]), min_size=shape[2], max_size=shape[2]),
        st.lists(st.lists(trial, min_size=shape[1], max_size=shape[1]), min_size=shape[2], max_size=shape[2]),
        st.just(shape),
    )
)


def pair_by_loop(a: list[list[float]], b: list[list[float]]) -> dict[str, object]:
    """The same definition without arrays, to check the vectorised one against."""
    differences, improved, regressed, fixed, broke = [], 0, 0, 0, 0
    for row_a, row_b in zip(a, b, strict=True):
        graded_a, graded_b = ([v for v in row if not math.isnan(v)] for row in (row_a, row_b))
        if not graded_a or not graded_b:
            continue
        differences.append(sum(graded_b) / len(graded_b) - sum(graded_a) / len(graded_a))
        m = min(len(graded_a), len(graded_b))
        pass_a, pass_b = (sum(v >= 0.5 for v in graded[:m]) for graded in (graded_a, graded_b))
        improved, regressed = improved + (pass_b > pass_a), regressed + (pass_b < pass_a)
        fixed += 2 * pass_a < m <= 2 * pass_b
        broke += 2 * pass_b < m <= 2 * pass_a
    return {"differences": differences, "counts": (improved, regressed, fixed, broke)}


def counts(pairs: PairedCases) -> tuple[int, int, int, int]:
    return pairs.improved, pairs.regressed, pairs.fixed.size, pairs.broke.size


@given(sides)
def test_arrays_and_a_plain_loop_agree(drawn: tuple[list, list, tuple[int, int, int]]) -> None:
    a, b, (k_a, k_b, n) = drawn
    pairs = pair_cases(np.reshape(a, (n, k_a)), np.reshape(b, (n, k_b)))
    expected = pair_by_loop(a, b)
    assert pairs.differences.tolist() == pytest.approx(expected["differences"])
    assert counts(pairs) == expected["counts"]


@given(sides)
@settings(max_examples=50)
def test_swapping_the_sides_turns_signs_and_nothing_else(drawn: tuple[list, list, tuple[int, int, int]]) -> None:
    a, b, (k_a, k_b, n) = drawn
    one = pair_cases(np.reshape(a, (n, k_a)), np.reshape(b, (n, k_b)))
    other = pair_cases(np.reshape(b, (n, k_b)), np.reshape(a, (n, k_a)))
    assert (one.differences == -other.differences).all()
    assert (one.direction == -other.direction).all()
    assert (one.lost_a, one.improved, one.fixed.tolist()) == (other.lost_b, other.regressed, other.broke.tolist())


def test_a_hundred_thousand_cases_take_well_under_a_second() -> None:
    rng = np.random.default_rng(7)
    a, b = rng.random((100_000, 3)).round(), rng.random((100_000, 3)).round()
    start = time.perf_counter()
    assert pair_cases(a, b).n == 100_000
    assert time.perf_counter() - start < 1.0
