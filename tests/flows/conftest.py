"""What the fire tests share: a project of two command arms, real `exp` processes on it, and three ledgers.

The task's own ledger, appended to and synced by the task itself, says what was called; the store says what is kept; the
environment mark says who is still alive. None of them asks the product what it believes.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
import urllib.request
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import psutil
import pytest

# Not among the names that a local server inherits from whoever starts it: the server is to outlive the command.
MARK: Final = "FIRE_MARK"
# The promise for children after any end of ours (case K68).
CHILDREN_GONE_S: Final = 5.0

# Two lines a trial: one before anything is done, which is the paid call, and one when the answer is ready.
TASK: Final = """
    import os, sys, time
    who = "{arm} " + os.environ["FAIRTRIAL_CASE_ID"]
    def note(word):
        with open("ledger", "ab", 0) as ledger:
            ledger.write((word + " " + who + "\\n").encode())
            os.fsync(ledger.fileno())
    note("call")
    time.sleep(float(open("pause").read()))
    while os.path.exists("hold"):
        time.sleep(0.05)
    number = int(sys.stdin.read())
    note("end")
    # Long outputs differ from trial to trial: equal ones would lie on the disk once.
    size = int(open("size").read())
    print("yes" if {right} else "no", who.ljust(size, ".") if size else "")
"""

Trial = tuple[str, str]  # arm and case; the fire tests run every case once an arm


def until(question: Callable[[], Any], *, within_s: float, what: str, every_s: float = 0.01) -> Any:
    """Return the first true answer; the test fails when there is none in time."""
    deadline = time.monotonic() + within_s
    while not (found := question()):
        if time.monotonic() > deadline:
            pytest.fail(f"not within {within_s:.0f} s: {what}")
        time.sleep(every_s)
    return found


class Command:
    """One running `exp`, in a session of its own, its output in files."""

    def __init__(self, arguments: list[str], folder: Path, environ: dict[str, str], files: Path):
        self.out_path, self.err_path = files.with_suffix(".out"), files.with_suffix(".err")
        self.began = time.monotonic()
        with self.out_path.open("wb") as out, self.err_path.open("wb") as err:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "faces.cli.main", *arguments],
                cwd=folder,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
        self.pid = self.process.pid

    @property
    def out(self) -> str:
        return self.out_path.read_text("utf-8")

    @property
    def err(self) -> str:
        return self.err_path.read_text("utf-8")

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    def wait(self, within_s: float = 120.0) -> int:
        """Return the exit status, negative for a signal; the test fails when it does not end in time."""
        try:
            return self.process.wait(within_s)
        except subprocess.TimeoutExpired:
            self.kill()
            pytest.fail(f"`exp` did not end within {within_s:.0f} s\n{self.out}\n{self.err}")

    def wait_for(self, text: str, within_s: float = 60.0) -> float:
        """Return when `text` stood on stderr, in seconds of the monotonic clock."""
        until(lambda: text in self.err or self.ended, within_s=within_s, what=f"{text!r} on stderr")
        assert text in self.err, self.err
        return time.monotonic()

    def wait_for_call(self, fire: Fire, *, beyond: int = 0) -> float:
        """Return how long after its start the ledger had more than `beyond` calls."""
        until(lambda: fire.ledger().total() > beyond or self.ended, within_s=60, what=f"a call beyond {beyond}")
        assert not self.ended, self.err
        return time.monotonic() - self.began

    def ends_within(self, seconds: float) -> bool:
        """Wait that long at most; return whether it ended by itself."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(seconds)
        return self.ended

    @property
    def ended(self) -> bool:
        return self.process.poll() is not None

    def to_group(self, number: signal.Signals) -> None:
        """Signal the whole process group, as a terminal does."""
        os.killpg(self.process.pid, number)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


