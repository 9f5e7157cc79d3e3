"""Registered datasets: a name, its versions, and the content each had.

A version is added only when the content differs from the newest one; content is kept by its hash and shared with runs.
"""

from __future__ import annotations

import re
import time
from dataclasses import asdict, dataclass
from typing import Final

from sqlalchemy import Connection, Engine, func, insert, select

from fairtrial.errors import SpecError
from fairtrial.store.database import lock_alone
from fairtrial.store.tables import DatasetRow, as_column, table_of

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,79}")

_DATASET = table_of(DatasetRow)


@dataclass(frozen=True, slots=True)
class DatasetVersion:
    """One version of a registered dataset. created_at is in seconds since the epoch."""

    name: str
    version: int
    hash: str
    n_cases: int
    source: str
    created_at: float


def add_dataset(engine: Engine, name: str, *, digest: str, n_cases: int, source: str) -> tuple[DatasetVersion, bool]:
    """Register content under a name and return its version, and whether that version is new.

    Raises SpecError for a name that could be read as a path, StoreError.
    """
    if not NAME.fullmatch(name):
        raise SpecError(
            f"{name!r} cannot name a dataset.",
            code="bad_usage",
            hint="Use letters, digits, _ and -, at most 80 of them; a dot or slash would make it a path.",
        )
    with engine.connect().execution_options(writes=True) as connection, connection.begin():
        lock_alone(connection)
        newest = _newest(connection, name)
        if newest is not None and newest.hash == digest:
            return newest, False
        version = DatasetVersion(
            name=name,
            version=1 if newest is None else newest.version + 1,
            hash=digest,
            n_cases=n_cases,
            source=as_column(source),
            created_at=time.time(),
        )
        connection.execute(insert(_DATASET).values(**asdict(version)))
        return version, True


def get_dataset(connection: Connection, text: str) -> DatasetVersion:
    """Return the dataset that `name` or `name@version` names. Raises SpecError (unknown_dataset) with what there is."""
    name, at, number = text.partition("@")
    # No version has ten digits, and a database has no room for more.
    if at and not (number.isascii() and number.isdecimal() and len(number) < 10):
        raise SpecError(f"{text!r} names no version.", code="unknown_dataset", hint=f"Write {name}@1.")
    found = (
        _newest(connection, name)
        if not number
        else _first(connection, select(*_COLUMNS).where(_DATASET.c.name == name, _DATASET.c.version == int(number)))
    )
    if found is None:
        names = connection.execute(select(_DATASET.c.name).distinct().order_by(_DATASET.c.name)).scalars().all()
        known = f"Registered: {', '.join(names[:20])}." if names else "None is registered yet."
        raise SpecError(
            f"there is no dataset {text!r}.",
            code="unknown_dataset",
            hint=f"{known} A path needs a slash or a suffix: ./{name}.jsonl",
        )
    return found


def list_datasets(connection: Connection) -> list[DatasetVersion]:
    """Return the newest version of every registered dataset, by name."""
    newest = select(_DATASET.c.name, func.max(_DATASET.c.version).label("version")).group_by(_DATASET.c.name).subquery()
    query = (
        select(*_COLUMNS)
        .join(newest, (newest.c.name == _DATASET.c.name) & (newest.c.version == _DATASET.c.version))
        .order_by(_DATASET.c.name)
    )
    return [DatasetVersion(*row) for row in connection.execute(query)]


def versions_of(connection: Connection, name: str) -> list[DatasetVersion]:
    """Return every version of one dataset, newest first."""
    query = select(*_COLUMNS).where(_DATASET.c.name == name).order_by(_DATASET.c.version.desc())
    return [DatasetVersion(*row) for row in connection.execute(query)]


_COLUMNS = tuple(_DATASET.c[name] for name in ("name", "version", "hash", "n_cases", "source", "created_at"))


def _newest(connection: Connection, name: str) -> DatasetVersion | None:
    query = select(*_COLUMNS).where(_DATASET.c.name == name).order_by(_DATASET.c.version.desc()).limit(1)
    return _first(connection, query)


def _first(connection: Connection, query: object) -> DatasetVersion | None:
    row = connection.execute(query).first()  # type: ignore[call-overload]
    return None if row is None else DatasetVersion(*row)
