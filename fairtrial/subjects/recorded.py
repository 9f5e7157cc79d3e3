"""Answers made elsewhere, joined to the cases by id.

Ids are compared as text, so 7 and "7" are one id; two recordings of one case and repetition are refused, because
whichever came last would win by chance.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Final, TypeAlias

from fairtrial.errors import InfraError, SpecError
from fairtrial.hashing import JsonValue
from fairtrial.records.trial import Answer, Usage
from fairtrial.spec.models import RecordedTask
from fairtrial.spec.template import json_as_text
from fairtrial.spec.text import shown
from fairtrial.subjects.base import TrialRequest
from fairtrial.subjects.recorded_file import Record, read_records

_N_NAMED: Final = 5
_MAX_DIGITS: Final = 40

MAX_COUNT: Final = 2**63
"""What no count reaches, and no database column holds."""


# Most recordings are of the first repetition; the id alone names those, which saves a tuple each.
_Key: TypeAlias = str | tuple[str, int]

_NO_USAGE: Final = Usage()


class RecordedSubject:
    """Gives back the recorded answers; the whole file is read and checked when this is made.

    Raises InputError with the line for a record that cannot be used.
    """

    def __init__(self, task: RecordedTask, *, folder: Path):
        self._path = task.path
        self._answers: dict[_Key, Answer] = {}
        # In the order of the answers; wanted only when one of them stands twice.
        self._lines = array("Q")
        for record in read_records(folder / task.path, place=task.path):
            self._keep(record, task)

    def check(self, case_ids: Sequence[str]) -> list[str]:
        """Return what does not fit, as lines for people: cases without a recording, recordings without a case.

        Raises SpecError when no case has a recording.
        """
        recorded = dict.fromkeys(self._ids())
        missing = [case for case in case_ids if case not in recorded]
        if case_ids and len(missing) == len(case_ids):
            raise SpecError(
                f"no case has a recording in {self._path} ({len(case_ids):,} cases, {len(recorded):,} recorded ids).",
                hint=f"Cases are named like {_named(case_ids)}, recordings like {_named(recorded) or 'nothing'}.",
                place="task.id",
            )
        known = set(case_ids)
        unused = sum(case not in known for case in self._ids())
        lines = []
        if missing:
            lines.append(
                f"{len(missing):,} of {len(case_ids):,} cases have no recording and will be lost: {_named(missing)}."
            )
        if unused:
            lines.append(f"{unused:,} of {len(self._answers):,} recordings match no case.")
        return lines

    def check_cases(self, cases: Sequence[object]) -> None:
        """A recording asks nothing of a case but its id."""

    async def answer(self, request: TrialRequest) -> Answer:
        """Return what was recorded. Raises InfraError (kind recording) when there is nothing."""
        answer = self._answers.get(_key(request.case.id, request.repetition))
        if answer is None:
            raise InfraError(
                f'{self._path} has no recording of case "{request.case.id}", repetition {request.repetition}.',
                kind="recording",
                retryable=False,
            )
        return answer

    async def close(self) -> None:
        """Nothing is held but memory."""

    def _ids(self) -> Iterator[str]:
        return (key if isinstance(key, str) else key[0] for key in self._answers)

    def _keep(self, record: Record, task: RecordedTask) -> None:
        case = _id(record, task.id)
        repetition = 1 if task.repetition is None else _count(record, task.repetition, least=1)
        if repetition is None:
            raise record.error(f"the field {shown(task.repetition or '')} is empty, so the repetition is not known.")
        key = _key(case, repetition)
        if key in self._answers:
            line = self._lines[list(self._answers).index(key)]
            raise record.error(
                f"case {shown(case)}, repetition {repetition} was recorded on line {line} already.",
                hint="Keep one of the two, or name the field that tells repetitions apart.",
            )
        self._answers[key] = _answer(record, task)
        self._lines.append(record.line)


def _key(case: str, repetition: int) -> _Key:
    return case if repetition == 1 else (case, repetition)


def _answer(record: Record, task: RecordedTask) -> Answer:
    error = _error(record, task.error)
    if error is None and not record.has(task.output):
        raise record.error(f"there is no field {shown(task.output)}.", hint=record.known_fields())
    value = record.get(task.output)
    output = b"" if value is None else json_as_text(value).encode("utf-8", "surrogatepass")
    kind = "recorded_error" if error is not None else None
    if kind is None and not output.strip():
        kind, error = "empty", "the recorded output is null" if value is None else "the recorded output is empty"
    latency = _number(record, task.latency_s)
    usage = Usage(
        input_tokens=_count(record, task.input_tokens, least=0),
        output_tokens=_count(record, task.output_tokens, least=0),
        cost_usd=_number(record, task.cost_usd, may_be_text=True),
    )
    return Answer(
        output=output,
        error_kind=kind,
        error=(error or "").encode("utf-8", "surrogatepass"),
        latency_s=None if latency is None else float(latency),
        usage=_NO_USAGE if usage == _NO_USAGE else usage,
    )


def _id(record: Record, field: str) -> str:
    if not record.has(field):
        raise record.error(f"there is no field {shown(field)} with the case id.", hint=record.known_fields())
    value = record.get(field)
    if isinstance(value, str) and value:
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise record.error(f"the id in {shown(field)} is neither a text nor a whole number.")


def _error(record: Record, field: str | None) -> str | None:
    value = None if field is None else record.get(field)
    # Programs also write false, 0, an empty text or list when nothing went wrong.
    return json_as_text(value) if (value.strip() if isinstance(value, str) else value) else None


def _number(record: Record, field: str | None, *, may_be_text: bool = False) -> Decimal | None:
    """Return a number of at least 0, exactly as written; None when the record does not have it."""
    value = None if field is None else record.get(field)
    if value is None or (value == "" and record.is_text_only):
        return None
    number = _decimal(value, may_be_text=may_be_text or record.is_text_only)
    if number is None or number < 0:
        raise record.error(f"the field {shown(field or '')} is not a number of at least 0.")
    return number


def _decimal(value: JsonValue, *, may_be_text: bool) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if isinstance(value, str) and not (may_be_text and len(value) <= _MAX_DIGITS and _is_plain(value)):
        return None
    try:
        # The shortest text of a float is what stood in the file, up to 15 digits.
        number = Decimal(str(value))
    except InvalidOperation:
        return None
    return number if number.is_finite() and abs(number.adjusted()) <= _MAX_DIGITS else None


def _is_plain(text: str) -> bool:
    # Decimal also reads "1_000", " 1 " and the digits of other scripts.
    return text.isascii() and not any(character in "_ \t\r\n" for character in text)


def _count(record: Record, field: str | None, *, least: int) -> int | None:
    number = _number(record, field)
    if number is None:
        return None
    if number != number.to_integral_value() or not least <= number < MAX_COUNT:
        raise record.error(f"the field {shown(field or '')} is not a whole number from {least} to 2^63.")
    return int(number)


def _named(ids: Iterable[str]) -> str:
    names = [shown(name, limit=40) for name, _ in zip(ids, range(_N_NAMED + 1), strict=False)]
    return ", ".join(names[:_N_NAMED]) + (", …" if len(names) > _N_NAMED else "")
