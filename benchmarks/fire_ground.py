"""The ground of benchmarks.fire: projects, a server, a worker with its deployment, and who of them is alive."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import psutil

from flows import local_server
from flows.prefect_env import prepare

IN_FLIGHT: Final = 4
MARK: Final = "FIRE_MARK"
POOL: Final = "fire"
N_CASES: Final = 100
GONE_S: Final = 5.0

TASK: Final = """
    import os, sys, time
    with open("ledger", "ab", 0) as ledger:
        ledger.write(("{arm} " + os.environ["FAIRTRIAL_CASE_ID"] + "\\n").encode())
        os.fsync(ledger.fileno())
    time.sleep(float(open("pause").read()))
    number = int(sys.stdin.read())
    print("yes" if {right} else "no")
"""

ENTRY: Final = """
    import subprocess, sys
    from prefect import flow

    @flow(name="fire entry")
    def resume(experiment: str, folder: str):
        subprocess.run([sys.executable, "-m", "faces.cli.main", "run", "--resume", experiment,
                        "--concurrency", "4"], cwd=folder, check=True)
"""


def until(question: Callable[[], Any], *, within_s: float, what: str, every_s: float = 0.02) -> None:
    """Return when `question` is true; raises TimeoutError naming `what`."""
    deadline = time.monotonic() + within_s
    while not question():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {within_s:.0f} s: {what}")
        time.sleep(every_s)


class Project:
    """Two arms over the cases; the base is right on every third."""

    def __init__(self, folder: Path, *, pause_s: float):
        self.folder = folder
        self.home = folder / ".fairtrial"
        self.n_trials = 2 * N_CASES
        folder.mkdir()
        self.pause(pause_s)
        rows = ({"id": f"k{i:03d}", "input": str(i), "expected": "yes"} for i in range(N_CASES))
        (folder / "cases.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        for arm, right in (("base", "number % 3 == 0"), ("cand", "True")):
            (folder / f"{arm}.py").write_text(textwrap.dedent(TASK).format(arm=arm, right=right))
            command = [sys.executable, "-S", "-E", f"{arm}.py"]
            task = {"kind": "command", "command": command, "files": [f"{arm}.py"]}
            spec = {
                "name": "fire",
                "dataset": "cases.jsonl",
                "task": task,
                "graders": [{"kind": "exact"}],
                "seed": 5,
            }
            (folder / f"{arm}.json").write_text(json.dumps(spec))

    def pause(self, seconds: float) -> None:
        """Let every trial that starts from now on take this long."""
        (self.folder / "pause").write_text(str(seconds))

    def calls(self) -> Counter[str]:
        """Return how often each trial was called, by the task's own ledger."""
        path = self.folder / "ledger"
        return Counter(path.read_text().splitlines()) if path.exists() else Counter()

    def stored(self) -> Counter[str]:
        """Return the finished trials in the database."""
        rows = self._rows("select arm, case_id from trial where state = 'done'")
        return Counter(f"{arm} {case}" for arm, case in rows)

    def n_done(self) -> int:
        """Return what the store's own totals say."""
        return int(self._rows("select sum(n_done) from summary")[0][0])

    def experiment(self) -> str | None:
        """Return the id of its one experiment, None before there is one."""
        found = self._rows("select id from experiment")
        return str(found[0][0]) if found else None

    def wait_for_call(self, process: subprocess.Popen[bytes], then_s: float, *, within_s: float = 60.0) -> None:
        """Return `then_s` after the next call, or when the process has ended."""
        before = self.calls().total()
        until(lambda: self.calls().total() > before or process.poll() is not None, within_s=within_s, what="a call")
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(then_s)

    def _rows(self, query: str) -> list[tuple[Any, ...]]:
        path = self.home / "fairtrial.db"
        if not path.exists():
            return []
        with contextlib.closing(sqlite3.connect(path, timeout=60)) as database:
            if not database.execute("select 1 from sqlite_master where name = 'trial'").fetchone():
                return []
            return database.execute(query).fetchall()


