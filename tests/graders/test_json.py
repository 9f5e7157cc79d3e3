"""The json grader: what is compared, how, and what the reason names. Expected results are read off RFC 8259 and 6901
and counted by hand."""

from __future__ import annotations

import json
import random
from decimal import Decimal
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairtrial.errors import SpecError
from fairtrial.graders.json_compare import Rules, first_difference

PLAIN = (
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.5, 1.0, 2.0]) | st.sampled_from(["", "a", "b"])
)
JSON = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
)


def score(grade: Any, answer: str, expected: Any, **settings: Any) -> tuple[float | None, str]:
    found = grade(answer, expected=expected, kind="json", **settings)
    return found.score, found.reason.decode()


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ('{"a": 1, "b": [true, null]}', {"b": [True, None], "a": 1}),
        ("1.0", 1),
        ("1e0", 1),
        ("-0.0", 0),
        ("9007199254740993", 9007199254740993),
        ('"\\u00e9"', "é"),
        ("null", None),
        (" \n[1, 2]\t", [1, 2]),
        ("\ufeff{}", {}),
    ],
)
def test_the_same_value_scores_1_however_it_is_written(grade: Any, answer: str, expected: Any) -> None:
    assert score(grade, answer, expected) == (1.0, "")


@pytest.mark.parametrize(
    ("answer", "expected", "reason"),
    [
        ("1", True, "the answer: expected true, found 1"),
        ("0", False, "the answer: expected false, found 0"),
        ('"1"', 1, 'the answer: expected 1, found "1"'),
        ("9007199254740992", 9007199254740993, "the answer: expected 9007199254740993, found 9007199254740992"),
        ("0.30000000000000004", 0.3, "the answer: expected 0.3, found 0.30000000000000004"),
        ('{"a": 1}', {"a": None}, "/a: expected null, found 1"),
        ("{}", {"a": None}, "/a is missing"),
        ('{"a": 1, "b": 2}', {"a": 1}, "/b is not expected"),
        ('{"a": {"b": [0, {"c": "x"}]}}', {"a": {"b": [0, {"c": "y"}]}}, '/a/b/1/c: expected "y", found "x"'),
        ('{"a/b": {"m~n": 1}}', {"a/b": {"m~n": 2}}, "/a~1b/m~0n: expected 2, found 1"),
        ("[1, 2]", [1, 2, 3], "/2 is missing"),
        ("[1, 2, 3]", [1, 2], "/2 is not expected"),
        ("[2, 1]", [1, 2], "/0: expected 1, found 2"),
        ("[]", {}, "the answer: expected an object of 0 keys, found a list of 0 elements"),
        ('"é"', "e\u0301", 'the answer: expected "e\u0301", found "é"'),
        ('{"b": 0, "a": 0}', {"a": 1, "b": 1}, "/a: expected 1, found 0"),
    ],
)
def test_k16_another_value_scores_0_and_the_first_path_that_differs_is_named(
    grade: Any, answer: str, expected: Any, reason: str
) -> None:
    assert score(grade, answer, expected) == (0.0, reason)


@pytest.mark.parametrize(
    "answer", ["```json\n[1]\n```", "```\n[1]\n```", "  ```JSON \r\n[1]\r\n```\n", "```json\n\n[1]```"]
)
def test_k47_one_code_fence_around_the_whole_answer_is_taken_off(grade: Any, answer: str) -> None:
    assert score(grade, answer, [1]) == (1.0, "")


@pytest.mark.parametrize(
    "answer",
    [
        "Here it is:\n```json\n[1]\n```",
        "```json\n[1]\n```\nThat is it.",
        "```json\n[1]\n```\n```json\n[1]\n```",
        "```python\n[1]\n```",
        "```[1]```",
        "``````",
        "[1] [1]",
        "[1],",
        "[1",
        "",
        "{'a': 1}",
        "{a: 1}",
        '{"a": 1, "a": 1}',
        "NaN",
        "[Infinity]",
        "1e400",
        "[" * 101 + "]" * 101,
        "[" * 100_000,
        "9" * 5_000,
        "True",
    ],
)
def test_k47_r41_what_is_not_one_json_value_scores_0(grade: Any, answer: str) -> None:
    found, reason = score(grade, answer, [1])
    assert found == 0
    assert reason.startswith("the answer is not one JSON value: ")


