"""exact, iexact, contains, icontains and extraction, against labels of every JSON kind."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairtrial.errors import SpecError
from fairtrial.graders.reading import json_or_none, same_json, text_of
from fairtrial.hashing import canonical_json
from fairtrial.records.trial import Grade
from fairtrial.spec.case import Case

Ask = Callable[..., Grade]


@pytest.mark.parametrize(
    ("output", "expected", "score"),
    [
        ("Paris", "Paris", 1),
        ("Paris\n", " Paris ", 1),
        ("paris", "Paris", 0),
        ("Paris!", "Paris", 0),
        ("b", ["a", "b"], 1),
        ("c", ["a", "b"], 0),
        # JSON labels by meaning.
        ("42", 42, 1),
        (" 42.0\n", 42, 1),
        ("42", 42.0, 1),
        ("042", 42, 0),
        ("true", True, 1),
        ("1", True, 0),
        ("True", True, 0),
        ("null", None, 1),
        ("", None, 0),
        ('{"b": 1, "a": [2]}', {"a": [2], "b": 1.0}, 1),
        ('{"a": [2], "b": 1, "c": 0}', {"a": [2], "b": 1}, 0),
        ('{"a": 1, "a": 1}', {"a": 1}, 0),
        ("[1, 2]", [1, 2], 1),
        ("[2, 1]", [1, 2], 0),
        ("[]", [], 1),
        ('["a", 1]', ["a", 1], 1),
        ("12345678901234567890123", 12345678901234567890123, 1),
        ("12345678901234567890124", 12345678901234567890123, 0),
        # A label that is text is compared as text: 1 is not "1.0", true is not "True".
        ("1.0", "1", 0),
    ],
)
def test_exact(grade: Ask, output: str, expected: object, score: int) -> None:
    found = grade(output, expected=expected, kind="exact")
    assert (found.state, found.score) == ("scored", score)
    assert found.reason == (b"" if score else b"the output differs from the expected value")


@pytest.mark.parametrize(
    ("output", "expected", "score"),
    [
        ("PARIS", "Paris", 1),
        ("Straße", "STRASSE", 1),
        ("ΣΊΣΥΦΟΣ", "σίσυφος", 1),
        ("True", True, 1),
        ("NULL", None, 1),
        ('{"A": "X"}', {"a": "x"}, 1),
        ("B", ["a", "b"], 1),
        ("paris.", "Paris", 0),
    ],
)
def test_iexact_folds_case_and_nothing_else(grade: Ask, output: str, expected: object, score: int) -> None:
    assert grade(output, expected=expected, kind="iexact").score == score


def test_there_is_no_unicode_normalisation(grade: Ask) -> None:
    composed, apart = "\u00e9", "e\u0301"
    for kind in ("exact", "iexact", "contains", "icontains"):
        assert grade(composed, expected=apart, kind=kind).score == 0
        assert grade(apart, expected=apart, kind=kind).score == 1


def test_without_an_expected_value_there_is_no_score(grade: Ask) -> None:
    for kind in ("exact", "iexact", "contains", "icontains", "number"):
        found = grade("x", kind=kind)
        assert (found.state, found.score, found.reason) == ("no_score", None, b"case has no expected value")


def test_a_value_in_the_spec_replaces_the_label(grade: Ask) -> None:
    assert grade("yes", expected="no", kind="exact", value="yes").score == 1
    assert grade("yes", kind="exact", value="yes").score == 1
    assert grade("so yes", kind="contains", value=["maybe", "yes"]).score == 1


@pytest.mark.parametrize(
    ("output", "expected", "match", "score"),
    [
        ("The capital is Paris.", "Paris", "any", 1),
        ("The capital is paris.", "Paris", "any", 0),
        ("a and b", ["a", "x"], "any", 1),
        ("a and b", ["a", "x"], "all", 0),
        ("a and b", ["a", "b"], "all", 1),
        ("it is 42", 42, "any", 1),
        ('say {"a":1}', {"a": 1}, "any", 1),
        ("is true", True, "any", 1),
    ],
)
def test_contains(grade: Ask, output: str, expected: object, match: str, score: int) -> None:
    assert grade(output, expected=expected, kind="contains", match=match).score == score


def test_icontains_folds_case(grade: Ask) -> None:
    assert grade("the STRASSE here", expected="Straße", kind="icontains").score == 1


@pytest.mark.parametrize("empty", ["", "  ", [], [""], ["a", ""]])
def test_an_empty_text_would_always_pass_so_it_scores_nothing(grade: Ask, build: Any, empty: object) -> None:
    assert grade("x", expected=empty, kind="contains").state == "no_score"
    with pytest.raises(SpecError, match=r"graders\[0\]\.value: an empty text"):
        build(kind="contains", value=empty)


def test_white_space_at_the_ends_counts_when_strip_is_off(grade: Ask) -> None:
    assert grade("a\n", expected="a", kind="exact", strip=False).score == 0
    assert grade("a\n", expected="a\n", kind="exact", strip=False).score == 1
    assert grade("a b", expected=" ", kind="contains", strip=False).score == 1


@pytest.mark.parametrize("kind", ["exact", "iexact", "contains", "icontains"])
def test_k85_bytes_that_are_no_utf_8_become_the_replacement_character(grade: Ask, kind: str) -> None:
    # By hand, after Unicode 3.9, table 3-8: each of these bytes is one ill-formed part.
    assert text_of(b"a\xff\xfe\x00b") == "a\ufffd\ufffd\0b"
    assert text_of("é".encode()[:1]) == "\ufffd"
    assert grade(b"\xff", expected="\ufffd", kind=kind).score == 1
    # Half a surrogate pair in the answer and in the label are the same text.
    assert grade("x\ud835", expected="x\ud835", kind=kind).score == 1
    assert grade("\0", expected="\0", kind=kind, strip=False).score == 1


def test_r33_every_byte_string_can_be_graded(grade: Ask) -> None:
    for output in (bytes(range(256)), "text".encode("utf-16"), b"\r", b"x" * 1_000_000):
        for spec in (
            {"kind": "exact", "expected": "x"},
            {"kind": "exact", "expected": {"a": 1}},
            {"kind": "number", "expected": 1},
            {"kind": "regex", "pattern": "^.$"},
        ):
            assert grade(output, **spec).state == "scored"


@pytest.mark.parametrize(
    ("output", "options", "score"),
    [
        ("A: 3\nA: 18", {"extract": r"A: (\d+)"}, 1),
        ("A: 18\nA: 3", {"extract": r"A: (\d+)"}, 0),
        ("A: 18\nA: 3", {"extract": r"A: (\d+)", "extract_from": "first"}, 1),
        ("so 18 it is", {"extract": r"\d+"}, 1),
        ("x18", {"extract": r"(y)|18"}, 1),
        ("< 18 >", {"extract": "<(.*)>"}, 1),
        ("< 18 >", {"extract": "<(.*)>", "strip": False}, 0),
    ],
)
def test_extraction_takes_the_first_group_of_the_chosen_match(
    grade: Ask, output: str, options: dict[str, Any], score: int
) -> None:
    assert grade(output, expected="18", kind="exact", **options).score == score


def test_a_text_with_ten_million_matches_ends_at_the_same_limit(grade: Ask) -> None:
    began = time.monotonic()
    found = grade(b"a" * 10_000_000, kind="exact", expected="a", extract="a")
    # The limit is one second of processor time; a busy machine takes longer by the clock.
    assert time.monotonic() - began < 10
    assert found.state == "error"


def test_no_match_of_extract_is_0_with_that_reason(grade: Ask) -> None:
    for spec in ({"kind": "exact"}, {"kind": "contains"}, {"kind": "number"}, {"kind": "regex", "pattern": "."}):
        found = grade("nothing", expected="1", extract="#+", **spec)
        assert (found.state, found.score, found.reason) == ("scored", 0.0, b"extract found nothing in the output")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(JSON)
def test_every_json_value_equals_its_own_text(value: Any) -> None:
    is_json, back = json_or_none(canonical_json(value).decode("utf-8", "surrogatepass"))
    assert is_json
    assert same_json(value, back)


@given(JSON, JSON)
def test_same_json_has_no_sides(a: Any, b: Any) -> None:
    assert same_json(a, b) == same_json(b, a)


PAYLOADS = [
    '{"__class__": "subprocess.getoutput", "data": {"cmd": "touch canary"}}',
    '{"__exc_type__": "SystemExit"}',
    '{"$ref": "file:///etc/passwd"}',
    "!!python/object/apply:os.system ['touch canary']",
    "{{7*7}} ${7*7} #{7*7} <%= 7*7 %>",
    "%n%n%s %(x)s {0.__class__}",
    "cos\nsystem\n(S'touch canary'\ntR.",
    "__import__('os').system('touch canary')",
]


@pytest.mark.parametrize("payload", PAYLOADS)
def test_r50_an_answer_is_compared_and_never_carried_out(
    grade: Ask, tmp_path: Any, monkeypatch: pytest.MonkeyPatch, payload: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert grade(payload, expected=payload, kind="exact").score == 1
    assert grade(payload, expected={"a": 1}, kind="exact").score == 0
    assert grade(payload, expected=payload, kind="contains").score == 1
    assert not (tmp_path / "canary").exists()


def test_the_grade_carries_name_and_version(grade: Ask, build: Any) -> None:
    found = grade("x", expected="x", kind="exact", name="same text")
    assert found.grader == "same text"
    assert found.version == build(kind="exact").version
    assert len(found.version) == 16


def test_a_label_of_null_is_a_label(grade: Ask) -> None:
    case = Case(id="c", input="", expected=None, has_expected=True)
    assert grade("null", case=case, kind="exact").score == 1
