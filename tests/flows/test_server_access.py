"""The real local server: who may talk to it, what it was told, and how a flow behaves with and without it.

R61: a foreign Origin, no login and a foreign Host are refused.
"""

from __future__ import annotations

import http.client
import json
import os
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
import pytest

from flows import local_server
from flows.local_server import Server, find
from flows.server_probe import basic

pytestmark = pytest.mark.prefect


@dataclass(frozen=True)
class Reply:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def ask(server: Server, method: str, path: str, body: bytes | None = None, **headers: str) -> Reply:
    """Send exactly these headers; names are written with _ for -."""
    parts = urlsplit(server.url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
    try:
        connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        reply = connection.getresponse()
        return Reply(reply.status, {name.lower(): value for name, value in reply.getheaders()}, reply.read())
    finally:
        connection.close()


@pytest.fixture
def own(prefect_server: Server) -> str:
    """The server's own origin."""
    return prefect_server.url.removesuffix("/api")


@pytest.fixture
def login(prefect_server: Server) -> str:
    return basic(prefect_server.auth)["Authorization"]


@pytest.fixture
def trusted(prefect_server: Server, login: str) -> dict[str, str]:
    """What a program of the user sends: the login and the token against forged requests."""
    token = ask(prefect_server, "GET", "/api/csrf-token?client=tests", Authorization=login).json["token"]
    return {
        "Authorization": login,
        "Prefect_Csrf_Token": token,
        "Prefect_Csrf_Client": "tests",
        "Content_Type": "application/json",
    }


def test_the_server_of_the_session_is_found_as_exp_finds_it(prefect_server: Server) -> None:
    found = find(Path(os.environ["FAIRTRIAL_STATE_DIR"]))
    assert found is not None
    assert (found.url, found.auth, found.pid) == (prefect_server.url, prefect_server.auth, prefect_server.pid)


def test_r61_it_listens_on_loopback_alone(prefect_server: Server) -> None:
    listening = [
        c.laddr for c in psutil.Process(prefect_server.pid).net_connections("inet") if c.status == psutil.CONN_LISTEN
    ]
    assert [(where.ip, where.port) for where in listening] == [("127.0.0.1", urlsplit(prefect_server.url).port)]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/api/admin/settings"),
        ("GET", "/api/admin/version"),
        ("GET", "/api/csrf-token?client=x"),
        ("POST", "/api/flow_runs/filter"),
        ("POST", "/api/flows/"),
        ("DELETE", "/api/flows/00000000-0000-0000-0000-000000000000"),
        ("GET", "/api/variables/name/health"),
    ],
)
@pytest.mark.parametrize("given", ["none", "wrong", "garbage"])
def test_r61_without_the_login_nothing_is_told_and_nothing_done(
    prefect_server: Server, trusted: dict[str, str], method: str, path: str, given: str
) -> None:
    headers = trusted | {
        "Authorization": {"none": "", "wrong": basic("fairtrial:x")["Authorization"]}.get(given, "x y")
    }
    if given == "none":
        del headers["Authorization"]
    body = b"{}" if method == "POST" else None
    assert ask(prefect_server, method, path, body, **headers).status == 401


def test_r61_what_is_open_without_the_login_tells_nothing_of_ours(prefect_server: Server) -> None:
    assert ask(prefect_server, "GET", "/api/health").body == b"true"
    ready = ask(prefect_server, "GET", "/api/ready")
    assert (ready.status, ready.json) == (200, {"message": "OK"})
    for path in ("/", "/v2/", "/ui-settings", "/docs", "/openapi.json"):
        page = ask(prefect_server, "GET", path)
        assert page.status in (200, 307, 404), path
        assert prefect_server.auth.encode() not in page.body


def test_r61_a_login_without_the_token_changes_nothing(
    prefect_server: Server, trusted: dict[str, str], login: str
) -> None:
    # A browser may send a stored login along with a forged form; the token it cannot have.
    body = json.dumps({"name": "forged"}).encode()
    for kind in ("application/json", "text/plain", "application/x-www-form-urlencoded"):
        assert ask(prefect_server, "POST", "/api/flows/", body, Authorization=login, Content_Type=kind).status == 403
    stale = trusted | {"Prefect_Csrf_Token": "0" * 64}
    assert ask(prefect_server, "POST", "/api/flows/", body, **stale).status == 403
    assert ask(prefect_server, "GET", "/api/flows/name/forged", Authorization=login).status == 404


