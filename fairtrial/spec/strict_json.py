"""Strict JSON: one document, a list of records, or one record a line.

The standard library's decoder accepts doubled keys, NaN and 1e400 without a word; the hooks here refuse them. A hook
knows no position, so a refused text is walked once more, slowly, to name the line. Depth is checked before decoding,
because the decoder recurses.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, NamedTuple, NoReturn

from fairtrial.errors import InputError
from fairtrial.hashing import JsonValue
from fairtrial.spec.text import (
    MAX_DEPTH,
    MAX_JSON_BYTES,
    MAX_LINE_BYTES,
    decode_text,
    max_integer_digits,
    position_at,
    refuse_other_encodings,
    shown,
)

_STRING = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?'
# The closing quote is optional: an open string is then one match to the end, not a new search at each quote in it.
_BRACKET = re.compile(_STRING + r"|[\[\]{}]", re.DOTALL)
_TOKEN = re.compile(_STRING + r'|[\[\]{},:]|[^\s\[\]{},:"]++', re.DOTALL)
_SPACE = re.compile(r"[ \t\r\n]*+")


class JsonLine(NamedTuple):
    """A record of a JSONL file and the physical line it stands on, counted from 1."""

    number: int
    value: JsonValue


@dataclass(frozen=True, slots=True)
class _Token:
    """A key or value met while walking a text; path leads to the value, or to the value of the key."""

    path: tuple[str | int, ...]
    offset: int
    text: str
    is_key: bool


class _Refused(Exception):
    """A hook met a value that is legal for the decoder and refused here."""


def parse_json(
    data: bytes | str, *, place: str, max_bytes: int = MAX_JSON_BYTES, max_depth: int = MAX_DEPTH, first_line: int = 1
) -> JsonValue:
    """Return the value of one JSON document.

    max_bytes    longest document; a str is measured in characters
    max_depth    most objects and lists inside each other
    first_line   the line of `place` at which `data` begins
    Integers are exact, `-0.0` stays, `"\\ud800"` is accepted (a model may produce it).
    Raises InputError with line and column for a syntax error, a key that stands twice in one object, NaN, an infinity,
    a number too large for a float, an integer of more than 4,300 digits, and past either limit.
    """
    if len(data) > max_bytes:
        raise InputError(f"the text is longer than {max_bytes:,} bytes.", place=place)
    text = decode_text(data, place=place, first_line=first_line) if isinstance(data, bytes) else data
    text = text.removeprefix("\ufeff")
    _check_depth(text, place=place, max_depth=max_depth, first_line=first_line)
    if not text or text.isspace():
        raise InputError("there is no JSON value: the text is empty.", place=place)
    try:
        value: JsonValue = _decoder(text).decode(text)
    except json.JSONDecodeError as error:
        raise _syntax_error(text, error, place=place, first_line=first_line) from None
    except _Refused:
        _raise_refusal(text, place=place, first_line=first_line)
    return value


def iter_json_list(text: str, *, place: str) -> Iterator[JsonLine]:
    """Yield the elements of a JSON list with the line each begins at, decoded one by one.

    Raises InputError as parse_json does, and when the document is not a list.
    """
    _check_depth(text, place=place, max_depth=MAX_DEPTH + 1, first_line=1)
    at = _skip_space(text, 0)
    if not text.startswith("[", at):
        what = "one object" if text.startswith("{", at) else "not a list"
        raise InputError(
            f"the document is {what}; a .json dataset is a list of records.",
            hint="Write the list alone; with one record a line, name the file .jsonl.",
            place=_place(text, at, place),
        )
    at = _skip_space(text, at + 1)
    line, counted_to = 1, 0
    first = True
    while not (first and text.startswith("]", at)):
        # Counted piece by piece: counting from the start for each element would be quadratic.
        line = position_at(text[counted_to:at], at - counted_to, first_line=line).line
        counted_to = at
        value, at = _decode_element(text, at, place=place)
        yield JsonLine(line, value)
        first = False
        at = _skip_space(text, at)
        if text.startswith("]", at):
            break
        if not text.startswith(",", at):
            problem = "the list is not closed" if at == len(text) else 'a "," or "]" is missing here'
            raise InputError(f"not valid JSON: {problem}.", place=_place(text, at, place))
        at = _skip_space(text, at + 1)
    end = _skip_space(text, at + 1)
    if end != len(text):
        raise InputError("not valid JSON: more text follows the end of the list.", place=_place(text, end, place))


class JsonLines(Iterator[JsonLine]):
    """Reads one record a line. `blank_lines` counts the blank lines met before the last record so far.

    A line ends at LF or CRLF only: U+2028, U+0085 and the like are text. A lone CR is refused, because a file of the
    old Mac kind would else read as one line.
    """

    def __init__(self, stream: BinaryIO, *, place: str, max_line_bytes: int, max_bytes: int | None = None):
        self.blank_lines = 0
        self._stream = stream
        self._place = place
        self._max_line_bytes = max_line_bytes
        self._max_bytes = max_bytes
        self._n_read = 0
        self._number = 0
        self._pending_blanks = 0

    def __next__(self) -> JsonLine:
        line = self._read_line()
        while not line.strip(b" \t"):
            self._pending_blanks += 1
            line = self._read_line()
        self.blank_lines += self._pending_blanks
        self._pending_blanks = 0
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError:
            text = decode_text(line, place=self._place, first_line=self._number)
        if text.startswith("[") and self._number == self.blank_lines + 1:
            raise InputError(
                "a record is an object; this line begins a list.",
                hint="A JSON list belongs in a file whose name ends in .json.",
                place=f"{self._place}:{self._number}:1",
            )
        value = parse_json(text, place=self._place, max_bytes=self._max_line_bytes, first_line=self._number)
        return JsonLine(self._number, value)

    def _read_line(self) -> bytes:
        raw = self._stream.readline(self._max_line_bytes + 2)
        if not raw:
            raise StopIteration
        self._number += 1
        place = f"{self._place}:{self._number}"
        if self._number == 1:
            refuse_other_encodings(raw[:4], place=self._place)
            raw = raw.removeprefix(b"\xef\xbb\xbf")
        elif raw.startswith(b"\xef\xbb\xbf"):
            raise InputError(
                "a byte-order mark stands inside the file.", hint="Two files may have been joined.", place=place
            )
        line = raw.removesuffix(b"\n").removesuffix(b"\r")
        if len(line) > self._max_line_bytes:
            raise InputError(f"the line is longer than the limit of {self._max_line_bytes:,} bytes.", place=place)
        self._n_read += len(raw)
        if self._max_bytes is not None and self._n_read > self._max_bytes:
            raise InputError(f"the file is longer than the limit of {self._max_bytes:,} bytes, unpacked.", place=place)
        if b"\r" in line or (raw.endswith(b"\r") and not raw.endswith(b"\n")):
            raise InputError(
                "a carriage return stands alone; lines end in LF or CRLF.",
                hint="Save the file with Unix or Windows line ends.",
                place=place,
            )
        return line


def iter_json_lines(stream: BinaryIO, *, place: str, max_line_bytes: int = MAX_LINE_BYTES) -> JsonLines:
    """Return an iterator of (line number, value) over a JSONL stream, reading one line at a time.

    Blank lines are skipped and counted; the last line needs no newline. Raises InputError as parse_json and
    decode_text do, and for a line over the limit.
    """
    return JsonLines(stream, place=place, max_line_bytes=max_line_bytes)


def json_positions(text: str) -> dict[tuple[str | int, ...], int]:
    """Return the character offset of every key and list element of a valid JSON text, by its path."""
    return {token.path: token.offset for token in _walk(text) if token.is_key or _is_element(token)}


def _is_element(token: _Token) -> bool:
    return bool(token.path) and isinstance(token.path[-1], int)


def _check_depth(text: str, *, place: str, max_depth: int, first_line: int) -> None:
    if text.count("[") + text.count("{") <= max_depth:
        return
    depth = 0
    for match in _BRACKET.finditer(text):
        token = match.group()
        if token in "[{":
            depth += 1
            if depth > max_depth:
                raise InputError(
                    f"objects and lists are nested deeper than {max_depth} levels.",
                    place=_place(text, match.start(), place, first_line),
                )
        elif token in "]}":
            depth -= 1


def _skip_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _decode_element(text: str, at: int, *, place: str) -> tuple[JsonValue, int]:
    try:
        value, end = _DECODER.raw_decode(text, at)
    except json.JSONDecodeError as error:
        raise _syntax_error(text, error, place=place, first_line=1) from None
    except _Refused:
        start = position_at(text, at)
        _raise_refusal(text[at:], place=place, first_line=start.line, first_column=start.column)
    return value, end


def _unique(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _Refused
    return found


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise _Refused
    return value


def _integer(text: str) -> int:
    if len(text.lstrip("-")) > max_integer_digits():
        raise _Refused
    return int(text)


def _constant(text: str) -> NoReturn:
    raise _Refused


_DECODER = json.JSONDecoder(
    object_pairs_hook=_unique, parse_float=_finite, parse_int=_integer, parse_constant=_constant
)
# For texts too short to hold an integer with too many digits: int() itself, without a call of ours for each.
_SHORT_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_float=_finite, parse_constant=_constant)


def _decoder(text: str) -> json.JSONDecoder:
    return _DECODER if len(text) > max_integer_digits() else _SHORT_DECODER


def _raise_refusal(text: str, *, place: str, first_line: int, first_column: int = 1) -> NoReturn:
    """Find what a hook refused, which stands somewhere in `text`, and raise it with its place."""
    seen: dict[tuple[str | int, ...], int] = {}
    for token in _walk(text):
        message = None
        if token.is_key:
            if token.path in seen:
                first = position_at(text, seen[token.path], first_line=first_line).line
                message = f"the key {shown(str(token.path[-1]))} stands twice in one object (first on line {first})."
            seen.setdefault(token.path, token.offset)
        else:
            message = _refused_number(token.text)
        if message:
            at = position_at(text, token.offset, first_line=first_line)
            column = at.column + (first_column - 1 if at.line == first_line else 0)
            raise InputError(message, place=f"{place}:{at.line}:{column}")
    raise AssertionError("a hook refused a value that the walk did not find")


def _refused_number(token: str) -> str | None:
    if token in ("NaN", "Infinity", "-Infinity"):
        return f"{token} is not a JSON value."
    if token[0] not in "-0123456789":
        return None
    digits = token.lstrip("-")
    if digits.isdigit():
        limit = max_integer_digits()
        return f"an integer has more than {limit:,} digits." if len(digits) > limit else None
    return "the number is too large for a float." if math.isinf(float(token)) else None


def _walk(text: str) -> Iterator[_Token]:
    """Yield keys and values in text order with their paths. The text must be valid JSON up to where reading stops."""
    path: list[str | int] = []
    objects: list[bool] = []
    expect_key = False
    for match in _TOKEN.finditer(text):
        token, offset = match.group(), match.start()
        if token == ":":
            expect_key = False
        elif token == ",":
            expect_key = objects[-1]
            if not objects[-1]:
                path[-1] = int(path[-1]) + 1
        elif token in ("]", "}"):
            path.pop()
            objects.pop()
            expect_key = False
        elif expect_key:
            path[-1] = json.loads(token)
            yield _Token(tuple(path), offset, token, is_key=True)
        else:
            yield _Token(tuple(path), offset, token, is_key=False)
            if token in ("[", "{"):
                objects.append(token == "{")
                expect_key = token == "{"
                path.append("" if token == "{" else 0)


def _place(text: str, offset: int, place: str, first_line: int = 1) -> str:
    at = position_at(text, offset, first_line=first_line)
    return f"{place}:{at.line}:{at.column}"


def _syntax_error(text: str, error: json.JSONDecodeError, *, place: str, first_line: int) -> InputError:
    at = error.pos
    found = text[at : at + 1]
    hint = None
    if text[:at].rstrip().endswith(",") and (found in ("]", "}") or text[at:].lstrip()[:1] in ("]", "}")):
        hint = "A comma stands before the closing bracket."
    elif not text[at:].strip():
        hint = "The text ends too early; in JSONL a record stands on one line."
    elif found == "'":
        hint = "JSON texts stand in double quotes."
    elif found in ("/", "#"):
        hint = "JSON has no comments; a spec may be YAML or TOML, which have."
    elif error.msg.startswith("Expecting property name"):
        hint = "Keys stand in double quotes; a shell may have removed them."
    elif error.msg == "Extra data":
        hint = "One JSON value was expected; with one record a line, name the file .jsonl."
    problem = error.msg[:1].lower() + error.msg[1:].removesuffix(" at")
    return InputError(f"not valid JSON: {problem}.", hint=hint, place=_place(text, at, place, first_line))
