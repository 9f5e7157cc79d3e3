"""Reading a dataset: every record becomes a case with an id and two hashes.

The content that is stored is canonical: equal cases give equal bytes whatever the file looked like, and reading the
stored content back gives equal cases. So a case's id and hashes may depend on nothing but its record and, for unnamed
cases with the same input, on their order.
"""

from __future__ import annotations

import gzip
import io
import re
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, Final, NoReturn, cast

from fairtrial.errors import InputError
from fairtrial.hashing import JsonValue, canonical_json, sha256_hex
from fairtrial.ids import unnamed_case_id
from fairtrial.spec.case import CASE_KINDS, Case
from fairtrial.spec.files import cannot_read, check_file
from fairtrial.spec.strict_json import JsonLine, JsonLines, iter_json_list
from fairtrial.spec.text import (
    MAX_DATASET_BYTES,
    MAX_JSON_BYTES,
    MAX_LINE_BYTES,
    decode_text,
    did_you_mean,
    has_control_character,
    nearest,
    shown,
    shown_path,
)

LINE_SUFFIXES: Final = (".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz")
LIST_SUFFIXES: Final = (".json", ".json.gz")
MAX_ID: Final = 500
"""Characters of an id, and of a split, group or tag."""

RECORD_KEYS: Final = ("id", "input", "expected", "kind", "split", "group", "tags")
_RECORD_KEYS: Final = frozenset(RECORD_KEYS)

