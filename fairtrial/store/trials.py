"""Reading trials back: few columns in bulk for statistics and resume, whole records one page at a time for people."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal, localcontext
from typing import Any, Final, cast

from sqlalchemy import Connection, and_, func, literal, select, tuple_

from fairtrial.errors import StoreError
from fairtrial.hashing import sha256_hex
from fairtrial.records.trial import Answer, Grade, GradeState, Outcome, Trial, TrialKey, Usage
from fairtrial.store.database import PIECE, in_parts
from fairtrial.store.objects import ObjectStore
from fairtrial.store.tables import AttemptRow, GradeRow, OutputRow, TrialRow, table_of

_TRIAL = table_of(TrialRow)
_OUTPUT = table_of(OutputRow)
_GRADE = table_of(GradeRow)
_ATTEMPT = table_of(AttemptRow)

# Within an experiment these name a trial.
_KEY: Final = ("arm", "case_id", "repetition")


@dataclass(frozen=True, slots=True)
class Progressed:
    """What the journal holds of one trial that a resume asks about."""

    state: str
    attempt: int


def progress_of(
    connection: Connection, experiment: str, *, arms: Sequence[str], cases: Sequence[str]
) -> dict[tuple[str, str, int], Progressed]:
    """Return what is known of the trials of these cases: the last attempt started, and the state of the result."""
    found: dict[tuple[str, str, int], Progressed] = {}
    for some in in_parts(cases):
        attempts = (
            select(*(_ATTEMPT.c[name] for name in _KEY), func.max(_ATTEMPT.c.attempt).label("attempt"))
            .where(_ATTEMPT.c.experiment == experiment, _ATTEMPT.c.arm.in_(arms), _ATTEMPT.c.case_id.in_(some))
            .group_by(*(_ATTEMPT.c[name] for name in _KEY))
            .subquery()
        )
        same = [_TRIAL.c[name] == attempts.c[name] for name in _KEY]
        query = select(attempts, _TRIAL.c.state).outerjoin(_TRIAL, and_(_TRIAL.c.experiment == experiment, *same))
        for arm, case, repetition, attempt, state in connection.execute(query):
            found[arm, case, repetition] = Progressed(state or "started", attempt)
    return found


def results_of(
    connection: Connection, experiment: str, *, arms: Sequence[str], cases: Sequence[str]
) -> list[tuple[str, str, int, str, float | None]]:
    """Return (arm, case id, repetition, outcome, value) of the finished trials of these cases, in no order."""
    columns = (*(_TRIAL.c[name] for name in _KEY), _TRIAL.c.outcome, _TRIAL.c.value)
    found: list[tuple[str, str, int, str, float | None]] = []
    for some in in_parts(cases):
        query = select(*columns).where(
            _TRIAL.c.experiment == experiment,
            _TRIAL.c.arm.in_(arms),
            _TRIAL.c.case_id.in_(some),
            _TRIAL.c.state == "done",
        )
        found += [(arm, case, n, outcome, value) for arm, case, n, outcome, value in connection.execute(query)]
    return found


def values_of(connection: Connection, experiment: str, arm: str) -> list[tuple[str, int, str | None, float | None]]:
    """Return (case id, repetition, outcome, value) of every finished trial of one arm, in key order."""
    query = (
        select(_TRIAL.c.case_id, _TRIAL.c.repetition, _TRIAL.c.outcome, _TRIAL.c.value)
        .where(_TRIAL.c.experiment == experiment, _TRIAL.c.arm == arm, _TRIAL.c.state == "done")
        .order_by(_TRIAL.c.case_id, _TRIAL.c.repetition)
    )
    # In pieces: one call of the driver for many rows takes half the time of one a row, and the rows of all would take
    # the memory of a large run. There are four outcomes, so each is one text and not one a row.
    return [
        (case, repetition, outcome and sys.intern(outcome), value)
        for rows in connection.execute(query).partitions(PIECE)
        for case, repetition, outcome, value in rows
    ]


@dataclass(frozen=True, slots=True)
class ErrorCount:
    """How many trials of one arm ended with one kind of error."""

    outcome: str
    error_kind: str
    n: int


def errors_of(connection: Connection, experiment: str, arm: str) -> list[ErrorCount]:
    """Return the errors of one arm by kind, most frequent first; the order is the same on every database."""
    query = (
        select(_TRIAL.c.outcome, _TRIAL.c.error_kind, func.count())
        .where(
            _TRIAL.c.experiment == experiment,
            _TRIAL.c.arm == arm,
            _TRIAL.c.state == "done",
            _TRIAL.c.error_kind.is_not(None),
        )
        .group_by(_TRIAL.c.outcome, _TRIAL.c.error_kind)
    )
    found = [ErrorCount(*row) for row in connection.execute(query)]
    return sorted(found, key=lambda error: (-error.n, error.error_kind, error.outcome))


@dataclass(frozen=True, slots=True)
class ScoreCount:
    """One grader's scores over one arm; mean is None without a score."""

    grader: str
    mean: float | None
    n_scored: int
    n_no_score: int
    n_errors: int


