"""Reading and feeding the pipes of a child inside the event loop, with memory that does not grow.

A reader never stops reading at its cap: a program that is not read from would block and miss its own end.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import IO, Final, Protocol

_PIECE: Final = 1 << 16
# What is taken after everybody's end: more than any pipe holds, so only a runaway writer is left behind.
_LAST_PIECES: Final = 32


class Sink(Protocol):
    """Takes the pieces of a stream as they come."""

    def add(self, piece: bytes) -> None: ...


class Head:
    """Keeps the first `cap` bytes; cut says that there were more."""

    def __init__(self, cap: int):
        self.data = bytearray()
        self.cut = False
        self._cap = cap

    def add(self, piece: bytes) -> None:
        room = self._cap - len(self.data)
        if len(piece) > room:
            self.cut = True
            piece = piece[:room]
        self.data += piece


class Tail:
    """Keeps the last `cap` bytes, as an error stands at the end; cut says that there were more."""

    def __init__(self, cap: int):
        self.data = bytearray()
        self.cut = False
        self._cap = cap

    def add(self, piece: bytes) -> None:
        self.data += piece
        if len(self.data) > self._cap:
            self.cut = True
            del self.data[: -self._cap]


class PipeReader:
    """Moves what arrives in a pipe into a sink; `finished` is set when the last writer has closed it."""

    def __init__(self, pipe: IO[bytes], sink: Sink):
        self._pipe = pipe
        self._sink = sink
        self._loop = asyncio.get_running_loop()
        self.finished: asyncio.Future[None] = self._loop.create_future()
        os.set_blocking(pipe.fileno(), False)
        self._loop.add_reader(pipe.fileno(), self._read)

    def close(self) -> None:
        """Take what is there, without waiting, and close."""
        for _ in range(_LAST_PIECES):
            if self.finished.done() or not self._read():
                break
        self._finish()

    def _read(self) -> bool:
        """Take one piece; False when there is none. One a turn, so that a flood does not starve the others."""
        try:
            piece = os.read(self._pipe.fileno(), _PIECE)
        except BlockingIOError:
            return False
        except OSError:
            piece = b""
        if piece:
            self._sink.add(piece)
            return True
        self._finish()
        return False

    def _finish(self) -> None:
        if not self._pipe.closed:
            self._loop.remove_reader(self._pipe.fileno())
            self._pipe.close()
        if not self.finished.done():
            self.finished.set_result(None)


class PipeWriter:
    """Feeds bytes to a child; a child that does not want them is no error."""

    def __init__(self, pipe: IO[bytes] | None, data: bytes | None):
        self._pipe = pipe
        self._rest = memoryview(b"")
        self._closing = data is not None
        self._loop = asyncio.get_running_loop()
        if pipe is not None:
            os.set_blocking(pipe.fileno(), False)
            self.send(data or b"")

    def send(self, data: bytes) -> None:
        """Write `data` after what is still waiting."""
        if self._pipe is None or self._pipe.closed:
            return
        self._rest = memoryview(bytes(self._rest) + data)
        self._loop.add_writer(self._pipe.fileno(), self._write)

    def close(self) -> None:
        """Close the pipe; what was not written yet is dropped."""
        if self._pipe is not None and not self._pipe.closed:
            self._loop.remove_writer(self._pipe.fileno())
            with contextlib.suppress(OSError):
                self._pipe.close()

    def _write(self) -> None:
        assert self._pipe is not None
        try:
            if self._rest:
                self._rest = self._rest[os.write(self._pipe.fileno(), self._rest[:_PIECE]) :]
        except BlockingIOError:
            return
        except OSError:
            # EPIPE: the child closed its stdin or ended; what it says counts, not what it read.
            self._rest, self._closing = memoryview(b""), True
        if self._rest:
            return
        self._loop.remove_writer(self._pipe.fileno())
        if self._closing:
            self.close()
