"""The room every test runs in: no setting of the person who starts it, no process left behind.

The top of this file changes the environment before anything can import Prefect, which reads its settings once. Keep
imports of the product inside the fixtures.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from flows.local_server import Server
    from tests.servers import S3Server

ROOT: Final = Path(__file__).resolve().parents[1]
MARK: Final = "FAIRTRIAL_TEST_MARK"
TEST_MARK: Final = "FAIRTRIAL_TEST_CASE"
# Children are promised to be gone this long after any end of ours.
GRACE_S: Final = 5.0

_FOREIGN: Final = ("PREFECT_", "FAIRTRIAL_", "PG", "POSTGRES", "MYSQL", "SQLALCHEMY_", "DATABASE_", "REDIS_", "XDG_")
# Tests meet models and stores on loopback only; a key that is not there cannot be spent.
_CREDENTIALS: Final = ("OPENAI_", "ANTHROPIC_", "AWS_", "GEMINI_", "GOOGLE_", "MISTRAL_", "AZURE_", "HF_", "GITHUB_")
_KEPT: Final = ("FAIRTRIAL_DATA", "FAIRTRIAL_REFERENCE")
_KEPT_PREFIX: Final = "FAIRTRIAL_TEST_"


def _isolate(room: Path) -> None:
    """Make the environment of this process, and so of every child, the one of nobody in particular."""
    for name in list(os.environ):
        foreign = name.startswith(_FOREIGN + _CREDENTIALS) or name == "DO_NOT_TRACK"
        if foreign and name not in _KEPT and not name.startswith(_KEPT_PREFIX):
            del os.environ[name]
    for name, folder in {"HOME": "home", "PREFECT_HOME": "prefect", "FAIRTRIAL_STATE_DIR": "state"}.items():
        (room / folder).mkdir(mode=0o700)
        os.environ[name] = str(room / folder)
    os.environ[MARK] = uuid.uuid4().hex
    os.environ["DO_NOT_TRACK"] = "1"
    # A proxy is for other machines. Both spellings: programs differ in the one they read.
    os.environ["NO_PROXY"] = os.environ["no_proxy"] = "127.0.0.1,localhost"
    # What a message looks like must not depend on who runs the tests, or where.
    for name in ("NO_COLOR", "FORCE_COLOR", "CI", "COLUMNS", "PYTHONWARNINGS"):
        os.environ.pop(name, None)


# The same examples for everyone who runs the tests: a failure found once can be found again.
settings.register_profile("fairtrial", derandomize=True, deadline=None)
settings.load_profile("fairtrial")

_ROOM: Final = Path(tempfile.mkdtemp(prefix="fairtrial-tests-"))
_isolate(_ROOM)


# --- places -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of recorded data: FAIRTRIAL_DATA, else ../shared/data beside the checkout."""
    return _shared_folder("FAIRTRIAL_DATA", "data")


@pytest.fixture(scope="session")
def reference_dir() -> Path:
    """The folder of reference numbers: FAIRTRIAL_REFERENCE, else ../shared/reference beside the checkout."""
    return _shared_folder("FAIRTRIAL_REFERENCE", "reference")


def _shared_folder(variable: str, name: str) -> Path:
    folder = Path(os.environ.get(variable) or ROOT.parent / "shared" / name)
    if not folder.is_dir():
        pytest.skip(f"needs the {name} folder: set {variable}, or lay it at ../shared/{name} beside the checkout")
    return folder


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty project folder, which is the working folder; FAIRTRIAL_HOME is inside it."""
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("FAIRTRIAL_HOME", str(folder / ".fairtrial"))
    return folder


# --- the server and the command ---------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def prefect_server() -> Iterator[Server]:
    """The Prefect server of the session, started as `exp` starts it; `exp` finds it by FAIRTRIAL_STATE_DIR."""
    from flows import local_server

    state_dir = Path(os.environ["FAIRTRIAL_STATE_DIR"])
    server = local_server.find_or_start(state_dir=state_dir, environ=os.environ, say=lambda _line: None, wait_s=240)
    yield server
    local_server.stop(state_dir)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The URL of the session's Postgres, on which databases may be made."""
    from tests import servers

    with servers.postgres_server() as url:
        yield url


@pytest.fixture
def postgres_url(postgres_server: str) -> Iterator[str]:
    """The URL of a new, empty Postgres database."""
    from tests import servers

    with servers.new_database(postgres_server) as url:
        yield url


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """The session's S3 server; its keys reach no test that does not ask for `s3_url`."""
    from tests import servers

    with servers.s3_server() as server:
        yield server


