"""A store of its own for each test, small experiments in it, and real processes that use it at the same time."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import pytest
from sqlalchemy import Engine, text

from fairtrial.ids import new_experiment_id
from fairtrial.records.experiment import ArmRecord, CaseRef, DatasetRef, ExperimentRecord, GraderRecord
from fairtrial.store.database import open_database, sqlite_url
from fairtrial.store.experiments import save_experiment
from fairtrial.store.objects import ObjectStore

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def db_path(tmp_path: Path) -> Path:
    return tmp_path / "fairtrial.db"


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def backend(request: pytest.FixtureRequest) -> str:
    """What the store is made of: sqlite, with a folder of objects, or postgres, with an S3 bucket.

    `make quick` leaves the second to the tests of its own. A test that is about one of them says so:
    @pytest.mark.parametrize("backend", ["sqlite"]), or a fixture of this name in its module.
    """
    return str(request.param)


@pytest.fixture
def database_url(backend: str, db_path: Path, request: pytest.FixtureRequest) -> str:
    return sqlite_url(db_path) if backend == "sqlite" else str(request.getfixturevalue("postgres_url"))


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    engine = open_database(database_url)
    yield engine
    engine.dispose()


@pytest.fixture
def objects(backend: str, tmp_path: Path, request: pytest.FixtureRequest) -> ObjectStore:
    return ObjectStore(str(tmp_path / "objects") if backend == "sqlite" else request.getfixturevalue("s3_url"))


def record_of(
    name: str = "smoke", *, arms: Sequence[str] = ("main",), n_cases: int = 4, trials: int = 1, **changes: Any
) -> ExperimentRecord:
    values: dict[str, Any] = {
        "id": new_experiment_id(),
        "name": name,
        "kind": "ab" if len(arms) > 1 else "run",
        "state": "running",
        "created_at": 1_700_000_000.25,
        "finished_at": None,
        "seed": 2**63 - 1,
        "trials": trials,
        "dataset": DatasetRef(name="cases.jsonl", hash="d" * 64, source="./cases.jsonl", n_cases=n_cases),
        "graders": (GraderRecord("exact", "exact", "a" * 64, {"kind": "exact"}, {"rules": "b" * 64}),),
        "arms": tuple(
            ArmRecord(arm, {"kind": "command", "command": ["true"]}, {"retries": 3}, "/spec", "c" * 64, {"task": "e"})
            for arm in arms
        ),
        "selection": {"first_n": None, "cases": []},
        "tags": ("nightly", "quick"),
        "description": None,
        "n_cases": n_cases,
        "n_blocks": n_cases * trials,
        "slice_blocks": 50,
        "plan_hash": "f" * 64,
        "warnings": (),
    }
    return ExperimentRecord(**(values | changes))


def cases_for(record: ExperimentRecord) -> list[CaseRef]:
    return [CaseRef(n, f"k{n:03d}", "1" * 64, "2" * 64, "ordinary") for n in range(record.n_cases)]


Make = Callable[..., ExperimentRecord]


@pytest.fixture
def make(engine: Engine) -> Make:
    """Store an experiment: `make("name", arms=("base", "cand"), n_cases=4)`, `into` another store if one is given."""

    def store(
        *arguments: Any, cases: Sequence[CaseRef] | None = None, into: Engine = engine, **changes: Any
    ) -> ExperimentRecord:
        record = record_of(*arguments, **changes)
        save_experiment(into, record, cases or cases_for(record))
        return record

    return store


class Child:
    """A Python process that is told what to do line by line, and answers line by line."""

    def __init__(self, code: str, *arguments: object, cwd: Path):
        command = [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]),
            },
            text=True,
            bufsize=1,
        )

    def tell(self, line: object) -> None:
        print(line, file=_pipe(self.process.stdin), flush=True)

    def line(self) -> str:
        """Return its next line; its error output when it has ended instead."""
        line = _pipe(self.process.stdout).readline()
        return line.rstrip("\n") if line else f"ended: {_pipe(self.process.stderr).read()[-2000:]}"

    def rest(self) -> str:
        """Return all it writes until it ends. (`communicate` would miss what `line` has already taken in.)"""
        text = _pipe(self.process.stdout).read()
        self.process.wait(60)
        return text

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None and not pipe.closed:
                # What was not read by a process that is gone cannot be flushed to it.
                try:
                    pipe.close()
                except BrokenPipeError:
                    continue


def _pipe(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None
    return pipe


StartChild = Callable[..., Child]


@pytest.fixture
def child() -> Iterator[StartChild]:
    """Start a process of a test: `child(code, argument, …)`; it is ended with the test."""
    started: list[Child] = []

    def start(code: str, *arguments: object, cwd: Path = ROOT) -> Child:
        started.append(Child(code, *arguments, cwd=cwd))
        return started[-1]

    yield start
    for each in started:
        each.close()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """Mount a small disk of its own: `small_disk(mb=1)`; skips where that is not allowed."""
    mounted: list[Path] = []

    def mount(*, mb: int) -> Path:
        folder = tmp_path / f"disk-{uuid.uuid4().hex[:6]}"
        folder.mkdir()
        made = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={mb}m", "tmpfs", folder], capture_output=True)
        if made.returncode:
            pytest.skip(f"needs a disk that can fill up, and may not mount one: {made.stderr.decode().strip()}")
        mounted.append(folder)
        return folder

    yield mount
    for folder in mounted:
        subprocess.run(["umount", "--lazy", folder], check=True)


def rows(engine: Engine, query: str, **values: object) -> list[tuple[Any, ...]]:
    with engine.connect() as connection:
        return [tuple(row) for row in connection.execute(text(query), values)]


@pytest.fixture
def ask(engine: Engine) -> Callable[..., list[tuple[Any, ...]]]:
    """Ask the test's own store in SQL: `ask("select … where id = :id", id=…)`."""
    return lambda query, **values: rows(engine, query, **values)
