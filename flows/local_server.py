"""The one long-lived Prefect server of a user: started in the background, found again, stopped.

Whether a server lives is said by a lock that the server process inherits at its birth, so two commands at once start
one, and a starter killed at any moment leaves neither a second server nor a blocked folder. Imports no Prefect.
Why not `prefect server start --background`: docs/decisions/0005-local-prefect-server.md.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final, Literal, TypeAlias
from urllib.parse import urlsplit

from fairtrial.errors import FairtrialError
from flows.server_record import (
    Process,
    Record,
    living,
    lock_path,
    log_path,
    prefect_home,
    read_record,
    write_record,
)
from flows.server_settings import client_settings, server_environment

State: TypeAlias = Literal["running", "not_answering", "stopped"]

_LOOPBACK: Final = "127.0.0.1"
_POLL_S: Final = 0.1
# One look at a server that may be busy: its event loop also writes the task runs of a flow that has just ended.
_PROBE_S: Final = 10.0
# The same where nobody waits for a start.
_GLANCE_S: Final = 5.0
_BACKLOG: Final = 100
# From TERM to KILL; the server itself gives open connections five seconds.
_STOP_S: Final = 15.0
_LOG_BYTES: Final = 1_000_000
_TAIL_BYTES: Final = 2_000

# Handed over at birth; held here too, so that ending a child of ours leaves no zombie behind.
_children: list[subprocess.Popen[bytes]] = []


@dataclass(frozen=True, slots=True)
class Server:
    """A healthy local server. `url` ends in /api; `started` says that this very call started it."""

    url: str
    auth: str = field(repr=False)
    pid: int
    started: bool
    home: Path


@dataclass(frozen=True, slots=True)
class Status:
    """What is known without waiting. url, pid and auth are None when there is no server process."""

    state: State
    url: str | None
    auth: str | None = field(repr=False)
    pid: int | None
    prefect: str | None
    log: Path


def find_or_start(
    *,
    state_dir: Path,
    environ: Mapping[str, str],
    say: Callable[[str], None],
    python: str = sys.executable,
    wait_s: float = 120.0,
) -> Server:
    """Return the healthy server of `state_dir`, started if there is none. Errors as in Start.wait."""
    return begin_start(state_dir=state_dir, environ=environ, say=say, python=python).wait(wait_s)


def begin_start(
    *, state_dir: Path, environ: Mapping[str, str], say: Callable[[str], None], python: str = sys.executable
) -> Start:
    """Start the server unless there is one, and return at once; `.wait()` blocks until it is healthy.

    `say` gets one line when a server is started. Raises FairtrialError when the state folder cannot be used.
    """
    start = Start(state_dir=state_dir.absolute(), environ=environ, say=say, python=python)
    start.spawn_if_alone()
    return start


def find(state_dir: Path) -> Server | None:
    """Return the running, healthy server, or None; starts nothing."""
    found = living(state_dir)
    if found is None or not _is_healthy(found[0], _GLANCE_S):
        return None
    return _server(state_dir, *found, started=False)


def status(state_dir: Path) -> Status:
    """Return what there is; a server that is still starting is `not_answering`."""
    found = living(state_dir)
    if found is None:
        return Status(state="stopped", url=None, auth=None, pid=None, prefect=None, log=log_path(state_dir))
    record, process = found
    state: State = "running" if _is_healthy(record, _GLANCE_S) else "not_answering"
    return Status(
        state=state,
        url=record.url,
        auth=record.auth,
        pid=process.pid,
        prefect=record.prefect,
        log=log_path(state_dir),
    )


def stop(state_dir: Path) -> bool:
    """End the server and return whether there was one; port and login are kept for the next.

    Raises FairtrialError when the process cannot be ended.
    """
    deadline = time.monotonic() + _GLANCE_S
    while (found := living(state_dir)) is None:
        # Locked without a name: one was born this instant and has not said its number yet.
        if not _is_locked(state_dir) or time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    _end(found[1])
    return True


def client_environment(server: Server) -> dict[str, str]:
    """Return the settings that point a process's Prefect at `server` and keep it out of the user's terminal.

    They must be in the environment before Prefect is imported.
    """
    return client_settings(url=server.url, auth=server.auth, home=server.home)


def check_named(
    url: str,
    *,
    auth: str | None,
    key: str | None = None,
    source: str = "PREFECT_API_URL",
    timeout_s: float = 10.0,
) -> None:
    """Return when the server that the user named answers and takes the login.

    auth is `name:password` as in PREFECT_API_AUTH_STRING, key a token as in PREFECT_API_KEY; source is the setting's
    name and place as prefect_env.named_server gives it.
    Raises FairtrialError (server_unreachable) that names the setting, at most `timeout_s` seconds later.
    """
    from flows.server_probe import reach

    problem = reach(url, auth=auth, key=key, source=source, timeout_s=timeout_s)
    if problem is not None:
        raise FairtrialError(problem.message, code="server_unreachable", hint=problem.hint)


class Start:
    """A start under way."""

    def __init__(self, *, state_dir: Path, environ: Mapping[str, str], say: Callable[[str], None], python: str) -> None:
        self._state_dir = state_dir
        self._environ = environ
        self._say = say
        self._python = python
        self._child: subprocess.Popen[bytes] | None = None
        self._log_offset = 0

    def wait(self, wait_s: float = 120.0) -> Server:
        """Return the server once it answers.

        Raises FairtrialError (server_unreachable) with the end of the server's log when it dies or is not ready within
        `wait_s` seconds. A server that is merely slow is left to go on.
        """
        deadline = time.monotonic() + wait_s
        while True:
            found = living(self._state_dir)
            left_s = deadline - time.monotonic()
            if found is not None and _is_healthy(found[0], max(0.1, min(_PROBE_S, left_s))):
                return self._found(*found)
            if self._child is None:
                # Whoever was starting it, or was running it, is gone: then it is our turn.
                self.spawn_if_alone()
            elif self._child.poll() is not None:
                raise self._failure(f"ended while it was starting (exit status {self._child.returncode})")
            if time.monotonic() >= deadline:
                raise self._failure(f"was not ready after {wait_s:.0f} s")
            time.sleep(_POLL_S)

    def spawn_if_alone(self) -> None:
        """Start a server unless one lives or is being started."""
        try:
            _make_private(self._state_dir)
            _make_private(prefect_home(self._state_dir))
            lock = os.open(lock_path(self._state_dir), os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise _unusable(self._state_dir, error) from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._spawn(lock)
        except BlockingIOError:
            return
        except OSError as error:
            raise _unusable(self._state_dir, error) from error
        finally:
            # The server has its own handle on the same lock by now; ours going away does not release it.
            os.close(lock)

    def _spawn(self, lock: int) -> None:
        before = read_record(self._state_dir)
        with _listener(before) as listener, _open_log(self._state_dir) as log:
            record = Record(
                url=f"http://{_LOOPBACK}:{listener.getsockname()[1]}/api",
                auth=before.auth if before is not None else f"fairtrial:{secrets.token_urlsafe(24)}",
                prefect=_prefect_version(),
            )
            write_record(self._state_dir, record)
            self._log_offset = log.tell()
            handles = (listener.fileno(), lock)
            self._child = subprocess.Popen(
                [self._python, "-P", "-m", "flows.server_process", str(self._state_dir), *map(str, handles)],
                pass_fds=handles,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # Prefect reads .env and prefect.toml of its working folder; nobody's project may configure the server.
                cwd=prefect_home(self._state_dir),
                env=server_environment(record, home=prefect_home(self._state_dir), environ=self._environ),
                # Ctrl-C and a closed terminal are for the command, not for a server that others use.
                start_new_session=True,
            )
            _children.append(self._child)
        self._say(
            f"Started the local Prefect server at {_page(record.url)} (it stays for later runs; `exp down` ends it)"
        )

    def _found(self, record: Record, process: Process) -> Server:
        installed = _prefect_version()
        if record.prefect != installed:
            self._say(
                f"The local Prefect server runs version {record.prefect}, this program has {installed}; "
                "`exp down` lets the next run start the new one"
            )
        ours = self._child is not None and self._child.pid == process.pid
        return _server(self._state_dir, record, process, started=ours)

    def _failure(self, what: str) -> FairtrialError:
        log = log_path(self._state_dir)
        tail = _tail(log, self._log_offset)
        record = read_record(self._state_dir)
        if record is not None:
            tail = tail.replace(record.auth, "(login)")
        return FairtrialError(
            f"the local Prefect server {what}." + (f" Its log ends with:\n{tail}\n" if tail else ""),
            code="server_unreachable",
            hint=f"The whole log is {log}. `exp down` and the same command again make a fresh start; "
            f"{prefect_home(self._state_dir)} may be deleted, for no result of yours is in it.",
        )


def _listener(before: Record | None) -> socket.socket:
    """Return a listening socket, on the port of last time if it is free: a page kept open finds its server again.

    It listens from now on, so nobody else can have the port; whoever calls early waits in line.
    """
    if before is not None:
        with contextlib.suppress(OSError, ValueError):
            return _listen(urlsplit(before.url).port or 0)
    return _listen(0)


def _listen(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((_LOOPBACK, port))
        listener.listen(_BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


def _open_log(state_dir: Path) -> BinaryIO:
    """Return the log, at its end. It is put aside once when it has grown long; the one before that goes."""
    path = log_path(state_dir)
    with contextlib.suppress(FileNotFoundError):
        if path.stat().st_size > _LOG_BYTES:
            path.replace(path.with_suffix(".log.1"))
    log = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab")
    log.seek(0, os.SEEK_END)
    return log


def _tail(log: Path, offset: int) -> str:
    """Return the last lines written after `offset`, or an empty text."""
    try:
        with log.open("rb") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(offset, end - _TAIL_BYTES))
            return file.read().decode("utf-8", "replace").strip()
    except OSError:
        return ""


def _is_locked(state_dir: Path) -> bool:
    try:
        lock = os.open(lock_path(state_dir), os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def _end(process: Process) -> None:
    import psutil

    with contextlib.suppress(psutil.NoSuchProcess):
        # The handle remembers the start time and refuses to signal a later process of the same number.
        handle = psutil.Process(process.pid)
        for number in (signal.SIGTERM, signal.SIGKILL):
            if process.is_alive():
                handle.send_signal(number)
            if _has_gone(process):
                return
        raise FairtrialError(
            f"the local Prefect server (process {process.pid}) does not end.", code="server_unreachable"
        )


def _has_gone(process: Process) -> bool:
    """Wait up to _STOP_S. A zombie is gone: not every first process of a container buries the dead."""
    deadline = time.monotonic() + _STOP_S
    ours = [child for child in _children if child.pid == process.pid]
    while process.is_alive() or any(child.poll() is None for child in ours):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def _is_healthy(record: Record, timeout_s: float) -> bool:
    from flows.server_probe import is_healthy

    return is_healthy(record.url, auth=record.auth, timeout_s=timeout_s)


def _server(state_dir: Path, record: Record, process: Process, *, started: bool) -> Server:
    home = prefect_home(state_dir.absolute())
    return Server(url=record.url, auth=record.auth, pid=process.pid, started=started, home=home)


def _prefect_version() -> str:
    import importlib.metadata

    return importlib.metadata.version("prefect")


def _page(url: str) -> str:
    return url.removesuffix("/api")


def _make_private(folder: Path) -> None:
    """Make the folder. Raises PermissionError where somebody else could lay a record for us to believe."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.stat()
    if found.st_uid != os.geteuid() or found.st_mode & stat.S_IWOTH:
        raise PermissionError(errno.EPERM, "others can write there")


def _unusable(state_dir: Path, error: OSError) -> FairtrialError:
    code = "no_space" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "server_unreachable"
    return FairtrialError(
        f"the local Prefect server cannot be started from {state_dir}: {error.strerror or error}.",
        code=code,
        hint="FAIRTRIAL_STATE_DIR names another folder; PREFECT_API_URL names a server that runs already.",
    )
