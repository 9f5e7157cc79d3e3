"""Opening the store: one engine a process, SQLite or Postgres, brought to this version's tables.

A newer store is refused by name, never read half. SQLite runs WAL with synchronous=FULL: a commit that returned
survives a power cut. Whatever the database itself raises leaves an engine of ours as StoreError, reads included.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import quote

from sqlalchemy import Connection, Engine, QueuePool, create_engine, event, inspect, make_url, text
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import ArgumentError, DBAPIError

from fairtrial.errors import SpecError, StoreError

T = TypeVar("T")

HEAD: Final = "0002"
"""Newest migration; the tests check it against the migrations folder."""

BUSY_TIMEOUT_MS: Final = 60_000
"""How long a writer waits for another process's write lock before it gives up."""

_SQLITE: Final = "sqlite:///"

MOST_IN_QUERY: Final = 10_000

PIECE: Final = 2_000
"""Rows of a long result in memory at a time. Fewer take longer, more take no less time."""

# libpq: a server that cannot be reached, or goes away in the middle of a call, must not hold a run for hours.
_POSTGRES_ARGS: Final = {
    "connect_timeout": 10,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": BUSY_TIMEOUT_MS,
}

_ALONE: Final = 0x6661_6972
"""Number of the Postgres advisory lock of lock_alone."""


def open_database(url: str, *, migrate: bool = True) -> Engine:
    """Return an engine on the store at `url` (sqlite:///path or postgresql+psycopg://…).

    migrate     bring an empty or older store up to date; without it an empty store stays empty

    Raises SpecError for a URL that names no database, StoreError when the store is newer than this program or does not
    answer.
    """
    if url.startswith(_SQLITE):
        _refuse_cut(Path(url.removeprefix(_SQLITE)))
    engine = _engine(url)
    with engine.connect() as connection:
        found = _revision(connection)
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
    return f"{_SQLITE}{path}"


