"""The one HTTP client: a request's bytes out, an answer or a named fault back.

A timeout of the library is no deadline: a server that sends a byte a second never meets it. Here one clock runs around
the whole call, and every byte is counted before and after it is unpacked.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from fairtrial.errors import InfraError
from fairtrial.providers.answer import ModelAnswer
from fairtrial.providers.faults import StopTheRun, infra_error
from fairtrial.providers.proxy import proxy_for
from fairtrial.providers.retry_after import retry_after_s
from fairtrial.providers.shape import Shape
from fairtrial.providers.sse import MAX_STREAM_BYTES
from fairtrial.providers.unpack import Damaged, Unpacker
from fairtrial.providers.wire import MAX_BODY_BYTES, MAX_ERROR_BYTES, AnswerStream, Head, read_answer
from fairtrial.redact import Redactor

if TYPE_CHECKING:
    import httpx

IDLE_S: Final = 120.0
"""The longest silence between two events of a stream, or two pieces of a body that has begun."""
MAX_WIRE_BYTES: Final = MAX_STREAM_BYTES
"""What comes over the wire in one answer, packed or not."""

# After the last event a server may take a moment to end its answer; only then can the connection be used again.
_LINGER_S: Final = 0.2
_CLOSE_S: Final = 0.5
_KEY_HEADERS: Final = ("authorization", "x-api-key", "api-key")
_REQUEST_ID: Final = ("x-request-id", "request-id", "apim-request-id")
# Faults of a handshake that the next one would meet too; others may be a connection that was reset.
_TLS_REASONS: Final = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE", "UNSUPPORTED_PROTOCOL")


@dataclass(frozen=True, slots=True)
class Call:
    """One request, ready to send.

    deadline_s   seconds for all of it, from the first step of connecting to the last byte
    idle_s       the longest silence between events, or pieces of a body; before a whole answer begins it does not run,
                 because a model that is not streaming says nothing while it thinks
    """

    shape: Shape
    url: str
    headers: Mapping[str, str]
    body: bytes
    stream: bool
    deadline_s: float
    idle_s: float = IDLE_S


class ModelClient:
    """Asks models. Made and closed in one event loop.

    connections   most connections at a time
    proxy_env     variables that name proxies; None for none, whatever the environment says
    """

    def __init__(self, *, connections: int = 100, proxy_env: Mapping[str, str] | None = None) -> None:
        self._connections = connections
        self._proxy_env = proxy_env or {}
        self._clients: dict[str | None, httpx.AsyncClient] = {}

    async def ask(self, call: Call) -> ModelAnswer:
        """Return the answer, or the agent's failure as one.

        Raises InfraError, and StopTheRun where every further call would fail too; the key is in neither.
        """
        redactor = Redactor({"api key": _key_in(call.headers)})
        try:
            return await self._ask(call, redactor)
        except StopTheRun as error:
            raise StopTheRun(redactor.redact_text(error.message), kind=error.kind, scope=error.scope) from None
        except InfraError as error:
            raise InfraError(
                redactor.redact_text(error.message),
                kind=error.kind,
                retryable=error.retryable,
                retry_after_s=error.retry_after_s,
            ) from None

    async def close(self) -> None:
        """Close every connection; safe to call twice."""
        clients, self._clients = list(self._clients.values()), {}
        for client in clients:
            await client.aclose()

    async def _ask(self, call: Call, redactor: Redactor) -> ModelAnswer:
        # Importing the HTTP libraries takes half a second.
        from fairtrial.providers import transport

        loop = asyncio.get_running_loop()
        watch = _Watch(deadline=loop.time() + call.deadline_s, idle_s=call.idle_s)
        client = self._client_for(call.url)
        request = transport.new_request(client, call.url, headers=dict(call.headers), body=call.body)
        reading = _Reading(call, redactor)
        response = None
        try:
            async with asyncio.timeout_at(None) as watch.timer:
                watch.goes_on(idle=call.stream)
                response = await client.send(request, stream=True, follow_redirects=False)
                watch.goes_on(idle=True)
                return await reading.read(response, watch)
        except TimeoutError:
            if reading.is_complete:
                return reading.answer()
            raise _too_late(call, late=loop.time() >= watch.deadline, has_head=response is not None) from None
        except transport.ERRORS as error:
            if reading.is_complete:
                return reading.answer()
            raise _broken(call, error, has_head=response is not None) from None
        finally:
            if response is not None:
                await _close(response)

    def _client_for(self, url: str) -> httpx.AsyncClient:
        from fairtrial.providers.transport import new_client

        proxy = proxy_for(url, self._proxy_env)
        if proxy not in self._clients:
            self._clients[proxy] = new_client(connections=self._connections, proxy=proxy)
        return self._clients[proxy]


class _Watch:
    """The clock of one call: the deadline, and before it the end of a silence."""

    def __init__(self, *, deadline: float, idle_s: float) -> None:
        self.deadline = deadline
        self.timer: asyncio.Timeout
        self._idle_s = idle_s

    def goes_on(self, *, idle: bool = True) -> None:
        """Begin a new silence; without idle only the deadline counts."""
        now = asyncio.get_running_loop().time()
        self.timer.reschedule(min(self.deadline, now + self._idle_s) if idle else self.deadline)

    def ends(self) -> None:
        """Leave a moment for the end of an answer that is whole."""
        now = asyncio.get_running_loop().time()
        self.timer.reschedule(min(self.deadline, now + _LINGER_S))


class _Reading:
    """Reads one answer, so that what was whole before a fault can still be taken."""

    def __init__(self, call: Call, redactor: Redactor) -> None:
        self._call = call
        self._redactor = redactor
        self._stream: AnswerStream | None = None
        self._request_id: str | None = None

    @property
    def is_complete(self) -> bool:
        """Return whether a stream has had its last event."""
        return self._stream is not None and self._stream.is_complete

    def answer(self) -> ModelAnswer:
        """Return the answer of a stream. Raises InfraError when it ended too early."""
        if self._stream is None:
            raise AssertionError("only a stream has an answer before its end")
        return replace(self._stream.finish(), request_id=self._request_id)

    async def read(self, response: httpx.Response, watch: _Watch) -> ModelAnswer:
        """Return the answer in a response. Raises InfraError."""
        head = Head(
            status=response.status_code,
            retry_after_s=retry_after_s(response.headers.multi_items(), now=datetime.now(UTC)),
            again=_again(response),
            redact=self._redactor.redact_text,
        )
        self._request_id = next((found for name in _REQUEST_ID if (found := response.headers.get(name))), None)
        is_fine = 200 <= head.status < 300
        if is_fine and self._call.stream and _may_be_stream(response):
            self._stream = AnswerStream(self._call.shape, head)
            await self._follow(self._stream, response, watch)
            return self.answer()
        body = bytearray()
        async for piece in _pieces(response):
            body += piece
            watch.goes_on()
            if not is_fine and len(body) > MAX_ERROR_BYTES:
                del body[MAX_ERROR_BYTES:]
                break
            if len(body) > MAX_BODY_BYTES:
                raise infra_error("too_large", f"the answer is longer than {MAX_BODY_BYTES:,} bytes.")
        answer = read_answer(self._call.shape, bytes(body), head)
        return replace(answer, request_id=self._request_id)

    async def _follow(self, stream: AnswerStream, response: httpx.Response, watch: _Watch) -> None:
        n_events = 0
        was_complete = False
        async for piece in _pieces(response):
            stream.feed(piece)
            if stream.is_complete and not was_complete:
                was_complete = True
                watch.ends()
            elif stream.n_events > n_events:
                # Only an event is a sign of life: comments come from machines between us and the model.
                n_events = stream.n_events
                watch.goes_on()


async def _pieces(response: httpx.Response) -> AsyncIterator[bytes]:
    """Yield an answer's body, unpacked. Raises InfraError over the cap, for another packing, and for a cut one."""
    announced = response.headers.get("content-length", "")
    if announced.isascii() and announced.isdecimal() and int(announced[:20]) > MAX_WIRE_BYTES:
        raise infra_error("too_large", f"the answer announces more than {MAX_WIRE_BYTES:,} bytes.")
    packing = response.headers.get("content-encoding", "identity").strip().lower()
    if packing not in ("gzip", "x-gzip", "identity", ""):
        raise infra_error("bad_answer", "the answer is packed in a way that was not asked for.")
    unpacker = Unpacker() if packing.endswith("gzip") else None
    n_read = 0
    async for raw in response.aiter_raw():
        n_read += len(raw)
        if n_read > MAX_WIRE_BYTES:
            raise infra_error("too_large", f"the answer is longer than {MAX_WIRE_BYTES:,} bytes.")
        if unpacker is None:
            yield raw
            continue
        try:
            for piece in unpacker.feed(raw):
                yield piece
        except Damaged:
            raise infra_error("bad_answer", "the answer says it is gzip and is not.") from None
    if unpacker is not None and not unpacker.is_whole:
        raise infra_error("cut", "the packed answer ended before its end.")


