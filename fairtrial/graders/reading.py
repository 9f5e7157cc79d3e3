"""How graders read an answer and a label. docs/graders.md states these rules for people.

Bytes that are not UTF-8 become U+FFFD, for grading only: the stored answer stays as it came. There is no Unicode
normalisation: é as one code point differs from é as two.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from fairtrial.errors import InputError
from fairtrial.hashing import JsonValue, canonical_json
from fairtrial.spec.case import Case
from fairtrial.spec.strict import parse_json


@dataclass(frozen=True, slots=True)
class NoLabel:
    """There is nothing to compare with; the reason says why."""

    reason: str


Label: TypeAlias = "JsonValue | NoLabel"


def text_of(output: bytes) -> str:
    """Return an answer as text."""
    return output.decode("utf-8", "replace")


def same_rule(text: str) -> str:
    """Return a label's text read the way an answer is: half a surrogate pair becomes what it becomes in an answer."""
    return text if text.isascii() else text_of(text.encode("utf-8", "surrogatepass"))


def label_of(case: Case, value: JsonValue) -> Label:
    """Return what to compare with: the spec's `value`, else the case's label, which may be null."""
    if value is not None:
        return value
    return case.expected if case.has_expected else NoLabel("case has no expected value")


def json_or_none(text: str) -> tuple[bool, JsonValue]:
    """Return whether `text` is one JSON value by the strict rules, and the value."""
    try:
        return True, parse_json(text, place="output")
    except InputError:
        return False, None


def same_json(a: JsonValue, b: JsonValue) -> bool:
    """Return whether two JSON values mean the same: 1 and 1.0 do, 1 and true do not, keys have no order."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, int | float) and isinstance(b, int | float):
        return a == b
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same_json(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(same_json(x, y) for x, y in zip(a, b, strict=True))
    return type(a) is type(b) and a == b


def case_for_graders(case: Case) -> dict[str, JsonValue]:
    """Return the case as a user's grader gets it: as a task does, and with the label."""
    return {
        "id": case.id,
        "input": case.input,
        "expected": case.expected,
        "has_expected": case.has_expected,
        "kind": case.kind,
        "split": case.split,
        "group": case.group,
        "tags": list(case.tags),
        "fields": case.fields,
    }


def json_text(value: JsonValue) -> str:
    """Return a JSON value as the text it is compared as: a text is itself, all else canonical JSON."""
    return same_rule(value if isinstance(value, str) else canonical_json(value).decode("utf-8", "surrogatepass"))
