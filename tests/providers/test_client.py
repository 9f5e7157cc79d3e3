"""The client against servers that fail as real ones do: each fault has its kind, and no clock is overrun."""

from __future__ import annotations

import asyncio
import gzip
import importlib
import json
import logging
import subprocess
import sys
import time
import tracemalloc
import zlib
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from fairtrial.errors import InfraError
from fairtrial.providers.answer import ModelAnswer
from fairtrial.providers.client import Call, ModelClient
from fairtrial.providers.faults import StopTheRun
from fairtrial.providers.proxy import proxy_for
from fairtrial.providers.request import request_headers
from fairtrial.providers.unpack import Unpacker
from tests.providers.servers import (
    ANSWER,
    LAST,
    Handler,
    Server,
    chunked,
    drips,
    event,
    head,
    says,
    says_and_waits,
    says_slowly,
    self_signed,
    serving,
    whole,
)

KEY = "sk-canary-0123456789"
SSE = "text/event-stream"
STREAM = head("200 OK", "transfer-encoding: chunked", kind=SSE)
# What a clock may be overrun by (R24).
SLACK_S = 1.0


@pytest.fixture(scope="module", autouse=True)
def _libraries() -> None:
    """Import them first: it takes a second, which no clock below is about."""
    importlib.import_module("fairtrial.providers.transport")


def call_of(url: str, *, stream: bool = False, deadline_s: float = 20.0, idle_s: float = 20.0) -> Call:
    return Call(
        shape="openai-chat",
        url=url,
        headers=request_headers("openai-chat", url=url, key=KEY, stream=stream),
        body=b'{"model": "m"}',
        stream=stream,
        deadline_s=deadline_s,
        idle_s=idle_s,
    )


def asked(handler: Handler, **limits: Any) -> ModelAnswer:
    async def main() -> ModelAnswer:
        client = ModelClient()
        async with serving(handler) as server:
            try:
                return await client.ask(call_of(server.url, **limits))
            finally:
                await client.close()

    return asyncio.run(main())


def fault(handler: Handler, **limits: Any) -> InfraError:
    with pytest.raises(InfraError) as caught:
        asked(handler, **limits)
    assert "canary" not in str(caught.value)
    return caught.value


def with_client(steps: Callable[[ModelClient, Server], Coroutine[Any, Any, None]], handler: Handler) -> None:
    async def main() -> None:
        client = ModelClient()
        async with serving(handler) as server:
            try:
                await steps(client, server)
            finally:
                await client.close()

    asyncio.run(main())


# --- answers ----------------------------------------------------------------------------------------------------------


def test_an_answer_comes_back_with_its_usage_and_request_id() -> None:
    answer = asked(says(whole(ANSWER, "200 OK", "x-request-id: req_1")))
    assert (answer.text, answer.model, answer.request_id) == ("4", "m-1", "req_1")
    assert (answer.usage.input_total, answer.usage.output_total) == (10, 1)


@pytest.mark.parametrize(
    "reply",
    [
        head("200 OK", "transfer-encoding: chunked") + chunked(ANSWER[:7], ANSWER[7:]),
        whole(gzip.compress(ANSWER), "200 OK", "content-encoding: gzip"),
        whole(gzip.compress(ANSWER[:9]) + gzip.compress(ANSWER[9:]), "200 OK", "content-encoding: x-gzip"),
        whole(ANSWER, "200 OK", "content-encoding: identity"),
        whole(ANSWER, "201 Created"),
    ],
)
def test_an_answer_may_be_packed_and_cut_up(reply: bytes) -> None:
    assert asked(says(reply)).text == "4"


def test_a_body_that_ends_with_its_connection_is_whole_when_its_json_is() -> None:
    assert asked(says(head() + ANSWER, close=True)).text == "4"
    assert fault(says(head() + ANSWER[:-9], close=True)).kind == "bad_answer"


def test_k85_a_stream_may_be_cut_inside_a_character() -> None:
    # The last byte of the four that make the emoji, by hand: U+1F600 is F0 9F 98 80.
    data = json.dumps({"choices": [{"index": 0, "delta": {"content": "\U0001f600"}}]}, ensure_ascii=False).encode()
    place = data.index(b"\x80")
    pieces = [b"data: " + data[:place], data[place:] + b"\n\n", LAST]
    assert asked(says(STREAM, *[chunked(piece, end=False) for piece in pieces], b"0\r\n\r\n"), stream=True).text == (
        "\U0001f600"
    )


def test_a_server_that_cannot_stream_is_read_all_the_same() -> None:
    assert asked(says(whole(ANSWER)), stream=True).text == "4"