async def _close(response: httpx.Response) -> None:
    # Whatever goes wrong here, the answer or the fault is known already; the transport drops the connection.
    with contextlib.suppress(Exception):
        async with asyncio.timeout(_CLOSE_S):
            await response.aclose()


def _too_late(call: Call, *, late: bool, has_head: bool) -> InfraError:
    if late:
        return infra_error("timeout", f"{_host(call.url)} gave no whole answer within {call.deadline_s:g} s.")
    what = "stopped in its answer" if has_head else "said nothing"
    return infra_error("silent", f"{_host(call.url)} {what} for {call.idle_s:g} s.")


def _broken(call: Call, error: BaseException, *, has_head: bool) -> InfraError:
    """Return the fault that an exception of the transport is. Its own text may hold anything, so it is not shown."""
    chain: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and len(chain) < 10:
        chain.append(link)
        link = link.__cause__ or link.__context__
    host = _host(call.url)
    for link in chain:
        refused = isinstance(link, ssl.SSLCertVerificationError)
        if refused or (isinstance(link, ssl.SSLError) and getattr(link, "reason", None) in _TLS_REASONS):
            why = "its certificate is not accepted" if refused else "it does not speak TLS there"
            return infra_error("tls", f"no connection to {host}: {why}.")
    numbers = [link.errno for link in chain if isinstance(link, OSError) and link.errno]
    why = os.strerror(numbers[-1]) if numbers and numbers[-1] > 0 else type(chain[-1]).__name__
    if has_head:
        return infra_error("cut", f"the answer of {host} broke off ({why}).")
    return infra_error("network", f"no answer from {host} ({why}).")


def _host(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.hostname}:{parts.port}" if parts.port else f"{parts.hostname}"


def _key_in(headers: Mapping[str, str]) -> str:
    values = [value for name, value in headers.items() if name.lower() in _KEY_HEADERS]
    return values[0].removeprefix("Bearer ") if values else ""


def _again(response: httpx.Response) -> bool | None:
    return {"true": True, "false": False}.get(response.headers.get("x-should-retry", ""))


def _may_be_stream(response: httpx.Response) -> bool:
    """Return whether to read events: a server that cannot stream answers with JSON, and a page with HTML."""
    kind = response.headers.get("content-type", "").lower()
    return not kind.startswith(("application/json", "text/html"))
