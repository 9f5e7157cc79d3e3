"""From the bytes of an answer to the answer, for every wire shape: whole bodies and streams.

What is not a whole answer is raised, never returned: a page instead of JSON, an error object under status 200, a stream
without its last event. Only the agent's own failures come back as answers, with `failed` set.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, Protocol

from fairtrial.errors import InfraError, InputError
from fairtrial.hashing import JsonValue
from fairtrial.providers.answer import ModelAnswer, Stop
from fairtrial.providers.anthropic_messages import MessageStream, read_message
from fairtrial.providers.faults import FAULTS, error_object, infra_error, kind_of, words_of
from fairtrial.providers.openai_chat import ChatStream, read_chat
from fairtrial.providers.openai_responses import ResponseStream, read_response
from fairtrial.providers.shape import NotTheShape, Shape
from fairtrial.providers.sse import MAX_EVENT_BYTES, EventReader, TooLong
from fairtrial.spec.strict_json import parse_json

MAX_BODY_BYTES: Final = 8 * 1024**2
"""A whole answer, unpacked: more text than any model writes in one answer."""
MAX_ERROR_BYTES: Final = 64 * 1024
"""How much of an error's body is read."""

_READ: Final = {
    "openai-chat": read_chat,
    "openai-responses": read_response,
    "anthropic-messages": read_message,
}


class _Stream(Protocol):
    is_complete: bool

    def take(self, name: str, value: JsonValue) -> None: ...

    def answer(self) -> ModelAnswer: ...


_STREAMS: Final[dict[Shape, type[_Stream]]] = {
    "openai-chat": ChatStream,
    "openai-responses": ResponseStream,
    "anthropic-messages": MessageStream,
}


@dataclass(frozen=True, slots=True)
class Head:
    """What the head of an answer says about it.

    retry_after_s   the wait it asks for, passed on
    again           its own word on whether another try makes sense, None without one
    redact          takes the key out of what a provider says
    """

    status: int = 200
    retry_after_s: float | None = None
    again: bool | None = None
    redact: Callable[[str], str] = str


_PLAIN: Final = Head()


def read_answer(shape: Shape, body: bytes, head: Head = _PLAIN) -> ModelAnswer:
    """Return the answer in a whole body, or the agent's failure that it tells of.

    A body under another status than 2xx is an error, whatever it holds. Raises InfraError, and StopTheRun where every
    further call would fail too.
    """
    if not 200 <= head.status < 300:
        return _told(head, _json_or_none(body))
    value = _json(body, what="the answer", max_bytes=MAX_BODY_BYTES)
    if error_object(value) is not None:
        return _told(replace(head, status=200), value)
    if not isinstance(value, dict):
        raise infra_error("bad_answer", "the answer is JSON, but not an object.")
    try:
        return _READ[shape](value)
    except NotTheShape as problem:
        raise _not_the_shape(shape, problem) from None


