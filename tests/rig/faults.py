"""Counts every operation of the store that writes, and lets the n-th one go wrong. Lives in a forked run only.

A failing operation fails as the real driver or system call does: with the same exception, after a part of the write
when it is a write. ENOSPC lasts, as a full disk does; EIO strikes once.
"""

from __future__ import annotations

import builtins
import errno
import json
import os
import re
import signal
import sqlite3
import stat
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

SQLITE_ERRORS: Final = {
    "ENOSPC": ("SQLITE_FULL", 13, "database or disk is full"),
    "EIO": ("SQLITE_IOERR", 10, "disk I/O error"),
}

_INSERT: Final = re.compile(r"\s*INSERT INTO (\w+) \(([^)]*)\)", re.IGNORECASE)
_UPDATE: Final = re.compile(r"\s*UPDATE (\w+) SET (\w+)", re.IGNORECASE)
_DELETE: Final = re.compile(r"\s*DELETE FROM (\w+)", re.IGNORECASE)


class Points:
    """The counter of operations.

    at          number of the operation that goes wrong, from 1; 0 lets all pass
    what        kill, stop (until it is continued), ENOSPC or EIO
    only        count only operations with this label
    say         takes the line "fired N LABEL TIME" just before it goes wrong
    trace       a file that gets one JSON line an operation
    """

    def __init__(
        self,
        *,
        at: int = 0,
        what: str = "kill",
        only: str | None = None,
        say: Callable[[str], None],
        trace: str | None = None,
    ):
        self.n = 0
        self._only = only
        self._at = at
        self._what = what
        self._say = say
        self._trace = None if trace is None else os.open(trace, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._lock = threading.Lock()
        self._full = False

    def reach(self, label: str, **detail: Any) -> str | None:
        """Count one operation; return how it has to fail, None to let it pass. A kill does not return."""
        with self._lock:
            self.note(label, **detail)
            counts = self._only in (None, label)
            self.n += counts
            fires = counts and self.n == self._at
            if fires:
                self._say(f"fired {self.n} {label} {time.monotonic()}")
                if self._what in ("kill", "stop"):
                    os.kill(os.getpid(), signal.SIGKILL if self._what == "kill" else signal.SIGSTOP)
                    return None
                self._full = self._what == "ENOSPC"
            return self._what if fires or self._full else None

    def note(self, label: str, **detail: Any) -> None:
        """Write one line of the trace, without counting."""
        if self._trace is not None:
            os.write(self._trace, json.dumps({"at": time.monotonic(), "op": label, **detail}).encode() + b"\n")


def install(points: Points, *, objects: Path) -> None:
    """Put `points` between the product and its store: SQLite connections, and files below `objects`."""
    _watch_database(points)
    _watch_files(points, str(objects.resolve()))


def _watch_database(points: Points) -> None:
    def reach(label: str, **detail: Any) -> None:
        failure = points.reach(label, **detail)
        if failure is not None:
            name, number, text = SQLITE_ERRORS[failure]
            error = sqlite3.OperationalError(text)
            error.sqlite_errorname, error.sqlite_errorcode = name, number
            raise error

    class Cursor(sqlite3.Cursor):
        def execute(self, sql: str, parameters: Any = (), /) -> Any:
            self._reach(sql, [parameters])
            return super().execute(sql, parameters)

        def executemany(self, sql: str, parameters: Any, /) -> Any:
            self._reach(sql, parameters)
            return super().executemany(sql, parameters)

        def _reach(self, sql: str, parameters: Any) -> None:
            label, rows = _written(sql, parameters)
            if label is not None:
                self.connection.wrote = True  # type: ignore[attr-defined]
                reach(label, rows=rows)

    class Connection(sqlite3.Connection):
        wrote = False

        def cursor(self, _factory: Any = None) -> Any:
            return super().cursor(Cursor)

        def commit(self) -> None:
            if not self.wrote:
                super().commit()
                return
            reach("commit")
            super().commit()
            self.wrote = False
            reach("committed")

        def rollback(self) -> None:
            super().rollback()
            self.wrote = False

    connect: Any = sqlite3.connect

    def connect_watched(*arguments: Any, **options: Any) -> Any:
        return connect(*arguments, **{**options, "factory": Connection})

    sqlite3.connect = connect_watched


def _written(sql: str, parameters: Any) -> tuple[str | None, list[dict[str, Any]]]:
    """Return what a statement writes, in words, and the rows of an insert with their short columns."""
    insert = _INSERT.match(sql)
    if insert is not None:
        columns = insert[2].replace('"', "").split(", ")
        rows = [dict(zip(columns, row, strict=False)) for row in parameters]
        short = [{k: v for k, v in row.items() if not isinstance(v, bytes | memoryview)} for row in rows]
        return ("lease.acquire" if insert[1] == "lease" else f"insert.{insert[1]}"), short
    update = _UPDATE.match(sql)
    if update is not None:
        named = {
            ("lease", "fence"): "lease.acquire",
            ("lease", "heartbeat_at"): "lease.beat",
            ("lease", "released"): "lease.release",
            ("experiment", "state"): "state",
        }
        return named.get((update[1], update[2]), f"update.{update[1]}"), []
    delete = _DELETE.match(sql)
    return (f"delete.{delete[1]}" if delete is not None else None), []


def _watch_files(points: Points, folder: str) -> None:
    fsync, replace, fdopen = os.fsync, os.replace, os.fdopen

    def fail(failure: str, path: str) -> None:
        raise OSError(number := getattr(errno, failure), os.strerror(number), path)

    def fsync_watched(fd: Any) -> None:
        number = fd if isinstance(fd, int) else fd.fileno()
        path = str(Path(f"/proc/self/fd/{number}").readlink())
        if path.startswith(folder):
            is_folder = stat.S_ISDIR(os.fstat(number).st_mode)
            failure = points.reach("folder.fsync" if is_folder else "file.fsync", path=path)
            if failure is not None:
                fail(failure, path)
        fsync(fd)
        points.note("fsynced", path=path)

    def replace_watched(source: Any, target: Any, **options: Any) -> None:
        if str(target).startswith(folder):
            failure = points.reach(f"rename.{_kind(str(target))}", path=str(target), part=str(source))
            if failure is not None:
                fail(failure, str(target))
        replace(source, target, **options)

    def fdopen_watched(fd: int, *arguments: Any, **options: Any) -> Any:
        file = fdopen(fd, *arguments, **options)
        path = str(Path(f"/proc/self/fd/{fd}").readlink())
        return _WatchedFile(file, path, points, fail) if path.startswith(folder) else file

    os.fsync, os.replace, os.fdopen = fsync_watched, replace_watched, fdopen_watched  # type: ignore[assignment]


def _kind(path: str) -> str:
    return "blob" if "/blobs/" in path else Path(path).name


class _WatchedFile:
    """A file whose writes are counted; one that fails has half of its bytes on the disk by then."""

    def __init__(self, file: Any, path: str, points: Points, fail: Callable[[str, str], None]):
        self._file = file
        self._path = path
        self._points = points
        self._fail = fail

    def write(self, data: bytes) -> int:
        half = len(data) // 2
        self._file.write(data[:half])
        self._file.flush()
        failure = self._points.reach("file.write", path=self._path)
        if failure is not None:
            self._fail(failure, self._path)
        return half + int(self._file.write(data[half:]))

    def __enter__(self) -> _WatchedFile:
        return self

    def __exit__(self, *_error: object) -> None:
        self._file.close()

    def __getattr__(self, name: str) -> Any:
        return builtins.getattr(self._file, name)
