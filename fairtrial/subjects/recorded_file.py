"""Reading a file of recorded answers, whatever its form, as records that know their line."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, cast

from fairtrial.errors import InputError
from fairtrial.hashing import JsonValue
from fairtrial.spec.strict import JsonLines, decode_text, iter_json_list, parse_csv
from fairtrial.spec.text import MAX_DATASET_BYTES, MAX_LINE_BYTES, shown

_LINES: Final = (".jsonl", ".ndjson")


@dataclass(frozen=True, slots=True)
class Record:
    """One record. A field is a key or column, or a JSON Pointer (RFC 6901) when it begins with a slash.

    is_text_only   a CSV row, whose numbers are texts and whose missing values are empty cells
    """

    line: int
    values: dict[str, JsonValue]
    place: str
    is_text_only: bool

    def has(self, field: str) -> bool:
        """Return whether the field is there, null included."""
        return self._look_up(field)[0]

    def get(self, field: str) -> JsonValue:
        """Return the value of a field, None when it is not there."""
        return self._look_up(field)[1]

    def error(self, message: str, *, hint: str | None = None) -> InputError:
        """Return the error that names this record's line."""
        return InputError(message, hint=hint, place=f"{self.place}:{self.line}")

    def known_fields(self) -> str:
        """Return the hint that lists the record's own fields."""
        return f"The record has {', '.join(shown(name) for name in list(self.values)[:20]) or 'no field'}."

    def _look_up(self, field: str) -> tuple[bool, JsonValue]:
        if not field.startswith("/"):
            return field in self.values, self.values.get(field)
        value: JsonValue = self.values
        for part in field[1:].split("/"):
            key = part.replace("~1", "/").replace("~0", "~")
            if isinstance(value, dict) and key in value:
                value = value[key]
            elif isinstance(value, list) and key.isascii() and key.isdigit() and int(key) < len(value):
                value = value[int(key)]
            else:
                return False, None
        return True, value


def read_records(path: Path, *, place: str) -> Iterator[Record]:
    """Yield the records of a .jsonl, .json (a list) or .csv file, each also with .gz.

    place   how messages call the file
    Raises InputError naming file and line.
    """
    suffix = Path(path.name.lower().removesuffix(".gz")).suffix
    if path.is_dir():
        raise InputError("this is a folder, not a file with recordings.", place=place)
    if suffix not in (*_LINES, ".json", ".csv"):
        raise InputError(
            "the name does not say what kind of file this is.",
            hint="Recordings are .jsonl, .json (a list) or .csv files, each also with .gz.",
            place=place,
        )
    try:
        with _open(path) as stream:
            yield from _read(stream, suffix, place)
    except FileNotFoundError:
        raise InputError("the file with the recordings is not there.", place=place) from None
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise InputError("the file is not whole gzip data.", hint="Pack it again, or unpack it.", place=place) from None
    except OSError as error:
        raise InputError(f"the file cannot be read ({error.strerror}).", place=place) from None


def _open(path: Path) -> BinaryIO:
    return cast("BinaryIO", gzip.open(path)) if path.name.lower().endswith(".gz") else path.open("rb")


def _read(stream: BinaryIO, suffix: str, place: str) -> Iterator[Record]:
    if suffix in _LINES:
        lines = JsonLines(stream, place=place, max_line_bytes=MAX_LINE_BYTES, max_bytes=MAX_DATASET_BYTES)
        for line in lines:
            yield _record(line.number, line.value, place)
        return
    data = stream.read(MAX_DATASET_BYTES + 1)
    if len(data) > MAX_DATASET_BYTES:
        raise InputError(f"the file, unpacked, is longer than {MAX_DATASET_BYTES:,} bytes.", place=place)
    if suffix == ".json":
        for line in iter_json_list(decode_text(data, place=place), place=place):
            yield _record(line.number, line.value, place)
        return
    rows = parse_csv(data, place)
    for row in rows:
        yield Record(rows.line, cast("dict[str, JsonValue]", row), place, is_text_only=True)


def _record(line: int, value: JsonValue, place: str) -> Record:
    if not isinstance(value, dict):
        raise InputError("a record is an object.", place=f"{place}:{line}")
    return Record(line, value, place, is_text_only=False)
