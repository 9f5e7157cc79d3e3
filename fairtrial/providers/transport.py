"""What the client needs of httpx and aiohttp; no other module imports them, and this one is imported late.

httpx is the interface and aiohttp carries the bytes, because httpx's own transport costs more the more connections it
has.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from http.cookiejar import DefaultCookiePolicy
from typing import Any, Final

import aiohttp
import httpx
from aiohttp.connector import Connection
from httpx_aiohttp import AiohttpTransport

CONNECT_S: Final = 15.0
"""The longest wait for a connection."""

ERRORS: Final = (httpx.HTTPError, httpx.StreamError, httpx.InvalidURL, aiohttp.ClientError, OSError)
"""What sending and reading raise."""

# A longer request goes out in pieces: in one it would hold up the event loop, and aiohttp warns of it.
_WHOLE_BYTES: Final = 256 * 1024


def new_client(*, connections: int, proxy: str | None) -> httpx.AsyncClient:
    """Return a client without cookies, redirects, .netrc, and proxies of the environment."""
    tls = httpx.create_ssl_context()

    def session() -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=connections, ssl=tls),
            cookie_jar=aiohttp.DummyCookieJar(),
            response_class=_Response,
            trust_env=False,
        )

    transport = AiohttpTransport(verify=tls, client=session, proxy=None if proxy is None else httpx.Proxy(proxy))
    client = httpx.AsyncClient(transport=transport, trust_env=False, follow_redirects=False)
    # One call must not change the next one.
    client.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=[]))
    return client


def new_request(client: httpx.AsyncClient, url: str, *, headers: dict[str, str], body: bytes) -> httpx.Request:
    """Return a POST without any limit of the library but that on connecting: the caller has the clock."""
    return client.build_request(
        "POST",
        url,
        headers={**headers, "content-length": str(len(body))},
        content=body if len(body) < _WHOLE_BYTES else _in_pieces(body),
        timeout=httpx.Timeout(None, connect=CONNECT_S),
    )


async def _in_pieces(body: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(body), _WHOLE_BYTES):
        yield body[start : start + _WHOLE_BYTES]


class _Response(aiohttp.ClientResponse):
    """An answer whose reader learns that the connection is gone.

    aiohttp 3.14 does not tell it when a chunk's length is no number: it closes the connection, and a reader would wait
    for its whole limit.
    """

    _gone: asyncio.Future[None] | None = None

    async def start(self, connection: Connection) -> aiohttp.ClientResponse:
        """Begin to read, and watch the connection until the answer is given back."""
        await super().start(connection)
        protocol = connection.protocol
        self._gone = None if protocol is None else protocol.closed
        if self._gone is not None:
            self._gone.add_done_callback(self._connection_is_gone)
            self._gone.remove_done_callback(_look_at)
            self._gone.add_done_callback(_look_at)
        return self

    def release(self) -> Any:
        """Give the connection back."""
        self._watch_no_more()
        return super().release()

    def close(self) -> None:
        """Close the connection."""
        self._watch_no_more()
        super().close()

    def _watch_no_more(self) -> None:
        if self._gone is not None:
            self._gone.remove_done_callback(self._connection_is_gone)
            self._gone = None

    def _connection_is_gone(self, _gone: asyncio.Future[None]) -> None:
        if not self.content.is_eof() and self.content.exception() is None:
            self.content.set_exception(aiohttp.ClientPayloadError("the connection ended before the answer did"))


def _look_at(gone: asyncio.Future[None]) -> None:
    # The loop complains of an exception that nobody looked at.
    if not gone.cancelled():
        gone.exception()
