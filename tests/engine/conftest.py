"""A bare laboratory: the real store, engine, subjects and graders, without Prefect and without a screen."""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from fairtrial.engine.create import Asked, prepare, store
from fairtrial.engine.loop import run_slice
from fairtrial.engine.open import OpenRun, open_run
from fairtrial.records.experiment import ExperimentRecord
from fairtrial.records.verdict import RunBody, body_bytes
from fairtrial.spec.arms import ArmSpec
from fairtrial.spec.dataset import load_dataset
from fairtrial.spec.loader import parse_spec
from fairtrial.spec.selection import Selection
from fairtrial.store.database import open_database, sqlite_url
from fairtrial.store.experiments import get_experiment
from fairtrial.store.lease import this_process
from fairtrial.store.objects import ObjectStore
from tasks.compare import sum_up_run


@dataclass
class Lab:
    """One project folder. `make` stores an experiment, `run` runs it bare, `body` is its canonical verdict."""

    folder: Path
    environ: dict[str, str] = field(default_factory=lambda: dict(os.environ))
    database_url: str = ""
    storage_url: str = ""

    def __post_init__(self) -> None:
        (self.folder / "home").mkdir(exist_ok=True)
        self.database_url = self.database_url or sqlite_url(self.folder / "home" / "fairtrial.db")
        self.storage_url = self.storage_url or str(self.folder / "home" / "objects")
        self.engine = open_database(self.database_url)
        self.objects = ObjectStore(self.storage_url)

    def cases(self, records: Sequence[dict[str, Any]], name: str = "cases.jsonl") -> Path:
        path = self.folder / name
        path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
        return path

    def answers(self, outputs: dict[str, Any], name: str) -> dict[str, Any]:
        """Write recorded answers and return the task that reads them."""
        path = self.folder / name
        path.write_text("".join(json.dumps({"id": k, "output": v}) + "\n" for k, v in outputs.items()), "utf-8")
        return {"kind": "recorded", "path": name}

    def make(
        self,
        tasks: dict[str, dict[str, Any]],
        *,
        dataset: Path | None = None,
        graders: Sequence[dict[str, Any]] = ({"kind": "exact"},),
        slice_blocks: int = 5,
        seed: int = 11,
        **spec: Any,
    ) -> ExperimentRecord:
        loaded = {
            name: parse_spec(
                {"name": "lab", "task": task, "graders": list(graders), "seed": seed, **spec},
                place="spec",
                folder=self.folder,
            )
            for name, task in tasks.items()
        }
        path = dataset or self.folder / "cases.jsonl"
        asked = Asked(
            name="lab",
            arms=tuple(ArmSpec(name, one) for name, one in loaded.items()),
            dataset=load_dataset(path),
            dataset_name=path.name,
            selection=Selection(),
            slice_blocks=slice_blocks,
        )
        prepared = prepare(asked, environ=self.environ)
        store(prepared, asked.dataset, engine=self.engine, objects=self.objects)
        return prepared.record

    def open(self, experiment: str, *, concurrency: int | None = None, **asked: Any) -> OpenRun:
        return open_run(
            self.engine,
            self.objects,
            experiment,
            owner=this_process(),
            environ=self.environ,
            concurrency=concurrency,
            **asked,
        )

    def run(
        self,
        experiment: str,
        *,
        concurrency: int | None = None,
        shuffle: int | None = None,
        before: Callable[[OpenRun], None] = lambda _run: None,
        **asked: Any,
    ) -> None:
        """Run what the experiment owes; `shuffle` draws the order in which slices are taken."""
        run = self.open(experiment, concurrency=concurrency, **asked)
        before(run)
        numbers = list(run.unfinished)
        if shuffle is not None:
            random.Random(shuffle).shuffle(numbers)

        async def main() -> None:
            pending = iter(numbers)

            async def work() -> None:
                for number in pending:
                    await run_slice(run.loop, number)

            try:
                await asyncio.gather(*(work() for _ in range(run.loop.slices_in_flight)))
            finally:
                await run.close()

        asyncio.run(main())

    def body(self, experiment: str) -> RunBody:
        with self.engine.connect() as connection:
            return sum_up_run(connection, get_experiment(connection, experiment))

    def bytes(self, experiment: str) -> bytes:
        return body_bytes(self.body(experiment))

    def rows(self, query: str, **values: Any) -> list[tuple[Any, ...]]:
        from sqlalchemy import text

        with self.engine.connect() as connection:
            return [tuple(row) for row in connection.execute(text(query), values)]


@pytest.fixture
def backend() -> str:
    """What the store is made of; the main tests run on both."""
    return "sqlite"


@pytest.fixture
def lab(tmp_path: Path, backend: str, request: pytest.FixtureRequest) -> Iterator[Lab]:
    folder = tmp_path / "lab"
    folder.mkdir()
    names = {"database_url": "postgres_url", "storage_url": "s3_url"} if backend == "postgres" else {}
    lab = Lab(folder, **{field: request.getfixturevalue(fixture) for field, fixture in names.items()})
    yield lab
    lab.engine.dispose()