@pytest.fixture
def s3_url(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> str:
    """A prefix of this test's own in the S3 server's bucket; the environment names the server while the test runs."""
    for name, value in s3_server.environ.items():
        monkeypatch.setenv(name, value)
    return f"s3://{s3_server.bucket}/{uuid.uuid4().hex}"


@dataclass(frozen=True)
class Run:
    """How one call of `exp` ended. `code` is negative when a signal ended it."""

    code: int
    out: str
    err: str
    seconds: float

    @property
    def json(self) -> Any:
        """The one JSON document on stdout, as --json prints it."""
        try:
            return json.loads(self.out)
        except ValueError:
            pytest.fail(f"stdout is no JSON document (exit status {self.code}):\n{self.out}\nstderr:\n{self.err}")


Exp = Callable[..., Run]


@pytest.fixture
def exp(project: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Exp]:
    """Run the real command as a process: `exp("run", "spec.json", server=True)`.

    server   False: a state folder of this test's own, for commands that need no Prefect (a server that such a command
             starts all the same fails the test); True: the session's server, found as a user's would be;
             "named": the session's server by PREFECT_API_URL
    env      more variables; None takes one away
    stdin, cwd, timeout_s   as for a process; on timeout its whole tree is ended and the test fails
    """
    mark = uuid.uuid4().hex

    def run(
        *arguments: str | Path,
        server: bool | str = False,
        env: dict[str, str | None] | None = None,
        stdin: bytes = b"",
        cwd: Path | None = None,
        timeout_s: float = 120.0,
    ) -> Run:
        variables = _variables(mark, tmp_path, server, env or {}, request)
        command = [sys.executable, "-m", "faces.cli.main", *map(str, arguments)]
        return _run(command, variables, stdin, cwd or project, timeout_s, mark)

    yield run
    _end_all(f"{TEST_MARK}={mark}", "the test ended, and processes that `exp` started were still there")


def _variables(
    mark: str, tmp_path: Path, server: bool | str, changes: dict[str, str | None], request: pytest.FixtureRequest
) -> dict[str, str]:
    variables = {**os.environ, TEST_MARK: mark}
    if not server:
        variables["FAIRTRIAL_STATE_DIR"] = str(tmp_path / "state")
    else:
        found = request.getfixturevalue("prefect_server")
        if server == "named":
            from flows.local_server import client_environment

            variables |= client_environment(found)
    variables |= {name: value for name, value in changes.items() if value is not None}
    return {name: value for name, value in variables.items() if changes.get(name, "") is not None}


def _run(
    command: Sequence[str], variables: dict[str, str], stdin: bytes, cwd: Path, timeout_s: float, mark: str
) -> Run:
    began = time.monotonic()
    # Files, not pipes: a grandchild that keeps a pipe open would keep us reading.
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        given.write(stdin)
        given.seek(0)
        process = subprocess.Popen(
            command, env=variables, cwd=cwd, stdin=given, stdout=out, stderr=err, start_new_session=True
        )
        try:
            code = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            _kill(marked(f"{TEST_MARK}={mark}"))
            pytest.fail(f"{' '.join(command[1:])} did not end within {timeout_s:.0f} s\n{_text(out)}\n{_text(err)}")
        return Run(code=code, out=_text(out), err=_text(err), seconds=time.monotonic() - began)


def _text(file: Any) -> str:
    file.seek(0)
    return file.read().decode("utf-8", "replace")


# --- the process ledger -----------------------------------------------------------------------------------------------


def marked(pair: str) -> dict[int, str]:
    """Return the processes whose environment holds NAME=VALUE, with their command lines; ours is not among them."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if pair.encode() in (entry / "environ").read_bytes().split(b"\0") and int(entry.name) != os.getpid():
                found[int(entry.name)] = (
                    (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
                )
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
    return found


def _survivors(pair: str) -> dict[int, str]:
    """Return who is left once the grace is over."""
    deadline = time.monotonic() + GRACE_S
    while (left := marked(pair)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left


def _kill(pids: dict[int, str]) -> None:
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def _end_all(pair: str, what: str) -> None:
    left = _survivors(pair)
    _kill(left)
    if left:
        pytest.fail(what + ":\n" + "\n".join(f"  {pid}  {command}" for pid, command in left.items()))


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """End what tests left behind, and fail the session for it."""
    left = _survivors(f"{MARK}={os.environ[MARK]}")
    _kill(left)
    session.config.stash[_LEFT] = left
    if left:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    shutil.rmtree(_ROOM, ignore_errors=True)


# --- what the summary says --------------------------------------------------------------------------------------------

_LEFT: Final = pytest.StashKey[dict[int, str]]()
_seconds: defaultdict[str, float] = defaultdict(float)
_count: Counter[str] = Counter()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add up the time of each group: the folder under tests/ that a test stands in."""
    parts = Path(report.nodeid.partition("::")[0]).parts
    group = parts[1] if len(parts) > 2 else parts[0]
    _seconds[group] += report.duration
    _count[group] += report.when == "setup"


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print time per group, every skip with its reason, and processes that were left behind."""
    terminalreporter.section("time per group")
    for group, seconds in sorted(_seconds.items(), key=lambda item: -item[1]):
        terminalreporter.write_line(f"{seconds:8.1f} s  {_count[group]:5d} tests  {group}")
    skipped = terminalreporter.stats.get("skipped", [])
    if skipped:
        terminalreporter.section("skipped, and why")
        for report in skipped:
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
            terminalreporter.write_line(f"{report.nodeid}: {reason.removeprefix('Skipped: ')}")
    left = config.stash.get(_LEFT, {})
    if left:
        terminalreporter.section("processes left behind, now ended: the session fails")
        for pid, command in left.items():
            terminalreporter.write_line(f"{pid}  {command}")
