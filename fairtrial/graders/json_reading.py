"""Reading an answer as JSON, for the graders that look inside it.

The answer is one JSON value by the strict rules, or one code fence around it; text beside the value is never skipped,
because which of several values was meant would be a guess.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from fairtrial.errors import InputError, SpecError
from fairtrial.graders.pattern import ReadingGrader
from fairtrial.hashing import JsonValue
from fairtrial.spec.strict import parse_json

if TYPE_CHECKING:
    from fairtrial.spec.models import JsonGrader, JsonSchemaGrader, ValuesGrader

Path = tuple[str | int, ...]
"""Keys and 0-based positions that lead from a JSON value to a part of it."""

_FENCE: Final = "```"
_BAD_TILDE: Final = re.compile(r"~(?![01])")
_POSITION: Final = re.compile(r"0|[1-9][0-9]{0,8}")


class NotThere(Exception):
    """The answer holds nothing to grade; the message says why."""


def read_json_answer(text: str) -> JsonValue:
    """Return the one JSON value that an answer is, a code fence around it taken off. Raises NotThere."""
    try:
        return parse_json(_without_fence(text), place="answer")
    except InputError as error:
        raise NotThere(f"the answer is not one JSON value: {error}") from None


def split_pointer(pointer: str, *, place: str) -> tuple[str, ...]:
    """Return the keys of a JSON Pointer (RFC 6901). Raises SpecError for a text that is none."""
    if pointer and (not pointer.startswith("/") or _BAD_TILDE.search(pointer)):
        raise SpecError(
            "this is not a JSON Pointer.",
            hint='It is empty or begins with "/", and "~" stands before 0 or 1 only, as in /items/0/a~1b.',
            place=place,
        )
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:])


def path_text(path: Path) -> str:
    """Return a path as a JSON Pointer, and the whole as words."""
    return "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in path) or "the answer"


def part_at(value: JsonValue, keys: tuple[str, ...]) -> tuple[JsonValue, Path]:
    """Return the part of `value` that a pointer's keys lead to, and its path. Raises NotThere."""
    path: Path = ()
    for key in keys:
        if isinstance(value, dict) and key in value:
            value, path = value[key], (*path, key)
        elif isinstance(value, list) and _POSITION.fullmatch(key) and int(key) < len(value):
            value, path = value[int(key)], (*path, int(key))
        else:
            raise NotThere(f"{path_text((*path, key))} is not in the answer")
    return value, path


class JsonReadingGrader(ReadingGrader):
    """A grader that reads the answer as JSON. What is no JSON, or lacks the part that is graded, scores 0."""

    def __init__(self, spec: JsonGrader | JsonSchemaGrader | ValuesGrader, *, name: str, version: str, place: str):
        super().__init__(spec, name=name, version=version, place=place)
        self._keys = split_pointer(spec.pointer, place=f"{place}.pointer")

    def part_of(self, text: str) -> tuple[JsonValue, Path]:
        """Return the value that the pointer leads to, and where it stands. Raises NotThere, which is a score of 0."""
        return part_at(read_json_answer(text), self._keys)


def _without_fence(text: str) -> str:
    body = text.strip()
    if len(body) < 2 * len(_FENCE) or not (body.startswith(_FENCE) and body.endswith(_FENCE)):
        return text
    info, newline, rest = body[len(_FENCE) : -len(_FENCE)].partition("\n")
    return rest if newline and info.strip().lower() in ("", "json") else text