def scores_of(connection: Connection, experiment: str, arm: str) -> list[ScoreCount]:
    """Return each grader's mean score over the trials of one arm, by grader name.

    Equal scores are counted by the database and the products summed exactly, so the mean has the same digits in
    whatever order trials finished.
    """
    query = (
        select(_GRADE.c.grader, _GRADE.c.state, _GRADE.c.score, func.count())
        .where(_GRADE.c.experiment == experiment, _GRADE.c.arm == arm)
        .group_by(_GRADE.c.grader, _GRADE.c.state, _GRADE.c.score)
    )
    scores: dict[str, list[float]] = {}
    states: Counter[tuple[str, str]] = Counter()
    for grader, state, score, n in connection.execute(query):
        states[grader, state] += n
        if score is not None:
            scores.setdefault(grader, []).append(score * n)
    return [
        ScoreCount(
            grader=grader,
            mean=math.fsum(scores[grader]) / states[grader, "scored"] if grader in scores else None,
            n_scored=states[grader, "scored"],
            n_no_score=states[grader, "no_score"],
            n_errors=states[grader, "error"],
        )
        for grader in sorted({grader for grader, _ in states})
    ]


@dataclass(frozen=True, slots=True)
class Part:
    """One owner's stretch of work on an experiment, from its first start to its last finish, in seconds."""

    fence: int
    started_at: float
    finished_at: float


def parts_of(connection: Connection, experiment: str) -> list[Part]:
    """Return the stretches in which trials of an experiment were finished, first owner first.

    What an owner was doing when it was killed has no end and is in no part.
    """
    starts: dict[int, float] = {}
    ends: dict[int, float] = {}
    for table in (_ATTEMPT, _TRIAL):
        query = (
            select(table.c.fence, func.min(table.c.started_at), func.max(table.c.finished_at))
            .where(table.c.experiment == experiment)
            .group_by(table.c.fence)
        )
        for fence, start, end in connection.execute(query):
            starts[fence] = min(start, starts.get(fence, math.inf))
            if end is not None:
                ends[fence] = max(end, ends.get(fence, -math.inf))
    return [Part(fence, starts[fence], max(end, starts[fence])) for fence, end in sorted(ends.items())]


def count_cut_off(connection: Connection, experiment: str) -> int:
    """Return how many calls were begun and have no result: a stop or crash cut them off, or they are in flight."""
    begun = connection.execute(
        select(func.count()).where(_ATTEMPT.c.experiment == experiment, _ATTEMPT.c.taken_back.is_(None))
    ).scalar_one()
    ended = connection.execute(select(func.count()).where(_TRIAL.c.experiment == experiment)).scalar_one()
    return int(begun - ended)


def reserved_of(connection: Connection, experiment: str) -> Decimal | None:
    """Return the most that calls without a result can have cost; None when nothing was reserved for any of them."""
    same = [_TRIAL.c[name] == _ATTEMPT.c[name] for name in ("experiment", *_KEY, "attempt")]
    query = (
        select(_ATTEMPT.c.reserved_usd)
        .outerjoin(_TRIAL, and_(*same))
        .where(
            _ATTEMPT.c.experiment == experiment,
            _ATTEMPT.c.reserved_usd.is_not(None),
            _ATTEMPT.c.taken_back.is_(None),
            _TRIAL.c.state.is_(None),
        )
    )
    reserved = [Decimal(amount) for amount in connection.execute(query).scalars()]
    with localcontext(prec=200):
        return sum(reserved, Decimal(0)) if reserved else None


def cost_of(connection: Connection, experiment: str) -> tuple[Decimal, int]:
    """Return the exact sum of the prices that results reported, those taken back included, and how many did."""
    prices: list[Decimal] = []
    for table in (_TRIAL, _ATTEMPT):
        query = select(table.c.cost_usd).where(table.c.experiment == experiment, table.c.cost_usd.is_not(None))
        prices += [Decimal(price) for price in connection.execute(query).scalars()]
    # The usual 28 digits would round a sum; a record's price has at most 41 before the point and 80 after it.
    with localcontext(prec=200):
        return sum(prices, Decimal(0)), len(prices)