def test_connections_are_used_again_also_after_a_stream() -> None:
    async def steps(client: ModelClient, server: Server) -> None:
        for _ in range(3):
            assert (await client.ask(call_of(server.url, stream=True))).text == "4"
        assert (len(server.requests), server.connections) == (3, 1)

    with_client(steps, says(STREAM + chunked(event(content="4"), LAST)))


def test_a_stream_that_stays_open_after_its_last_event_costs_a_moment_only() -> None:
    began = time.monotonic()
    assert asked(says_and_waits(STREAM + chunked(event(content="4"), LAST, end=False)), stream=True).text == "4"
    assert time.monotonic() - began < SLACK_S


def test_a_stream_that_breaks_after_its_last_event_is_whole() -> None:
    whole_stream = STREAM + chunked(event(content="4"), LAST, end=False)
    assert asked(says_slowly(whole_stream, b"rubbish\r\n"), stream=True).text == "4"


def test_no_cookie_of_one_call_is_in_the_next() -> None:
    async def steps(client: ModelClient, server: Server) -> None:
        for _ in range(2):
            await client.ask(call_of(server.url))
        assert all(b"cookie" not in sent.lower() for sent, _ in server.requests)

    with_client(steps, says(whole(ANSWER, "200 OK", "set-cookie: a=b; path=/")))


# --- R21 to R23, R25, R26: each shape has its kind --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (whole(b"busy", "500 Oops"), "server_error"),
        (whole(b"<html>502</html>", "502 Bad Gateway", kind="text/html"), "server_error"),
        (whole(b"", "503 Busy"), "overloaded"),
        (whole(b'{"type":"error","error":{"type":"overloaded_error"}}', "529 Overloaded"), "overloaded"),
        (whole(b'{"error":{"message":"m"}}'), "error_in_answer"),
        (whole(b"<!doctype html><p>Log in", kind="text/html"), "bad_answer"),
        (whole(b""), "bad_answer"),
        (whole(b"\0\0\0"), "bad_answer"),
        (whole(ANSWER.replace(b"4", b"\xff")), "bad_answer"),
        (whole(ANSWER, "200 OK", "content-encoding: gzip"), "bad_answer"),
        (whole(ANSWER, "200 OK", "content-encoding: br"), "bad_answer"),
        (whole(b"", "302 Found", "location: http://127.0.0.1:9/"), "redirect"),
        (whole(b"", "307 Again", "location: /v1/chat/completions"), "redirect"),
        (head("200 OK", "content-length: 10000000000") + b"{", "too_large"),
        (b"rubbish\r\n\r\n", "network"),
        (b"", "network"),
        (b"HTTP/1.1 200 OK\r\nx: " + b"y" * 1_000_000 + b"\r\n\r\n", "network"),
        (head("200 OK", f"content-length: {len(ANSWER) + 5}") + ANSWER, "cut"),
        (head("200 OK", "transfer-encoding: chunked") + chunked(ANSWER, end=False), "cut"),
        (head("200 OK", "content-encoding: gzip") + gzip.compress(ANSWER)[:-9], "cut"),
    ],
    ids=lambda value: None if isinstance(value, bytes) else value,
)
def test_r26_every_shape_of_answer_has_its_kind(reply: bytes, kind: str) -> None:
    error = fault(says(reply, close=True))
    assert error.kind == kind
    assert error.retryable == (kind not in ("redirect", "too_large"))


def test_r26_chunks_that_are_none_cut_the_answer() -> None:
    assert fault(says_slowly(head("200 OK", "transfer-encoding: chunked"), b"zz\r\nrubbish\r\n")).kind == "cut"


@pytest.mark.parametrize(
    ("pieces", "kind"),
    [
        ([event(content="4")], "cut"),
        ([event(content="4"), b"data: [DO"], "cut"),
        ([b": ping\n\n"], "cut"),
        ([b"data: {4\n\n"], "bad_answer"),
        ([event(content="4"), b'data: {"error": {"type": "server_error"}}\n\n'], "server_error"),
    ],
)
@pytest.mark.parametrize("end", [True, False])
def test_r25_a_stream_that_ends_early_is_lost(pieces: list[bytes], kind: str, end: bool) -> None:
    error = fault(says(STREAM + chunked(*pieces, end=end), close=True), stream=True)
    assert (error.kind, error.retryable) == (kind, True)


@pytest.mark.parametrize("value", ["3", "-5", "1e9", "soon"])
def test_r22_a_429_says_how_long_to_wait(value: str) -> None:
    error = fault(says(whole(b"", "429 Slow down", f"Retry-After: {value}")))
    assert (error.kind, error.retryable) == ("rate_limit", True)
    assert error.retry_after_s == {"3": 3.0, "-5": 0.0, "1e9": 60.0}.get(value)


def test_a_provider_may_say_that_another_try_makes_no_sense() -> None:
    assert fault(says(whole(b"", "500 Oops", "x-should-retry: false"))).retryable is False


