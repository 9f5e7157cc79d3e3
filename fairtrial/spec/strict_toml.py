"""Strict TOML: the standard library's reader, with the values JSON has and no others.

Dates and times are refused, not kept as text: the reader no longer knows how they were written.
"""

from __future__ import annotations

import math
import re
from typing import Final

from fairtrial.errors import InputError
from fairtrial.hashing import JsonValue
from fairtrial.spec.text import MAX_DEPTH, MAX_SPEC_BYTES, decode_text, max_integer_digits, position_at, shown

# Comments and the four kinds of string, so that what is in them does not count; each also matches when left open.
_TOKEN: Final = re.compile(
    r'"""(?:[^"\\]|\\.|"(?!""))*+(?:""")?'
    r"|'''(?:[^']|'(?!''))*+(?:''')?"
    r'|"[^"\\\n]*+(?:\\.[^"\\\n]*+)*+"?'
    r"|'[^'\n]*+'?"
    r"|\#[^\n]*+"
    r"|[\[\]{}.=,\n]",
    re.DOTALL,
)
_TOML_PLACE: Final = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")

_DIGITS: Final = re.compile(r"[0-9](?:_?[0-9])*+")
_TOO_LONG: Final = "an integer has more than {:,} digits."

# A quoted key with an escape in it is not found; it then has the place of its table.
_KEY: Final = r"""(?:[A-Za-z0-9_-]++|"[^"\\\n]*+"|'[^'\n]*+')"""
_KEY_PART: Final = re.compile(_KEY)
_LINE_HEAD: Final = re.compile(
    rf"^[ \t]*+(?P<table>\[\[?)?[ \t]*+(?P<name>{_KEY}(?:[ \t]*+\.[ \t]*+{_KEY})*+)[ \t]*+(?(table)\]|=)", re.MULTILINE
)


class _Refused(Exception):
    """A number that is legal TOML and refused here."""


def parse_toml(data: bytes | str, *, place: str) -> JsonValue:
    """Return the value of a TOML document.

    Raises InputError with line and column for a syntax error (a doubled key is one), with the key for a date or time,
    and for nan, inf, a number too large for a float, more than 1 MiB or 100 levels.
    """
    import tomllib

    if len(data) > MAX_SPEC_BYTES:
        raise InputError(f"the text is longer than {MAX_SPEC_BYTES:,} bytes.", place=place)
    text = decode_text(data, place=place) if isinstance(data, bytes) else data.removeprefix("\ufeff")
    _check_depth(text, place)
    if not text.strip():
        raise InputError("the file is empty.", place=place)
    try:
        document = tomllib.loads(text, parse_float=_finite)
    except _Refused as error:
        raise _not_finite(str(error), text, place) from None
    except tomllib.TOMLDecodeError as error:
        raise _syntax_error(error, text, place) from None
    except ValueError:
        # Python's limit on decimal digits; the reader has no hook for integers.
        raise _long_integer(text, place) from None
    return _checked(document, text, place)


def toml_positions(text: str) -> dict[tuple[str | int, ...], int]:
    """Return the character offset of each table and each key that begins a line, by path."""
    found: dict[tuple[str | int, ...], int] = {}
    table: tuple[str | int, ...] = ()
    n_of: dict[tuple[str | int, ...], int] = {}
    for match in _LINE_HEAD.finditer(_blanked(text, '"""', "'''")):
        path = () if match.group("table") else table
        for key in _KEY_PART.findall(match.group("name")):
            # A table below a list of tables belongs to the last one.
            index = (n_of[path] - 1,) if path in n_of else ()
            path = (*path, *index, key.strip("\"'"))
        if match.group("table") == "[[":
            n_of[path] = n_of.get(path, 0) + 1
            path = (*path, n_of[path] - 1)
        if match.group("table"):
            table = path
        found.setdefault(path, match.start("name"))
    return found


