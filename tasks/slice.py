"""The one Prefect task that runs trials: it wraps the engine's slice.

Its stored result is one short string, counts and a digest, under a key of ours. The journal is the record: a result
that disagrees with it is made anew.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from prefect import task
from prefect.cache_policies import NO_CACHE, CacheKeyFnPolicy
from prefect.context import TaskRunContext
from prefect.filesystems import WritableFileSystem
from prefect.serializers import JSONSerializer

from fairtrial.engine.loop import SliceResult, run_slice
from fairtrial.engine.open import OpenRun
from fairtrial.hashing import canonical_json, content_hash

SERIALIZER: Final = JSONSerializer(object_encoder=None, object_decoder=None)
"""Without hooks: the default decoder runs code that a stored value names."""

OPEN_RUNS: Final[dict[str, OpenRun]] = {}
"""Runs this process owns, by experiment id. A task's parameters are small and hold no secrets, so it looks here."""


class StoppedEarly(Exception):
    """The run was asked to stop before this slice was whole; what it finished is in the journal."""


def slice_key(_context: TaskRunContext | None, parameters: dict[str, Any]) -> str:
    """Return the key of a slice's result: 64 hex digits, equal in every process that runs the same plan."""
    return content_hash(
        [
            "slice",
            parameters["experiment"],
            parameters["plan_hash"],
            parameters["number"],
            parameters["result_version"],
        ]
    )


@task(
    name="slice",
    task_run_name="slice {label}",
    persist_result=True,
    result_serializer=SERIALIZER,
    cache_policy=CacheKeyFnPolicy(cache_key_fn=slice_key),
    cache_result_in_memory=False,
    retries=0,
)
async def slice_task(experiment: str, number: int, label: str, plan_hash: str, result_version: int) -> str:
    """Run what one slice owes; returns its counts and digest as one JSON text."""
    result = await run_slice(OPEN_RUNS[experiment].loop, number)
    if not result.complete:
        raise StoppedEarly(f"slice {label} was stopped; the journal has what it finished")
    return slice_text(result)


def slice_text(result: SliceResult) -> str:
    """Return the value that Prefect stores for a finished slice."""
    return canonical_json({"counts": result.counts, "digest": result.digest}).decode()


def stored_under(place: Path | WritableFileSystem | None) -> Any:
    """Return the slice task with its results kept in a folder or by a saved block; None keeps none of them."""
    if place is None:
        return slice_task.with_options(persist_result=False, cache_policy=NO_CACHE)
    return slice_task.with_options(result_storage=place)
