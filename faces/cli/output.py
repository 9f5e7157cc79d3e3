"""What reaches the screen: reports on stdout, notes on stderr, one JSON object with --json.

A console that cannot show a sign gets its ASCII twin; printing never ends a command.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any, Final, TextIO

from fairtrial.errors import FairtrialError
from fairtrial.reports.safe import pad, visible, width_of

_ASCII: Final = {"−": "-", "Δ": "d", "→": "->", "…": "...", "×": "x", "·": "-", "≥": ">=", "≤": "<="}


def out(*lines: str) -> None:
    """Print report lines on stdout."""
    for line in lines:
        _write(sys.stdout, line + "\n")


def note(line: str) -> None:
    """Print a line for people on stderr."""
    _write(sys.stderr, line + "\n")
    sys.stderr.flush()


def out_json(document: Any) -> None:
    """Print one JSON document on stdout; ASCII, so that any console and any parser takes it."""
    sys.stdout.write(json.dumps(document, ensure_ascii=True, allow_nan=False, indent=2) + "\n")


def out_table(heads: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[int] = ()) -> None:
    """Print rows under heads; `right` names the columns that hold figures."""
    widths = [max(width_of(row[column]) for row in (heads, *rows)) for column in range(len(heads))]
    for row in (heads, ["-" * width for width in widths], *rows):
        cells = [pad(cell, widths[column], right=column in right) for column, cell in enumerate(row)]
        out("  ".join(cells).rstrip())


def show_error(error: FairtrialError, *, as_json: bool) -> None:
    """Print an error: what, which one, what to do."""
    if as_json:
        out_json(
            {
                "schema": "fairtrial/error/1",
                "code": error.code,
                "message": error.message,
                "place": error.place,
                "next": error.hint,
            }
        )
    place = f"{visible(error.place)}: " if error.place else ""
    note(f"error: {place}{visible(error.message)}")
    if error.hint:
        note(f"       {visible(error.hint)}")


def _write(stream: TextIO, text: str) -> None:
    encoding = stream.encoding or "ascii"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        text = "".join(_ASCII.get(char, char) for char in text).encode(encoding, "backslashreplace").decode(encoding)
    stream.write(text)
