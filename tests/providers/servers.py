"""Loopback servers that answer in the shapes that real ones fail in.

One handler is one shape: it writes whatever it likes once a request has been read.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

Handler = Callable[[asyncio.StreamWriter, int], Awaitable[None]]

ANSWER = json.dumps(
    {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "model": "m-1",
        "choices": [{"index": 0, "message": {"content": "4"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 1, "total_tokens": 11},
    }
).encode()


def event(**delta: Any) -> bytes:
    return b"data: " + json.dumps({"choices": [{"index": 0, "delta": delta}]}).encode() + b"\n\n"


LAST = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'


@dataclass
class Server:
    """A server that runs. requests are their heads and bodies, in the order they came."""

    port: int
    requests: list[tuple[bytes, bytes]] = field(default_factory=list)
    connections: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1/chat/completions"


@asynccontextmanager
async def serving(handler: Handler, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    """Serve until the block ends; whatever a handler is doing then is ended with it."""
    tasks: set[asyncio.Task[Any]] = set()
    server = Server(port=0)

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        server.connections += 1
        try:
            while True:
                request = await reader.readuntil(b"\r\n\r\n")
                length = int(request.lower().partition(b"content-length:")[2].split(b"\r\n")[0] or 0)
                server.requests.append((request, await reader.readexactly(length)))
                await handler(writer, len(server.requests))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError, ssl.SSLError):
            pass
        finally:
            writer.close()
            with contextlib.suppress(Exception):
                await writer.wait_closed()
            tasks.discard(task)

    listening = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=tls)
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listening.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await listening.wait_closed()


def self_signed(folder: Path) -> ssl.SSLContext:
    """Return the server's side of TLS with a certificate of its own."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    file = folder / "server.pem"
    file.write_bytes(private + certificate.public_bytes(pem))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    return context


def head(status: str = "200 OK", *lines: str, kind: str = "application/json") -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status}", f"content-type: {kind}", *lines, "", ""]).encode()


def whole(body: bytes, status: str = "200 OK", *lines: str, kind: str = "application/json") -> bytes:
    return head(status, f"content-length: {len(body)}", *lines, kind=kind) + body


def chunked(*pieces: bytes, end: bool = True) -> bytes:
    packed = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
    return packed + (b"0\r\n\r\n" if end else b"")


def says(*pieces: bytes, close: bool = False) -> Handler:
    """Write the pieces at once."""

    async def handler(writer: asyncio.StreamWriter, _number: int) -> None:
        for piece in pieces:
            writer.write(piece)
        await writer.drain()
        if close:
            writer.close()

    return handler


def says_slowly(*pieces: bytes) -> Handler:
    """Write the pieces with a moment between them, so that each is read alone; then close."""

    async def handler(writer: asyncio.StreamWriter, _number: int) -> None:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0.05)
        writer.close()

    return handler


def says_and_waits(*pieces: bytes) -> Handler:
    """Write the pieces, then say nothing and keep the connection open."""

    async def handler(writer: asyncio.StreamWriter, number: int) -> None:
        await says(*pieces)(writer, number)
        await asyncio.sleep(60)

    return handler


def drips(first: bytes, piece: bytes, *, every_s: float) -> Handler:
    """Write the first piece, then another one again and again."""

    async def handler(writer: asyncio.StreamWriter, _number: int) -> None:
        writer.write(first)
        while True:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(every_s)

    return handler
