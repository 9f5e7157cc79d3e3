"""Where Prefect keeps the results of slices: with the project's objects, in their folder or their bucket.

A bucket is named to Prefect by a block that is saved on the run's server; the keys to it come by environment and are
never in the block. A stored result says itself what decodes it, and Prefect believes it: whoever can write to the store
could name a program. So no result is shown to Prefect before it was looked at here.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any, Final

import httpx
from prefect.exceptions import PrefectException
from prefect.filesystems import RemoteFileSystem

from fairtrial.engine.open import OpenRun
from fairtrial.errors import InputError
from fairtrial.hashing import sha256_hex
from fairtrial.spec.strict_json import parse_json
from fairtrial.store.objects import ObjectStore
from tasks.slice import SERIALIZER, slice_key

FOLDER: Final = "prefect"

SAVE_S: Final = 10.0
"""Longest wait for the server to take the block; without one the run goes on, and a resume shows nothing as cached."""

# What is written is a few hundred bytes. Tries multiply: s3fs makes five of each of these.
_CLIENT: Final[dict[str, Any]] = {
    "use_listings_cache": False,
    "config_kwargs": {"connect_timeout": 5, "read_timeout": 10, "retries": {"total_max_attempts": 1}},
}

_LOG: Final = logging.getLogger("fairtrial.ui")


async def result_place(run: OpenRun) -> Path | RemoteFileSystem | None:
    """Return where Prefect is to keep the results of this run's slices; None when its server did not take the place."""
    folder = run.objects.folder
    if folder is not None:
        return folder / FOLDER
    block = RemoteFileSystem(basepath=f"{run.objects.url}/{FOLDER}", settings=_CLIENT)
    try:
        await asyncio.wait_for(block.asave(block_name(run.objects.url), overwrite=True), SAVE_S)
    except (TimeoutError, httpx.HTTPError, PrefectException) as error:
        _LOG.debug("the Prefect server did not take the storage block: %s", type(error).__name__)
        return None
    return block


def block_name(url: str) -> str:
    """Return the name of the block for a bucket: the same in every process, and one a bucket."""
    return f"fairtrial-{sha256_hex(url.encode())[:16]}"


async def may_be_read(objects: ObjectStore, parameters: dict[str, Any]) -> bool:
    """Return whether Prefect may be shown what is stored for a slice: our own record, or none. Raises StoreError."""
    return await asyncio.to_thread(_may_be_read, objects, f"{FOLDER}/{slice_key(None, parameters)}")


def _may_be_read(objects: ObjectStore, key: str) -> bool:
    stored = objects.get(key)
    if stored is None:
        return True
    try:
        record = parse_json(stored, place=key)
    except InputError:
        return False
    metadata = record.get("metadata") if isinstance(record, dict) else None
    return isinstance(metadata, dict) and metadata.get("serializer") == SERIALIZER.model_dump()
