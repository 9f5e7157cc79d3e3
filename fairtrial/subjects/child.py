"""One started program with its process group, its pipes and everything that bears its mark.

The program's exit is watched without collecting it: until `close`, its id stays taken, so a signal to its group can
never reach a stranger who was given the same id.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fairtrial.subjects.pipes import PipeReader, PipeWriter, Sink
from fairtrial.subjects.reaper import find_marked, iter_marked, mark_pairs, new_mark, signal_marked
from fairtrial.subjects.starting import not_started

if TYPE_CHECKING:
    import psutil

_POLL_S: Final = 0.02
_SETTLE_S: Final = 0.05
# Only for a process stuck inside the kernel: KILL was sent, nothing more can be done.
_KILL_WAIT_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class ProcessCommand:
    """What to start. Bytes are passed as they are; text goes the way file names go. Never through a shell by itself.

    argv    program and arguments; a program without a slash is looked up in the PATH of `env`
    env     the whole environment of the child
    cwd     working folder, ours when None; a relative program with a slash starts from it
    """

    argv: tuple[str | bytes, ...]
    env: Mapping[str, str | bytes]
    cwd: str | None = None


class Child:
    """A running program. Made by `start`; every path must end in `close`."""

    def __init__(self, process: subprocess.Popen[bytes], pair: bytes, writer: PipeWriter, readers: list[PipeReader]):
        self.pid = process.pid
        self.writer = writer
        self._process = process
        self._pair = pair
        self._readers = readers
        self._exited = asyncio.get_running_loop().create_future()
        self._pidfd = _open_pidfd(process.pid)
        self._leftovers: set[int] = set()
        if self._pidfd is not None:
            asyncio.get_running_loop().add_reader(self._pidfd, self._on_exit)

    @classmethod
    def start(cls, command: ProcessCommand, *, stdin: bytes | None, out: Sink, err: Sink) -> Child:
        """Start `command` in a session of its own and feed it `stdin`; None keeps the pipe open for `writer`.

        Raises NotStarted with the named kind of the failure.
        """
        mark = new_mark()
        (pair,) = mark_pairs(mark)
        try:
            process = subprocess.Popen(
                list(command.argv),
                # Without anything to read the program gets an empty file, never our terminal.
                stdin=subprocess.DEVNULL if stdin == b"" else subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**command.env, **mark},
                cwd=command.cwd,
                bufsize=0,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise not_started(error, command.argv[0], command.cwd) from error
        assert process.stdout is not None
        assert process.stderr is not None
        readers = [PipeReader(process.stdout, out), PipeReader(process.stderr, err)]
        return cls(process, pair, PipeWriter(process.stdin, stdin), readers)

    @property
    def has_exited(self) -> bool:
        """Whether the program itself has ended; others of its group may live on."""
        if not self._exited.done() and _has_exited(self._process):
            self._exited.set_result(None)
        return self._exited.done()

    @property
    def returncode(self) -> int | None:
        """Exit code, or minus the signal; set by `close`."""
        return self._process.returncode

    @property
    def n_leftovers(self) -> int:
        """Processes that outlived the program and had to be ended, as far as their mark shows them."""
        return len(self._leftovers)

    async def wait(self, timeout_s: float | None) -> bool:
        """Return True when the program has ended, False when the time is over before that."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while not self.has_exited:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return False
            if self._pidfd is None:
                await asyncio.sleep(_POLL_S if left is None else min(_POLL_S, left))
            else:
                await asyncio.wait({self._exited}, timeout=left)
        return True

    async def drained(self, timeout_s: float) -> bool:
        """Return True when nobody can write to the pipes any more, False after `timeout_s`."""
        waiting = {reader.finished for reader in self._readers if not reader.finished.done()}
        if waiting:
            await asyncio.wait(waiting, timeout=timeout_s)
        return all(reader.finished.done() for reader in self._readers)

    async def end(self, grace_s: float) -> None:
        """End the program, its group and its marked descendants: TERM, `grace_s` later KILL, until none is left.

        A cancellation while this waits kills at once.
        """
        try:
            await self._end(grace_s)
        except BaseException:
            self._kill(self._children())
            raise

    def close(self) -> None:
        """Kill what is left, take what is still in the pipes, and give everything back; safe to call twice."""
        if self._process.returncode is None:
            # The zombie still holds the group's id, so this reaches its members or nobody.
            self._signal_group(signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_KILL_WAIT_S)
        for reader in self._readers:
            reader.close()
        self.writer.close()
        if self._pidfd is not None:
            asyncio.get_running_loop().remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None

    async def _end(self, grace_s: float) -> None:
        children = self._children()
        if self.has_exited:
            others = self._others()
            if others:
                # A helper that has said its last word may still be on its way out.
                await asyncio.sleep(_SETTLE_S)
                others = self._others()
            self._note(others)
            if not others:
                self._signal_group(signal.SIGKILL)
                return
            self._signal_group(signal.SIGTERM)
        else:
            # The group first and at once; finding the others takes longer the fuller the machine is.
            self._signal_group(signal.SIGTERM)
            others = self._others()
        # Members of the group have had their TERM; a second one makes many programs skip their tidying up.
        signal_marked([pid for pid in others if not self._is_member(pid)], self._pair, signal.SIGTERM)
        _signal_children(children, signal.SIGTERM)
        await self._until_gone(grace_s)
        # The first KILL is not conditional: a member that dropped its mark is seen by nothing else.
        self._kill(children)
        await self._until_gone(_KILL_WAIT_S, children=children)

    async def _until_gone(self, timeout_s: float, *, children: list[psutil.Process] | None = None) -> None:
        """Wait for the end of all; with `children` given, kill again at every look, as a fork may have slipped by."""
        deadline = time.monotonic() + timeout_s
        while True:
            others = self._others()
            self._note(others)
            if self.has_exited and not others and not any(_is_alive(child) for child in children or []):
                return
            if time.monotonic() >= deadline:
                return
            if children is not None:
                self._kill(children)
            await asyncio.sleep(_POLL_S)

    def _kill(self, children: list[psutil.Process]) -> None:
        self._signal_group(signal.SIGKILL)
        signal_marked((pid for pid in iter_marked(self._pair) if pid != self.pid), self._pair, signal.SIGKILL)
        _signal_children(children, signal.SIGKILL)

    def _others(self) -> list[int]:
        return [pid for pid in find_marked(self._pair) if pid != self.pid]

    def _note(self, others: list[int]) -> None:
        if self.has_exited:
            self._leftovers.update(others)

    def _is_member(self, pid: int) -> bool:
        try:
            return os.getpgid(pid) == self.pid
        except OSError:
            return False

    def _signal_group(self, number: int) -> None:
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)

    def _children(self) -> list[psutil.Process]:
        """Return the descendants by parentage: all there is without /proc, and those that cleared their environment."""
        if self.has_exited:
            return []
        import psutil

        found = []
        for pid in _descendants(self.pid):
            with contextlib.suppress(psutil.Error):
                found.append(psutil.Process(pid))
        return found

    def _on_exit(self) -> None:
        if self._pidfd is not None:
            asyncio.get_running_loop().remove_reader(self._pidfd)
        if not self._exited.done():
            self._exited.set_result(None)