@dataclass(frozen=True, slots=True)
class OpenTrial:
    """A trial whose call was begun and has no result yet. started_at is in seconds since the epoch."""

    arm: str
    case: str
    repetition: int
    attempt: int
    started_at: float


def open_trials(connection: Connection, experiment: str, fence: int, *, limit: int) -> list[OpenTrial]:
    """Return the calls that the owner with this fencing number began and that have no result, oldest first."""
    same = [_TRIAL.c[name] == _ATTEMPT.c[name] for name in ("experiment", *_KEY, "attempt")]
    query = (
        select(*(_ATTEMPT.c[name] for name in (*_KEY, "attempt", "started_at")))
        .outerjoin(_TRIAL, and_(*same))
        .where(
            _ATTEMPT.c.experiment == experiment,
            _ATTEMPT.c.fence == fence,
            _ATTEMPT.c.taken_back.is_(None),
            _TRIAL.c.state.is_(None),
        )
        .order_by(_ATTEMPT.c.started_at, *(_ATTEMPT.c[name] for name in _KEY))
        .limit(limit)
    )
    return [OpenTrial(*row) for row in connection.execute(query)]


def count_done_by(connection: Connection, experiment: str, fence: int) -> int:
    """Return how many trials the owner with this fencing number finished."""
    query = select(func.count()).where(
        _TRIAL.c.experiment == experiment, _TRIAL.c.fence == fence, _TRIAL.c.state == "done"
    )
    return int(connection.execute(query).scalar_one())


def page_of_trials(
    connection: Connection,
    objects: ObjectStore,
    experiment: str,
    *,
    arm: str | None = None,
    case: str | None = None,
    outcome: str | None = None,
    after: tuple[str, str, int] | None = None,
    limit: int = 50,
) -> list[Trial]:
    """Return whole trials in key order, after a key. Outputs are checked against their checksums.

    Raises StoreError (damaged_record, missing_object).
    """
    query = select(_TRIAL, _OUTPUT.c.sha256, _OUTPUT.c.size, _OUTPUT.c.cut, _OUTPUT.c.inline, _OUTPUT.c.error).join(
        _OUTPUT, _same_trial(_OUTPUT), isouter=True
    )
    query = query.where(_TRIAL.c.experiment == experiment, _TRIAL.c.state == "done")
    if arm is not None:
        query = query.where(_TRIAL.c.arm == arm)
    if case is not None:
        query = query.where(_TRIAL.c.case_id == case)
    if outcome is not None:
        query = query.where(_TRIAL.c.outcome == outcome)
    key = (_TRIAL.c.arm, _TRIAL.c.case_id, _TRIAL.c.repetition)
    if after is not None:
        query = query.where(tuple_(*key) > tuple_(*(literal(part) for part in after)))
    rows = connection.execute(query.order_by(*key).limit(limit)).mappings().all()
    grades = _grades_of(connection, experiment, rows)
    return [_trial(row, grades.get((row["arm"], row["case_id"], row["repetition"]), ()), objects) for row in rows]


@dataclass(frozen=True, slots=True)
class StoredOutput:
    """What the journal says of one stored answer. key: arm, case id, repetition; inline is None for one in a blob."""

    key: tuple[str, str, int]
    attempt: int
    outcome: Outcome | None
    value: float | None
    sha256: str
    inline: bytes | None


def outputs_after(
    connection: Connection, experiment: str, *, before_fence: int | None, after: tuple[str, str, int] | None, limit: int
) -> list[StoredOutput]:
    """Return a page of the answers that owners before `before_fence` stored, in key order, after a key."""
    key = tuple(_TRIAL.c[name] for name in _KEY)
    query = _stored_outputs().where(_TRIAL.c.experiment == experiment)
    if before_fence is not None:
        query = query.where(_TRIAL.c.fence < before_fence)
    if after is not None:
        query = query.where(tuple_(*key) > tuple_(*(literal(part) for part in after)))
    return [_stored_output(row) for row in connection.execute(query.order_by(*key).limit(limit))]


def output_of(connection: Connection, key: TrialKey) -> StoredOutput:
    """Return what the journal says of one stored answer. Raises StoreError (missing_object) when it has none."""
    query = _stored_outputs().where(
        _TRIAL.c.experiment == key.experiment,
        _TRIAL.c.arm == key.arm,
        _TRIAL.c.case_id == key.case,
        _TRIAL.c.repetition == key.repetition,
    )
    row = connection.execute(query).first()
    if row is None:
        raise StoreError(f"the answer of {key.case} in {key.arm} is not in the store.", code="missing_object")
    return _stored_output(row)