class Fire:
    """A project under fire: the arms base and cand over n cases, what was called, what is stored, who is alive."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.environ: dict[str, str] = {}
        self.use(home=folder / ".fairtrial")
        self._mark = uuid.uuid4().hex
        self._started: list[Command] = []

    def use(self, *, home: Path | None = None, **environ: str) -> None:
        """Let commands started from now on have these variables, and their store in `home`."""
        if home is not None:
            self.home = home
            self.environ["FAIRTRIAL_HOME"] = str(home)
        self.environ |= environ

    def write(self, n: int, *, pause_s: float, size: int = 0, graders: Any = ({"kind": "exact"},)) -> None:
        """Write the two arms; the base is right on every third case, the candidate always."""
        self.pause(pause_s)
        (self.folder / "size").write_text(str(size))
        rows = ({"id": f"k{i:03d}", "input": str(i), "expected": "yes"} for i in range(n))
        (self.folder / "cases.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        for arm, right in (("base", "number % 3 == 0"), ("cand", "True")):
            source = "\n".join(line[4:] for line in TASK.format(arm=arm, right=right).splitlines())
            (self.folder / f"{arm}.py").write_text(source)
            command = [sys.executable, "-S", "-E", f"{arm}.py"]
            spec = {
                "name": "fire",
                "dataset": "cases.jsonl",
                "task": {"kind": "command", "command": command, "files": [f"{arm}.py"]},
                "graders": list(graders),
                "seed": 5,
            }
            (self.folder / f"{arm}.json").write_text(json.dumps(spec))
        self.n_trials = 2 * n

    def pause(self, seconds: float) -> None:
        """Let every trial that starts from now on take this long; no part of what is measured."""
        (self.folder / "pause").write_text(str(seconds))

    def hold(self, on: bool) -> None:
        """Let no trial end while this is on."""
        path = self.folder / "hold"
        path.touch() if on else path.unlink(missing_ok=True)

    def start(self, *arguments: str, **environ: str) -> Command:
        """Start `exp run` with these arguments; without any it runs the two arms."""
        given = list(arguments) or ["run", *self.arms]
        variables = {**os.environ, **self.environ, MARK: self._mark, **environ}
        self._started.append(Command(given, self.folder, variables, self.folder.parent / f"exp-{len(self._started)}"))
        return self._started[-1]

    @property
    def arms(self) -> list[str]:
        return ["--arm", "base=base.json", "--arm", "cand=cand.json"]

    def ledger(self, word: str = "call") -> Counter[Trial]:
        """Return how often each trial was called, or came to its end."""
        path = self.folder / "ledger"
        lines = path.read_text().splitlines() if path.exists() else []
        return Counter((line.split()[1], line.split()[2]) for line in lines if line.startswith(f"{word} "))

    def forget_calls(self) -> None:
        (self.folder / "ledger").unlink(missing_ok=True)

    def stored(self, state: str = "done") -> Counter[Trial]:
        """Return the stored trials by arm and case, read from the database file itself."""
        query = "select arm, case_id from trial where state = ?"
        return Counter((arm, case) for arm, case in self.rows(query, state))

    def rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        path = self.home / "fairtrial.db"
        if not path.exists():
            return []
        with contextlib.closing(sqlite3.connect(path, timeout=60)) as database:
            # The first thing that is stored is the experiment, and all tables come in one commit before it.
            if not database.execute("select 1 from sqlite_master where name = 'trial'").fetchone():
                return []
            return database.execute(query, values).fetchall()

    def change(self, statement: str) -> None:
        """Change the database from outside, as no command of ours does."""
        with contextlib.closing(sqlite3.connect(self.home / "fairtrial.db", timeout=60)) as database, database:
            database.execute(statement)

    @property
    def experiment(self) -> str | None:
        """Return the id of the project's one experiment, None when there is none yet."""
        found = self.rows("select id from experiment")
        assert len(found) <= 1, found
        return str(found[0][0]) if found else None

    def alive(self) -> dict[int, str]:
        """Return the living processes that bear the mark, with their command lines."""
        found = {}
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.environ().get(MARK) == self._mark and process.status() != psutil.STATUS_ZOMBIE:
                    found[process.pid] = " ".join(process.cmdline())
        return found

    def wait_until_gone(self) -> float:
        """Return how long it took until nothing that `exp` started was left; the promise is 5 s."""
        began = time.monotonic()
        until(lambda: not self.alive(), within_s=CHILDREN_GONE_S, what=f"children gone: {self.alive()}", every_s=0.1)
        return time.monotonic() - began

    def close(self) -> None:
        """End what is left, by its id, and fail the test for it."""
        for command in self._started:
            if not command.ended:
                command.kill()
        deadline = time.monotonic() + CHILDREN_GONE_S
        while (left := self.alive()) and time.monotonic() < deadline:
            time.sleep(0.1)
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if left:
            pytest.fail(f"processes of the test were left: {left}")


@pytest.fixture
def fire(project: Path, prefect_server: Any) -> Iterator[Fire]:
    """The test's project, on the session's server."""
    fire = Fire(project)
    yield fire
    fire.close()


@pytest.fixture(scope="module")
def make_fire(tmp_path_factory: pytest.TempPathFactory, prefect_server: Any) -> Iterator[Callable[[], Fire]]:
    """Make a project of its own for what several tests of a file compare with."""
    made: list[Fire] = []

    def make() -> Fire:
        folder = tmp_path_factory.mktemp("fire") / "project"
        folder.mkdir()
        made.append(Fire(folder))
        return made[-1]

    yield make
    for fire in made:
        fire.close()


def _ask(server: Any, path: str, body: dict[str, Any]) -> Any:
    login = base64.b64encode(server.auth.encode()).decode()
    headers = {"Authorization": f"Basic {login}", "Content-Type": "application/json"}
    question = urllib.request.Request(f"{server.url}/csrf-token?client=fire", headers=headers)
    with urllib.request.urlopen(question, timeout=30) as answer:
        headers |= {"Prefect-Csrf-Token": json.load(answer)["token"], "Prefect-Csrf-Client": "fire"}
    question = urllib.request.Request(f"{server.url}{path}", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(question, timeout=30) as answer:
        return json.load(answer)


@pytest.fixture
def flow_runs(prefect_server: Any) -> Callable[[str], list[dict[str, Any]]]:
    """Return the flow runs that carry a tag, oldest first."""

    def ask(tag: str) -> list[dict[str, Any]]:
        wanted = {"flow_runs": {"tags": {"all_": [tag]}}, "sort": "START_TIME_ASC"}
        return list(_ask(prefect_server, "/flow_runs/filter", wanted))

    return ask