def _open_pidfd(pid: int) -> int | None:
    """Return a descriptor that becomes readable at the exit of `pid`, None where the system has none."""
    opener: Callable[[int], int] | None = getattr(os, "pidfd_open", None)
    if opener is None:
        return None
    try:
        return opener(pid)
    except OSError:
        return None


def _has_exited(process: subprocess.Popen[bytes]) -> bool:
    if process.returncode is not None:
        return True
    if not hasattr(os, "waitid"):
        return process.poll() is not None
    try:
        return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None
    except ChildProcessError:
        return process.poll() is not None


def _descendants(pid: int) -> list[int]:
    """Return the ids of all descendants. The kernel's own lists cost no look at every process of the machine."""
    if not Path(f"/proc/{pid}/task/{pid}/children").exists():
        import psutil

        try:
            return [child.pid for child in psutil.Process(pid).children(recursive=True)]
        except psutil.Error:
            return []
    found, waiting = [], [pid]
    while waiting:
        children = []
        for task in Path(f"/proc/{waiting.pop()}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                children += [int(child) for child in task.read_text().split()]
        found += children
        waiting += children
    return found


def _is_alive(child: psutil.Process) -> bool:
    import psutil

    try:
        return child.is_running() and child.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _signal_children(children: list[psutil.Process], number: int) -> None:
    """Signal descendants found by parentage; psutil compares start times, so a reused id is not hit."""
    if not children:
        return
    import psutil

    for child in children:
        with contextlib.suppress(psutil.Error, ProcessLookupError):
            child.send_signal(number)