@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", "null", "https://127.0.0.1", "http://127.0.0.1:1", "http://127.0.0.1.evil.example"],
)
def test_r61_a_page_from_elsewhere_is_refused_even_with_login_and_token(
    prefect_server: Server, trusted: dict[str, str], origin: str
) -> None:
    assert ask(prefect_server, "POST", "/api/flow_runs/filter", b"{}", **trusted).status == 200
    refused = ask(prefect_server, "POST", "/api/flow_runs/filter", b"{}", Origin=origin, **trusted)
    assert refused.status == 403
    assert "access-control-allow-origin" not in refused.headers
    preflight = ask(
        prefect_server, "OPTIONS", "/api/flow_runs/filter", Origin=origin, Access_Control_Request_Method="POST"
    )
    assert preflight.status == 403
    assert "access-control-allow-origin" not in preflight.headers


def test_r61_its_own_pages_are_served_and_may_ask(prefect_server: Server, trusted: dict[str, str], own: str) -> None:
    page = ask(prefect_server, "GET", "/", Accept="text/html")
    assert page.status in (200, 307)
    settings = ask(prefect_server, "GET", "/ui-settings").json
    assert settings["api_url"] == prefect_server.url
    assert (settings["auth"], settings["csrf_enabled"]) == ("BASIC", True)
    for origin in (own, own.replace("127.0.0.1", "localhost")):
        allowed = ask(prefect_server, "POST", "/api/flow_runs/filter", b"{}", Origin=origin, **trusted)
        assert (allowed.status, allowed.headers["access-control-allow-origin"]) == (200, origin)


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:4200", "127.0.0.1", "127.0.0.1.evil.example", "", "[::1]"]
)
def test_r61_a_foreign_host_is_refused_even_with_login_and_token(
    prefect_server: Server, trusted: dict[str, str], host: str
) -> None:
    # A name that an attacker's server resolves to this machine: to the browser it is the attacker's own site.
    for method, path, body in (("GET", "/", None), ("GET", "/api/health", None), ("POST", "/api/flows/filter", b"{}")):
        assert ask(prefect_server, method, path, body, Host=host, **trusted).status == 400


@pytest.mark.parametrize(
    "path", ["/api/events/in", "/api/logs/out", "/api/events/out", "/api/task_runs/subscriptions/scheduled"]
)
def test_r61_web_sockets_are_refused_to_pages_from_elsewhere(prefect_server: Server, path: str, own: str) -> None:
    def handshake(**headers: str) -> int:
        upgrade = {
            "Connection": "Upgrade",
            "Upgrade": "websocket",
            "Sec_WebSocket_Version": "13",
            "Sec_WebSocket_Key": "dGhlIHNhbXBsZSBub25jZQ==",
            "Sec_WebSocket_Protocol": "prefect",
        }
        return ask(prefect_server, "GET", path, **upgrade, **headers).status

    assert handshake(Origin=own) == 101
    assert handshake(Origin="http://evil.example") == 403
    assert handshake(Host="evil.example") == 403


def test_the_server_was_told_what_it_should_be(prefect_server: Server, trusted: dict[str, str]) -> None:
    told = ask(prefect_server, "GET", "/api/admin/settings", **trusted).json["server"]
    recorder, persister = (told["services"][name] for name in ("task_run_recorder", "event_persister"))
    assert [recorder["batch_size"], recorder["read_batch_size"]] == [200, 200]
    assert [persister["batch_size"], persister["read_batch_size"]] == [200, 200]
    assert (told["analytics_enabled"], told["ui"]["show_promotional_content"]) == (False, False)
    assert (told["ui"]["enabled"], told["ephemeral"]["enabled"]) == (True, False)
    assert told["api"]["csrf_protection_enabled"]
    assert prefect_server.auth not in json.dumps(told)