def _check_depth(text: str, place: str) -> None:
    """Refuse deep nesting before the reader recurses, and long dotted keys, whose reading takes quadratic time."""
    if text.count("[") + text.count("{") <= MAX_DEPTH and text.count(".") < MAX_DEPTH:
        return
    depth = n_dots = 0
    for match in _TOKEN.finditer(text):
        token = match.group()
        if token == ".":
            n_dots += 1
        elif token in ("=", ",", "\n", "[", "{"):
            n_dots = 0
        if token in "[{":
            depth += 1
        elif token in "]}":
            depth -= 1
        if depth > MAX_DEPTH or n_dots >= MAX_DEPTH:
            at = position_at(text, match.start())
            raise InputError(
                f"tables and lists are nested deeper than {MAX_DEPTH} levels.", place=f"{place}:{at.line}:{at.column}"
            )


def _finite(text: str) -> float:
    value = float(text.replace("_", ""))
    if not math.isfinite(value):
        raise _Refused(text)
    return value


def _not_finite(number: str, text: str, place: str) -> InputError:
    # The reader's hook gives no place, so the number is looked for where a value begins.
    bare = _blanked(text, '"', "'", "#")
    found = re.search(r"[=\[,]\s*(" + re.escape(number) + r")(?![\w.+-])", bare)
    at = position_at(text, found.start(1) if found else 0)
    message = "the number is too large for a float." if number[-1].isdigit() else f"{number} is not a finite number."
    return InputError(message, place=f"{place}:{at.line}:{at.column}")


def _checked(document: dict[str, object], text: str, place: str) -> JsonValue:
    """Return the document with every value checked. Not by recursion: tables and dotted keys nest without brackets."""
    largest = 10 ** max_integer_digits()
    waiting: list[tuple[tuple[str | int, ...], object]] = [((), document)]
    while waiting:
        path, value = waiting.pop()
        if len(path) > MAX_DEPTH:
            raise InputError(f"keys are nested deeper than {MAX_DEPTH} levels.", place=_place_of(path, text, place))
        if isinstance(value, dict):
            waiting.extend(((*path, key), inner) for key, inner in value.items())
        elif isinstance(value, list):
            waiting.extend(((*path, number), inner) for number, inner in enumerate(value))
        elif isinstance(value, int) and abs(value) >= largest:
            # Written in base 2, 8 or 16, which no limit of Python's holds back; it could not be written in decimal.
            raise InputError(_TOO_LONG.format(max_integer_digits()), place=_place_of(path, text, place))
        elif not isinstance(value, str | int | float):
            raise InputError(
                f"{shown('.'.join(map(str, path)))} is a date or time.",
                hint="Put it in quotes to keep it as text.",
                place=_place_of(path, text, place),
            )
    checked: JsonValue = document  # type: ignore[assignment]  # the walk above is the proof
    return checked


def _long_integer(text: str, place: str) -> InputError:
    limit = max_integer_digits()
    numbers = _DIGITS.finditer(_blanked(text, '"', "'", "#"))
    at = position_at(text, next((n.start() for n in numbers if len(n.group().replace("_", "")) > limit), 0))
    return InputError(_TOO_LONG.format(limit), place=f"{place}:{at.line}:{at.column}")


def _blanked(text: str, *openings: str) -> str:
    """Return the text with blanks for every string or comment that begins with one of `openings`; offsets stay."""
    return _TOKEN.sub(lambda m: " " * len(m.group()) if m.group().startswith(openings) else m.group(), text)


def _place_of(path: tuple[str | int, ...], text: str, place: str) -> str:
    """Return the place of the longest part of `path` that begins a line; a key inside a value has none of its own."""
    positions = toml_positions(text)
    for length in range(len(path), 0, -1):
        if path[:length] in positions:
            at = position_at(text, positions[path[:length]])
            return f"{place}:{at.line}:{at.column}"
    return place


def _syntax_error(error: Exception, text: str, place: str) -> InputError:
    message = str(error)
    found = _TOML_PLACE.search(message)
    problem = _TOML_PLACE.sub("", message)
    problem = problem[:1].lower() + problem[1:]
    if found and found.group(1):
        at = f"{place}:{found.group(1)}:{found.group(2)}"
    else:
        end = position_at(text, len(text))
        at = f"{place}:{end.line}:{end.column}"
    return InputError(f"not valid TOML: {problem}.", place=at)