class Ground:
    """The server, and every process that is started here; `close` ends them by their ids."""

    def __init__(self, folder: Path):
        self._folder = folder
        self._state_dir = folder / "state"
        self._processes: list[subprocess.Popen[bytes]] = []
        self._current: subprocess.Popen[bytes] | None = None
        self._mark = os.urandom(8).hex()
        for name in [name for name in os.environ if name.startswith(("PREFECT_", "FAIRTRIAL_"))]:
            del os.environ[name]
        self._plain = dict(os.environ)
        server = self.start_server()
        # Before Prefect is imported: this process is one of its clients.
        prepare(os.environ, server)
        (folder / "entry.py").write_text(textwrap.dedent(ENTRY))
        self._deployment = _deploy(folder)

    def project(self, name: str, *, pause_s: float = 1.0) -> Project:
        """Make a project."""
        return Project(self._folder / name, pause_s=pause_s)

    def start(self, project: Project, *flags: str) -> subprocess.Popen[bytes]:
        """Start `exp run` on a project: a resume when it has an experiment."""
        experiment = project.experiment()
        arms = ["--arm", "base=base.json", "--arm", "cand=cand.json"]
        what = ["--resume", experiment] if experiment else arms
        command = [sys.executable, "-m", "faces.cli.main", "run", *what, "--concurrency", str(IN_FLIGHT), *flags]
        return self._start(command, project, {**self._plain, "FAIRTRIAL_STATE_DIR": str(self._state_dir)})

    def running(self, project: Project) -> subprocess.Popen[bytes]:
        """Return the `exp run` that is under way on the project, started when there is none."""
        if self._current is None or self._current.poll() is not None:
            self._current = self.start(project, "--slice", "10") if not project.experiment() else self.start(project)
        return self._current

    def kill(self, pid: int) -> bool:
        """Kill a process of ours and return whether there was one to kill."""
        if pid not in self._alive():
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            return True
        return False

    def is_refused(self, project: Project) -> bool:
        """Return whether a second owner is turned away by name."""
        run = self.start(project)
        until(lambda: run.poll() is not None, within_s=60, what="the refusal of a second owner")
        return run.returncode == 64 and "is being run by process" in self.said(run)

    def owner(self, project: Project) -> int | None:
        """Return the process of ours that runs the project's experiment, if there is one."""
        for pid, command in self._alive().items():
            if "faces.cli.main run" in command and psutil.pid_exists(pid):
                with contextlib.suppress(psutil.Error):
                    if Path(psutil.Process(pid).cwd()) == project.folder:
                        return pid
        return None

    def start_worker(self, project: Project) -> subprocess.Popen[bytes]:
        """Ask for a run of the deployment and start a worker for it."""
        _ask_for_run(self._deployment, experiment=str(project.experiment()), folder=str(project.folder))
        command = [sys.executable, "-m", "prefect", "worker", "start", "--pool", POOL, "--type", "process"]
        environ = {**os.environ, "FAIRTRIAL_STATE_DIR": str(self._state_dir), "PREFECT_WORKER_QUERY_SECONDS": "1"}
        return self._start([*command, "--limit", "1"], project, environ)

    def end_worker_tree(self) -> None:
        """End what Prefect's worker left of itself."""
        for pid in self._alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        until(lambda: not self._alive(), within_s=10, what="the end of a worker's tree")

    def start_server(self) -> local_server.Server:
        """Start the server, or find it."""
        return local_server.find_or_start(
            state_dir=self._state_dir, environ=self._plain, say=lambda _line: None, wait_s=240
        )

    def kill_server(self) -> None:
        """Kill the server."""
        pid = local_server.status(self._state_dir).pid
        if pid is not None:
            process = psutil.Process(pid)
            process.kill()
            process.wait(10)

    def until_gone(self) -> tuple[float, int]:
        """Wait for the end of all tasks and return how long it took and how many were left after 5 s."""
        began = time.monotonic()
        while (left := self._tasks()) and time.monotonic() - began < GONE_S:
            time.sleep(0.05)
        return time.monotonic() - began, len(left)

    def said(self, process: subprocess.Popen[bytes]) -> str:
        """Return what a process wrote to stderr."""
        return self._file(process, "err").read_text("utf-8")

    def printed(self, process: subprocess.Popen[bytes]) -> str:
        """Return what a process wrote to stdout."""
        return self._file(process, "out").read_text("utf-8")

    def close(self) -> None:
        """End all that was started here."""
        for process in self._processes:
            if process.poll() is None:
                process.kill()
                process.wait()
        self.end_worker_tree()
        local_server.stop(self._state_dir)

    def _start(self, command: list[str], project: Project, environ: dict[str, str]) -> subprocess.Popen[bytes]:
        number = len(self._processes)
        with (self._folder / f"{number}.out").open("wb") as out, (self._folder / f"{number}.err").open("wb") as err:
            process = subprocess.Popen(
                command,
                cwd=project.folder,
                env={**environ, "FAIRTRIAL_HOME": str(project.home), MARK: self._mark},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
        self._processes.append(process)
        return process

    def _file(self, process: subprocess.Popen[bytes], kind: str) -> Path:
        return self._folder / f"{self._processes.index(process)}.{kind}"

    def _tasks(self) -> list[int]:
        """Return tasks and their reaper: all that `exp` starts. A worker's own processes are Prefect's."""
        return [pid for pid, command in self._alive().items() if "reaper.py" in command or "-S -E" in command]

    def _alive(self) -> dict[int, str]:
        found = {}
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.environ().get(MARK) == self._mark and process.status() != psutil.STATUS_ZOMBIE:
                    found[process.pid] = " ".join(process.cmdline())
        return found


def _deploy(folder: Path) -> Any:
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.actions import WorkPoolCreate
    from prefect.workers.process import ProcessWorker

    with get_client(sync_client=True) as client:
        template = ProcessWorker.get_default_base_job_template()
        client.create_work_pool(WorkPoolCreate(name=POOL, type="process", base_job_template=template))
        return client.create_deployment(
            flow_id=client.create_flow_from_name("fire entry"),
            name=POOL,
            work_pool_name=POOL,
            path=str(folder),
            entrypoint="entry.py:resume",
        )


def _ask_for_run(deployment: Any, **parameters: str) -> None:
    from prefect.client.orchestration import get_client

    with get_client(sync_client=True) as client:
        client.create_flow_run_from_deployment(deployment, parameters=parameters)
