"""A process that has imported the engine once and forks a child for every run, so that a kill costs milliseconds.

It has one thread and opens no store: a fork inherits neither a lock nor a connection. All signals to children go
through it, because it alone knows whether a pid is still theirs.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

from tests.rig import child
from tests.rig.child import Options

ROOT: Final = Path(__file__).resolve().parents[2]


class Running:
    """One run: its pid, what it printed so far, and, once it has ended, its exit status (minus the signal)."""

    def __init__(self, zygote: Zygote, number: int):
        self._zygote = zygote
        self.number = number
        self.pid = 0
        self.lines: list[str] = []
        self.status: int | None = None
        self.began = time.monotonic()
        self.ended = 0.0
        self.killed_at: float | None = None

    def wait(self, timeout_s: float = 60.0) -> int:
        """Return the exit status. Raises TimeoutError."""
        self._zygote.pump_until(lambda: self.status is not None, timeout_s, f"run {self.number} to end")
        assert self.status is not None
        return self.status

    def wait_at_most(self, timeout_s: float) -> bool:
        """Return whether it ended within that time."""
        with contextlib.suppress(TimeoutError):
            self.wait(timeout_s)
        return self.status is not None

    def wait_line(self, start: str, timeout_s: float = 30.0) -> str:
        """Return the first line that begins so. Raises TimeoutError, also when the run ended without one."""
        self._zygote.pump_until(
            lambda: self.status is not None or self.said(start) is not None, timeout_s, f"run {self.number}: {start}"
        )
        line = self.said(start)
        if line is None:
            raise TimeoutError(f"run {self.number} ended ({self.status}) without {start!r}: {self.lines}")
        return line

    def said(self, start: str) -> str | None:
        """Return the first line so far that begins so."""
        return next((line for line in self.lines if line.startswith(start)), None)

    def signal(self, number: int) -> None:
        """Send a signal; nothing happens when the run has ended."""
        self._zygote.tell(do="signal", id=self.number, signal=number)

    def kill(self) -> None:
        """kill -9, and wait for the end."""
        self.killed_at = time.monotonic()
        self.signal(signal.SIGKILL)
        self.wait()


class Zygote:
    """The process of this file, as a test holds it. Use it as a context manager."""

    def __init__(self, errors: Path):
        self.errors = errors
        environ = {**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"}
        with errors.open("ab") as stderr:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.rig.zygote"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, env=environ, cwd=ROOT, bufsize=0,
            )  # fmt: skip
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._in, self._out = self._process.stdin, self._process.stdout
        self._left = b""
        self._runs: dict[int, Running] = {}

    def start(self, options: Options) -> Running:
        """Fork one run."""
        running = Running(self, len(self._runs))
        self._runs[running.number] = running
        self.tell(do="start", id=running.number, options=dataclasses.asdict(options))
        self.pump_until(lambda: running.pid > 0, 60.0, "a fork")
        return running

    def release(self, barrier: str) -> None:
        """Let every run that waits at the barrier go, all at once."""
        self.tell(do="release", barrier=barrier)

    def tell(self, **order: Any) -> None:
        """Send one order."""
        self._in.write(json.dumps(order).encode() + b"\n")

    def pump_until(self, is_done: Any, timeout_s: float, what: str) -> None:
        """Take in what the zygote reports until `is_done`. Raises TimeoutError."""
        deadline = time.monotonic() + timeout_s
        while not is_done():
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"waited {timeout_s} s for {what}")
            if select.select([self._out], [], [], left)[0]:
                self._take()

    def _take(self) -> None:
        data = os.read(self._out.fileno(), 1 << 16)
        if not data:
            raise RuntimeError(f"the zygote ended: {self.errors.read_text()[-2000:]}")
        *whole, self._left = (self._left + data).split(b"\n")
        for line in whole:
            event = json.loads(line)
            running = self._runs[event["id"]]
            if "pid" in event:
                running.pid, running.began = event["pid"], event["at"]
            elif "line" in event:
                running.lines.append(event["line"])
            else:
                running.status, running.ended = event["status"], event["at"]

    def __enter__(self) -> Zygote:
        return self

    def __exit__(self, *_error: object) -> None:
        self._in.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._out.close()


# --- the process itself ---------------------------------------------------------------------------------------------


class _Forker:
    def __init__(self) -> None:
        self._poll = select.poll()
        self._poll.register(0, select.POLLIN)
        self._left = b""
        self._of_pidfd: dict[int, int] = {}
        self._of_pipe: dict[int, int] = {}
        self._pid: dict[int, int] = {}
        self._pipe: dict[int, int] = {}
        self._rest: dict[int, bytes] = {}
        self._barriers: dict[str, tuple[int, int]] = {}

    def serve(self) -> None:
        """Take orders until stdin closes, then kill what still runs."""
        while True:
            for fd, _ in self._poll.poll():
                if fd == 0 and not self._orders():
                    for number in list(self._pid):
                        self._signal(number, signal.SIGKILL)
                    return
                if fd in self._of_pipe:
                    self._read(fd)
                elif fd in self._of_pidfd:
                    self._collect(fd)

    def _orders(self) -> bool:
        data = os.read(0, 1 << 16)
        *whole, self._left = (self._left + data).split(b"\n")
        for line in whole:
            order = json.loads(line)
            if order["do"] == "start":
                self._start(order["id"], order["options"])
            elif order["do"] == "signal":
                self._signal(order["id"], order["signal"])
            else:
                for end in reversed(self._barriers.pop(order["barrier"], ())):
                    os.close(end)
        return bool(data)

    def _start(self, number: int, options: dict[str, Any]) -> None:
        name = options["barrier"]
        if name is not None and name not in self._barriers:
            self._barriers[name] = os.pipe()
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            self._be_child(options, write)
        os.close(write)
        os.set_blocking(read, False)
        pidfd = os.pidfd_open(pid)
        self._pid[number], self._pipe[number], self._rest[number] = pid, read, b""
        self._of_pidfd[pidfd], self._of_pipe[read] = number, number
        self._poll.register(pidfd, select.POLLIN)
        self._poll.register(read, select.POLLIN)
        _report(id=number, pid=pid, at=time.monotonic())

    def _be_child(self, options: dict[str, Any], write: int) -> None:
        os.dup2(write, 1)
        os.close(write)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for fd in (*self._of_pidfd, *self._of_pipe):
            os.close(fd)
        barrier = None if options["barrier"] is None else self._barriers[options["barrier"]][0]
        for _, release in self._barriers.values():
            os.close(release)
        if options["fault"] is not None:
            options["fault"] = tuple(options["fault"])
        child.leave(child.run(Options(**options), barrier=barrier))

    def _read(self, fd: int) -> None:
        number = self._of_pipe[fd]
        while True:
            try:
                data = os.read(fd, 1 << 16)
            except BlockingIOError:
                return
            if not data:
                self._poll.unregister(fd)
                del self._of_pipe[fd]
                os.close(fd)
                return
            *whole, self._rest[number] = (self._rest[number] + data).split(b"\n")
            for line in whole:
                _report(id=number, line=line.decode("utf-8", "replace"))

    def _collect(self, pidfd: int) -> None:
        number = self._of_pidfd.pop(pidfd)
        self._poll.unregister(pidfd)
        os.close(pidfd)
        if self._pipe[number] in self._of_pipe:
            self._read(self._pipe[number])
        _, status = os.waitpid(self._pid.pop(number), 0)
        _report(id=number, status=os.waitstatus_to_exitcode(status), at=time.monotonic())

    def _signal(self, number: int, what: int) -> None:
        if number in self._pid:
            os.kill(self._pid[number], what)


def _report(**event: Any) -> None:
    os.write(1, json.dumps(event).encode() + b"\n")


if __name__ == "__main__":
    child.warm_up()
    # What is imported stays: a collection in a fork would copy every page of it.
    gc.collect()
    gc.freeze()
    _Forker().serve()
