"""A named server is asked in time; what is wrong is said with the setting's name, and no login is given away."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from fairtrial.errors import FairtrialError
from flows.local_server import check_named

Seen = list[tuple[str, str | None]]


@pytest.fixture
def answering() -> Iterator[Callable[[Callable[[str, str | None], int]], tuple[str, Seen]]]:
    """Start a server whose answer to (path, Authorization) is a status; returns its address and what it was asked."""
    servers: list[ThreadingHTTPServer] = []

    def start(status: Callable[[str, str | None], int]) -> tuple[str, Seen]:
        seen: Seen = []

        class Answer(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                seen.append((self.path, self.headers["Authorization"]))
                self.send_response(status(self.path, self.headers["Authorization"]))
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_arguments: object) -> None:
                """Keep the test's output clean."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
        servers.append(server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{server.server_port}/api", seen

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def refused(url: str, *, auth: str | None = None, timeout_s: float = 10.0) -> str:
    began = time.monotonic()
    with pytest.raises(FairtrialError) as caught:
        check_named(url, auth=auth, timeout_s=timeout_s)
    # The promise is the time limit itself; a loaded machine gets two seconds to start a thread and come back to us.
    assert time.monotonic() - began < timeout_s + 2
    assert (caught.value.code, caught.value.exit_status) == ("server_unreachable", 4)
    assert "PREFECT_API_URL" in str(caught.value)
    return str(caught.value)


def test_a_server_that_answers_and_takes_the_login_is_accepted(answering: Callable[..., tuple[str, Seen]]) -> None:
    # The header by hand: base64 of "me:secret".
    login = "Basic bWU6c2VjcmV0"
    url, seen = answering(lambda path, given: 200 if path == "/api/health" or given == login else 401)
    check_named(url, auth="me:secret")
    # Whether anybody is there is asked without the login.
    assert seen == [("/api/health", None), ("/api/admin/version", login)]
    check_named(url + "/", auth="me:secret")


def test_a_key_is_sent_as_a_token(answering: Callable[..., tuple[str, Seen]]) -> None:
    url, seen = answering(lambda path, given: 200 if path == "/api/health" or given == "Bearer pnu_1" else 401)
    check_named(url, auth=None, key="pnu_1")
    assert seen[-1] == ("/api/admin/version", "Bearer pnu_1")


def test_a_refused_login_names_the_setting_and_not_the_login(answering: Callable[..., tuple[str, Seen]]) -> None:
    url, _ = answering(lambda path, _given: 200 if path == "/api/health" else 401)
    told = refused(url, auth="me:canary-login")
    assert "PREFECT_API_AUTH_STRING" in told
    assert "canary-login" not in told


@pytest.mark.parametrize(("status", "word"), [(503, "503"), (404, "/api")])
def test_an_answer_that_is_not_prefects_is_unreachable(
    answering: Callable[..., tuple[str, Seen]], status: int, word: str
) -> None:
    url, seen = answering(lambda _path, _given: status)
    assert word in refused(url, auth="me:secret")
    assert seen == [("/api/health", None)]


def test_nobody_there_is_said_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    began = time.monotonic()
    assert f"127.0.0.1:{port}" in refused(f"http://127.0.0.1:{port}/api")
    assert time.monotonic() - began < 2


@pytest.mark.parametrize("drip", [b"", b"H"])
def test_a_server_that_accepts_and_says_nothing_or_drips_is_given_up_in_time(drip: bytes) -> None:
    # A byte now and then renews a socket's own limit for ever: the deadline must be over the whole question.
    done = threading.Event()

    def serve(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            while not done.wait(0.2):
                connection.sendall(drip)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=serve, args=(listener,))
        server.start()
        try:
            assert "no answer" in refused(f"http://127.0.0.1:{listener.getsockname()[1]}/api", timeout_s=1.0)
        finally:
            done.set()
            server.join(10)


@pytest.mark.parametrize("garbage", [b"SSH-2.0-OpenSSH_9.2\r\n", b"HTTP/1.1 abc\r\n\r\n", b""])
def test_something_that_speaks_no_http_is_unreachable(garbage: bytes) -> None:
    def serve(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(4096)
            connection.sendall(garbage)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=serve, args=(listener,))
        server.start()
        refused(f"http://127.0.0.1:{listener.getsockname()[1]}/api")
        server.join(10)


@pytest.mark.parametrize(
    "url",
    ["", "127.0.0.1:4200", "http://", "ftp://127.0.0.1/api", "http://[::1/api", "http://127.0.0.1:99999/api", "null"],
)
def test_what_is_no_address_is_said(url: str) -> None:
    refused(url)


def test_a_password_in_the_address_is_not_repeated() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    assert "canary" not in refused(f"http://me:canary@127.0.0.1:{port}/api")
    assert "canary" not in refused(f"http://me:canary@[::1:{port}/api")


def test_the_place_of_the_setting_is_told() -> None:
    with pytest.raises(FairtrialError, match=r"PREFECT_API_URL in \.env"):
        check_named("http://", auth=None, source="PREFECT_API_URL in .env")