def test_text_around_the_value_can_be_cut_off_by_extract(grade: Any) -> None:
    answer = 'I looked. ANSWER: {"a": [1, 2]}'
    assert score(grade, answer, {"a": [1, 2]}, extract="ANSWER: (.*)") == (1.0, "")


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ('{"a": 1, "b": 2}', {"a": 1}),
        ('{"a": {"x": 1, "y": 2}, "b": 2}', {"a": {"y": 2}}),
        ("[0, 1, 5, 2]", [1, 2]),
        ('[{"a": 1, "b": 2}, {"a": 3}]', [{"a": 3}]),
        ("[1]", []),
        ('{"a": 1}', {}),
    ],
)
def test_with_subset_the_answer_may_hold_more(grade: Any, answer: str, expected: Any) -> None:
    assert score(grade, answer, expected, match="subset")[0] == 1
    assert score(grade, answer, expected)[0] == 0


@pytest.mark.parametrize(
    ("answer", "expected", "reason"),
    [
        ("[2, 1]", [1, 2], "the answer: expected element 1, 2, is not from position 2 on"),
        ("[1]", [1, 1], "the answer: expected element 1, 1, is not from position 1 on"),
        ("[]", [{"a": 1}], "the answer: expected element 0, an object of 1 key, is not in the answer's list"),
        ('{"b": 1}', {"a": 1}, "/a is missing"),
        ('{"a": [{"b": 1}]}', {"a": {"b": 1}}, "/a: expected an object of 1 key, found a list of 1 element"),
    ],
)
def test_a_subset_keeps_order_and_uses_each_element_once(grade: Any, answer: str, expected: Any, reason: str) -> None:
    assert score(grade, answer, expected, match="subset") == (0.0, reason)


def test_unordered_lists_are_compared_as_bags(grade: Any) -> None:
    assert score(grade, "[3, 1, 2, 1]", [1, 1, 2, 3], unordered=True) == (1.0, "")
    assert score(grade, '[["b", "a"], {"x": [2, 1]}]', [{"x": [1, 2]}, ["a", "b"]], unordered=True) == (1.0, "")
    told = "the answer: expected element 1, 1, is not in the answer's list"
    assert score(grade, "[1, 2, 2]", [1, 1, 2], unordered=True) == (0.0, told)
    told = "the answer: expected a list of 1 element, found a list of 2 elements"
    assert score(grade, "[1, 1]", [1], unordered=True) == (0.0, told)
    assert score(grade, "[2, 1]", [1], unordered=True, match="subset") == (1.0, "")
    assert score(grade, "[1, true]", [True, 1.0], unordered=True) == (1.0, "")


def test_a_pair_taken_early_is_given_up_when_another_needs_it(grade: Any) -> None:
    """{"a": 1} is in both elements, {"a": 1, "b": 2} in the first alone; so too 0.5 and 0.9 within 0.5 of 0.6 and 0."""
    answer = '[{"a": 1, "b": 2}, {"a": 1}]'
    expected = [{"a": 1}, {"a": 1, "b": 2}]
    assert score(grade, answer, expected, unordered=True, match="subset") == (1.0, "")
    assert score(grade, "[0.6, 0]", [0.5, 0.9], unordered=True, tolerance=0.5) == (1.0, "")
    assert score(grade, "[0.6, 0]", [0.5, 1.2], unordered=True, tolerance=0.5)[0] == 0


@pytest.mark.parametrize(
    ("answer", "passes"), [("3.15", 1), ("3.13", 1), ("3.151", 0), ("3", 0), ('"3.14"', 0), ("true", 0)]
)
def test_a_tolerance_is_in_exact_decimals_and_for_numbers_alone(grade: Any, answer: str, passes: int) -> None:
    assert score(grade, answer, 3.14, tolerance=0.01)[0] == passes


def test_a_pointer_leads_to_the_part_that_is_compared_and_into_the_reason(grade: Any) -> None:
    answer = '{"a/b": [{"m~n": 8}, 9], "": {"0": "x"}}'
    assert score(grade, answer, 8, pointer="/a~1b/0/m~0n") == (1.0, "")
    assert score(grade, answer, "x", pointer="//0") == (1.0, "")
    assert score(grade, answer, {"m~n": 7}, pointer="/a~1b/0") == (0.0, "/a~1b/0/m~0n: expected 7, found 8")


@pytest.mark.parametrize(
    ("pointer", "missing"),
    [("/c", "/c"), ("/a/2", "/a/2"), ("/a/-", "/a/-"), ("/a/01", "/a/01"), ("/a/0/x/y", "/a/0/x"), ("/a/٠", "/a/٠")],
)
def test_a_part_that_is_not_there_scores_0_and_is_named(grade: Any, pointer: str, missing: str) -> None:
    assert score(grade, '{"a": [1, 2]}', 1, pointer=pointer) == (0.0, f"{missing} is not in the answer")