# canonical_json writes these raw; other readers take them for line ends, or cannot encode them.
_UNSAFE: Final = re.compile("[\x85\u2028\u2029\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Dataset:
    """Cases in dataset order and the content they are stored as.

    content    canonical JSONL, one record a line, each line ended by LF; UTF-8
    hash       SHA-256 of content
    warnings   what a person should know before a run, in whole sentences
    source     the file as it was named, for people
    """

    cases: tuple[Case, ...]
    content: bytes
    hash: str
    warnings: tuple[str, ...]
    source: str


def load_dataset(path: Path) -> Dataset:
    """Return the dataset in a .jsonl, .ndjson or .json file (a list), or one of these with .gz after it.

    Raises InputError (bad_input for the file, bad_dataset for a record) with the line.
    """
    place = shown_path(path)
    size = check_file(path, what="dataset")
    name = path.name.lower()
    if not name.endswith(LINE_SUFFIXES + LIST_SUFFIXES):
        raise _unknown_suffix(name, place)
    if size > MAX_JSON_BYTES and name.endswith(LIST_SUFFIXES):
        _raise_list_too_long(place)
    if size > MAX_DATASET_BYTES:
        # Said now and not after a gigabyte of cases has been read.
        raise InputError(f"the file is longer than the limit of {MAX_DATASET_BYTES:,} bytes.", place=place)
    try:
        with path.open("rb") as raw:
            stream = cast("BinaryIO", gzip.GzipFile(fileobj=raw)) if name.endswith(".gz") else raw
            return _read_lines(stream, place) if name.endswith(LINE_SUFFIXES) else _read_list(stream, place)
    except EOFError:
        raise InputError("the compressed file ends too early.", place=place) from None
    except (gzip.BadGzipFile, zlib.error):
        raise InputError("the compressed file is damaged, or is not gzip data.", place=place) from None
    except OSError as error:
        raise cannot_read(path, error, what="dataset") from None


def dataset_from_content(content: bytes, *, source: str = "stored dataset") -> Dataset:
    """Return the dataset that was stored as `content`; its cases equal the loaded ones, but know no line.

    Raises InputError when the content is not what load_dataset made.
    """
    lines = JsonLines(io.BytesIO(content), place=source, max_line_bytes=len(content))
    return _collect((JsonLine(0, value) for _, value in lines), source=source)


def _read_lines(stream: BinaryIO, place: str) -> Dataset:
    lines = JsonLines(stream, place=place, max_line_bytes=MAX_LINE_BYTES, max_bytes=MAX_DATASET_BYTES)
    dataset = _collect(lines, source=place)
    if not lines.blank_lines:
        return dataset
    note = f"{lines.blank_lines} blank lines between records were skipped."
    return replace(dataset, warnings=(*dataset.warnings, note))


def _read_list(stream: BinaryIO, place: str) -> Dataset:
    data = stream.read(MAX_JSON_BYTES + 1)
    if len(data) > MAX_JSON_BYTES:
        _raise_list_too_long(place)
    text = decode_text(data, place=place)
    if not text.strip():
        raise InputError("the file is empty.", code="bad_dataset", place=place)
    return _collect(iter_json_list(text, place=place), source=place)


class _Seen:
    """What was met so far, for doubled ids and equal inputs. Lines are 0 for stored content."""

    def __init__(self) -> None:
        self.line_of_id: dict[str, int] = {}
        self.line_of_input: dict[str, int] = {}
        self.n_unnamed: dict[str, int] = {}
        self.first_pair: tuple[int, int] | None = None
        self.n_empty_inputs = 0
        self.n_padded_ids = 0
        self.fields: set[str] = set()
        self.near_keys: list[str] = []

    def note_input(self, case: Case, line: int) -> None:
        n_before = len(self.line_of_input)
        first = self.line_of_input.setdefault(case.input_hash, line)
        if self.first_pair is None and len(self.line_of_input) == n_before:
            self.first_pair = (first, line)
        if case.input is None or case.input == "":
            self.n_empty_inputs += 1


def _collect(records: Iterable[JsonLine], *, source: str) -> Dataset:
    seen = _Seen()
    cases: list[Case] = []
    content = io.BytesIO()
    for line, record in records:
        place = f"{source}:{line}" if line else f"{source}, record {len(cases) + 1}"
        case, stored = _read_record(record, seen, place=place, position=len(cases), line=line)
        first = seen.line_of_id.get(case.id)
        if first is not None:
            raise _doubled_id(case.id, first, line, named="id" in stored, place=place)
        seen.line_of_id[case.id] = line
        seen.note_input(case, line)
        cases.append(case)
        content.write(_escaped(canonical_json(stored)))
        content.write(b"\n")
    if not cases:
        raise InputError(
            "the dataset has no case.", code="bad_dataset", hint="Write one JSON object a line.", place=source
        )
    data = content.getvalue()
    return Dataset(tuple(cases), data, sha256_hex(data), _warnings(cases, seen), source)


def _read_record(
    record: JsonValue, seen: _Seen, *, place: str, position: int, line: int
) -> tuple[Case, dict[str, JsonValue]]:
    """Return the case of a record, and the record as it is stored: nulls and defaults left out, ids as text."""
    if not isinstance(record, dict):
        raise _bad("a record is a JSON object.", place, hint='Write {"input": …}.')
    if "input" not in record:
        raise _no_input(record, place)
    name = _label(record.get("id"), "id", place)
    kind = _kind(record.get("kind"), place)
    split = _label(record.get("split"), "split", place)
    group = _label(record.get("group"), "group", place)
    tags = _tags(record.get("tags"), place)
    fields = {key: item for key, item in record.items() if key not in _RECORD_KEYS}
    if fields:
        _note_near_keys(fields, seen, place)
    if name is not None and name != name.strip():
        seen.n_padded_ids += 1
    value, has_expected = record["input"], "expected" in record
    input_hash = _hash(value)
    case = Case(
        id=_unnamed_id(input_hash, seen) if name is None else name,
        input=value,
        expected=record.get("expected"),
        has_expected=has_expected,
        kind=kind,
        split=split,
        group=group,
        tags=tags,
        fields=fields,
        position=position,
        input_hash=input_hash,
        label_hash=_hash(record["expected"]) if has_expected else "",
        line=line or None,
    )
    return case, _stored_record(case, name)


def _stored_record(case: Case, name: str | None) -> dict[str, JsonValue]:
    record = dict(case.fields)
    record["input"] = case.input
    if case.has_expected:
        record["expected"] = case.expected
    if name is not None:
        record["id"] = name
    if case.kind != "ordinary":
        record["kind"] = case.kind
    if case.split is not None:
        record["split"] = case.split
    if case.group is not None:
        record["group"] = case.group
    if case.tags:
        record["tags"] = list(case.tags)
    return record


def _hash(value: JsonValue) -> str:
    # canonical_json makes an encoder for what is not a text; a number, the most frequent label, needs none.
    return sha256_hex(b"%d" % value if type(value) is int else canonical_json(value))


def _unnamed_id(input_hash: str, seen: _Seen) -> str:
    number = seen.n_unnamed.get(input_hash, 0) + 1
    seen.n_unnamed[input_hash] = number
    return unnamed_case_id(input_hash) if number == 1 else f"{unnamed_case_id(input_hash)}-{number}"


def _label(value: JsonValue, key: str, place: str) -> str | None:
    """Return an id, split or group as text. Padding is part of it; an integer becomes its decimal digits."""
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        raise _bad(f'"{key}" is text or a whole number.', place)
    return _checked_label(value, key, place)


def _checked_label(text: str, key: str, place: str) -> str:
    if not text.strip():
        raise _bad(f'"{key}" is empty.', place, hint="Leave it out instead.")
    if len(text) > MAX_ID:
        raise _bad(f'"{key}" is longer than {MAX_ID} characters.', place)
    if has_control_character(text):
        raise _bad(f'"{key}" holds a line break, another control character or half a surrogate pair.', place)
    return text


def _kind(value: JsonValue, place: str) -> str:
    if value is None:
        return "ordinary"
    if not isinstance(value, str):
        raise _bad('"kind" is text.', place, hint=f"Known kinds: {', '.join(CASE_KINDS)}.")
    if value not in CASE_KINDS:
        raise _bad(f"unknown kind {shown(value)}.", place, hint=did_you_mean(value, CASE_KINDS, what="kinds"))
    return value


def _tags(value: JsonValue, place: str) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list):
        raise _bad('"tags" is a list of texts.', place, hint='Write "tags": ["a", "b"].')
    tags = []
    for tag in value:
        if not isinstance(tag, str):
            raise _bad('"tags" is a list of texts.', place)
        tags.append(_checked_label(tag, "tags", place))
    return tuple(tags)


