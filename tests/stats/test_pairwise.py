"""A judge that sees both outputs in both orders."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stats.decision import decide
from stats.pairwise import Answer, PairwiseJudge, joint_win_rate, pairwise_judge

Pair = tuple[Answer | None, Answer | None]


def judge(answers: list[Pair]) -> PairwiseJudge:
    return pairwise_judge(answers, rng=np.random.default_rng(1), n_resamples=2000)


def test_c19_a_judge_that_always_names_the_first_makes_every_case_a_draw() -> None:
    result = judge([("A", "B")] * 12)
    assert result.outcome.win_rate == 0.5
    assert (result.outcome.a_cases, result.outcome.b_cases, result.outcome.p) == (0, 0, 1.0)
    assert (result.inconsistent, result.inconsistency_rate, result.first_position_rate) == (12, 1.0, 1.0)
    assert result.warnings == ("inconsistent", "position")
    decision = decide(
        estimate=result.outcome.lead,
        interval=result.outcome.interval,
        exact_p=result.outcome.p,
        kind="scores",
        n_nonzero=result.outcome.a_cases + result.outcome.b_cases,
    )
    assert decision.outcome == "inconclusive"


def test_a_clear_judge_is_counted_by_hand() -> None:
    result = judge([("B", "B")] * 12 + [("A", "A")] * 3 + [("tie", "tie")] * 2)
    # By hand: (12 + 2/2) / 17; exact sign test 12 against 3: 2 · 576 / 2**15.
    assert result.outcome.win_rate == pytest.approx(13 / 17)
    assert result.outcome.p == pytest.approx(2 * 576 / 2**15)
    assert (result.outcome.cases, result.outcome.b_cases, result.outcome.a_cases) == (17, 12, 3)
    assert result.first_position_rate == 0.5
    assert result.warnings == ()
    assert result.outcome.interval is not None
    assert result.outcome.interval.low > 0.0


def test_half_a_win_is_three_quarters_of_a_point() -> None:
    result = judge([("B", "tie"), ("tie", "A")])
    assert result.scores.tolist() == [0.75, 0.25]
    assert (result.outcome.b_cases, result.outcome.a_cases) == (1, 1)


def test_a_case_with_one_order_missing_is_left_out_everywhere() -> None:
    result = judge([("B", None), ("B", "B"), (None, "A"), (None, None), ("A", "A")])
    assert (result.outcome.cases, result.incomplete) == (2, 3)
    assert result.case_index == (1, 4)
    assert result.decided_answers == 4


def test_a_judge_that_prefers_the_second_position_is_named_too() -> None:
    result = judge([("B", "A")] * 6 + [("B", "B")] * 2)
    # By hand: of 16 answers 2 name the first shown; two-sided P(Bin(16, 1/2) ≤ 2) = 2 · 137 / 2**16.
    assert result.first_position_rate == 0.125
    assert result.position_p == pytest.approx(2 * 137 / 2**16)
    assert "position" in result.warnings


def test_a_fifth_of_inconsistent_cases_is_not_yet_too_many() -> None:
    assert judge([("A", "B")] + [("B", "B")] * 2 + [("A", "A")] * 2).warnings == ()


def test_without_a_complete_case_everything_is_none() -> None:
    result = judge([("A", None)])
    assert (result.outcome.win_rate, result.outcome.interval, result.outcome.p) == (None, None, None)
    assert (result.inconsistency_rate, result.first_position_rate, result.position_p) == (None, None, None)
    assert result.warnings == ()


def test_one_case_has_a_win_rate_and_no_interval() -> None:
    result = judge([("B", "B")])
    assert (result.outcome.win_rate, result.outcome.interval) == (1.0, None)


def test_only_ties_name_no_position() -> None:
    result = judge([("tie", "tie")] * 5)
    assert (result.first_position_rate, result.position_p, result.decided_answers) == (None, None, 0)


def test_c20_several_judges_have_a_joint_line_over_the_cases_all_completed() -> None:
    one = judge([("B", "B"), ("B", "B"), ("A", "A"), ("B", None)])
    two = judge([("B", "B"), ("tie", "tie"), ("B", "B"), ("A", "A")])
    joint = joint_win_rate([one, two], rng=np.random.default_rng(1), n_resamples=2000)
    # By hand: means 1, 3/4, 1/2 over the three shared cases.
    assert joint.cases == 3
    assert joint.win_rate == pytest.approx(0.75)
    assert (joint.b_cases, joint.a_cases) == (2, 0)
    with pytest.raises(ValueError, match="no judges"):
        joint_win_rate([], rng=np.random.default_rng(1))


def test_judges_without_a_shared_case_have_no_joint_win_rate() -> None:
    one, two = judge([("B", "B"), (None, None)]), judge([(None, None), ("B", "B")])
    assert joint_win_rate([one, two], rng=np.random.default_rng(1)).win_rate is None


def test_an_answer_that_is_no_answer_is_refused() -> None:
    with pytest.raises(ValueError, match="not \\['C'\\]"):
        judge([("C", "A")])  # type: ignore[list-item]


@given(st.lists(st.tuples(st.sampled_from(["A", "B", "tie", None]), st.sampled_from(["A", "B", "tie", None]))))
def test_renaming_a_and_b_turns_the_result_and_keeps_the_judges_faults(answers: list[Pair]) -> None:
    turned: dict[Answer | None, Answer | None] = {"A": "B", "B": "A", "tie": "tie", None: None}
    # Who was shown first turns with the names, so the two orders change places.
    one, other = judge(answers), judge([(turned[b_first], turned[a_first]) for a_first, b_first in answers])
    assert (one.inconsistent, one.first_position_rate, one.warnings) == (
        other.inconsistent,
        other.first_position_rate,
        other.warnings,
    )
    assert (one.outcome.a_cases, one.outcome.b_cases) == (other.outcome.b_cases, other.outcome.a_cases)
    assert one.outcome.p == other.outcome.p
    if one.outcome.win_rate is not None and other.outcome.win_rate is not None:
        assert one.outcome.win_rate == pytest.approx(1.0 - other.outcome.win_rate)
