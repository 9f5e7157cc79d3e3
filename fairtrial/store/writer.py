"""The one writer of a running experiment: a thread that groups what is waiting into one commit.

A write is done when its commit returned, never before. When idle a write goes out at once; under load everything that
came in during the last commit shares the next one.

However the thread ends, nobody waits for it: a write is either in the queue before the end and gets its answer, or is
refused with the reason of the end.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import Connection, Engine, Table, bindparam, update
from sqlalchemy.dialects import postgresql, sqlite

from fairtrial.errors import FairtrialError, StoreError
from fairtrial.store.lease import HEARTBEAT_S, beat, check_fence, release
from fairtrial.store.tables import SUMMARY_COUNTS, AttemptRow, GradeRow, OutputRow, SummaryRow, TrialRow, table_of

Row = dict[str, Any]

# Parents first; the order inside a commit is always the same.
TABLES: Final = tuple(table_of(model) for model in (AttemptRow, TrialRow, OutputRow, GradeRow))
_SUMMARY: Final = table_of(SummaryRow)
MOST_IN_ONE_COMMIT: Final = 1000
"""Writes that share one commit; whoever waits for it waits for all of them."""


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
        self._batch: list[_Waiting] = []
        self._upserts = {table.name: _upsert(table, engine.dialect.name) for table in TABLES}
        # Held to put something into the queue and to end it: nothing comes in after the end.
        self._gate = threading.Lock()
        self._ended: FairtrialError | None = None
        self.commits = 0
        self._thread = threading.Thread(target=self._run, name=f"writer-{experiment}", daemon=True)
        self._thread.start()

    async def write(self, write: Write) -> None:
        """Return when the rows are committed. Raises StoreError, or ConflictError when the lease was lost.

        After the first failure every other write fails with it: the caller cannot know what is stored.
        """
        unknown = write.rows.keys() - self._upserts.keys()
        if unknown:
            raise KeyError(f"no rows are written to {sorted(unknown)}: add it to TABLES, after its parents")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        with self._gate:
            if self._ended is not None:
                raise self._ended
            self._queue.put(_Waiting(write, loop, future))
        await future

    def close(self) -> None:
        """Commit what is waiting, give the lease back and end the thread; safe to call twice."""
        with self._gate:
            if self._ended is None:
                self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        end: FairtrialError = StoreError("the journal of this run is closed.", code="internal")
        try:
            with self._engine.connect().execution_options(writes=True) as connection:
                self._commit_until_closed(connection)
        except FairtrialError as error:
            end = error
        except BaseException as error:
            # The end of a thread: whatever it was, those who wait have to hear of it, and no caller is above this.
            end = StoreError(f"the journal could not be written ({type(error).__name__}).", code="internal")
            end.__cause__ = error
        with self._gate:
            self._ended = end
        _resolve([*self._batch, *self._left()], end)

    def _commit_until_closed(self, connection: Connection) -> None:
        next_beat = time.monotonic() + HEARTBEAT_S
        closing = False
        while not closing:
            closing = self._fill_batch(next_beat)
            beating = time.monotonic() >= next_beat
            if self._batch or beating or closing:
                self._commit(connection, [waiting.write for waiting in self._batch], beating=beating, closing=closing)
                done, self._batch = self._batch, []
                _resolve(done, None)
            if beating:
                next_beat = time.monotonic() + HEARTBEAT_S

    def _fill_batch(self, next_beat: float) -> bool:
        """Wait for writes until the next heartbeat, put what there is into the batch; return whether to close."""
        try:
            item = self._queue.get(timeout=max(next_beat - time.monotonic(), 0.0))
            while item is not None:
                self._batch.append(item)
                if len(self._batch) == MOST_IN_ONE_COMMIT:
                    return False
                item = self._queue.get_nowait()
        except queue.Empty:
            return False
        return True

    def _left(self) -> list[_Waiting]:
        left = []
        while not self._queue.empty():
            item = self._queue.get_nowait()
            if item is not None:
                left.append(item)
        return left

    def _commit(self, connection: Connection, writes: Sequence[Write], *, beating: bool, closing: bool) -> None:
        with connection.begin():
            check_fence(connection, self._experiment, self._fence)
            self._send(connection, writes)
            if beating:
                beat(connection, self._experiment, self._fence)
            if closing:
                release(connection, self._experiment, self._fence)
        self.commits += 1

    def _send(self, connection: Connection, writes: Sequence[Write]) -> None:
        counts: Counter[tuple[str, str]] = Counter()
        for table in TABLES:
            rows = [row for write in writes for row in write.rows.get(table.name, ())]
            if rows:
                connection.execute(self._upserts[table.name], rows)
        for write in writes:
            counts.update(write.counts)
        for arm in sorted({arm for arm, _ in counts}):
            grown = {column: counts[arm, column] for column in SUMMARY_COUNTS if counts[arm, column]}
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
        # A loop that is closed has nobody waiting.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(_settle, futures, failure)


def _settle(futures: Sequence[asyncio.Future[None]], failure: FairtrialError | None) -> None:
    for future in futures:
        if not future.done():
            if failure is None:
                future.set_result(None)
            else:
                future.set_exception(failure)
