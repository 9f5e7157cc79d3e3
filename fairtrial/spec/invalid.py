"""What is wrong with a spec, in the words of the person who wrote it.

Turns pydantic's findings into one error with places, key paths and the nearest known names. A message never shows a
value: it may be a secret. The one exception is `kind`, which is a name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from fairtrial.errors import SpecError
from fairtrial.hashing import JsonValue
from fairtrial.spec.shape import Path, all_kinds, models_at, value_at
from fairtrial.spec.text import Position, did_you_mean, nearest, shown

MAX_LISTED: Final = 5

_MAX_READ: Final = 200
"""Findings looked at. A file can hold as many mistakes as it has keys, and finding the place of each takes a walk."""

Locate = Callable[[Path], Position | None]
"""Finds where a key path stands in the text, None when that is not known."""

_NEEDS: Final = {
    "string_type": "text",
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a mapping of keys",
    "model_type": "a mapping of keys",
    "model_attributes_type": "a mapping of keys",
}


@dataclass(frozen=True, slots=True)
class _Problem:
    """One thing that is wrong. missing is the key that is not there, meant the known key nearest to an unknown one."""

    path: Path
    text: str
    hint: str = ""
    missing: str = ""
    meant: str = ""


def spec_error(error: ValidationError, *, document: JsonValue, root: object, place: str, locate: Locate) -> SpecError:
    """Return the one error for a document that is no `root`: the first problems, at most five.

    place is the file; root the annotation the document was checked against.
    """
    placed = [(locate(problem.path), problem) for problem in _problems(error, document, root)]
    # A problem without a place concerns the document as a whole and comes first.
    placed.sort(key=lambda pair: (pair[0].line, pair[0].column) if pair[0] else (0, 0))
    if len(placed) == 1:
        at, problem = placed[0]
        return SpecError(
            f"{_prefix(problem)}{problem.text}.",
            hint=problem.hint or None,
            place=f"{place}:{at.line}:{at.column}" if at else place,
        )
    lines = ["many problems:" if error.error_count() > _MAX_READ else f"{len(placed)} problems:"]
    for at, problem in placed[:MAX_LISTED]:
        line = f"line {at.line}, " if at else ""
        lines.append(f"  {line}{_prefix(problem)}{problem.text}. {problem.hint}".rstrip())
    if error.error_count() > _MAX_READ:
        lines.append("  and many more.")
    elif len(placed) > MAX_LISTED:
        lines.append(f"  and {len(placed) - MAX_LISTED} more.")
    return SpecError("\n".join(lines), place=place)


def path_text(path: Path) -> str:
    """Return a key path as text: `graders[0].pattern`; a key that is no plain word stands in brackets."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif part.replace("-", "_").isidentifier() and part.isascii() and len(part) <= 60:
            text += f".{part}" if text else part
        else:
            text += f"[{shown(part)}]"
    return text


def _prefix(problem: _Problem) -> str:
    return f"{path_text(problem.path)}: " if problem.path else ""


def _problems(error: ValidationError, document: JsonValue, root: object) -> list[_Problem]:
    """Return the problems in document order, one a path: a union reports each of its members."""
    found: dict[Path, list[ErrorDetails]] = {}
    problems = []
    for detail in error.errors(include_url=False, include_input=False)[:_MAX_READ]:
        path = _document_path(detail, document, root)
        if detail["type"] in _NEEDS:
            found.setdefault(path, []).append(detail)
        else:
            problems.append(_problem(path, detail, document, root))
    deeper = [problem.path for problem in problems] + list(found)
    for path, details in found.items():
        # Where something is wrong further inside, a member of the union fits this far: the others are not meant.
        if not any(len(other) > len(path) and other[: len(path)] == path for other in deeper):
            needs = [_NEEDS[detail["type"]] for detail in details]
            problems.append(_wrong_type(path, needs, value_at(document, path)))
    return _without_renamed(problems)


def _document_path(detail: ErrorDetails, document: JsonValue, root: object) -> Path:
    """Return the part of pydantic's location that is in the document; the names of union members are not."""
    path: list[str | int] = []
    value = document
    tagged: JsonValue = None
    location = detail["loc"]
    if detail["type"] == "missing":
        location = location[:-1]
    for part in location:
        is_kind = isinstance(value, dict) and value is not tagged and part == value.get("kind")
        if is_kind and part in all_kinds(models_at(root, document, tuple(path))):
            # Of a task or grader the location holds the kind first, then the key, which may have the same name.
            tagged = value
        elif (isinstance(value, dict) and part in value) or (isinstance(value, list) and isinstance(part, int)):
            path.append(part)
            value = value_at(value, (part,))
    return tuple(path)


def _problem(path: Path, detail: ErrorDetails, document: JsonValue, root: object) -> _Problem:
    kind = detail["type"]
    if kind == "missing":
        name = str(detail["loc"][-1])
        return _Problem(path, f"the key {shown(name)} is missing", missing=name)
    if kind == "extra_forbidden":
        return _unknown_key(path, document, root)
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        return _unknown_kind(path, document, root)
    message = detail["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
    return _Problem(path, message[:1].lower() + message[1:])


def _unknown_key(path: Path, document: JsonValue, root: object) -> _Problem:
    models = models_at(root, document, path[:-1])
    known = list(dict.fromkeys(info.alias or key for model in models for key, info in model.model_fields.items()))
    name = str(path[-1])
    hint = did_you_mean(name, known, what="keys")
    return _Problem(path, "unknown key", hint, meant="".join(nearest(name, known)))


def _unknown_kind(path: Path, document: JsonValue, root: object) -> _Problem:
    known = all_kinds(models_at(root, document, path))
    listed = f"Known kinds: {', '.join(known)}."
    value = value_at(document, path)
    kind = value.get("kind") if isinstance(value, dict) else None
    if kind is None:
        return _Problem(path, 'the key "kind" is missing', listed, missing="kind")
    if not isinstance(kind, str):
        return _Problem((*path, "kind"), f"needs text, not {_type_name(kind)}", listed)
    near = nearest(kind, known)
    hint = f"Did you mean {shown(near[0])}? {listed}" if near else listed
    return _Problem((*path, "kind"), f"unknown kind {shown(kind, limit=40)}", hint)


def _wrong_type(path: Path, needs: list[str], value: JsonValue) -> _Problem:
    if needs == ["a number"] and isinstance(value, int) and not isinstance(value, bool):
        return _Problem(path, "the number is too large")
    wanted = " or ".join(dict.fromkeys(needs))
    hint = ""
    if "text" in needs and isinstance(value, bool | int | float | None):
        hint = "Put it in quotes."
    elif isinstance(value, str) and any(word in wanted for word in ("number", "true")):
        hint = "Write it without quotes."
    return _Problem(path, f"needs {wanted}, not {_type_name(value)}", hint)


def _type_name(value: JsonValue) -> str:
    if value is None:
        return "null"
    names = {bool: "true or false", int: "a number", float: "a decimal number", str: "text", list: "a list"}
    return names.get(type(value), "a mapping of keys")


def _without_renamed(problems: list[_Problem]) -> list[_Problem]:
    """Leave out a missing key that an unknown key next to it was most likely meant to be."""
    meant = {(problem.path[:-1], problem.meant) for problem in problems if problem.meant}
    return [problem for problem in problems if not problem.missing or (problem.path, problem.missing) not in meant]
