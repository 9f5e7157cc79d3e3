"""The cases of a stored experiment, read from its dataset's content when a trial asks for one.

Asking reads the line again each time: hold on to the case for as long as it is needed, and take ids from `ids`.

The content was checked when it was stored and again, by its hash, when it was fetched, so a line needs no strict
reader. That a line still is the case the experiment's row names is checked as it is read.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections.abc import Sequence
from typing import Final, cast, overload

from fairtrial.errors import StoreError
from fairtrial.hashing import JsonValue, canonical_json, content_hash, parse_canonical
from fairtrial.ids import unnamed_case_id
from fairtrial.records.experiment import ExperimentRecord
from fairtrial.spec.case import Case
from fairtrial.spec.dataset import RECORD_KEYS

# Every key "id" with a text, at whatever depth: a first sieve for the lines of named cases.
_ID: Final = re.compile(rb'"id":("[^"\\]*+(?:\\.[^"\\]*+)*+")', re.DOTALL)
_NUMBERED: Final = re.compile(r"(c_[0-9a-f]{16})-([0-9]+)")
_CASE_KEYS: Final = frozenset(RECORD_KEYS)


class StoredCases(Sequence[Case]):
    """Cases in plan order. `ids` are theirs and cost nothing to read.

    Per case this holds its id and two numbers, and the content once.
    """

    def __init__(self, content: bytes, ids: Sequence[str], lines: Sequence[int], starts: Sequence[int]):
        """Take the 0-based line of each case in the dataset, and the byte it starts at."""
        self.ids = ids
        self._content = content
        self._lines = lines
        self._starts = starts

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, index: int) -> Case: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Case, ...]: ...
    def __getitem__(self, index: int | slice) -> Case | tuple[Case, ...]:
        """Return a case equal to the one that was loaded, but for its line. Raises StoreError (damaged_record)."""
        if isinstance(index, slice):
            return tuple(self[one] for one in range(*index.indices(len(self))))
        record = _record_at(self._content, self._starts[index])
        return _case(record, case_id=self.ids[index], position=self._lines[index])


def stored_cases(record: ExperimentRecord, ids: Sequence[str], content: bytes) -> StoredCases:
    """Return the cases of an experiment.

    ids       of its cases, in plan order, as its rows have them
    content   of its dataset

    Raises StoreError (damaged_record) when a case cannot be in that content.
    """
    starts = _line_starts(content)
    if len(ids) > len(starts) or len(starts) != record.dataset.n_cases:
        raise _not_these(record, f"{len(starts):,} cases where {record.dataset.n_cases:,} were stored")
    if not record.selection.get("cases"):
        # Without a choice of ids an experiment has the first cases of its dataset, or all of them.
        return StoredCases(content, ids, range(len(ids)), starts[: len(ids)])
    found = _named_lines(content, starts, ids)
    if unnamed := [case_id for case_id in ids if case_id not in found]:
        found |= _unnamed_lines(content, starts, unnamed)
    if gone := [case_id for case_id in ids if case_id not in found]:
        raise _not_these(record, f"no case {gone[0]}")
    lines = array("Q", (found[case_id] for case_id in ids))
    return StoredCases(content, ids, lines, array("Q", (starts[line] for line in lines)))


def _line_starts(content: bytes) -> array[int]:
    starts = array("Q")
    at, end = 0, len(content)
    while at < end:
        starts.append(at)
        at = content.find(b"\n", at) + 1 or end
    return starts


def _record_at(content: bytes, start: int) -> dict[str, JsonValue]:
    end = content.find(b"\n", start)
    return cast("dict[str, JsonValue]", parse_canonical(content[start:] if end < 0 else content[start:end]))


def _case(record: dict[str, JsonValue], *, case_id: str, position: int) -> Case:
    """Return the case of a stored record: what load_dataset left out there are the defaults of a case."""
    value, has_expected = record["input"], "expected" in record
    input_hash = content_hash(value)
    named = record.get("id")
    if named != case_id if named is not None else not case_id.startswith(unnamed_case_id(input_hash)):
        raise StoreError(
            f"line {position + 1} of a stored dataset is not the case {case_id} that it should be.",
            code="damaged_record",
            hint="Restore the store from a copy.",
        )
    return Case(
        id=case_id,
        input=value,
        expected=record.get("expected"),
        has_expected=has_expected,
        kind=cast("str", record.get("kind", "ordinary")),
        split=cast("str | None", record.get("split")),
        group=cast("str | None", record.get("group")),
        tags=tuple(cast("list[str]", record.get("tags", ()))),
        fields={key: item for key, item in record.items() if key not in _CASE_KEYS},
        position=position,
        input_hash=input_hash,
        label_hash=content_hash(record["expected"]) if has_expected else "",
    )


def _named_lines(content: bytes, starts: Sequence[int], ids: Sequence[str]) -> dict[str, int]:
    wanted = {canonical_json(case_id): case_id for case_id in ids}
    found: dict[str, int] = {}
    for match in _ID.finditer(content):
        case_id = wanted.get(match[1])
        if case_id is None or case_id in found:
            continue
        line = bisect_right(starts, match.start()) - 1
        # The key may stand inside an input.
        if _record_at(content, starts[line]).get("id") == case_id:
            found[case_id] = line
    return found


def _unnamed_lines(content: bytes, starts: Sequence[int], ids: Sequence[str]) -> dict[str, int]:
    """Return the lines of ids that were made from the input; with equal inputs they are numbered in dataset order."""
    wanted: dict[tuple[str, int], str] = {}
    for case_id in ids:
        numbered = _NUMBERED.fullmatch(case_id)
        wanted[(numbered[1], int(numbered[2])) if numbered else (case_id, 1)] = case_id
    met: dict[str, int] = {}
    found: dict[str, int] = {}
    for line, start in enumerate(starts):
        record = _record_at(content, start)
        if "id" in record:
            continue
        made = unnamed_case_id(content_hash(record["input"]))
        met[made] = met.get(made, 0) + 1
        place = (made, met[made])
        if place in wanted:
            found[wanted[place]] = line
            if len(found) == len(wanted):
                break
    return found


def _not_these(record: ExperimentRecord, what: str) -> StoreError:
    return StoreError(
        f"the dataset of {record.id} has {what}.", code="damaged_record", hint="Restore the store from a copy."
    )