FLOW = """
    import os
    from pathlib import Path
    from flows.local_server import Server
    from flows.prefect_env import prepare
    prepare(os.environ, Server(url={url!r}, auth={auth!r}, pid={pid}, started=False, home=Path({home!r})))
    from prefect import flow, get_run_logger, task

    @task(persist_result=False)
    def step(n):
        return n

    @flow(persist_result=False, name="in the tests")
    def run():
        get_run_logger().info("a line for the page")
        return sum(future.result() for future in [step.submit(n) for n in range(5)])

    print(run())
"""


def test_a_flow_is_recorded_with_its_log_and_says_nothing_on_the_terminal(
    prefect_server: Server, trusted: dict[str, str]
) -> None:
    server = prefect_server
    code = textwrap.dedent(FLOW).format(url=server.url, auth=server.auth, pid=server.pid, home=str(server.home))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"10\n", b"")
    wanted = json.dumps({"flows": {"name": {"any_": ["in the tests"]}}}).encode()
    (run,) = ask(server, "POST", "/api/flow_runs/filter", wanted, **trusted).json
    assert run["state_type"] == "COMPLETED"
    logged = json.dumps({"logs": {"flow_run_id": {"any_": [run["id"]]}}}).encode()
    lines = [line["message"] for line in ask(server, "POST", "/api/logs/filter", logged, **trusted).json]
    assert "a line for the page" in lines


@pytest.mark.fire
def test_g15_a_lost_server_costs_neither_the_verdict_nor_more_than_ten_seconds(
    exp: Any, project: Path, prefect_server: Server, tmp_path: Path
) -> None:
    state_dir = tmp_path / "own"
    (state_dir / "prefect").mkdir(parents=True, mode=0o700)
    # A copy of the session's database saves this server the 13 s of making one.
    source = sqlite3.connect(prefect_server.home / "prefect.db")
    copy = sqlite3.connect(state_dir / "prefect" / "prefect.db")
    source.backup(copy)
    source.close()
    copy.close()
    cases = [{"id": f"k{n}", "input": str(n), "expected": "yes"} for n in range(12)]
    (project / "cases.jsonl").write_text("".join(json.dumps(case) + "\n" for case in cases), encoding="utf-8")
    # Whichever trial is the second ends the server, when there is a file that says which. What is left takes longer
    # than the 5 s for which Prefect remembers what its server said about the limits of a task.
    (project / "agent.py").write_text(
        "import os, pathlib, time\n"
        "with open('ledger', 'a') as ledger:\n"
        "    ledger.write('.')\n"
        "if pathlib.Path('pid').exists() and pathlib.Path('ledger').stat().st_size == 2:\n"
        "    os.kill(int(pathlib.Path('pid').read_text()), 9)\n"
        "time.sleep(0.8)\n"
        "print('yes')\n",
        encoding="utf-8",
    )
    spec = {
        "name": "lost server",
        "dataset": "cases.jsonl",
        "task": {"kind": "command", "command": [sys.executable, "-S", "-E", "agent.py"], "files": ["agent.py"]},
        "graders": [{"kind": "exact"}],
        "seed": 1,
    }
    (project / "spec.json").write_text(json.dumps(spec), encoding="utf-8")

    here: dict[str, str | None] = {"FAIRTRIAL_STATE_DIR": str(state_dir)}
    first = exp("run", "spec.json", "--first-n", "1", env=here, timeout_s=240)
    server = find(state_dir)
    try:
        assert server is not None
        assert "Started the local Prefect server" in first.err
        whole = exp("run", "spec.json", "--slice", "1", env=here)
        assert "Started" not in whole.err
        (project / "ledger").unlink()
        (project / "pid").write_text(str(server.pid), encoding="utf-8")
        lost = exp("run", "spec.json", "--slice", "1", env=here)
        assert find(state_dir) is None
    finally:
        local_server.stop(state_dir)
    assert (lost.code, (project / "ledger").stat().st_size) == (whole.code, 12) == (0, 12)
    assert "100.0%" in lost.out
    assert "Traceback" not in lost.err
    assert "Error logging" not in lost.err
    # 304 s with Prefect's own defaults (P19).
    assert lost.seconds - whole.seconds < 10, (lost.seconds, whole.seconds)
