"""Experiments: made once with all their cases in one commit, then only their state changes."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, cast

from sqlalchemy import Connection, Engine, Update, func, insert, select, update

from fairtrial.errors import SpecError
from fairtrial.hashing import canonical_json, content_hash, parse_canonical
from fairtrial.ids import is_experiment_id
from fairtrial.records.experiment import (
    ArmRecord,
    ArmSummary,
    CaseRef,
    DatasetRef,
    ExperimentKind,
    ExperimentRecord,
    ExperimentState,
    GraderRecord,
)
from fairtrial.store.database import PIECE, in_parts
from fairtrial.store.lease import check_fence
from fairtrial.store.tables import (
    FORMAT,
    SUMMARY_COUNTS,
    ArmRow,
    CaseRow,
    ExperimentRow,
    SummaryRow,
    as_column,
    table_of,
)

_EXPERIMENT = table_of(ExperimentRow)
_ARM = table_of(ArmRow)
_CASE = table_of(CaseRow)
_SUMMARY = table_of(SummaryRow)

_START_OF_ID: Final = re.compile(r"exp_[0-9A-HJKMNP-TV-Z]{1,25}")


def save_experiment(engine: Engine, experiment: ExperimentRecord, cases: Iterable[CaseRef]) -> None:
    """Store a new experiment, its arms, cases and empty totals in one commit. Raises StoreError."""
    rows = [
        {
            "experiment": experiment.id,
            "position": case.position,
            "case_id": case.id,
            "input_hash": case.input_hash,
            "label_hash": case.label_hash,
            "kind": case.kind,
        }
        for case in cases
    ]
    with engine.connect().execution_options(writes=True) as connection, connection.begin():
        connection.execute(insert(_EXPERIMENT), [_experiment_row(experiment)])
        connection.execute(
            insert(_ARM), [_arm_row(experiment.id, index, arm) for index, arm in enumerate(experiment.arms)]
        )
        connection.execute(insert(_CASE), rows)
        connection.execute(
            insert(_SUMMARY),
            [
                {"experiment": experiment.id, "arm": arm.name, "n_planned": experiment.n_blocks}
                | dict.fromkeys(SUMMARY_COUNTS, 0)
                for arm in experiment.arms
            ],
        )


def get_experiment(connection: Connection, experiment: str) -> ExperimentRecord:
    """Return a stored experiment. Raises SpecError (unknown_experiment)."""
    row = connection.execute(select(_EXPERIMENT).where(_EXPERIMENT.c.id == experiment)).mappings().first()
    if row is None:
        raise SpecError(
            f"there is no experiment {experiment}.", code="unknown_experiment", hint="`exp list` shows those there are."
        )
    return _experiments(connection, [row])[0]


def list_experiments(connection: Connection, *, limit: int, name: str | None = None) -> list[ExperimentRecord]:
    """Return the newest experiments, newest first."""
    query = select(_EXPERIMENT).order_by(_EXPERIMENT.c.id.desc()).limit(min(limit, 2**31 - 1))
    if name is not None:
        query = query.where(_EXPERIMENT.c.name == name)
    return _experiments(connection, connection.execute(query).mappings().all())


def unfinished_experiments(connection: Connection, *, limit: int) -> list[str]:
    """Return the ids of the newest experiments that are not at their end, newest first."""
    query = select(_EXPERIMENT.c.id).where(_EXPERIMENT.c.state.in_(("running", "partial")))
    return list(connection.execute(query.order_by(_EXPERIMENT.c.id.desc()).limit(limit)).scalars())


def resolve_id(connection: Connection, text: str) -> str:
    """Return the full id that `text` names: an id, a unique start of one, `latest`, or `latest~1` for the one before.

    Raises SpecError (unknown_experiment), with the nearest ids when a start fits several.
    """
    if is_experiment_id(text) and connection.execute(select(_EXPERIMENT.c.id).where(_EXPERIMENT.c.id == text)).first():
        return text
    back = re.fullmatch(r"latest(?:~([0-9]{1,9}))?", text)
    if back is not None:
        query = select(_EXPERIMENT.c.id).order_by(_EXPERIMENT.c.id.desc()).offset(int(back[1] or 0)).limit(1)
        found = connection.execute(query).scalars().all()
    elif text.startswith("latest"):
        raise SpecError(f"{text!r} is not an experiment.", code="unknown_experiment", hint="Write latest~1.")
    elif _START_OF_ID.fullmatch(text):
        query = select(_EXPERIMENT.c.id).where(_EXPERIMENT.c.id.startswith(text, autoescape=True)).limit(5)
        found = connection.execute(query.order_by(_EXPERIMENT.c.id)).scalars().all()
    else:
        found = []
    if len(found) == 1:
        return str(found[0])
    if len(found) > 1:
        raise SpecError(f"{text} fits several experiments: {', '.join(found)}.", code="unknown_experiment")
    raise SpecError(
        f"there is no experiment {text!r}.", code="unknown_experiment", hint="`exp list` shows those there are."
    )


def newest_to_resume(connection: Connection, resume_key: str) -> str | None:
    """Return the newest experiment with the same name, arms and selection."""
    query = select(_EXPERIMENT.c.id).where(_EXPERIMENT.c.resume_key == resume_key).order_by(_EXPERIMENT.c.id.desc())
    found: str | None = connection.execute(query.limit(1)).scalar()
    return found


def resume_key(*, name: str, arms: Sequence[str], selection: object) -> str:
    """Return what a bare --resume finds an experiment by."""
    return content_hash([name, list(arms), selection])


def cases_of(connection: Connection, experiment: str) -> list[CaseRef]:
    """Return the cases of an experiment in plan order, without texts."""
    columns = (_CASE.c.position, _CASE.c.case_id, _CASE.c.input_hash, _CASE.c.label_hash, _CASE.c.kind)
    query = select(*columns).where(_CASE.c.experiment == experiment).order_by(_CASE.c.position)
    return [CaseRef(*row) for rows in connection.execute(query).partitions(PIECE) for row in rows]


def summaries_of(connection: Connection, experiments: Sequence[str]) -> dict[str, tuple[ArmSummary, ...]]:
    """Return the totals of several experiments, arms in their order."""
    columns = (
        _SUMMARY.c.experiment,
        _SUMMARY.c.arm,
        _SUMMARY.c.n_planned,
        *(_SUMMARY.c[name] for name in SUMMARY_COUNTS),
    )
    query = select(*columns).join(_ARM, (_ARM.c.experiment == _SUMMARY.c.experiment) & (_ARM.c.name == _SUMMARY.c.arm))
    found: dict[str, tuple[ArmSummary, ...]] = dict.fromkeys(experiments, ())
    for some in in_parts(experiments):
        ordered = query.where(_SUMMARY.c.experiment.in_(some)).order_by(_SUMMARY.c.experiment, _ARM.c.position)
        for experiment, *rest in connection.execute(ordered):
            found[experiment] += (ArmSummary(*rest),)
    return found


def set_state(engine: Engine, experiment: str, state: ExperimentState, *, fence: int | None = None) -> None:
    """Record how far an experiment is; its verdict, if it had one, is out of date with that.

    fence   the caller's fencing number; None for what needs no owner

    Raises ConflictError when the lease was lost, StoreError.
    """
    with engine.connect().execution_options(writes=True) as connection, connection.begin():
        if fence is not None:
            check_fence(connection, experiment, fence)
        connection.execute(_ended(experiment, state, None))


def set_verdict(
    engine: Engine, experiment: str, state: ExperimentState, *, fence: int, sha256: str, put: Callable[[], None]
) -> None:
    """Store a verdict by calling `put`, and record its checksum and how the experiment ended, under the fence.

    Nobody can take the experiment over between the check and the commit, so an owner that lost it replaces no verdict.
    Raises ConflictError when the lease was lost, StoreError.
    """
    with engine.connect().execution_options(writes=True) as connection, connection.begin():
        check_fence(connection, experiment, fence)
        put()
        connection.execute(_ended(experiment, state, sha256))


def _ended(experiment: str, state: ExperimentState, sha256: str | None) -> Update:
    # Finishing stamps the time once, however often it is said.
    ended = state in ("finished", "closed")
    finished_at = func.coalesce(_EXPERIMENT.c.finished_at, time.time()) if ended else None
    values = {"state": state, "finished_at": finished_at, "verdict_sha256": sha256}
    return update(_EXPERIMENT).where(_EXPERIMENT.c.id == experiment).values(values)


def _experiment_row(experiment: ExperimentRecord) -> dict[str, Any]:
    document: dict[str, object] = {
        "dataset": {"source": experiment.dataset.source, "n_cases": experiment.dataset.n_cases},
        "description": experiment.description,
        "graders": [
            {
                "name": grader.name,
                "kind": grader.kind,
                "version": grader.version,
                "spec": grader.spec,
                "parts": grader.parts,
            }
            for grader in experiment.graders
        ],
        "selection": experiment.selection,
        "tags": list(experiment.tags),
        "warnings": list(experiment.warnings),
    }
    return {
        "id": experiment.id,
        "name": as_column(experiment.name),
        "kind": experiment.kind,
        "state": experiment.state,
        "created_at": experiment.created_at,
        "seed": experiment.seed,
        "trials": experiment.trials,
        "n_cases": experiment.n_cases,
        "n_blocks": experiment.n_blocks,
        "slice_blocks": experiment.slice_blocks,
        "dataset_name": as_column(experiment.dataset.name),
        "dataset_hash": experiment.dataset.hash,
        "plan_hash": experiment.plan_hash,
        "resume_key": resume_key(
            name=experiment.name, arms=[arm.name for arm in experiment.arms], selection=experiment.selection
        ),
        "result_version": experiment.result_version,
        "format": FORMAT,
        "document": canonical_json(document),
    }


def _arm_row(experiment: str, position: int, arm: ArmRecord) -> dict[str, Any]:
    document = {"task": arm.task, "limits": arm.limits, "folder": arm.folder, "task_parts": arm.task_parts}
    return {
        "experiment": experiment,
        "name": arm.name,
        "position": position,
        "task_hash": arm.task_hash,
        "document": canonical_json(document),
    }


def _experiments(connection: Connection, rows: Sequence[Any]) -> list[ExperimentRecord]:
    arms: dict[str, list[ArmRecord]] = {row["id"]: [] for row in rows}
    found: list[Any] = []
    for some in in_parts(list(arms)):
        query = select(_ARM).where(_ARM.c.experiment.in_(some)).order_by(_ARM.c.experiment, _ARM.c.position)
        found += connection.execute(query).mappings()
    for arm in found:
        document = cast("dict[str, Any]", parse_canonical(arm["document"]))
        arms[arm["experiment"]].append(
            ArmRecord(
                name=arm["name"],
                task=document["task"],
                limits=document["limits"],
                folder=document["folder"],
                task_hash=arm["task_hash"],
                task_parts=document["task_parts"],
            )
        )
    return [_experiment(row, tuple(arms[row["id"]])) for row in rows]


def _experiment(row: Any, arms: tuple[ArmRecord, ...]) -> ExperimentRecord:
    document = cast("dict[str, Any]", parse_canonical(row["document"]))
    return ExperimentRecord(
        id=row["id"],
        name=row["name"],
        kind=cast("ExperimentKind", row["kind"]),
        state=cast("ExperimentState", row["state"]),
        created_at=row["created_at"],
        finished_at=row["finished_at"],
        seed=row["seed"],
        trials=row["trials"],
        dataset=DatasetRef(
            name=row["dataset_name"],
            hash=row["dataset_hash"],
            source=document["dataset"]["source"],
            n_cases=document["dataset"]["n_cases"],
        ),
        graders=tuple(GraderRecord(**grader) for grader in document["graders"]),
        arms=arms,
        selection=document["selection"],
        tags=tuple(document["tags"]),
        description=document["description"],
        n_cases=row["n_cases"],
        n_blocks=row["n_blocks"],
        slice_blocks=row["slice_blocks"],
        plan_hash=row["plan_hash"],
        result_version=row["result_version"],
        verdict_sha256=row["verdict_sha256"],
        warnings=tuple(document["warnings"]),
    )
