"""Ends everything a run started once the run itself is gone, `kill -9` included.

This file is also run alone, as `python -I -S reaper.py NAME=VALUE PARENT_PID`, so it imports the standard library only.
A process is ours when the exact pair NAME=VALUE stands in its environment; nothing else is ever signalled.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterable, Iterator

MARK_PREFIX: Final = "FAIRTRIAL_MARK_"

_PROC: Final = Path("/proc")
_POLL_S: Final = 0.05
_PARENT_POLL_S: Final = 0.5
# TERM at once, KILL a second later and again until nothing is left: well inside the 5 s that are promised.
_TERM_S: Final = 1.0
_KILL_S: Final = 3.0
# A process in the middle of exec shows an empty environment for an instant, so one clean look is not enough.
_SECOND_LOOK_S: Final = 0.2
_BYE: Final = b"."


def new_mark() -> dict[str, str]:
    """Return one environment pair that no other process has.

    The random part is in the name, so that a run inside a run bears both marks and both can find it.
    """
    import secrets

    return {f"{MARK_PREFIX}{secrets.token_hex(8)}": "1"}


def mark_pairs(mark: dict[str, str]) -> tuple[bytes, ...]:
    """Return the pairs of `mark` as they stand in an environment block."""
    return tuple(os.fsencode(f"{name}={value}") for name, value in mark.items())


def iter_marked(pair: bytes) -> Iterator[int]:
    """Yield the ids of the living processes whose environment holds `pair`; ours is never among them.

    None where there is no /proc. Processes of other users cannot be read and are skipped.
    """
    if not _PROC.is_dir():
        return
    own = os.getpid()
    for entry in os.listdir(_PROC):  # noqa: PTH208 - half the cost of iterdir
        if entry.isdigit() and int(entry) != own and _bears(int(entry), pair):
            yield int(entry)


def find_marked(pair: bytes) -> list[int]:
    """Return what iter_marked yields."""
    return list(iter_marked(pair))


def signal_marked(pids: Iterable[int], pair: bytes, number: int) -> None:
    """Send a signal to those of `pids` that still bear `pair`, each as soon as it is yielded.

    The descriptor pins the process before its mark is read again, so a reused id is never hit.
    """
    for pid in pids:
        try:
            pinned = os.pidfd_open(pid)
        except OSError:
            continue
        try:
            if _bears(pid, pair):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    signal.pidfd_send_signal(pinned, number)
        finally:
            os.close(pinned)


class Reaper:
    """The small process that outlives us. One a process of ours, started before the first child.

    `mark` belongs into the environment of every child; the reaper's own environment does not hold it.
    """

    def __init__(self) -> None:
        import threading

        self._mark = new_mark()
        self._owner = os.getpid()
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def mark(self) -> dict[str, str]:
        """The environment pair that children bear, as a fresh dictionary."""
        return dict(self._mark)

    @property
    def pid(self) -> int | None:
        """The reaper's process id while it runs."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    def start(self) -> None:
        """Start the process unless it runs already; a reaper that was killed is started anew."""
        import subprocess

        with self._lock:
            if self.pid is not None:
                return
            self._forget()
            (pair,) = mark_pairs(self._mark)
            # Its own session: a Ctrl-C or a signal to our whole group must not end it before us.
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(Path(__file__)), os.fsdecode(pair), str(os.getpid())],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                cwd="/",
            )

    def close(self) -> None:
        """End what still bears the mark, then the reaper; safe to call twice. Takes at most about 5 s."""
        with self._lock:
            if self._process is None or os.getpid() != self._owner:
                return
            pipe = self._process.stdin
            if pipe is not None and not pipe.closed:
                with contextlib.suppress(OSError):
                    os.write(pipe.fileno(), _BYE)
            self._forget()

    def _forget(self) -> None:
        if self._process is None:
            return
        _close_quietly(self._process.stdin)
        try:
            self._process.wait(_TERM_S + _KILL_S + 2)
        finally:
            self._process = None


def main(arguments: list[str]) -> int:
    """Wait until the pipe on stdin closes or the parent changes, then end everything that bears the mark."""
    pair, parent = os.fsencode(arguments[0]), int(arguments[1])
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    said_bye = _wait_for_the_end(parent)
    _end_marked(pair, second_look=not said_bye)
    return 0


def _wait_for_the_end(parent: int) -> bool:
    """Return whether the parent said goodbye; else it died."""
    said_bye = False
    # A fork of the parent may hold the pipe open after its death, so the parent's id is watched too.
    while os.getppid() == parent:
        if not select.select([0], [], [], _PARENT_POLL_S)[0]:
            continue
        data = os.read(0, 64)
        if not data:
            break
        said_bye = True
    return said_bye


def _end_marked(pair: bytes, *, second_look: bool) -> None:
    since = time.monotonic()
    told: set[int] = set()
    looked_again = not second_look
    while (passed := time.monotonic() - since) < _TERM_S + _KILL_S:
        if passed >= _TERM_S:
            # Found and killed one by one: what forks and ends all the time is gone again after a whole look.
            signal_marked(iter_marked(pair), pair, signal.SIGKILL)
        pids = find_marked(pair)
        if not pids and looked_again:
            return
        looked_again = not pids or not second_look
        # A second TERM makes many programs skip their tidying up.
        signal_marked([pid for pid in pids if pid not in told], pair, signal.SIGTERM)
        told.update(pids)
        time.sleep(_POLL_S if pids else _SECOND_LOOK_S)


def _bears(pid: int, pair: bytes) -> bool:
    return b"\0" + pair + b"\0" in b"\0" + _environ(pid) + b"\0"


def _environ(pid: int) -> bytes:
    """Return the environment block a process started with; empty when it ended or is not ours to read."""
    try:
        descriptor = os.open(f"/proc/{pid}/environ", os.O_RDONLY)
    except OSError:
        return b""
    try:
        block = b""
        while piece := os.read(descriptor, 1 << 16):
            block += piece
        return block
    except OSError:
        return b""
    finally:
        os.close(descriptor)


def _close_quietly(pipe: IO[bytes] | None) -> None:
    if pipe is not None:
        with contextlib.suppress(OSError):
            pipe.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
