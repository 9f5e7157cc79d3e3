"""Results that are taken back, so that their trials run again; what they were stays in the history of attempts.

Taking back is one commit under the fence: the totals, the trials and the history never disagree. Nothing here deletes
the only copy of anything but grades, which a stored answer gives again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, Literal, TypeAlias, cast

from sqlalchemy import Connection, Engine, bindparam, delete, func, select, tuple_, update

from fairtrial.records.trial import COUNT_OF, Outcome, Usage
from fairtrial.store.database import in_parts
from fairtrial.store.lease import check_fence
from fairtrial.store.tables import (
    AttemptRow,
    ExperimentRow,
    GradeRow,
    OutputRow,
    SummaryRow,
    TrialRow,
    table_of,
)

Why: TypeAlias = Literal["retried", "damaged"]
Key: TypeAlias = tuple[str, str, int]
"""Arm, case id and repetition: what names a trial inside its experiment."""

GRADER_ERROR: Final = "grader_error"
"""Kind of the loss when an answer is stored and a grader failed on it."""

_ERRORS: Final[tuple[Outcome, ...]] = ("agent_failure", "infra_loss")

_EXPERIMENT = table_of(ExperimentRow)
_TRIAL = table_of(TrialRow)
_OUTPUT = table_of(OutputRow)
_GRADE = table_of(GradeRow)
_ATTEMPT = table_of(AttemptRow)
_SUMMARY = table_of(SummaryRow)

_KEY: Final = ("arm", "case_id", "repetition")


@dataclass(frozen=True, slots=True)
class TakenBack:
    """One result as it was. outcome is None for an answer that had not been graded; asked_again when a call follows."""

    arm: str
    case: str
    repetition: int
    outcome: Outcome | None
    value: float | None
    usage: Usage
    asked_again: bool


@dataclass(frozen=True, slots=True)
class Earlier:
    """An attempt whose result was taken back. Times are seconds since the epoch; None where it was not known."""

    attempt: int
    why: Why
    outcome: str | None
    error_kind: str | None
    error: bytes
    cost_usd: Decimal | None
    started_at: float
    finished_at: float | None


def take_back_errors(engine: Engine, experiment: str, fence: int) -> list[TakenBack]:
    """Take back every agent failure and infra loss of an experiment, and raise its result version when there is one.

    An answer that only a grader failed on stays: it is graded again, and nobody is asked again.
    Raises ConflictError when the lease was lost, StoreError.
    """
    wanted = _rows().where(_TRIAL.c.experiment == experiment, _TRIAL.c.state == "done", _TRIAL.c.outcome.in_(_ERRORS))
    with engine.connect().execution_options(writes=True) as connection, connection.begin():
        check_fence(connection, experiment, fence)
        rows = connection.execute(wanted.order_by(*(_TRIAL.c[name] for name in _KEY))).mappings().all()
        if rows:
            _take_back(connection, experiment, rows, why="retried")
            connection.execute(
                update(_EXPERIMENT)
                .where(_EXPERIMENT.c.id == experiment)
                .values(result_version=_EXPERIMENT.c.result_version + 1)
            )
        return [_as_taken(row, why="retried") for row in rows]


def take_back_damaged(engine: Engine, experiment: str, fence: int, keys: Sequence[Key]) -> list[TakenBack]:
    """Take back the results of these trials, whose stored answers cannot be read any more.

    Raises ConflictError when the lease was lost, StoreError.
    """
    taken: list[TakenBack] = []
    with engine.connect().execution_options(writes=True) as connection, connection.begin():
        check_fence(connection, experiment, fence)
        for some in in_parts(keys):
            named = tuple_(*(_TRIAL.c[name] for name in _KEY)).in_(some)
            rows = connection.execute(_rows().where(_TRIAL.c.experiment == experiment, named)).mappings().all()
            _take_back(connection, experiment, rows, why="damaged")
            taken += [_as_taken(row, why="damaged") for row in rows]
    return taken


def earlier_attempts(connection: Connection, experiment: str, cases: Sequence[str]) -> dict[Key, list[Earlier]]:
    """Return the attempts of these cases whose results were taken back, oldest first."""
    found: dict[Key, list[Earlier]] = {}
    for some in in_parts(cases):
        query = (
            select(_ATTEMPT)
            .where(
                _ATTEMPT.c.experiment == experiment, _ATTEMPT.c.case_id.in_(some), _ATTEMPT.c.taken_back.is_not(None)
            )
            .order_by(_ATTEMPT.c.attempt)
        )
        for row in connection.execute(query).mappings():
            earlier = Earlier(
                attempt=row["attempt"],
                why=cast("Why", row["taken_back"]),
                outcome=row["outcome"],
                error_kind=row["error_kind"],
                error=row["error"] or b"",
                cost_usd=None if row["cost_usd"] is None else Decimal(row["cost_usd"]),
                started_at=row["started_at"],
                finished_at=row["finished_at"],
            )
            found.setdefault((row["arm"], row["case_id"], row["repetition"]), []).append(earlier)
    return found


@dataclass(frozen=True, slots=True)
class TakenCount:
    """How many results of an experiment were taken back for one reason, by what they had been."""

    why: Why
    outcome: str | None
    n: int


def count_taken_back(connection: Connection, experiment: str) -> list[TakenCount]:
    """Return how many results were taken back, in the same order on every database."""
    query = (
        select(_ATTEMPT.c.taken_back, _ATTEMPT.c.outcome, func.count())
        .where(_ATTEMPT.c.experiment == experiment, _ATTEMPT.c.taken_back.is_not(None))
        .group_by(_ATTEMPT.c.taken_back, _ATTEMPT.c.outcome)
    )
    found = [TakenCount(*row) for row in connection.execute(query)]
    return sorted(found, key=lambda each: (each.why, each.outcome or ""))


def _rows() -> Any:
    columns = (_OUTPUT.c.sha256, _OUTPUT.c.inline, _OUTPUT.c.error)
    same = [_OUTPUT.c[name] == _TRIAL.c[name] for name in ("experiment", *_KEY)]
    joined = _TRIAL.outerjoin(_OUTPUT, same[0] & same[1] & same[2] & same[3])
    return select(_TRIAL, *columns).select_from(joined)


def _take_back(connection: Connection, experiment: str, rows: Sequence[Any], *, why: Why) -> None:
    again = [row for row in rows if _is_asked_again(row, why)]
    regraded = [row for row in rows if not _is_asked_again(row, why)]
    if again:
        connection.execute(_ARCHIVE, [_archived(row, why=why) for row in again])
        for table in (_GRADE, _OUTPUT, _TRIAL):
            connection.execute(delete(table).where(*_named(table)), [_names(row) for row in again])
    if regraded:
        connection.execute(delete(_GRADE).where(*_named(_GRADE)), [_names(row) for row in regraded])
        reopened = {"state": "answered", "outcome": None, "value": None, "error_kind": None, "finished_at": None}
        connection.execute(update(_TRIAL).where(*_named(_TRIAL)).values(reopened), [_names(row) for row in regraded])
    counts: Counter[tuple[str, str]] = Counter()
    for row in rows:
        if row["state"] == "done":
            counts[row["arm"], "n_done"] += 1
            counts[row["arm"], COUNT_OF[cast("Outcome", row["outcome"])]] += 1
            counts[row["arm"], "n_passed"] += row["value"] == 1.0
    for (arm, column), n in sorted(counts.items()):
        connection.execute(
            update(_SUMMARY)
            .where(_SUMMARY.c.experiment == experiment, _SUMMARY.c.arm == arm)
            .values({column: _SUMMARY.c[column] - n})
        )


def _is_asked_again(row: Any, why: Why) -> bool:
    return why == "damaged" or row["error_kind"] != GRADER_ERROR


def _named(table: Any) -> list[Any]:
    return [table.c[name] == bindparam(f"of_{name}") for name in ("experiment", *_KEY)]


def _names(row: Any) -> dict[str, Any]:
    return {f"of_{name}": row[name] for name in ("experiment", *_KEY)}


_FROM_TRIAL: Final = (
    "outcome",
    "error_kind",
    "finished_at",
    "latency_s",
    "input_tokens",
    "output_tokens",
    "cost_usd",
    "error",
)
_ARCHIVE: Final = (
    update(_ATTEMPT)
    .where(*_named(_ATTEMPT), _ATTEMPT.c.attempt == bindparam("of_attempt"))
    .values(
        {name: bindparam(f"to_{name}") for name in (*_FROM_TRIAL, "taken_back", "output_sha256", "output")},
    )
)


def _archived(row: Any, *, why: Why) -> dict[str, Any]:
    # Damaged bytes lie in the quarantine; here they would look like an answer.
    output = {"to_output_sha256": row["sha256"], "to_output": row["inline"] if why == "retried" else None}
    kept = {f"to_{name}": row[name] for name in _FROM_TRIAL}
    return {**_names(row), "of_attempt": row["attempt"], "to_taken_back": why, **output, **kept}


def _as_taken(row: Any, *, why: Why) -> TakenBack:
    return TakenBack(
        arm=row["arm"],
        case=row["case_id"],
        repetition=row["repetition"],
        outcome=cast("Outcome | None", row["outcome"]),
        value=row["value"],
        usage=Usage(
            input_tokens=row["input_tokens"],
            output_tokens=row["output_tokens"],
            cost_usd=None if row["cost_usd"] is None else Decimal(row["cost_usd"]),
        ),
        asked_again=_is_asked_again(row, why),
    )
