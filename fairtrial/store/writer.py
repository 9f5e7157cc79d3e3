"""The one writer of a running experiment: a thread that groups what is waiting into one commit.

A write is done when its commit returned, never before. When idle a write goes out at once; under load everything that
came in during the last commit shares the next one.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import Connection, Engine, Table, bindparam, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError

from fairtrial.errors import FairtrialError
from fairtrial.store.database import store_error
from fairtrial.store.lease import HEARTBEAT_S, beat, check_fence, release
from fairtrial.store.tables import AttemptRow, GradeRow, OutputRow, SummaryRow, TrialRow, table_of

Row = dict[str, Any]

# Parents first; the order inside a commit is always the same.
TABLES: Final = tuple(table_of(model) for model in (AttemptRow, TrialRow, OutputRow, GradeRow))
_SUMMARY: Final = table_of(SummaryRow)
COUNTS: Final = ("n_done", "n_graded", "n_passed", "n_agent_failures", "n_infra_losses", "n_ungraded")


@dataclass(slots=True)
class Write:
    """Rows that belong in one commit. counts: (arm, column of the summary) -> how much it grows."""

    rows: dict[str, list[Row]] = field(default_factory=dict)
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)


@dataclass(slots=True)
class _Waiting:
    write: Write
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[None]


class Writer:
    """Commits the writes of one experiment under its lease. Use `await write(...)` from any event loop."""

    def __init__(self, engine: Engine, experiment: str, fence: int):
        self._engine = engine
        self._experiment = experiment
        self._fence = fence
        self._queue: queue.SimpleQueue[_Waiting | None] = queue.SimpleQueue()
        self._upserts = {table.name: _upsert(table, engine.dialect.name) for table in TABLES}
        self._failure: FairtrialError | None = None
        self.commits = 0
        self._thread = threading.Thread(target=self._run, name=f"writer-{experiment}", daemon=True)
        self._thread.start()

    async def write(self, write: Write) -> None:
        """Return when the rows are committed. Raises StoreError, or ConflictError when the lease was lost."""
        if self._failure is not None:
            raise self._failure
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        self._queue.put(_Waiting(write, loop, future))
        await future

    def close(self) -> None:
        """Commit what is waiting, give the lease back and end the thread; safe to call twice."""
        if self._thread.is_alive():
            self._queue.put(None)
            self._thread.join()

    def _run(self) -> None:
        connection = self._engine.connect().execution_options(writes=True)
        next_beat = time.monotonic() + HEARTBEAT_S
        try:
            while True:
                batch, closing = self._next_batch(next_beat)
                beating = time.monotonic() >= next_beat
                if batch or beating or closing:
                    self._commit(connection, [waiting.write for waiting in batch], beating=beating, closing=closing)
                    _resolve(batch, self._failure)
                if beating:
                    next_beat = time.monotonic() + HEARTBEAT_S
                if closing:
                    return
        finally:
            connection.close()

    def _next_batch(self, next_beat: float) -> tuple[list[_Waiting], bool]:
        batch: list[_Waiting] = []
        try:
            item = self._queue.get(timeout=max(next_beat - time.monotonic(), 0.0))
            while item is not None:
                batch.append(item)
                item = self._queue.get_nowait()
        except queue.Empty:
            return batch, False
        return batch, True

    def _commit(self, connection: Connection, writes: Sequence[Write], *, beating: bool, closing: bool) -> None:
        if self._failure is not None:
            return
        try:
            with connection.begin():
                check_fence(connection, self._experiment, self._fence)
                self._send(connection, writes)
                if beating:
                    beat(connection, self._experiment, self._fence)
                if closing:
                    release(connection, self._experiment, self._fence)
            self.commits += 1
        except DBAPIError as error:
            self._failure = store_error(error)
        except FairtrialError as error:
            self._failure = error

    def _send(self, connection: Connection, writes: Sequence[Write]) -> None:
        counts: Counter[tuple[str, str]] = Counter()
        for table in TABLES:
            rows = [row for write in writes for row in write.rows.get(table.name, ())]
            if rows:
                connection.execute(self._upserts[table.name], rows)
        for write in writes:
            counts.update(write.counts)
        for arm in sorted({arm for arm, _ in counts}):
            grown = {column: counts[arm, column] for column in COUNTS if counts[arm, column]}
            if grown:
                connection.execute(
                    update(_SUMMARY)
                    .where(_SUMMARY.c.experiment == bindparam("e"), _SUMMARY.c.arm == bindparam("a"))
                    .values({column: _SUMMARY.c[column] + by for column, by in grown.items()}),
                    {"e": self._experiment, "a": arm},
                )


def _upsert(table: Table, dialect: str) -> Any:
    insert = (sqlite.insert if dialect == "sqlite" else postgresql.insert)(table)
    keys = [column.name for column in table.primary_key]
    others = {column.name: insert.excluded[column.name] for column in table.columns if column.name not in keys}
    return insert.on_conflict_do_update(index_elements=keys, set_=others)


def _resolve(batch: Sequence[_Waiting], failure: FairtrialError | None) -> None:
    # One wake-up a loop, not one a write: waking a loop costs a system call.
    by_loop: dict[asyncio.AbstractEventLoop, list[asyncio.Future[None]]] = {}
    for waiting in batch:
        by_loop.setdefault(waiting.loop, []).append(waiting.future)
    for loop, futures in by_loop.items():
        if not loop.is_closed():
            loop.call_soon_threadsafe(_settle, futures, failure)


def _settle(futures: Sequence[asyncio.Future[None]], failure: FairtrialError | None) -> None:
    for future in futures:
        if not future.done():
            if failure is None:
                future.set_result(None)
            else:
                future.set_exception(failure)
