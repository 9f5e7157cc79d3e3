"""The life of the local server: one for all, found again, replaced when it is gone, stopped.

Prefect itself takes seconds to start, so a small program stands in for it here: it is started with the same command
line, socket and lock, and answers the same two questions. The real one is in test_server_access.py.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import stat
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from fairtrial.errors import FairtrialError
from flows import local_server, server_record
from flows.local_server import Server, find, find_or_start, status, stop

STAND_IN = """
import json, os, socket, sys, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit
from flows.server_probe import basic
from flows.server_record import announce

state, listener, lock = Path(sys.argv[4]), int(sys.argv[5]), int(sys.argv[6])
(state / "told.json").write_text(json.dumps({"environ": dict(os.environ), "argv": sys.argv, "cwd": os.getcwd()}))
HOW
record = announce(state)

class Answer(BaseHTTPRequestHandler):
    def do_GET(self):
        login = basic(record.auth)["Authorization"]
        known = self.path == "/api/health" or self.headers["Authorization"] == login
        self.send_response(200 if known else 401)
        self.send_header("Content-Length", "0")
        self.end_headers()
    def log_message(self, *arguments):
        pass

server = ThreadingHTTPServer(("127.0.0.1", 0), Answer, bind_and_activate=False)
server.socket.close()
server.socket = socket.socket(fileno=listener)
server.serve_forever()
"""


BAD_PORT = b'{"format": 1, "url": "http://127.0.0.1:99999/api", "auth": "a:b", "prefect": "3"}'


class Folder:
    """A state folder and the stand-in that its server is."""

    def __init__(self, path: Path) -> None:
        self.path = path / "state"
        self.lines: list[str] = []
        self._code = path / "stand_in.py"
        self.python = path / "python"
        self.behave("")
        self.python.write_text(
            f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {shlex.quote(str(self._code))} "$@"\n', encoding="utf-8"
        )
        self.python.chmod(0o700)

    def behave(self, how: str) -> None:
        """Let servers started from now on run `how` before they announce themselves."""
        self._code.write_text(STAND_IN.replace("HOW", how), encoding="utf-8")

    def start(self, *, wait_s: float = 30.0, environ: dict[str, str] | None = None) -> Server:
        return find_or_start(
            state_dir=self.path,
            environ=dict(os.environ) | (environ or {}),
            python=str(self.python),
            say=self.lines.append,
            wait_s=wait_s,
        )

    def told(self) -> dict[str, object]:
        """What the server saw of the world at its start."""
        return json.loads((self.path / "told.json").read_text(encoding="utf-8"))

    def elsewhere(self, code: str) -> subprocess.Popen[bytes]:
        """Start another process that has `start`, the same call as start() here."""
        head = textwrap.dedent(f"""
            import os, signal, sys
            from pathlib import Path
            from flows.local_server import begin_start, find_or_start
            what = dict(state_dir=Path({str(self.path)!r}), environ=os.environ, python={str(self.python)!r}, say=str)
        """)
        return subprocess.Popen([sys.executable, "-c", head + textwrap.dedent(code)], stdout=subprocess.PIPE)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    made = Folder(tmp_path)
    yield made
    stop(made.path)


def test_the_first_command_starts_a_server_and_the_next_finds_it(folder: Folder) -> None:
    first, second = folder.start(), folder.start()
    assert (first.started, second.started) == (True, False)
    assert replace(first, started=False) == second == find(folder.path)
    assert first.url.startswith("http://127.0.0.1:")
    assert first.url.endswith("/api")
    # One line for the one start, with the address and how to end it.
    (line,) = folder.lines
    assert first.url.removesuffix("/api") in line
    assert "exp down" in line


def test_begin_returns_before_the_server_is_up(folder: Folder) -> None:
    folder.behave("time.sleep(1)")
    start = local_server.begin_start(
        state_dir=folder.path, environ=os.environ, python=str(folder.python), say=folder.lines.append
    )
    assert find(folder.path) is None
    assert start.wait(30).started


def test_the_login_is_readable_by_its_owner_only_and_shown_nowhere(folder: Folder) -> None:
    server = folder.start()
    for path, mode in {"": 0o700, "server.json": 0o600, "server.lock": 0o600, "server.log": 0o600}.items():
        assert stat.S_IMODE((folder.path / path).stat().st_mode) == mode, path
    told = [repr(server), repr(status(folder.path)), repr(folder.told()["argv"]), *folder.lines]
    assert len(server.auth.partition(":")[2]) >= 32
    assert not [text for text in told if server.auth.partition(":")[2] in text]


def test_two_folders_have_two_logins(folder: Folder, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = Folder(tmp_path / "other")
    try:
        assert other.start().auth != folder.start().auth
    finally:
        stop(other.path)


def test_eight_commands_at_once_start_one_server(folder: Folder) -> None:
    folder.behave("time.sleep(0.5)")
    commands = [folder.elsewhere("s = find_or_start(**what); print(s.pid, s.started)") for _ in range(8)]
    answers = [command.communicate(timeout=60)[0].split() for command in commands]
    assert len({pid for pid, _ in answers}) == 1
    assert sorted(started for _, started in answers) == [b"False"] * 7 + [b"True"]


def test_two_threads_at_once_start_one_server(folder: Folder) -> None:
    servers: list[Server] = []
    threads = [threading.Thread(target=lambda: servers.append(folder.start())) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len({server.pid for server in servers}) == 1
    assert sorted(server.started for server in servers) == [False, True]


def test_a_starter_killed_at_once_leaves_a_server_that_the_next_command_uses(folder: Folder) -> None:
    folder.behave("time.sleep(0.5)")
    killed = folder.elsewhere("begin_start(**what); os.kill(os.getpid(), signal.SIGKILL)")
    killed.communicate(timeout=60)
    assert killed.returncode == -signal.SIGKILL
    assert not folder.start().started


def test_a_killed_server_is_replaced_on_the_same_port_with_the_same_login(folder: Folder) -> None:
    first = folder.start()
    os.kill(first.pid, signal.SIGKILL)
    second = folder.start()
    assert second.started
    assert second.pid != first.pid
    # A page that was left open in a browser goes on working.
    assert (second.url, second.auth) == (first.url, first.auth)


def test_a_port_taken_meanwhile_is_left_to_whoever_has_it(folder: Folder) -> None:
    first = folder.start()
    stop(folder.path)
    with socket.create_server(("127.0.0.1", int(first.url.split(":")[2].split("/")[0]))):
        assert folder.start().url != first.url


def test_a_reused_process_number_is_not_taken_for_the_server(folder: Folder) -> None:
    folder.start()
    stop(folder.path)
    bystander = subprocess.Popen(["sleep", "60"])
    try:
        record = server_record.read_record(folder.path)
        assert record is not None
        stale = server_record.Process(bystander.pid, "an earlier boot:1")
        server_record.write_record(folder.path, replace(record, process=stale))
        assert find(folder.path) is None
        assert status(folder.path).state == "stopped"
        assert not stop(folder.path)
        assert folder.start().started
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_something_else_on_the_recorded_address_is_not_taken_for_the_server(folder: Folder) -> None:
    first = folder.start()
    record = server_record.read_record(folder.path)
    assert record is not None
    # The process lives, but what answers there does not know the login.
    server_record.write_record(folder.path, replace(record, auth="fairtrial:another"))
    assert find(folder.path) is None
    assert status(folder.path).state == "not_answering"
    server_record.write_record(folder.path, record)
    assert find(folder.path) == replace(first, started=False)


@pytest.mark.parametrize(
    "damage", [b"", b"{", b"[]", b'{"format": 2}', b'{"format": 1, "url": 7}', b"\xff", b"[" * 99_999, BAD_PORT]
)
def test_a_damaged_record_does_not_stop_a_start(folder: Folder, damage: bytes) -> None:
    folder.path.mkdir()
    (folder.path / "server.json").write_bytes(damage)
    assert find(folder.path) is None
    assert folder.start().started


def test_a_server_that_dies_at_its_start_is_one_error_with_the_end_of_its_log(folder: Folder) -> None:
    folder.behave('print(json.loads((state / "server.json").read_text())["auth"]); sys.exit("no such table: flow")')
    with pytest.raises(FairtrialError) as caught:
        folder.start()
    told = str(caught.value)
    assert (caught.value.code, caught.value.exit_status) == ("server_unreachable", 4)
    assert "exit status 1" in told
    assert "no such table: flow" in told
    assert str(folder.path / "server.log") in told
    record = server_record.read_record(folder.path)
    assert record is not None
    assert record.auth not in told


def test_an_old_log_is_not_shown_for_a_new_failure(folder: Folder) -> None:
    folder.path.mkdir()
    (folder.path / "server.log").write_text("trouble of yesterday\n", encoding="utf-8")
    folder.behave('sys.exit("trouble of today")')
    with pytest.raises(FairtrialError, match="trouble of today") as caught:
        folder.start()
    assert "yesterday" not in str(caught.value)


def test_a_slow_server_is_an_error_in_time_and_is_left_to_go_on(folder: Folder) -> None:
    folder.behave("time.sleep(2)")
    with pytest.raises(FairtrialError, match=r"not ready after 1 s"):
        folder.start(wait_s=1)
    later = folder.start()
    assert not later.started


def test_a_long_log_is_put_aside_once(folder: Folder) -> None:
    folder.path.mkdir()
    (folder.path / "server.log").write_bytes(b"x" * 1_000_001)
    (folder.path / "server.log.1").write_bytes(b"older")
    folder.start()
    assert (folder.path / "server.log").stat().st_size < 1_000
    assert (folder.path / "server.log.1").stat().st_size == 1_000_001


def test_the_server_gets_no_key_and_no_setting_of_whoever_started_it(folder: Folder) -> None:
    exported = {
        "MODEL_API_KEY": "canary",
        "PREFECT_API_URL": "http://127.0.0.1:9/api",
        "PREFECT_SERVER_DATABASE_CONNECTION_URL": "sqlite+aiosqlite:////nowhere.db",
        "PREFECT_PROFILES_PATH": "/nowhere",
        "FAIRTRIAL_HOME": "/nowhere",
        "FAIRTRIAL_MARK_0123": "1",
        "PYTHONPATH": "/nowhere",
        "LC_ALL": "C.UTF-8",
    }
    server = folder.start(environ=exported)
    seen = folder.told()
    assert isinstance(seen["environ"], dict)
    assert set(exported) & set(seen["environ"]) == {"LC_ALL"}
    assert seen["environ"]["PREFECT_HOME"] == str(server.home) == seen["cwd"]
    assert Path(str(server.home)).parent == folder.path


def test_ctrl_c_in_the_terminal_does_not_reach_the_server(folder: Folder) -> None:
    # A signal of the terminal goes to its foreground group; the server is in a session of its own.
    assert os.getsid(folder.start().pid) not in (os.getsid(0), 0)


def test_stop_ends_the_server_and_says_whether_there_was_one(folder: Folder) -> None:
    assert not stop(folder.path)
    first = folder.start()
    assert stop(folder.path)
    with pytest.raises(ProcessLookupError):
        os.kill(first.pid, 0)
    assert not stop(folder.path)
    assert status(folder.path).state == "stopped"
    second = folder.start()
    assert (second.url, second.auth) == (first.url, first.auth)


def test_stop_right_after_a_start_ends_that_server(folder: Folder) -> None:
    folder.behave("time.sleep(0.5)")
    local_server.begin_start(
        state_dir=folder.path, environ=os.environ, python=str(folder.python), say=folder.lines.append
    )
    assert stop(folder.path)
    assert folder.start().started


def test_a_server_that_does_not_listen_to_term_is_killed(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_server, "_STOP_S", 0.3)
    folder.behave("import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)")
    server = folder.start()
    assert stop(folder.path)
    with pytest.raises(ProcessLookupError):
        os.kill(server.pid, 0)


def test_status_tells_the_three_states_apart(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_server, "_GLANCE_S", 0.5)
    assert status(folder.path).state == "stopped"
    server = folder.start()
    told = status(folder.path)
    assert (told.state, told.url, told.pid, told.auth) == ("running", server.url, server.pid, server.auth)
    os.kill(server.pid, signal.SIGSTOP)
    try:
        assert status(folder.path).state == "not_answering"
    finally:
        os.kill(server.pid, signal.SIGCONT)


def test_a_server_of_another_prefect_is_used_and_pointed_out(folder: Folder) -> None:
    first = folder.start()
    record = server_record.read_record(folder.path)
    assert record is not None
    server_record.write_record(folder.path, replace(record, prefect="3.0.0"))
    assert folder.start().pid == first.pid
    assert "3.0.0" in folder.lines[-1]


def test_a_state_folder_that_cannot_be_is_one_error_that_names_the_setting(folder: Folder) -> None:
    folder.path.write_text("a file", encoding="utf-8")
    with pytest.raises(FairtrialError, match="FAIRTRIAL_STATE_DIR") as caught:
        folder.start()
    assert str(folder.path) in str(caught.value)
    folder.path.unlink()


def test_a_state_folder_that_others_can_write_to_is_refused(folder: Folder) -> None:
    # Whoever can lay a server.json there could have the run talk to a server of theirs.
    folder.path.mkdir()
    folder.path.chmod(0o777)
    with pytest.raises(FairtrialError, match="others can write there"):
        folder.start()
    folder.path.chmod(0o700)
    assert folder.start().started


def test_an_interpreter_that_is_not_there_is_one_error(folder: Folder) -> None:
    folder.python.unlink()
    with pytest.raises(FairtrialError) as caught:
        folder.start()
    assert caught.value.code == "server_unreachable"


def test_the_birth_of_a_process_tells_it_from_every_other() -> None:
    child = subprocess.Popen(["sleep", "60"])
    born = server_record.process_birth(child.pid)
    assert born is not None
    assert born == server_record.process_birth(child.pid) != server_record.process_birth(os.getpid())
    child.kill()
    # A zombie is dead: nobody has waited for it yet.
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert server_record.process_birth(child.pid) is None
    child.wait()
    assert server_record.process_birth(child.pid) is None


def test_importing_it_imports_neither_prefect_nor_anything_slow() -> None:
    look = "import sys, flows.local_server; print([m for m in sys.modules if m.split('.')[0] in %r])"
    heavy = ("prefect", "pydantic", "httpx", "psutil", "urllib.request", "sqlalchemy")
    told = subprocess.run([sys.executable, "-c", look % (heavy,)], capture_output=True, check=True, timeout=60)
    assert told.stdout.strip() == b"[]"
