"""The one door for scores."""

from __future__ import annotations

import json
import math
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairtrial.graders.score import REASON_CAP, GraderBase, NotAScore, Reply, read_reply, score_of

REFUSED = [
    math.nan,
    math.inf,
    -math.inf,
    float("1e400"),
    -0.0001,
    1.0000001,
    2,
    -1,
    10**400,
    10**5000,
    -(10**5000),
    "0.5",
    "nan",
    "1",
    "",
    b"1",
    [1],
    {},
    {"score": "0.5"},
    {"score": math.nan},
    {"score": {"score": 1}},
    {"value": 1},
    Decimal("0.5"),
    1j,
    object(),
]


@pytest.mark.parametrize("value", REFUSED, ids=lambda value: type(value).__name__)
def test_k16_r40_what_is_no_number_in_0_1_is_the_graders_error(value: object) -> None:
    grade = GraderBase("g", "v").replied(value)
    assert (grade.state, grade.score) == ("error", None)
    assert grade.reason.startswith(b"not a number in [0, 1]: ")
    assert len(grade.reason) < 200
    assert GraderBase("g", "v").scored(value).state == "error"


@pytest.mark.parametrize(("value", "score"), [(True, 1.0), (False, 0.0), (1, 1.0), (0, 0.0), (0.25, 0.25), (-0.0, 0.0)])
def test_k16_bools_and_numbers_in_range_are_scores(value: object, score: float) -> None:
    found = score_of(value)
    assert found == score
    assert type(found) is float
    assert math.copysign(1, found) == 1


@given(st.one_of(st.floats(), st.integers(), st.text(), st.none(), st.lists(st.floats())))
def test_r40_whatever_comes_in_a_score_is_a_finite_share_that_json_can_hold(value: object) -> None:
    grade = GraderBase("g", "v").replied(value)
    assert (grade.score is not None) == (grade.state == "scored")
    if grade.score is not None:
        assert 0 <= grade.score <= 1
        assert json.loads(json.dumps(grade.score, allow_nan=False)) == grade.score


def test_replies_of_users_graders() -> None:
    assert read_reply(None) == Reply(None, "the grader gave no score")
    assert read_reply({"score": None, "reason": "not sure"}) == Reply(None, "not sure")
    assert read_reply({"score": 0.5, "reason": "half", "more": 1}) == Reply(0.5, "half")
    assert read_reply({"score": True}) == Reply(1.0, "")
    with pytest.raises(NotAScore, match="reason"):
        read_reply({"score": 1, "reason": 7})
    grade = GraderBase("g", "v").replied(None)
    assert (grade.state, grade.score, grade.reason) == ("no_score", None, b"the grader gave no score")


def test_a_reason_is_bytes_up_to_its_cap() -> None:
    grade = GraderBase("g", "v").scored(1, "\ud835" + "x" * 20_000)
    assert grade.reason[:3] == b"\xed\xa0\xb5"
    assert len(grade.reason) == REASON_CAP
