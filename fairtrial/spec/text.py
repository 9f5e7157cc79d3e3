"""What every reader of outside text shares: its limits, UTF-8, and how a place and a name are shown.

A message made here names a place and at most a key or an id, never a value: the value may be a secret.
"""

from __future__ import annotations

import os
import sys
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fairtrial.errors import InputError

MAX_SPEC_BYTES: Final = 1024**2
"""A spec, in any of its formats."""
MAX_JSON_BYTES: Final = 64 * 1024**2
"""One JSON document that is held in memory as a whole."""
MAX_LINE_BYTES: Final = 16 * 1024**2
"""One line of a JSONL file, its line end left out."""
MAX_DATASET_BYTES: Final = 1024**3
"""A dataset after decompression. Its cases are held in memory, so this bounds memory too."""
MAX_DEPTH: Final = 100
"""Objects and lists inside each other. Every later walk over a value may recurse because this holds."""
MAX_YAML_NODES: Final = 20_000
"""Keys and values of a YAML document; about a second of parsing."""
MAX_INTEGER_DIGITS: Final = 4300
"""Python's own limit for turning text into an integer and back, so what is read can be written again."""

_UTF8_MARK = b"\xef\xbb\xbf"
# UTF-32 before UTF-16: the little-endian mark of UTF-32 begins with that of UTF-16.
_MARKS: Final = (
    (b"\xff\xfe\x00\x00", "UTF-32 (little-endian)"),
    (b"\x00\x00\xfe\xff", "UTF-32 (big-endian)"),
    (b"\xff\xfe", "UTF-16 (little-endian)"),
    (b"\xfe\xff", "UTF-16 (big-endian)"),
    (b"\x1f\x8b", "gzip data"),
    (b"PK\x03\x04", "a zip archive or an Excel workbook"),
    (b"PAR1", "a Parquet file"),
)


@dataclass(frozen=True, slots=True)
class Position:
    """A physical place in a text: line and column, both counted from 1, columns in characters."""

    line: int
    column: int


def decode_text(data: bytes, *, place: str, first_line: int = 1) -> str:
    """Return `data` as UTF-8 text without its byte-order mark.

    place, first_line   the file and the line `data` begins at, for messages
    Raises InputError for UTF-16, UTF-32 and known binary formats by name, and for any other byte that is not UTF-8
    with its line and byte. Nothing is replaced or guessed.
    """
    refuse_other_encodings(data[:4], place=place)
    data = data.removeprefix(_UTF8_MARK)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        line = first_line + before.count(b"\n")
        byte = error.start - before.rfind(b"\n")
        raise InputError(
            f"byte 0x{data[error.start]:02x} (byte {byte} of line {line}) is not UTF-8.",
            hint="Save the file as UTF-8; it may be Latin-1 or Windows-1252.",
            place=f"{place}:{line}",
        ) from None


def refuse_other_encodings(head: bytes, *, place: str) -> None:
    """Raise InputError when the first four bytes of a file say that it is not UTF-8 text."""
    for mark, name in _MARKS:
        if head.startswith(mark):
            raise _wrong_encoding(name, place)
    # Without a mark: text begins with ASCII, so the zero bytes of its first two characters tell the width.
    zeros = tuple(byte == 0 for byte in head)
    names = {
        (False, True, False, True): "UTF-16 (little-endian)",
        (True, False, True, False): "UTF-16 (big-endian)",
        (False, True, True, True): "UTF-32 (little-endian)",
        (True, True, True, False): "UTF-32 (big-endian)",
    }
    if zeros in names:
        raise _wrong_encoding(names[zeros], place)


def _wrong_encoding(name: str, place: str) -> InputError:
    hint = "Save it as UTF-8." if name.startswith("UTF") else "Unpack or convert it first."
    if name == "gzip data":
        hint = "Give it a name that ends in .gz, or unpack it first."
    return InputError(f"the file is {name}, not UTF-8 text.", hint=hint, place=place)


def position_at(text: str, offset: int, *, first_line: int = 1) -> Position:
    """Return the line and column of a character offset. Lines end at LF, CRLF or a lone CR, and at nothing else."""
    before = text[:offset]
    lone_returns = before.count("\r") - before.count("\r\n")
    line = first_line + before.count("\n") + lone_returns
    return Position(line, offset - max(before.rfind("\n"), before.rfind("\r")))


def max_integer_digits() -> int:
    """Return how many digits an integer may have, its sign not counted."""
    # A user can lower Python's limit by its environment; int() would then raise without a place.
    return min(MAX_INTEGER_DIGITS, sys.get_int_max_str_digits() or MAX_INTEGER_DIGITS)


def has_control_character(text: str) -> bool:
    """Return whether `text` holds a control character, a line or paragraph separator, or half a surrogate pair.

    Such a text cannot be a name: it breaks lines, terminals, environment variables or a database column.
    """
    if text.isprintable():
        return False
    return any(unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") for character in text)


def shown(text: str, *, limit: int = 60) -> str:
    """Return a name from outside in quotes, cut to `limit` characters, unprintable characters as escapes."""
    if len(text) > limit:
        text = text[: limit - 1] + "…"
    visible = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return f'"{visible}"'


def shown_path(path: Path) -> str:
    """Return a path as printable text; a file name may hold any bytes."""
    text = os.fsencode(path).decode("utf-8", "replace")
    return "".join(c if c.isprintable() else "\ufffd" for c in text)


def nearest(name: str, known: Iterable[str], *, limit: int = 1) -> list[str]:
    """Return up to `limit` of the known names that look most like `name`, best first; none when none is near."""
    from rapidfuzz import fuzz, process

    found = process.extract(name, list(known), scorer=fuzz.ratio, processor=str.casefold, limit=limit, score_cutoff=60)
    return [choice for choice, _, _ in found]


def did_you_mean(name: str, known: Iterable[str], *, what: str) -> str:
    """Return the hint for an unknown name: the nearest known one, else the known ones. `what` is their plural."""
    names = list(known)
    near = nearest(name, names)
    if near:
        return f"Did you mean {shown(near[0])}?"
    listed = ", ".join(names[:20]) + (", …" if len(names) > 20 else "")
    return f"Known {what}: {listed}."
