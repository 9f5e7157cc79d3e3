"""Stored answers that cannot be read any more: found, moved aside, and taken back so that their trials run again.

An object store that does not answer is no damage: that is raised, and stops the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Engine

from fairtrial.errors import StoreError
from fairtrial.hashing import content_hash, sha256_hex
from fairtrial.store.history import Key, take_back_damaged
from fairtrial.store.objects import ObjectStore
from fairtrial.store.trials import StoredOutput, outputs_after

UNREADABLE: Final = ("damaged_record", "missing_object")
"""Codes of what is wrong with one record, and with nothing else of the store."""

PAGE: Final = 500


@dataclass(frozen=True, slots=True)
class Damaged:
    """A stored answer that cannot be read. missing: its object is not there at all."""

    output: StoredOutput
    missing: bool

    @property
    def what(self) -> str:
        """Return what is wrong with it, in words that go after the case's name."""
        return "is not in the object store" if self.missing else "does not match its checksum"


def find_damaged(
    engine: Engine,
    objects: ObjectStore,
    experiment: str,
    *,
    before_fence: int | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> list[Damaged]:
    """Return the answers that are not what was stored; ends early when told to stop.

    before_fence    only answers of owners before this one; None for all

    Raises StoreError when the store does not answer.
    """
    found = []
    whole: set[str] = set()
    for output in _outputs(engine, experiment, before_fence):
        if stop():
            break
        code = _damage(output, objects, whole)
        if code is not None:
            found.append(Damaged(output, missing=code == "missing_object"))
    return found


def set_aside(engine: Engine, objects: ObjectStore, experiment: str, fence: int, damaged: Sequence[Damaged]) -> None:
    """Move what is left of these answers into the quarantine and take their results back, so that they run again.

    Raises ConflictError when the lease was lost, StoreError.
    """
    for digest in sorted({each.output.sha256 for each in damaged if each.output.inline is None and not each.missing}):
        objects.set_aside(f"blobs/{digest}")
    for each in damaged:
        if each.output.inline:
            name = content_hash([*each.output.key, each.output.attempt])
            objects.put(f"quarantine/{experiment}-{name}", each.output.inline)
    take_back_damaged(engine, experiment, fence, [each.output.key for each in damaged])


def said(damaged: Damaged) -> str:
    """Return one line for people: which answer, what is wrong with it, what happens to it."""
    arm, case, repetition = damaged.output.key
    return (
        f"damaged: the answer to case {case} in {arm} (trial {repetition}) {damaged.what}; it is set aside under "
        "quarantine/ and asked for again"
    )


def _outputs(engine: Engine, experiment: str, before_fence: int | None) -> Iterator[StoredOutput]:
    after: Key | None = None
    while True:
        # A connection a page: a reader that stays open for minutes would keep SQLite's log from being folded back.
        with engine.connect() as connection:
            page = outputs_after(connection, experiment, before_fence=before_fence, after=after, limit=PAGE)
        yield from page
        if len(page) < PAGE:
            return
        after = page[-1].key


def _damage(output: StoredOutput, objects: ObjectStore, whole: set[str]) -> str | None:
    if output.inline is not None:
        return None if sha256_hex(output.inline) == output.sha256 else "damaged_record"
    if output.sha256 in whole:
        return None
    try:
        objects.get_blob(output.sha256)
    except StoreError as error:
        if error.code not in UNREADABLE:
            raise
        return error.code
    whole.add(output.sha256)
    return None
