"""The regex grader and the time limit of every search."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest

from fairtrial.errors import SpecError
from fairtrial.records.trial import Grade
from fairtrial.spec.case import Case

Ask = Callable[..., Grade]


@pytest.mark.parametrize(
    ("output", "options", "score"),
    [
        ("PARIS\n", {"pattern": "^[A-Z]+$"}, 1),
        ("Paris", {"pattern": "^[A-Z]+$"}, 0),
        ("Paris", {"pattern": "^[A-Z]+$", "ignore_case": True}, 1),
        ("a\nB", {"pattern": "^B"}, 0),
        ("a\nB", {"pattern": "^B", "multiline": True}, 1),
        ("a\nb", {"pattern": "a.b"}, 0),
        ("a\nb", {"pattern": "a.b", "dotall": True}, 1),
        ("x 42 y", {"pattern": r"\d+"}, 1),
        ("é", {"pattern": r"^\w$"}, 1),
        ("A: yes", {"pattern": "^yes$", "extract": "A: (.*)"}, 1),
    ],
)
def test_c04_regex_is_searched_for_in_the_answer(grade: Ask, output: str, options: dict[str, Any], score: int) -> None:
    found = grade(output, kind="regex", **options)
    assert (found.state, found.score) == ("scored", score)
    assert found.reason == (b"" if score else b"the pattern was not found")


@pytest.mark.parametrize("key", ["pattern", "extract"])
@pytest.mark.parametrize("bad", ["(", "[a", "*a", "(?P<x>a)(?P<x>", "\\", "a{99999999999999}", "(?z)", "(" * 5000])
def test_a_bad_pattern_is_refused_before_the_run_with_its_key(build: Any, key: str, bad: str) -> None:
    spec = {"pattern": "fine", key: bad}
    with pytest.raises(SpecError, match=rf"graders\[0\]\.{key}: the regular expression"):
        build(kind="regex", **spec)


def test_a_pattern_with_an_odd_set_gives_no_warning(build: Any) -> None:
    # Warnings are errors in these tests, and the library warns of a possible nested set.
    build(kind="regex", pattern="[[a]")


EVIL = [
    (r"(a|aa)+$", "a" * 40 + "b"),
    (r"(a+)+$", "a" * 40 + "b"),
    (r"^(([a-z])+.)+[A-Z]([a-z])+$", "a" * 40),
    (r"(.*)*x(.*)*y", "z" * 60),
    (r"(?:(?:a?){30}){30}b", "a" * 60),
    (r"(a*)*\1b", "a" * 40),
]


@pytest.mark.parametrize(("pattern", "text"), EVIL)
def test_an_evil_pattern_ends_at_its_limit_or_before(grade: Ask, pattern: str, text: str) -> None:
    began = time.monotonic()
    found = grade(text, kind="regex", pattern=pattern, timeout_s=0.3)
    assert time.monotonic() - began < 1.5
    assert found.state in ("scored", "error")
    if found.state == "error":
        assert found.reason == b"the search took longer than 0.3 s"


def test_a_search_without_end_is_the_graders_error(grade: Ask) -> None:
    pattern, text = EVIL[0]
    found = grade(text, kind="regex", pattern=pattern, timeout_s=0.1)
    assert (found.state, found.score) == ("error", None)


def test_extraction_has_its_limit_too(grade: Ask) -> None:
    pattern, text = EVIL[0]
    found = grade(text, kind="exact", expected="1", extract=pattern)
    assert (found.state, found.reason) == ("error", b"the search took longer than 1 s")


def test_a_long_search_does_not_hold_the_event_loop(build: Any) -> None:
    pattern, text = EVIL[0]
    grader = build(kind="regex", pattern=pattern, timeout_s=0.6)

    async def longest_gap() -> float:
        searching = asyncio.create_task(grader.grade(text.encode(), case=Case(id="c", input=""), mark={}))
        gap, last = 0.0, time.monotonic()
        while not searching.done():
            await asyncio.sleep(0.01)
            gap, last = max(gap, time.monotonic() - last), time.monotonic()
        return gap

    assert asyncio.run(longest_gap()) < 0.3


def test_a_megabyte_is_searched_at_once(grade: Ask) -> None:
    assert grade("x" * 1_000_000 + "1", kind="regex", pattern=r"\d$").score == 1
