"""Stored verdicts: read back as they were written, without computing anything."""

from __future__ import annotations

from typing import Any, Final, cast

from fairtrial.errors import StoreError
from fairtrial.hashing import parse_canonical
from fairtrial.records.verdict import RUN_SCHEMA, RunDocument
from fairtrial.store.objects import ObjectStore

_HINT: Final = "A newer fairtrial wrote it; upgrade to read it."


def verdict_key(experiment: str) -> str:
    """Return the key of a run's verdict in the object store."""
    return f"experiments/{experiment}/verdict.json"


def stored_run(objects: ObjectStore, experiment: str) -> RunDocument | None:
    """Return a run's stored verdict, None when none is stored yet. Raises StoreError (store_newer)."""
    stored = objects.get(verdict_key(experiment))
    if stored is None:
        return None
    document = cast("dict[str, Any]", parse_canonical(stored))
    if document["schema"] != RUN_SCHEMA:
        raise StoreError(
            f"the verdict of {experiment} has the form {document['schema']}.", code="store_newer", hint=_HINT
        )
    return RunDocument.model_validate({"body": document["body"], "meta": document["meta"]})
