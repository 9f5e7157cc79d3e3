"""A process of the user's that stays and answers one request after the other.

A reply counts for the request whose number it bears. After anything but a proper reply in time the process is ended:
what it would say next could belong to another case.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from fairtrial.errors import InputError
from fairtrial.hashing import JsonValue
from fairtrial.spec.strict import parse_json
from fairtrial.subjects.child import Child, ProcessCommand
from fairtrial.subjects.ending import exit_line, signal_name
from fairtrial.subjects.pipes import Tail
from fairtrial.subjects.process import GRACE_S
from fairtrial.subjects.starting import NotStarted

REPLY_CAP: Final = 1_000_000
"""Longest reply in bytes."""

_ERROR_CAP: Final = 8 * 1024
_HEADER_CAP: Final = 30
_LINGER_S: Final = 0.25


class WorkerFailed(Exception):
    """No proper reply; the message says what happened instead."""


class Worker:
    """Starts the process with the first request and again after a failure. For one event loop.

    A request and a reply are each a length and a number in decimal with a blank between, a newline, and that many bytes
    of JSON. A reply has the number of its request; reply 0, before any request, is {"ready": true} or {"error": text}.
    """

    def __init__(self, command: ProcessCommand):
        self._command = command
        self._lock = asyncio.Lock()
        self._child: Child | None = None
        self._number = 0
        self._frames = _Frames()
        self._errors = Tail(_ERROR_CAP)

    async def start(self, *, timeout_s: float, mark: Mapping[str, str]) -> None:
        """Start the process and wait until it is ready. Raises WorkerFailed."""
        async with self._lock:
            await self._guarded(b"", timeout_s, mark)

    async def ask(self, request: bytes, *, timeout_s: float, mark: Mapping[str, str]) -> JsonValue:
        """Return the reply to `request`; starting, where needed, has a time limit of its own. Raises WorkerFailed."""
        async with self._lock:
            return await self._guarded(request, timeout_s, mark)

    async def close(self) -> None:
        """End the process and its tree; safe to call twice."""
        child, self._child = self._child, None
        if child is not None:
            try:
                await child.end(GRACE_S)
            finally:
                child.close()

    async def _guarded(self, request: bytes, timeout_s: float, mark: Mapping[str, str]) -> JsonValue:
        try:
            if self._child is None or self._child.has_exited:
                await self._start(timeout_s, mark)
            if not request or self._child is None:
                return None
            if self._frames.has_more:
                raise WorkerFailed("sent something before it was asked")
            self._number += 1
            self._child.writer.send(b"%d %d\n" % (len(request), self._number) + request)
            return await self._reply(self._child, timeout_s)
        except BaseException:
            await self.close()
            raise

    async def _start(self, timeout_s: float, mark: Mapping[str, str]) -> None:
        await self.close()
        self._number, self._frames, self._errors = 0, _Frames(), Tail(_ERROR_CAP)
        command = ProcessCommand(self._command.argv, {**self._command.env, **mark}, self._command.cwd)
        try:
            self._child = Child.start(command, stdin=None, out=self._frames, err=self._errors)
        except NotStarted as failure:
            raise WorkerFailed(failure.message) from failure
        ready = await self._reply(self._child, timeout_s)
        if isinstance(ready, dict) and isinstance(ready.get("error"), str):
            raise WorkerFailed(f"could not be loaded: {ready['error']}")

    async def _reply(self, child: Child, timeout_s: float) -> JsonValue:
        arrived = self._frames.expect(self._number)
        ended = asyncio.ensure_future(child.wait(timeout_s))
        either: set[asyncio.Future[Any]] = {arrived, ended}
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not arrived.done() and ended.result():
                # Its last words may still be in the pipe.
                await child.drained(_LINGER_S)
        finally:
            ended.cancel()
        if arrived.done():
            return self._parsed(arrived.result())
        if ended.result():
            raise WorkerFailed(await self._how_it_ended(child))
        raise WorkerFailed(f"took longer than {timeout_s:g} s")

    def _parsed(self, frame: bytes | None) -> JsonValue:
        try:
            if frame is not None:
                return parse_json(frame, place="reply")
        except InputError:
            pass
        raise WorkerFailed("sent something that is not a reply")

    async def _how_it_ended(self, child: Child) -> str:
        await self.close()
        code = child.returncode or 0
        how = exit_line(code, is_shell=False) if code >= 0 else f"ended by {signal_name(-code)}"
        said = self._errors.data.decode("utf-8", "replace").strip()
        return f"ended in the middle of a case: {how}" + (f"\n{said}" if said else "")


class _Frames:
    """Cuts the stream of replies into frames; a broken frame, or one of another number, arrives as None."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._number = 0
        self._arrived: asyncio.Future[bytes | None] | None = None

    @property
    def has_more(self) -> bool:
        """Whether there is something after the last frame that was taken."""
        return bool(self._data)

    def expect(self, number: int) -> asyncio.Future[bytes | None]:
        """Return the future of the next frame, which has to bear `number`."""
        self._number = number
        self._arrived = asyncio.get_running_loop().create_future()
        self._cut()
        return self._arrived

    def add(self, piece: bytes) -> None:
        # Past that it is no reply, and is found broken.
        if len(self._data) <= REPLY_CAP + _HEADER_CAP:
            self._data += piece
        self._cut()

    def _cut(self) -> None:
        if self._arrived is None or self._arrived.done():
            return
        header, newline, rest = self._data.partition(b"\n")
        if not newline:
            if len(header) > _HEADER_CAP:
                self._arrived.set_result(None)
            return
        length, _, number = header.partition(b" ")
        is_header = length.isdigit() and number.isdigit() and len(header) <= _HEADER_CAP
        if not is_header or int(length) > REPLY_CAP or int(number) != self._number:
            self._arrived.set_result(None)
        elif len(rest) >= int(length):
            self._arrived.set_result(bytes(rest[: int(length)]))
            self._data = rest[int(length) :]
