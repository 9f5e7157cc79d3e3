"""The process that is the local Prefect server: Prefect's own application behind one check of ours.

Started by flows.local_server as `python -P -m flows.server_process STATE_DIR SOCKET LOCK`, never by hand. The lock must
stay open for as long as the process lives: it is how others know that there is a server.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit

from flows.server_record import announce

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Application: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

# uvicorn waits for open web sockets for ever unless told otherwise, and a UI in a browser keeps one open.
_FAREWELL_S: Final = 5
_REFUSAL: Final = b"This server answers programs and pages of this machine only.\n"


def main(arguments: list[str]) -> int:
    """Serve until told to stop; returns the exit status."""
    state_dir, socket_fd, lock_fd = Path(arguments[0]), int(arguments[1]), int(arguments[2])
    # A child of the server that outlived it would hold the lock and look like a server.
    os.set_inheritable(lock_fd, False)
    listener = socket.socket(fileno=socket_fd)
    listener.set_inheritable(False)
    record = announce(state_dir)

    import uvicorn
    from prefect.server.api.server import create_app

    port = urlsplit(record.url).port
    config = uvicorn.Config(
        own_pages_only(create_app(final=True), hosts=[f"127.0.0.1:{port}", f"localhost:{port}"]),
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=_FAREWELL_S,
    )
    server = uvicorn.Server(config)
    server.run(sockets=[listener])
    return 0 if server.started else 3


def own_pages_only(application: Application, *, hosts: list[str]) -> Application:
    """Return the application behind a check of Host and Origin, which Prefect has no setting for.

    A page that got a name of its own to point at this machine sends that name as Host: refused with 400. A page from
    elsewhere sends its Origin: refused with 403. Programs send no Origin.
    """
    names = {host.encode("ascii") for host in hosts}
    origins = {b"http://" + name for name in names}

    async def checked(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket"):
            given = [(name, value.lower()) for name, value in scope["headers"]]
            host_is_ours = [value for name, value in given if name == b"host"] in [[name] for name in names]
            origin_is_ours = all(value in origins for name, value in given if name == b"origin")
            if not (host_is_ours and origin_is_ours):
                await _refuse(scope, receive, send, status=403 if host_is_ours else 400)
                return
        await application(scope, receive, send)

    return checked


async def _refuse(scope: Scope, receive: Receive, send: Send, *, status: int) -> None:
    if scope["type"] == "websocket":
        # Closing before accepting makes the handshake itself fail, with 403.
        await receive()
        await send({"type": "websocket.close", "code": 1008})
        return
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(_REFUSAL)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": _REFUSAL})


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
