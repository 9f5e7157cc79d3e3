"""The plan of a stored experiment: read back, and drawn again only when what is stored is lost or damaged.

A plan that is drawn again has to have the stored hash: a resume never runs another plan than the one it began.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fairtrial.engine.create import plan_key
from fairtrial.engine.plan import Plan, dump_plan, load_plan, plan_blocks, plan_hash
from fairtrial.errors import StoreError
from fairtrial.hashing import parse_canonical
from fairtrial.records.experiment import ExperimentRecord
from fairtrial.store.objects import ObjectStore
from fairtrial.store.quarantine import UNREADABLE


@dataclass(frozen=True, slots=True)
class StoredPlan:
    """A plan, and its bytes when they have to be stored again."""

    plan: Plan
    to_store: bytes | None


def find_plan(objects: ObjectStore, record: ExperimentRecord, case_ids: Sequence[str]) -> StoredPlan:
    """Return the plan of an experiment; nothing is written.

    Raises StoreError: missing_object or damaged_record when it cannot be drawn again either.
    """
    try:
        return StoredPlan(read_plan(objects, record), None)
    except StoreError as error:
        if error.code not in UNREADABLE:
            raise
        plan = plan_blocks(
            case_ids,
            n_arms=len(record.arms),
            trials=record.trials,
            seed=record.seed,
            slice_blocks=record.slice_blocks,
        )
        dumped = dump_plan(plan)
        if plan_hash(dumped) != record.plan_hash:
            raise
        return StoredPlan(plan, dumped)


def read_plan(objects: ObjectStore, record: ExperimentRecord) -> Plan:
    """Return the stored plan of an experiment, checked. Raises StoreError (missing_object, damaged_record)."""
    dumped = objects.get(plan_key(record.id))
    if dumped is None:
        raise StoreError(f"the plan of {record.id} is not in {objects.url}.", code="missing_object")
    if plan_hash(dumped) != record.plan_hash:
        raise StoreError(f"the plan of {record.id} does not match its checksum.", code="damaged_record")
    return load_plan(parse_canonical(dumped))


def store_again(objects: ObjectStore, experiment: str, dumped: bytes) -> str:
    """Put a plan back whole, whatever lies in its place set aside; return a line for people. Raises StoreError."""
    key = plan_key(experiment)
    try:
        aside = f" (the damaged one is {objects.set_aside(key)})"
    except StoreError as error:
        if error.code != "missing_object":
            raise
        aside = ""
    objects.put(key, dumped)
    return f"the stored plan could not be read; it was drawn again from the seed, to the same hash{aside}"
