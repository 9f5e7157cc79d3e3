"""Stored verdicts: read back as they were written, without computing anything.

A verdict is a picture of the journal: one that does not match its checksum is as good as none.
"""

from __future__ import annotations

from typing import Any, Final, cast

from fairtrial.errors import StoreError
from fairtrial.hashing import parse_canonical, sha256_hex
from fairtrial.records.experiment import ExperimentRecord
from fairtrial.records.verdict import RUN_SCHEMA, RunDocument
from fairtrial.store.objects import ObjectStore
from fairtrial.store.quarantine import UNREADABLE

_HINT: Final = "A newer fairtrial wrote it; upgrade to read it."


def verdict_key(experiment: str) -> str:
    """Return the key of a run's verdict in the object store."""
    return f"experiments/{experiment}/verdict.json"


def stored_run(objects: ObjectStore, experiment: ExperimentRecord) -> RunDocument | None:
    """Return a run's stored verdict; None when none is stored, or not the one that its record names.

    The journal gives a lost or damaged verdict again. Raises StoreError (store_newer).
    """
    stored = _read(objects, verdict_key(experiment.id))
    if stored is None or experiment.verdict_sha256 not in (None, sha256_hex(stored)):
        return None
    document = cast("dict[str, Any]", parse_canonical(stored))
    if document["schema"] != RUN_SCHEMA:
        raise StoreError(
            f"the verdict of {experiment.id} has the form {document['schema']}.", code="store_newer", hint=_HINT
        )
    return RunDocument.model_validate({"body": document["body"], "meta": document["meta"]})


def _read(objects: ObjectStore, key: str) -> bytes | None:
    try:
        return objects.get(key)
    except StoreError as error:
        if error.code not in UNREADABLE:
            raise
        return None