def lock_alone(connection: Connection) -> None:
    """Wait until no other transaction that called this is open, so that what is read next stays true until the commit.

    On SQLite a writing transaction is alone from its start.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(text("select pg_advisory_xact_lock(:key)"), {"key": _ALONE})


def in_parts(values: Sequence[T]) -> Iterator[Sequence[T]]:
    """Yield `values` in pieces that fit into one query: SQLite takes 32,766 of them, Postgres 65,535."""
    for start in range(0, len(values), MOST_IN_QUERY):
        yield values[start : start + MOST_IN_QUERY]


def store_error(error: DBAPIError, *, where: str = "the store") -> StoreError:
    """Return what a database error means to a user, without its SQL and its values. `where` names the store."""
    # Both drivers name their errors; the texts are for people and change.
    name = getattr(error.orig, "sqlite_errorname", None) or getattr(error.orig, "sqlstate", None) or ""
    # SQLITE_IOERR_SHM…: the disk has no room for the index that every reader and writer shares.
    if name in ("SQLITE_FULL", "SQLITE_IOERR_SHMSIZE", "SQLITE_IOERR_SHMMAP", "53100"):
        return StoreError(f"no space left for {where}.", code="no_space", hint="Make room, then resume the run.")
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")) or name == "55P03":
        return StoreError(
            f"another process has held the write lock of {where} for a minute.",
            hint="Wait for it or end it, then resume the run.",
        )
    if name.startswith("SQLITE_READONLY") or name == "25006":
        return StoreError(f"{where} is read-only.", hint="Make it writable, then resume the run.")
    if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
        return StoreError(
            f"{where} is damaged ({error.orig}).", code="damaged_record", hint="Restore the file from a copy."
        )
    lines = str(error.orig).strip().splitlines() or [type(error.orig).__name__]
    return StoreError(f"{where} did not answer: {lines[0]}.", hint="Mend it, then resume the run.")


def _engine(url: str) -> Engine:
    if url.startswith(_SQLITE):
        path = _sqlite_path(url)
        engine, where = _sqlite_engine(path), f"the store {path}"
    else:
        engine, where = _postgres_engine(url), "the store"

    @event.listens_for(engine, "handle_error")
    def _say_what_it_means(context: ExceptionContext) -> None:
        # The pool's own ping has to see the driver's error: it tells a lost connection, which is opened again.
        if isinstance(context.sqlalchemy_exception, DBAPIError) and not context.is_pre_ping:
            raise store_error(context.sqlalchemy_exception, where=where)

    return engine


def _sqlite_path(url: str) -> Path:
    name = url.removeprefix(_SQLITE)
    if name in ("", ":memory:"):
        raise SpecError(
            "a database in memory forgets everything when the command ends.",
            code="bad_usage",
            hint="Write sqlite:///path/to/file.db, or leave it out: then it lies in the project's state folder.",
            place="FAIRTRIAL_DATABASE_URL",
        )
    return Path(name)


def _sqlite_engine(path: Path) -> Engine:
    # The file is named by URI here: in the URL of an engine ? and % have meanings of their own.
    target = f"file:{quote(os.fsencode(path))}{_how_to_read(path)}"

    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(
            target,
            uri=True,
            timeout=BUSY_TIMEOUT_MS / 1000,
            # The driver's own BEGIN comes too late for BEGIN IMMEDIATE, so transactions are begun below.
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            _use_wal(connection)
            connection.execute("PRAGMA synchronous=FULL")
        except BaseException:
            connection.close()
            raise
        return connection

    engine = create_engine("sqlite://", creator=connect, poolclass=QueuePool)

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get("writes", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _refuse_cut(path: Path) -> None:
    """Raise StoreError for a file that ends before its last page: SQLite would read the rest as zeros."""
    if not path.is_file():
        return
    waiting = path.with_name(path.name + "-wal")
    # Pages that wait in the log may be the ones that are not in the file yet.
    if waiting.exists() and waiting.stat().st_size:
        return
    with path.open("rb") as file:
        header = file.read(100)
    # sqlite.org/fileformat2.html, 1.3: page size at 16, number of pages at 28. Another header is for SQLite to refuse.
    if len(header) < 100 or not header.startswith(b"SQLite format 3\0"):
        return
    page = int.from_bytes(header[16:18], "big")
    whole = (65536 if page == 1 else page) * int.from_bytes(header[28:32], "big")
    size = path.stat().st_size
    if size < whole:
        raise StoreError(
            f"the store {path} is cut off: {size:,} of {whole:,} bytes are there.",
            code="damaged_record",
            hint="Restore it from a copy.",
        )


def _how_to_read(path: Path) -> str:
    """Return the end of the URI: empty but for a store on a read-only disk, which is read without its helper files."""
    if not path.exists() or not os.statvfs(path).f_flag & os.ST_RDONLY:
        return ""
    waiting = path.with_name(path.name + "-wal")
    # `immutable` looks at no WAL file, so commits that wait in one would be missing.
    return "?mode=ro" if waiting.exists() and waiting.stat().st_size else "?immutable=1"


def _use_wal(connection: sqlite3.Connection) -> None:
    """Switch the file to WAL; a file that is in WAL already is only read."""
    deadline = time.monotonic() + BUSY_TIMEOUT_MS / 1000
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            # The one statement that the busy timeout does not cover: two processes open a new store at once.
            if not error.sqlite_errorname.startswith("SQLITE_BUSY") or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _postgres_engine(url: str) -> Engine:
    try:
        parsed = make_url(url)
        if parsed.get_backend_name() != "postgresql":
            raise ArgumentError(parsed.get_backend_name())
        # What is read in one transaction is of one moment, as on SQLite: totals and the rows they count.
        engine = create_engine(
            parsed, pool_pre_ping=True, connect_args=_POSTGRES_ARGS, isolation_level="REPEATABLE READ"
        )
    except ImportError as error:
        raise SpecError(
            f"the Postgres driver is not installed ({error.name}).",
            code="bad_usage",
            hint='pip install "psycopg[binary]"',
            place="FAIRTRIAL_DATABASE_URL",
        ) from error
    except (ArgumentError, ValueError):
        # The URL may hold a password, and the parser's message the URL.
        raise SpecError(
            "that is no URL of a database.",
            code="bad_usage",
            hint="Write sqlite:///path/to/file.db or postgresql+psycopg://user@host/name.",
            place="FAIRTRIAL_DATABASE_URL",
        ) from None

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        if connection.get_execution_options().get("writes", False):
            # Writers wait for each other and then see what the other wrote, instead of failing over it.
            connection.exec_driver_sql(
                f"SET TRANSACTION ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = {BUSY_TIMEOUT_MS}"
            )

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
    # A percent sign begins a reference to another option.
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    with engine.connect().execution_options(writes=True) as connection, connection.begin():
        # Two processes may open a new store at once; the second waits for the first and finds the work done.
        lock_alone(connection)
        if _revision(connection) == HEAD:
            return
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