def _note_near_keys(fields: dict[str, JsonValue], seen: _Seen, place: str) -> None:
    for key in fields:
        if key in seen.fields:
            continue
        seen.fields.add(key)
        lowered = key.strip().lower()
        if lowered in RECORD_KEYS:
            seen.near_keys.append(
                f'{place}: the key {shown(key)} is read as a field of yours; the key of a case is "{lowered}".'
            )


def _escaped(line: bytes) -> bytes:
    # All of them are beyond ASCII, and most datasets are not.
    if line.isascii():
        return line
    text = line.decode("utf-8", "surrogatepass")
    return _UNSAFE.sub(lambda match: f"\\u{ord(match.group()):04x}", text).encode("utf-8")


def _warnings(cases: list[Case], seen: _Seen) -> tuple[str, ...]:
    warnings = list(seen.near_keys)
    n_distinct = len(seen.line_of_input)
    if seen.first_pair:
        first, second = seen.first_pair
        lines = f" (lines {first} and {second}, for one)" if first else ""
        warnings.append(
            f"{n_distinct} distinct of {len(cases)} inputs{lines}: the same question asked again is no new evidence."
        )
    n_repeated = sum(number - 1 for number in seen.n_unnamed.values())
    if n_repeated:
        unnamed = next(digest for digest, number in seen.n_unnamed.items() if number > 1)
        name = unnamed_case_id(unnamed)
        warnings.append(
            f"{n_repeated} of {len(cases)} cases have no id and an input met before; their order tells them apart: "
            f"{name}, {name}-2 and so on. Give them ids."
        )
    if seen.n_empty_inputs:
        warnings.append(f"{seen.n_empty_inputs} of {len(cases)} inputs are null or empty.")
    if seen.n_padded_ids:
        warnings.append(f"{seen.n_padded_ids} ids begin or end with white space, which is part of the id.")
    return tuple(warnings)


def _bad(message: str, place: str, *, hint: str | None = None) -> InputError:
    return InputError(message, code="bad_dataset", hint=hint, place=place)


def _no_input(record: dict[str, JsonValue], place: str) -> InputError:
    near = nearest("input", record) or [key for key in ("question", "prompt", "text", "query") if key in record]
    hint = f'Rename {shown(near[0])} to "input".' if near else None
    return _bad('the key "input" is missing.', place, hint=hint)


def _doubled_id(case_id: str, first: int, line: int, *, named: bool, place: str) -> InputError:
    lines = f" (lines {first} and {line})" if line else ""
    made = "" if named else "; on the second it is made from the input"
    return _bad(f"the id {shown(case_id)} stands twice{lines}{made}.", place, hint="Give every case an id of its own.")


def _unknown_suffix(name: str, place: str) -> InputError:
    known = ", ".join(LINE_SUFFIXES + LIST_SUFFIXES)
    hint = "Convert it: one JSON object a line."
    if name.removesuffix(".gz").endswith((".csv", ".tsv")):
        hint = "Convert it: one JSON object a line, with the column names as keys. A CSV cell has no type of its own."
    return InputError(f"a dataset file ends in one of {known}.", hint=hint, place=place)


def _raise_list_too_long(place: str) -> NoReturn:
    raise InputError(
        f"a JSON list is longer than the limit of {MAX_JSON_BYTES:,} bytes.",
        hint="Write one record a line and name the file .jsonl: that is read line by line.",
        place=place,
    )
