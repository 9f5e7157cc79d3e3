"""The end of a run or comparison: its verdict computed from the journal and stored. No Prefect."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final, TypeAlias

from sqlalchemy import Connection, Engine

from fairtrial.errors import StoreError
from fairtrial.hashing import canonical_json, content_hash, sha256_hex
from fairtrial.records.experiment import ArmRecord, ExperimentRecord, ExperimentState
from fairtrial.records.verdict import (
    ComparisonBody,
    ComparisonDocument,
    Meta,
    RunDocument,
    TakenBackRecord,
    body_bytes,
    to_json,
)
from fairtrial.reports.comparison import comparison_markdown
from fairtrial.reports.run import run_markdown
from fairtrial.store.experiments import get_experiment, set_verdict
from fairtrial.store.history import count_taken_back
from fairtrial.store.looks import take_look
from fairtrial.store.objects import ObjectStore
from fairtrial.store.trials import cost_of, count_cut_off, parts_of, reserved_of
from fairtrial.store.verdicts import stored_run, verdict_key
from tasks.arrays import load_side
from tasks.compare import compare_with_first, sum_up_run

COMPARISON_OPTIONS: Final = {"format": 1, "method": "expanded", "level": 0.95}


Named: TypeAlias = tuple[ExperimentRecord, ArmRecord]


@dataclass(frozen=True, slots=True)
class Published:
    """A comparison's verdict, and in words what of it could not be stored, if anything."""

    document: ComparisonDocument
    unstored: str | None


def publish_run(
    engine: Engine, objects: ObjectStore, experiment: str, *, fence: int, closed: bool = False
) -> RunDocument:
    """Compute a run's verdict, store verdict.json and report.md with it, record how it ended, and return the verdict.

    fence   the owner's fencing number: one that has lost its lease records nothing
    closed  end a run that has trials left with what it has

    Can be repeated. Raises ConflictError, StoreError.
    """
    with engine.connect() as connection:
        record = get_experiment(connection, experiment)
        body = sum_up_run(connection, record)
        state: ExperimentState = (
            "finished" if all(side.complete for side in body.arms) else "closed" if closed else "partial"
        )
        document = RunDocument(body=body, meta=_run_meta(connection, replace(record, state=state)))
    stored = canonical_json(to_json(document))
    report = run_markdown(document.body, document.meta).encode()

    def put() -> None:
        objects.put(verdict_key(experiment), stored)
        objects.put(f"experiments/{experiment}/report.md", report)

    set_verdict(engine, experiment, state, fence=fence, sha256=sha256_hex(stored), put=put)
    return document


def read_run(engine: Engine, objects: ObjectStore, experiment: str) -> RunDocument:
    """Return a run's verdict as it was stored; computed again, and stored nowhere, when it is not there or damaged.

    Raises StoreError.
    """
    with engine.connect() as connection:
        record = get_experiment(connection, experiment)
        stored = stored_run(objects, record)
        if stored is not None:
            return stored
        return RunDocument(body=sum_up_run(connection, record), meta=_run_meta(connection, record))


def publish_comparisons(
    engine: Engine, objects: ObjectStore, arms: Sequence[Named], *, labels: Sequence[str]
) -> list[Published]:
    """Compare each further arm with the first, store the verdicts and looks, and return them in order.

    A store that cannot be written does not keep an answer back: `unstored` then says so.
    """
    with engine.connect() as connection:
        sides = [load_side(connection, *arm, label=label) for arm, label in zip(arms, labels, strict=True)]
        bodies = compare_with_first(connection, sides)
    return [
        _publish(engine, objects, arms[0], arm, body, family=len(bodies))
        for arm, body in zip(arms[1:], bodies, strict=True)
    ]


def _publish(
    engine: Engine, objects: ObjectStore, a: Named, b: Named, body: ComparisonBody, *, family: int
) -> Published:
    names = [f"{experiment.id}/{arm.name}" for experiment, arm in (a, b)]
    digest = content_hash([*names, {**COMPARISON_OPTIONS, "family": family}])
    look, unstored = None, None
    try:
        look = take_look(engine, digest, data_hash=sha256_hex(body_bytes(body)), n_pairs=body.n_pairs)
    except StoreError as error:
        unstored = f"this look could not be counted: {error}"
    document = ComparisonDocument(
        body=body,
        meta=Meta(
            experiments=(a[0].id, b[0].id),
            names=(a[0].name, b[0].name),
            dataset=a[0].dataset.name,
            created_at=_now(),
            look=look,
        ),
    )
    try:
        objects.put(f"comparisons/{digest}/verdict.json", canonical_json(to_json(document)))
        objects.put(f"comparisons/{digest}/report.md", (comparison_markdown(body, document.meta) + "\n").encode())
    except StoreError as error:
        unstored = f"the verdict was not stored: {error}"
    return Published(document, unstored)


def _run_meta(connection: Connection, record: ExperimentRecord) -> Meta:
    parts = parts_of(connection, record.id)
    cost, n_with_cost = cost_of(connection, record.id)
    reserved = reserved_of(connection, record.id)
    return Meta(
        experiments=(record.id,),
        names=(record.name,),
        dataset=record.dataset.name,
        created_at=_now(),
        duration_s=sum(part.finished_at - part.started_at for part in parts) if parts else None,
        parts=max(len(parts), 1),
        repeated_calls=count_cut_off(connection, record.id),
        taken_back=tuple(
            TakenBackRecord(why=each.why, outcome=each.outcome, n=each.n)
            for each in count_taken_back(connection, record.id)
        ),
        cost_usd=str(cost) if n_with_cost else None,
        n_with_cost=n_with_cost,
        reserved_usd=None if reserved is None else str(reserved),
        state=record.state,
    )


def _now() -> str:
    return datetime.fromtimestamp(time.time(), UTC).isoformat(timespec="seconds")