def test_r26_nobody_there_is_a_network_fault() -> None:
    async def main() -> None:
        async with serving(says(b"")) as server:
            url = server.url
        client = ModelClient()
        try:
            await client.ask(call_of(url))
        finally:
            await client.close()

    with pytest.raises(InfraError, match="Connection refused") as caught:
        asyncio.run(main())
    assert (caught.value.kind, caught.value.retryable) == ("network", True)


def test_r26_tls_to_a_port_that_speaks_none_stops_the_run() -> None:
    async def steps(client: ModelClient, server: Server) -> None:
        with pytest.raises(StopTheRun, match="does not speak TLS") as caught:
            await client.ask(call_of(server.url.replace("http:", "https:")))
        assert caught.value.kind == "tls"

    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(10)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async def main() -> None:
        listening = await asyncio.start_server(plain, "127.0.0.1", 0)
        client = ModelClient()
        try:
            await steps(client, Server(port=listening.sockets[0].getsockname()[1]))
        finally:
            await client.close()
            listening.close()
            await listening.wait_closed()

    asyncio.run(main())


def test_r26_a_certificate_that_nobody_signed_stops_the_run(tmp_path: Path) -> None:
    async def main() -> None:
        client = ModelClient()
        async with serving(says(whole(ANSWER)), tls=self_signed(tmp_path)) as server:
            try:
                await client.ask(call_of(server.url.replace("http:", "https:")))
            finally:
                await client.close()

    with pytest.raises(StopTheRun, match="certificate is not accepted") as caught:
        asyncio.run(main())
    assert caught.value.kind == "tls"


def test_the_http_libraries_and_the_price_table_are_imported_late() -> None:
    modules = ["client", "limiter", "prices", "bounds", "known", "wire"]
    code = (
        "import sys, importlib\n"
        f"for name in {modules}: importlib.import_module('fairtrial.providers.' + name)\n"
        "print(sorted({'httpx', 'aiohttp', 'genai_prices'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, timeout=60)
    assert done.stdout.strip() == b"[]"


# --- R24, R27: clocks -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("handler", "stream", "kind"),
    [
        (says_and_waits(), False, "timeout"),
        (says_and_waits(), True, "silent"),
        (says_and_waits(head("200 OK", "content-length: 99")), False, "silent"),
        (says_and_waits(STREAM), True, "silent"),
        (says_and_waits(STREAM, chunked(event(content="4"), end=False)), True, "silent"),
        (drips(STREAM, chunked(b": ping\n\n", end=False), every_s=0.05), True, "silent"),
        (drips(STREAM, chunked(b"x", end=False), every_s=0.05), True, "silent"),
        (drips(b"HTTP/1.1 200 OK\r\n", b"x", every_s=0.05), False, "timeout"),
        (drips(head("200 OK", "content-length: 9999"), b" ", every_s=0.05), False, "timeout"),
        (drips(STREAM, chunked(event(content="4"), end=False), every_s=0.05), True, "timeout"),
    ],
)
def test_r24_r27_silence_and_drips_end_with_the_clock_they_meet_first(
    handler: Handler, stream: bool, kind: str
) -> None:
    began = time.monotonic()
    error = fault(handler, stream=stream, deadline_s=0.6, idle_s=0.3)
    took = time.monotonic() - began
    assert (error.kind, error.retryable) == (kind, kind == "silent")
    assert took >= (0.3 if kind == "silent" else 0.6)
    assert took <= (0.3 if kind == "silent" else 0.6) + SLACK_S


