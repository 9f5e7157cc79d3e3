"""Server-sent events from bytes.

A chunk may end anywhere: inside a character, between CR and LF, before a colon. Only whole lines are looked at. An
event that no blank line ended comes from `end` alone, because a cut stream leaves one behind too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MAX_EVENT_BYTES: Final = 8 * 1024**2
"""One event. The longest known are the last ones of the responses API, which repeat request and answer."""
MAX_STREAM_BYTES: Final = 64 * 1024**2
"""All of a stream, unpacked: about 250 bytes an event, one event a token, and more tokens than a model writes."""

_MARK: Final = b"\xef\xbb\xbf"


class TooLong(Exception):
    """A stream or one of its events is over its cap. The message says which."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event: its name, "message" when it has none, and its data lines joined by LF."""

    name: str
    data: bytes


class EventReader:
    """Gives the events of one stream, chunk by chunk."""

    def __init__(self, *, max_event_bytes: int = MAX_EVENT_BYTES, max_bytes: int = MAX_STREAM_BYTES):
        self._max_event_bytes = max_event_bytes
        self._max_bytes = max_bytes
        self._n_read = 0
        self._started = False
        self._after_cr = False
        self._line = bytearray()
        self._name = b""
        self._data: list[bytes] = []
        self._data_bytes = 0

    def feed(self, chunk: bytes) -> list[Event]:
        """Return the events that this chunk completes. Raises TooLong."""
        self._n_read += len(chunk)
        if self._n_read > self._max_bytes:
            raise TooLong(f"the stream is longer than {self._max_bytes:,} bytes")
        if self._after_cr and chunk.startswith(b"\n"):
            chunk = chunk[1:]
            self._after_cr = False
        if not chunk:
            return []
        self._after_cr = chunk.endswith(b"\r")
        # Of the bytes that splitlines knows, only these two end a line: bytes.splitlines looks at no other.
        lines = chunk.splitlines(keepends=True)
        events: list[Event] = []
        for piece in lines:
            whole = piece.endswith((b"\n", b"\r"))
            self._line += piece.rstrip(b"\r\n") if whole else piece
            if len(self._line) + self._data_bytes > self._max_event_bytes:
                raise TooLong(f"an event of the stream is longer than {self._max_event_bytes:,} bytes")
            if whole:
                self._end_line(events)
        return events

    def end(self) -> list[Event]:
        """Return the event that was begun when the stream ended, if any. It may be cut anywhere."""
        events: list[Event] = []
        self._end_line(events)
        self._end_event(events)
        return events

    def _end_line(self, events: list[Event]) -> None:
        line = bytes(self._line)
        self._line.clear()
        if not self._started:
            self._started = True
            line = line.removeprefix(_MARK)
        if not line:
            self._end_event(events)
            return
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._data.append(value)
            self._data_bytes += len(value) + 1
        elif field == b"event":
            self._name = value

    def _end_event(self, events: list[Event]) -> None:
        if self._data:
            events.append(Event(self._name.decode("utf-8", "replace") or "message", b"\n".join(self._data)))
        self._name = b""
        self._data = []
        self._data_bytes = 0
