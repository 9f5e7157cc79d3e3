"""Canonical JSON and every hash made of it.

Hashes are over canonical JSON, never over a stored column: a database may reorder keys.
"""

from __future__ import annotations

import hashlib
import json
from typing import Final, TypeAlias

from fairtrial.errors import StoreError

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"


# Made once: json.dumps with these arguments makes one a call, which costs more than a small case does.
_ENCODER: Final = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def canonical_json(value: object) -> bytes:
    """Return the one spelling of a JSON value: sorted keys, UTF-8, no spaces, exact integers, shortest floats.

    No Unicode normalisation, and 1 differs from 1.0. Half surrogates keep their three-byte form, so that any text a
    model can produce has a hash. Keys have to be texts: a number as a key would be written as one.

    Raises ValueError for NaN and the infinities, TypeError for what is not JSON.
    """
    text = _ENCODER.encode(value)
    return text.encode("utf-8", "surrogatepass")


def sha256_hex(data: bytes) -> str:
    """Return the 64 hex digits of the SHA-256 of `data`."""
    return hashlib.sha256(data).hexdigest()


def content_hash(value: object) -> str:
    """Return the SHA-256 of the canonical JSON of `value`."""
    return sha256_hex(canonical_json(value))


def parse_canonical(data: bytes) -> JsonValue:
    """Return the value that canonical_json wrote. For our own stored documents only: outside text has a strict reader.

    Raises StoreError (damaged_record) for bytes that canonical_json cannot have written.
    """
    try:
        value: JsonValue = json.loads(data.decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError) as error:
        raise StoreError(
            "a stored document is damaged: it is no JSON any more.",
            code="damaged_record",
            hint="Restore the store from a copy.",
        ) from error
    return value