def test_r27_a_request_that_nobody_reads_ends_with_the_deadline() -> None:
    async def deaf(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Nothing is read, so the request fills the buffers between us.
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            writer.transport.abort()

    async def main() -> float:
        listening = await asyncio.start_server(deaf, "127.0.0.1", 0)
        client = ModelClient()
        url = Server(port=listening.sockets[0].getsockname()[1]).url
        call = Call("openai-chat", url, {}, b" " * 30_000_000, stream=False, deadline_s=0.5)
        began = time.monotonic()
        try:
            with pytest.raises(InfraError) as caught:
                await client.ask(call)
            assert caught.value.kind == "timeout"
            return time.monotonic() - began
        finally:
            await client.close()
            listening.close()
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()

    assert asyncio.run(main()) <= 0.5 + SLACK_S


def test_a_model_that_thinks_longer_than_the_idle_limit_before_a_whole_answer_is_waited_for() -> None:
    async def thinks(writer: asyncio.StreamWriter, _number: int) -> None:
        await asyncio.sleep(0.3)
        writer.write(whole(ANSWER))

    assert asked(thinks, idle_s=0.1).text == "4"


def test_a_call_that_is_cancelled_leaves_nothing_behind() -> None:
    async def steps(client: ModelClient, server: Server) -> None:
        task = asyncio.create_task(client.ask(call_of(server.url)))
        while not server.requests:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with_client(steps, says_and_waits())


# --- sizes ------------------------------------------------------------------------------------------------------------


def test_r26_a_gzip_bomb_is_refused_and_memory_stays_small() -> None:
    # One member, made in pieces so that the test itself holds no more than the bomb.
    packer = zlib.compressobj(1, wbits=31)
    bomb = b"".join([*(packer.compress(b" " * 1_000_000) for _ in range(200)), packer.flush()])
    assert len(bomb) < 2_000_000
    tracemalloc.start()
    try:
        error = fault(says(whole(bomb, "200 OK", "content-encoding: gzip")))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (error.kind, error.retryable) == ("too_large", False)
    # The bound of R26; unpacked as a whole it would be 200 MB.
    assert peak < 64_000_000


def test_an_answer_that_never_ends_is_refused_at_the_cap() -> None:
    endless = drips(head("200 OK", "transfer-encoding: chunked"), chunked(b" " * 500_000, end=False), every_s=0)
    assert fault(endless).kind == "too_large"


def test_an_error_body_is_read_up_to_its_cap_only() -> None:
    endless = drips(head("500 Oops", "transfer-encoding: chunked"), chunked(b" " * 50_000, end=False), every_s=0)
    assert fault(endless).kind == "server_error"


def test_unpacking_gives_small_steps() -> None:
    data = gzip.compress(b"a" * 1_000_000)
    pieces = list(Unpacker().feed(data))
    assert b"".join(pieces) == b"a" * 1_000_000
    assert max(map(len, pieces)) <= 64 * 1024


# --- keys and proxies -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cut_at", range(250, 310, 6))
def test_r62_a_provider_that_repeats_the_key_does_not_spread_it(cut_at: int) -> None:
    message = "x" * (cut_at - 10) + f" {KEY} is wrong"
    error = fault(says(whole(json.dumps({"error": {"message": message, "code": KEY}}).encode(), "401 No")))
    assert error.kind == "not_authorised"
    # No piece of it either, where the message is cut.
    assert "sk-c" not in str(error)


def test_r62_the_key_is_in_one_header_and_in_no_log(caplog: pytest.LogCaptureFixture) -> None:
    async def steps(client: ModelClient, server: Server) -> None:
        await client.ask(call_of(server.url))
        ((sent, body),) = server.requests
        assert sent.count(KEY.encode()) == 1
        assert f"authorization: Bearer {KEY}".encode().lower() in sent.lower()
        assert KEY.encode() not in body

    with caplog.at_level(logging.DEBUG):
        with_client(steps, says(whole(ANSWER)))
    assert caplog.records
    assert KEY not in caplog.text


def test_proxies_of_the_environment_are_not_used_unless_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name)
    assert asked(says(whole(ANSWER))).text == "4"


def test_a_proxy_that_is_passed_is_used() -> None:
    async def main() -> list[tuple[bytes, bytes]]:
        async with serving(says(whole(ANSWER))) as proxy:
            client = ModelClient(proxy_env={"HTTP_PROXY": f"http://127.0.0.1:{proxy.port}"})
            try:
                assert (await client.ask(call_of("http://model.example/v1"))).text == "4"
            finally:
                await client.close()
            return proxy.requests

    ((sent, _),) = asyncio.run(main())
    assert sent.startswith(b"POST http://model.example/v1 HTTP/1.1\r\n")


@pytest.mark.parametrize(
    ("url", "environ", "proxy"),
    [
        ("https://a.example/", {}, None),
        ("https://a.example/", {"HTTPS_PROXY": "http://p:1"}, "http://p:1"),
        ("https://a.example/", {"HTTPS_PROXY": "http://p:1", "https_proxy": "http://q:1"}, "http://q:1"),
        ("https://a.example/", {"HTTP_PROXY": "http://p:1"}, None),
        ("http://a.example/", {"ALL_PROXY": "p:1"}, "http://p:1"),
        ("http://a.example/", {"ALL_PROXY": "p:1", "NO_PROXY": "b.example, .example"}, None),
        ("http://a.example:8/", {"ALL_PROXY": "p:1", "NO_PROXY": "a.example:8"}, None),
        ("http://a.example:8/", {"ALL_PROXY": "p:1", "NO_PROXY": "a.example:9,x.a.example"}, "http://p:1"),
        ("http://bexample/", {"ALL_PROXY": "p:1", "NO_PROXY": "example"}, "http://p:1"),
        ("http://a.example/", {"ALL_PROXY": "p:1", "NO_PROXY": "*"}, None),
    ],
)
def test_which_proxy_an_address_has(url: str, environ: dict[str, str], proxy: str | None) -> None:
    assert proxy_for(url, environ) == proxy
