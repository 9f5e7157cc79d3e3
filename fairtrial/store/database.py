"""Opening the store: one engine a process, SQLite or Postgres, brought to this version's tables.

A newer store is refused by name, never read half. SQLite runs WAL with synchronous=FULL: a commit that returned
survives a power cut.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, Engine, create_engine, event, inspect, text
from sqlalchemy.exc import DBAPIError, OperationalError

from fairtrial.errors import StoreError

HEAD: Final = "0001"
"""Newest migration; the tests check it against the migrations folder."""

BUSY_TIMEOUT_MS: Final = 60_000
"""How long a writer waits for another process's write lock on SQLite before it gives up."""


def open_database(url: str, *, migrate: bool = True) -> Engine:
    """Return an engine on the store at `url` (sqlite:///path or postgresql+psycopg://…).

    migrate     bring an empty or older store up to date; without it an empty store stays empty

    Raises StoreError when the store is newer than this program or does not answer.
    """
    engine = _engine(url)
    try:
        with engine.connect() as connection:
            found = _revision(connection)
    except DBAPIError as error:
        raise store_error(error) from error
    if found == HEAD:
        return engine
    if found is not None and found > HEAD:
        raise StoreError(
            f"the store has format {found}, this program knows formats up to {HEAD}.",
            code="store_newer",
            hint="Upgrade fairtrial, or point FAIRTRIAL_HOME at another folder.",
        )
    if migrate:
        _upgrade(engine)
    return engine


def sqlite_url(path: Path) -> str:
    """Return the database URL of a SQLite file."""
    return f"sqlite:///{path}"


def store_error(error: DBAPIError) -> StoreError:
    """Return what a database error means to a user, without its SQL."""
    message = str(error.orig)
    if "disk is full" in message or "No space left" in message:
        return StoreError("no space left for the store.", code="no_space", hint="Make room, then resume the run.")
    if "locked" in message:
        return StoreError(
            "another process has held the store's write lock for a minute.",
            hint="Wait for it or end it, then resume the run.",
        )
    return StoreError(f"the store did not answer: {message.splitlines()[0]}.", hint="Mend it, then resume the run.")


def _engine(url: str) -> Engine:
    if not url.startswith("sqlite"):
        return create_engine(url, pool_pre_ping=True)
    engine = create_engine(url, connect_args={"timeout": BUSY_TIMEOUT_MS / 1000})

    @event.listens_for(engine, "connect")
    def _set_up(connection: Any, _record: Any) -> None:
        # The driver's own BEGIN comes too late for BEGIN IMMEDIATE, so transactions are begun below.
        connection.isolation_level = None
        cursor = connection.cursor()
        cursor.execute("PRAGMA journal_mode=WAL")
        cursor.execute("PRAGMA synchronous=FULL")
        cursor.close()

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get("writes", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    found: str | None = connection.execute(text("select version_num from alembic_version")).scalar()
    return found


def _upgrade(engine: Engine) -> None:
    # Alembic takes a quarter of a second to import and is needed once a store.
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    try:
        with engine.connect().execution_options(writes=True) as connection, connection.begin():
            # Two processes may open a new store at once; the second waits for the lock and finds the work done.
            if _revision(connection) == HEAD:
                return
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
    except OperationalError as error:
        raise store_error(error) from error
