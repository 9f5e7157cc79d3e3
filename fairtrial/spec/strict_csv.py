"""Strict CSV (RFC 4180): commas, double quotes, one header row. A cell is text, always: `007` stays `007`.

The standard library's reader is not used: it has a process-wide cell limit of 128 kB, accepts a lone CR as a line end
and does not say on which line a row began.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from fairtrial.errors import InputError
from fairtrial.spec.text import decode_text, shown

_QUOTED: Final = re.compile(r'"([^"]*+(?:""[^"]*+)*+)"')
_PLAIN: Final = re.compile(r"[^,\r\n]*+")


class CsvRows(Iterator[dict[str, str]]):
    """The rows of a CSV text as dicts by header. `line` is the physical line the last row began on."""

    def __init__(self, data: bytes, *, place: str):
        self._text = decode_text(data, place=place)
        self._place = place
        self._at = 0
        self._next_line = 1
        self.line = 0
        header = self._read_row()
        if header is None:
            raise InputError("the file is empty.", place=place)
        self.header: tuple[str, ...] = tuple(header)
        self._check_header()

    def __next__(self) -> dict[str, str]:
        row = self._read_row()
        if row is None:
            raise StopIteration
        if len(row) != len(self.header):
            raise InputError(
                f"the row has {len(row)} cells, the header has {len(self.header)}.",
                hint="Put a cell that holds a comma in double quotes.",
                place=f"{self._place}:{self.line}",
            )
        return dict(zip(self.header, row, strict=True))

    def _check_header(self) -> None:
        place = f"{self._place}:{self.line}"
        for number, name in enumerate(self.header, start=1):
            if not name.strip():
                hint = "A table written by pandas needs index=False." if number == 1 else None
                raise InputError(f"column {number} has no name in the header.", hint=hint, place=place)
        doubled = {name for name in self.header if self.header.count(name) > 1}
        if doubled:
            raise InputError(f"the column {shown(sorted(doubled)[0])} stands twice in the header.", place=place)
        if len(self.header) == 1 and re.search(r"[;\t]", self.header[0]):
            raise InputError(
                "the header is one column with semicolons or tabs in it.",
                hint="Save the file with commas between the cells.",
                place=place,
            )

    def _read_row(self) -> list[str] | None:
        """Return the next row that is not a blank line, None at the end."""
        text = self._text
        while True:
            blank = "\r\n" if text.startswith("\r\n", self._at) else "\n"
            if not text.startswith(blank, self._at):
                break
            self._at += len(blank)
            self._next_line += 1
        if self._at == len(text):
            return None
        self.line = self._next_line
        cells: list[str] = []
        while True:
            cells.append(self._read_cell())
            if text.startswith(",", self._at):
                self._at += 1
                continue
            self._end_row()
            return cells

    def _read_cell(self) -> str:
        if self._text.startswith('"', self._at):
            match = _QUOTED.match(self._text, self._at)
            if match is None:
                raise InputError(
                    "a quoted cell that begins in this row is not closed.", place=f"{self._place}:{self._next_line}"
                )
            self._at = match.end()
            self._next_line += match.group().count("\n")
            return match.group(1).replace('""', '"')
        match = _PLAIN.match(self._text, self._at)
        cell = match.group() if match else ""
        self._at += len(cell)
        return cell

    def _end_row(self) -> None:
        text, at = self._text, self._at
        if at == len(text):
            return
        if text.startswith("\n", at):
            self._at += 1
        elif text.startswith("\r\n", at):
            self._at += 2
        elif text[at] == "\r":
            raise InputError(
                "a carriage return stands alone; lines end in LF or CRLF.",
                hint="Save the file with Unix or Windows line ends.",
                place=f"{self._place}:{self._next_line}",
            )
        else:
            raise InputError(
                "text follows the closing quote of a cell.",
                hint="Double the quotes inside a quoted cell.",
                place=f"{self._place}:{self._next_line}",
            )
        self._next_line += 1


def parse_csv(data: bytes, place: str) -> CsvRows:
    """Return an iterator over the rows of a CSV file as dicts from header to text.

    The byte-order mark is dropped, padding and every character of a quoted cell are kept, blank lines are skipped.
    Raises InputError with the line for a doubled or empty header, a row with too many or too few cells, an open quote,
    a lone CR; and as decode_text does. A file with only a header has no rows.
    """
    return CsvRows(data, place=place)
