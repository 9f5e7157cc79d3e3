"""Precision, recall and F1 of written values."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stats.item_scores import arm_score, item_score, split_by_label
from stats.results import NotEnoughData


def test_l43_three_written_of_which_two_are_right() -> None:
    # By hand: 2/3, 2/2 and 2·2/(3+2).
    score = item_score(["a=1", "b=2", "c=9"], ["a=1", "b=2"])
    assert (score.precision, score.recall, score.f1) == pytest.approx((2 / 3, 1.0, 0.8))
    assert (score.right, score.written, score.labelled) == (2, 3, 2)


def test_nothing_to_write_and_nothing_written_is_perfect() -> None:
    score = item_score([], [])
    assert (score.precision, score.recall, score.f1) == (1.0, 1.0, 1.0)


def test_nothing_written_has_no_precision() -> None:
    score = item_score([], ["a"])
    assert (score.precision, score.recall, score.f1) == (None, 0.0, 0.0)


def test_nothing_labelled_has_no_recall() -> None:
    score = item_score(["a"], [])
    assert (score.precision, score.recall, score.f1) == (0.0, None, 0.0)


def test_a_value_written_twice_counts_once() -> None:
    assert item_score(["a", "a"], ["a"]).f1 == 1.0


def test_values_of_unlabelled_properties_are_taken_out_first() -> None:
    split = split_by_label([("width", 60), ("colour", "red"), ("width", 60)], properties={"colour"})
    assert split.graded == {("colour", "red")}
    assert split.unlabelled == {("width", 60)}
    assert item_score(split.graded, [("colour", "red")]).f1 == 1.0


def test_an_arms_means_leave_out_what_is_undefined() -> None:
    items = [item_score(["a"], ["a"]), item_score([], ["a"]), item_score(["b"], [])]
    arm = arm_score(items)
    # By hand: F1 1, 0, 0; precision 1 and 0; recall 1 and 0.
    assert (arm.items, arm.score, arm.precision, arm.recall) == (3, pytest.approx(1 / 3), 0.5, 0.5)
    assert arm_score([item_score([], ["a"])]).precision is None
    assert arm_score([item_score(["a"], [])]).recall is None


def test_an_arm_without_an_item_has_no_score() -> None:
    with pytest.raises(NotEnoughData):
        arm_score([])


@given(st.sets(st.integers(0, 12)), st.sets(st.integers(0, 12)))
def test_f1_is_the_harmonic_mean_and_turns_with_the_sides(written: set[int], labelled: set[int]) -> None:
    score, turned = item_score(written, labelled), item_score(labelled, written)
    assert score.f1 == turned.f1
    assert score.precision == turned.recall
    if score.precision and score.recall:
        assert score.f1 == pytest.approx(2 * score.precision * score.recall / (score.precision + score.recall))