def _stored_outputs() -> Any:
    columns = (*(_TRIAL.c[name] for name in (*_KEY, "attempt", "outcome", "value")), _OUTPUT.c.sha256, _OUTPUT.c.inline)
    return select(*columns).join(_OUTPUT, _same_trial(_OUTPUT))


def _stored_output(row: Any) -> StoredOutput:
    return StoredOutput(
        key=(row.arm, row.case_id, row.repetition),
        attempt=row.attempt,
        outcome=cast("Outcome | None", row.outcome),
        value=row.value,
        sha256=row.sha256,
        inline=None if row.inline is None else bytes(row.inline),
    )


def stored_answer(connection: Connection, objects: ObjectStore, key: TrialKey) -> Answer:
    """Return the stored answer of one trial, checked. Raises StoreError when it is missing or damaged."""
    query = (
        select(_TRIAL, _OUTPUT.c.sha256, _OUTPUT.c.size, _OUTPUT.c.cut, _OUTPUT.c.inline, _OUTPUT.c.error)
        .join(_OUTPUT, _same_trial(_OUTPUT))
        .where(
            _TRIAL.c.experiment == key.experiment,
            _TRIAL.c.arm == key.arm,
            _TRIAL.c.case_id == key.case,
            _TRIAL.c.repetition == key.repetition,
        )
    )
    row = connection.execute(query).mappings().first()
    if row is None:
        raise StoreError(f"the answer of {key.case} in {key.arm} is not in the store.", code="missing_object")
    return _answer(row, objects)


def _same_trial(table: Any) -> Any:
    return (
        (table.c.experiment == _TRIAL.c.experiment)
        & (table.c.arm == _TRIAL.c.arm)
        & (table.c.case_id == _TRIAL.c.case_id)
        & (table.c.repetition == _TRIAL.c.repetition)
    )


def _grades_of(
    connection: Connection, experiment: str, rows: Sequence[Any]
) -> dict[tuple[str, str, int], tuple[Grade, ...]]:
    query = (
        select(_GRADE)
        .where(
            _GRADE.c.experiment == experiment,
            _GRADE.c.arm.in_({row["arm"] for row in rows}),
            _GRADE.c.case_id.in_({row["case_id"] for row in rows}),
        )
        .order_by(_GRADE.c.grader, _GRADE.c.version)
    )
    found: dict[tuple[str, str, int], tuple[Grade, ...]] = {}
    for row in connection.execute(query).mappings():
        key = (row["arm"], row["case_id"], row["repetition"])
        grade = Grade(
            grader=row["grader"],
            version=row["version"],
            state=cast("GradeState", row["state"]),
            score=row["score"],
            reason=row["reason"],
        )
        found[key] = (*found.get(key, ()), grade)
    return found


def _trial(row: Any, grades: tuple[Grade, ...], objects: ObjectStore) -> Trial:
    return Trial(
        key=TrialKey(row["experiment"], row["arm"], row["case_id"], row["repetition"]),
        outcome=cast("Outcome", row["outcome"]),
        value=row["value"],
        answer=_answer(row, objects),
        grades=grades,
        attempt=row["attempt"],
        started_at=datetime.fromtimestamp(row["started_at"], UTC),
        finished_at=datetime.fromtimestamp(row["finished_at"], UTC),
    )


def _answer(row: Any, objects: ObjectStore) -> Answer:
    return Answer(
        output=_output(row, objects),
        error_kind=row["error_kind"],
        error=row["error"] or b"",
        cut=bool(row["cut"]),
        latency_s=row["latency_s"],
        usage=Usage(
            input_tokens=row["input_tokens"],
            output_tokens=row["output_tokens"],
            cost_usd=None if row["cost_usd"] is None else Decimal(row["cost_usd"]),
        ),
    )


def _output(row: Any, objects: ObjectStore) -> bytes:
    if row["sha256"] is None:
        raise StoreError(f"the answer of {row['case_id']} in {row['arm']} is not in the store.", code="missing_object")
    if row["inline"] is None:
        return objects.get_blob(row["sha256"])
    output = bytes(row["inline"])
    if sha256_hex(output) != row["sha256"]:
        raise StoreError(
            f"the answer of {row['case_id']} in {row['arm']} does not match its checksum.",
            code="damaged_record",
            hint="Restore the store from a copy.",
        )
    return output