class AnswerStream:
    """Reads one streamed answer from its bytes.

    n_events counts what came, so that whoever waits can tell progress from comments that only keep a line open.
    """

    def __init__(self, shape: Shape, head: Head = _PLAIN) -> None:
        self.n_events = 0
        self._shape = shape
        self._told_by = replace(head, status=200)
        self._events = EventReader()
        self._stream = _STREAMS[shape]()
        self._failed: ModelAnswer | None = None
        self._head = bytearray()

    @property
    def is_complete(self) -> bool:
        """Return whether the last event has come; nothing after it counts."""
        return self._stream.is_complete or self._failed is not None

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes. Raises InfraError for an error among the events, and for another shape."""
        if len(self._head) < MAX_ERROR_BYTES:
            self._head += chunk[: MAX_ERROR_BYTES - len(self._head)]
        try:
            events = self._events.feed(chunk)
            for event in events:
                if not self.is_complete:
                    self._take(event.name, event.data)
        except TooLong as problem:
            raise infra_error("too_large", f"{problem}.") from None
        except NotTheShape as problem:
            raise _not_the_shape(self._shape, problem) from None

    def finish(self) -> ModelAnswer:
        """Return the answer. Raises InfraError when the stream ended before its last event, or never was one."""
        if not self.is_complete:
            self._take_last()
        if self._failed is not None:
            return self._failed
        if not self._stream.is_complete:
            raise self._cut()
        if isinstance(self._stream, ResponseStream) and self._stream.failure is not None:
            return _told(self._told_by, {"error": self._stream.failure})
        try:
            return self._stream.answer()
        except NotTheShape as problem:
            raise _not_the_shape(self._shape, problem) from None

    def _take(self, name: str, data: bytes) -> None:
        self.n_events += 1
        if self._shape == "openai-chat" and data.strip() == b"[DONE]":
            self._stream.take(name, None)
            return
        value = _json(data, what="an event of the stream", max_bytes=MAX_EVENT_BYTES)
        if error_object(value) is not None or name == "error":
            self._failed = _told(self._told_by, value if error_object(value) is not None else {"error": value})
            return
        self._stream.take(name, value)

    def _take_last(self) -> None:
        """Take an event that lacks only the blank line after it; some servers leave that out at the very end."""
        for event in self._events.end():
            try:
                self._take(event.name, event.data)
            except (InfraError, NotTheShape):
                # What a cut left of an event. It is not complete, so neither is the stream.
                return

    def _cut(self) -> Exception:
        if self.n_events:
            return infra_error("cut", f"the stream ended after {self.n_events:,} events, before its last one.")
        head = bytes(self._head).strip()
        if head and not head.startswith((b":", b"data:", b"event:", b"id:", b"retry:")):
            # A server that cannot stream, or a page: read as what it is.
            try:
                read_answer(self._shape, head)
            except InfraError as problem:
                return problem
            return infra_error("bad_answer", "a stream was asked for, and a whole answer came.")
        return infra_error("cut", "the stream ended before its first event.")


def _told(head: Head, value: JsonValue) -> ModelAnswer:
    """Return the agent's failure that an error tells of. Raises InfraError when it is not the agent's."""
    error = error_object(value, is_error=True)
    kind = kind_of(head.status, error)
    said = words_of(error, redact=head.redact)
    if FAULTS[kind].action == "fail":
        stop: Stop = "refused" if kind == "refused" else "other"
        return ModelAnswer(text="", stop=stop, refusal=said.lstrip(": ") or None, failed=kind)
    where = f"status {head.status}" if head.status != 200 else "status 200 with an error"
    message = f"{FAULTS[kind].about} ({where}){said}"
    ended = message if message.endswith((".", '"')) else message + "."
    raise infra_error(kind, ended, retry_after_s=head.retry_after_s, again=head.again)


def _json(data: bytes, *, what: str, max_bytes: int) -> JsonValue:
    """Return the value of strict JSON. Raises InfraError that says what stands there instead, without the content."""
    head = data[:400].lstrip().lower()
    if not head and not data.strip():
        raise infra_error("bad_answer", f"{what} is empty.")
    if head.startswith((b"<!doctype", b"<html", b"<head", b"<body", b"<?xml")):
        raise infra_error("bad_answer", f"{what} is an HTML page; a login page or a proxy may have sent it.")
    try:
        return parse_json(data, place=what, max_bytes=max_bytes)
    except InputError as problem:
        raise infra_error("bad_answer", f"{problem.place or what}: {problem.message}") from None


def _json_or_none(body: bytes) -> JsonValue:
    try:
        return parse_json(body, place="error", max_bytes=MAX_ERROR_BYTES)
    except InputError:
        return None


def _not_the_shape(shape: Shape, problem: NotTheShape) -> Exception:
    return infra_error("bad_answer", f"the answer does not have the shape {shape}: {problem}.")
