"""A loopback stand-in for an S3 server that goes wrong as it is told to: R12.

It keeps objects in memory and speaks only what the object store asks for. Servers that behave are tested with a real
one; this one is for answers that a real one cannot be made to give.
"""

from __future__ import annotations

import contextlib
import hashlib
import socket
import struct
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final
from urllib.parse import unquote, urlsplit

from tests.servers import s3_environment


@dataclass
class StandIn:
    """What the server holds and has heard, and what goes wrong with which call.

    faults  (method, what, how many times); a call is counted off the first one that fits its method, "*" fits all
    calls   (method, key) of every call, in order
    """

    objects: dict[str, bytes] = field(default_factory=dict)
    calls: list[tuple[str, str]] = field(default_factory=list)
    faults: list[list[object]] = field(default_factory=list)
    names_the_condition: bool = False
    closing: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)
    port: int = 0

    @property
    def environ(self) -> dict[str, str]:
        return s3_environment(f"http://127.0.0.1:{self.port}")

    def fail(self, method: str, what: str, times: int = 10**9) -> None:
        self.faults.append([method, what, times])

    def heal(self) -> None:
        self.faults.clear()

    def next_fault(self, method: str) -> str:
        with self.lock:
            for fault in self.faults:
                if fault[0] in (method, "*") and isinstance(fault[2], int) and fault[2] > 0:
                    fault[2] -= 1
                    return str(fault[1])
        return ""


@contextlib.contextmanager
def stand_in() -> Iterator[StandIn]:
    """Yield a server with one empty bucket named `exp`."""
    state = StandIn()

    class Handler(_Handler):
        told = state

    server = _Server(("127.0.0.1", 0), Handler)
    state.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield state
    finally:
        state.closing.set()
        server.shutdown()
        thread.join()
        server.server_close()


_CODES: Final = {"500": "InternalError", "501": "NotImplemented", "503": "SlowDown"}


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that hung up on us was told something wrong on purpose."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    told: StandIn

    def log_message(self, format: str, *_: object) -> None:
        """Say nothing."""

    def do_PUT(self) -> None:
        key = self._begin()
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        fault = self.told.next_fault("PUT")
        if self._broken(fault):
            return
        source = self.headers.get("x-amz-copy-source")
        with self.told.lock:
            if source is not None:
                copied = self.told.objects.get(unquote(source).split("/", 2)[-1].removeprefix("exp/"))
                body = copied if copied is not None else body
            elif self.headers.get("If-None-Match") == "*" and key in self.told.objects:
                self._refuse_condition()
                return
            self.told.objects[key] = body[: len(body) // 2] if fault == "cut" else body
        answer = b"<CopyObjectResult><ETag>x</ETag></CopyObjectResult>" if source is not None else b""
        self._answer(200, answer, tag=_tag(b"other" if fault == "wrong etag" else self.told.objects[key]))

    def do_GET(self) -> None:
        key = self._begin()
        if self._broken(fault := self.told.next_fault("GET")):
            return
        with self.told.lock:
            found = self.told.objects.get(key)
        if found is None or fault == "late":
            self._error(404, "NoSuchKey")
        elif fault in ("drip", "reset", "short"):
            self._badly(found, fault)
        else:
            self._answer(200, found, tag=_tag(b"other" if fault == "wrong etag" else found))

    def do_HEAD(self) -> None:
        key = self._begin()
        if self._broken(self.told.next_fault("HEAD")):
            return
        with self.told.lock:
            found = self.told.objects.get(key)
        if found is None:
            self._answer(404, b"")
        else:
            self._answer(200, found, tag=_tag(found))

    def do_DELETE(self) -> None:
        key = self._begin()
        if self._broken(self.told.next_fault("DELETE")):
            return
        with self.told.lock:
            self.told.objects.pop(key, None)
        self._answer(204, b"")

    def _begin(self) -> str:
        _, _bucket, key = unquote(urlsplit(self.path).path).split("/", 2)
        with self.told.lock:
            self.told.calls.append((self.command, key))
        return key

    def _broken(self, fault: str) -> bool:
        """Answer by a fault that needs no object, and return whether that was one."""
        if fault.isdecimal():
            self._error(int(fault), _CODES.get(fault, "Other"))
        elif fault == "error in 200":
            self._answer(200, b'<?xml version="1.0"?>\n<Error><Code>InternalError</Code><Message>x</Message></Error>')
        elif fault == "page":
            self._answer(200, b"<!doctype html><html><body>Sign in to the network</body></html>")
        elif fault == "not found page":
            self._answer(404, b"<html><body>nothing here</body></html>")
        elif fault == "silent":
            self.told.closing.wait()
            self.close_connection = True
        else:
            return False
        return True

    def _badly(self, found: bytes, fault: str) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(found)))
        self.send_header("ETag", _tag(found))
        self.end_headers()
        self.close_connection = True
        if fault == "drip":
            for byte in found:
                self.wfile.write(bytes([byte]))
                if self.told.closing.wait(1.0):
                    return
            return
        self.wfile.write(found[: len(found) // 2])
        self.wfile.flush()
        if fault == "reset":
            # No time to linger: the close is a reset instead of an orderly end.
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()

    def _refuse_condition(self) -> None:
        named = "<Condition>If-None-Match</Condition>" if self.told.names_the_condition else ""
        self._error(412, "PreconditionFailed", named)

    def _error(self, status: int, code: str, more: str = "") -> None:
        body = f'<?xml version="1.0"?><Error><Code>{code}</Code><Message>no</Message>{more}</Error>'.encode()
        self._answer(status, body)

    def _answer(self, status: int, body: bytes, *, tag: str | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Type", "application/xml")
        if tag is not None:
            self.send_header("ETag", tag)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _tag(data: bytes) -> str:
    return f'"{hashlib.md5(data, usedforsecurity=False).hexdigest()}"'
