"""length, latency and cost: limits that pass at both ends, and what nobody reported."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from typing import Any

import pytest

from fairtrial.records.trial import Answer, Grade, Usage
from fairtrial.spec.case import Case


def of_answer(build: Any, answer: Answer, **spec: Any) -> Grade:
    found: Grade = asyncio.run(build(**spec).grade_answer(answer, case=Case(id="c", input=""), mark={}))
    return found


# Counted by hand.
@pytest.mark.parametrize(
    ("text", "unit", "n"),
    [
        ("", "characters", 0),
        ("e\u0301🦊", "characters", 3),
        ("a\r\nb", "characters", 4),
        ("", "words", 0),
        ("one  two\tthree\nfour\u00a0five", "words", 5),
        ("don't re-do", "words", 2),
        ("", "lines", 0),
        ("a", "lines", 1),
        ("a\n", "lines", 1),
        ("a\nb", "lines", 2),
        ("a\r\nb\rc\n", "lines", 3),
        ("\n\n", "lines", 2),
        ("a\u2028b\x0bc\x85d", "lines", 1),
    ],
)
def test_a_length_is_counted_and_both_limits_pass(grade: Any, text: str, unit: str, n: int) -> None:
    spec = {"kind": "length", "unit": unit, "strip": False}
    word = unit if n != 1 else unit[:-1]
    assert grade(text, **spec, min=n, max=n).score == 1
    over = grade(text, **spec, min=n + 1)
    assert (over.score, over.reason.decode()) == (0.0, f"{n} {word}, at least {n + 1} wanted")
    if n:
        under = grade(text, **spec, max=n - 1)
        assert (under.score, under.reason.decode()) == (0.0, f"{n} {word}, at most {n - 1} wanted")


def test_the_ends_are_stripped_and_extract_counts_first(grade: Any) -> None:
    assert grade("  abc\n", kind="length", max=3).score == 1
    assert grade("  abc\n", kind="length", max=3, strip=False).score == 0
    assert grade("thinking... ANSWER: abc", kind="length", extract="ANSWER: (.*)", max=3).score == 1


def test_r39_bytes_that_are_no_text_are_counted(grade: Any) -> None:
    assert grade(b"\xff\xfe\x00", kind="length", min=3, max=3).score == 1


@pytest.mark.parametrize(
    ("limits", "message"), [({}, 'give "min", "max" or both'), ({"min": 3, "max": 2}, '"min" is above "max"')]
)
def test_w05_limits_that_say_nothing_or_pass_nothing_are_refused(build: Any, limits: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build(kind="length", **limits)


@pytest.mark.parametrize(
    ("latency_s", "score", "reason"),
    [
        (2.5, 1.0, "2.500 s, at most 2.5 s"),
        (0.0, 1.0, "0.000 s, at most 2.5 s"),
        (2.5001, 0.0, "2.500 s, at most 2.5 s"),
        (None, None, "how long the answer took is not known"),
    ],
)
def test_an_answer_in_time_passes_and_an_unknown_time_is_no_score(
    build: Any, latency_s: float | None, score: float | None, reason: str
) -> None:
    found = of_answer(build, Answer(b"x", latency_s=latency_s), kind="latency", max_s=2.5)
    assert (found.state, found.score, found.reason.decode()) == (
        "no_score" if score is None else "scored",
        score,
        reason,
    )


@pytest.mark.parametrize(
    ("limit", "cost", "score"),
    [
        ("0.1", "0.1", 1.0),
        ("0.1", "0.10000000000000001", 0.0),
        (0.1, "0.1", 1.0),
        (0, "0", 1.0),
        (0, "0.000001", 0.0),
        (3, "2.99", 1.0),
    ],
)
def test_a_price_within_the_limit_passes_compared_exactly(build: Any, limit: Any, cost: str, score: float) -> None:
    answer = Answer(b"x", usage=Usage(cost_usd=Decimal(cost)))
    assert of_answer(build, answer, kind="cost", max_usd=limit).score == score


def test_k02_an_unknown_price_is_no_score_and_never_0(build: Any) -> None:
    found = of_answer(build, Answer(b"x", usage=Usage(input_tokens=5)), kind="cost", max_usd=0)
    assert (found.state, found.score, found.reason) == ("no_score", None, b"what the answer cost is not known")


def test_the_reason_shows_the_price_without_an_exponent(build: Any) -> None:
    answer = Answer(b"x", usage=Usage(cost_usd=Decimal("1E-7")))
    found = of_answer(build, answer, kind="cost", max_usd="0.002")
    assert found.reason == b"0.0000001 US dollars, at most 0.002"


@pytest.mark.parametrize("kind", [{"kind": "latency", "max_s": 1.0}, {"kind": "cost", "max_usd": 1}])
def test_bytes_alone_have_neither_time_nor_price(grade: Any, kind: dict[str, Any]) -> None:
    assert grade("x", **kind).state == "no_score"


@pytest.mark.parametrize("value", [-1, "1,5", "1e5", True, "", float("nan"), "-0.1", None])
def test_w05_a_limit_that_is_no_price_is_refused(build: Any, value: Any) -> None:
    with pytest.raises(ValueError, match="max_usd"):
        build(kind="cost", max_usd=value)


@pytest.mark.parametrize("value", [0, -1.0, "2", float("inf"), None])
def test_w05_a_limit_that_is_no_time_is_refused(build: Any, value: Any) -> None:
    with pytest.raises(ValueError, match="max_s"):
        build(kind="latency", max_s=value)


def test_a_grader_of_bytes_grades_an_answer_alike(build: Any) -> None:
    found = of_answer(build, Answer(b"abc", latency_s=1.0), kind="exact", value="abc")
    assert found.score == 1