@pytest.mark.parametrize("pointer", ["a", "a/b", "/a~", "/~2"])
def test_what_is_no_pointer_is_refused_before_a_run(build: Any, pointer: str) -> None:
    with pytest.raises(SpecError, match=r"^graders\[0\]\.pointer: this is not a JSON Pointer"):
        build(kind="json", pointer=pointer)


def test_a_value_in_the_spec_takes_the_place_of_the_label(grade: Any) -> None:
    assert grade("[1]", expected=[2], kind="json", value=[1]).score == 1
    assert grade("[1]", kind="json", value=[1]).score == 1


def test_without_a_label_there_is_no_score_whatever_the_answer_is(grade: Any) -> None:
    for answer in ("[1]", "no JSON"):
        found = grade(answer, kind="json")
        assert (found.state, found.reason) == ("no_score", b"case has no expected value")


def test_a_label_that_is_text_is_not_parsed(grade: Any) -> None:
    assert score(grade, "{}", "{}") == (0.0, 'the answer: expected "{}", found an object of 0 keys')


def test_r39_bytes_and_half_pairs_in_an_answer_are_compared_and_shown(grade: Any) -> None:
    assert score(grade, '"\\ud800"', "\ud800")[0] == 1
    found = grade(b'"\xff\x00"', expected="x", kind="json")
    assert found.state == "scored"
    assert (
        score(grade, json.dumps("\ud800\u202e\0"), "x")[1]
        == 'the answer: expected "x", found "\ufffd\ufffd\ufffd\u202e\\u0000"'
    )


def test_a_reason_stays_short_whatever_the_answer_holds(grade: Any) -> None:
    answer = json.dumps({"a": ["x" * 1_000_000, {"k" * 1_000_000: 1}]})
    assert len(score(grade, answer, {"a": ["y", 1]})[1]) < 200
    assert len(grade(answer, expected={"a": []}, kind="json").reason) < 200


def test_r41_pairing_past_its_limit_is_an_error_and_ordinary_lists_are_far_from_it(grade: Any) -> None:
    """Reversed, the n-th of 1,000 is found after 1,000 − n tries: half a million in all."""
    rows = [{"a": 0, "n": n} for n in range(1_000)]
    backwards = json.dumps(rows[::-1])
    found = grade(backwards, expected=rows, kind="json", unordered=True, match="subset")
    assert (found.state, found.reason) == ("error", b"pairing the elements would take more than 200,000 steps")
    assert score(grade, backwards, rows, unordered=True) == (1.0, "")
    assert score(grade, json.dumps(rows), rows, unordered=True, match="subset") == (1.0, "")
    words = [f"word {n}" for n in range(20_000)]
    assert score(grade, json.dumps(words[::-1]), words, unordered=True, match="subset") == (1.0, "")
    deep: Any = words
    for _ in range(90):
        deep = [deep]
    assert score(grade, json.dumps(deep), deep, unordered=True) == (1.0, "")


def test_every_pairing_that_exists_is_found() -> None:
    """Against all orders of up to five elements, 200 draws, seed 7."""
    draw = random.Random(7)
    rules, found = Rules(unordered=True, tolerance=Decimal(1)), set()
    for _ in range(200):
        want: list[Any] = [draw.randrange(8) for _ in range(5)]
        got: list[Any] = [draw.randrange(8) for _ in range(5)]
        exists = any(all(abs(a - b) <= 1 for a, b in zip(want, order, strict=True)) for order in permutations(got))
        assert (first_difference(want, got, rules) is None) == exists, (want, got)
        found.add(exists)
    assert found == {True, False}


@given(JSON)
def test_a_value_equals_itself_by_every_rule(value: Any) -> None:
    for rules in (Rules(), Rules(subset=True), Rules(unordered=True), Rules(True, True, Decimal("0.25"))):
        assert first_difference(value, json.loads(json.dumps(value)), rules) is None


@given(JSON, JSON)
def test_equality_is_the_same_from_both_sides_and_implies_subset(a: Any, b: Any) -> None:
    for rules in (Rules(), Rules(unordered=True)):
        equal = first_difference(a, b, rules) is None
        assert equal == (first_difference(b, a, rules) is None)
        within = Rules(subset=True, unordered=rules.unordered)
        both = first_difference(a, b, within) is None and first_difference(b, a, within) is None
        assert equal == both
