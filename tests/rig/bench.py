"""A project folder of its own for the kill tests: experiments that ask the meter, runs of them, and what is stored."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from fairtrial.engine.create import Asked, prepare, store
from fairtrial.hashing import canonical_json, content_hash, parse_canonical
from fairtrial.records.experiment import ExperimentRecord
from fairtrial.spec.arms import ArmSpec
from fairtrial.spec.dataset import load_dataset
from fairtrial.spec.loader import parse_spec
from fairtrial.spec.selection import Selection
from fairtrial.store.database import open_database, sqlite_url
from fairtrial.store.objects import ObjectStore
from tests.rig.child import Options
from tests.rig.meter import ASK, Meter

MARK: Final = "RIG_MARK"
TABLES: Final = ("experiment", "lease", "attempt", "trial", "trial_output", "grade", "summary")


class Bench:
    """One store with its experiments. Every process of its runs bears `mark` in its environment."""

    def __init__(self, folder: Path, meter: Meter):
        self.folder = folder
        self.home = folder / "home"
        self.home.mkdir(parents=True)
        self.meter = meter
        self.mark = uuid.uuid4().hex
        self.engine = open_database(sqlite_url(self.home / "fairtrial.db"))
        self.objects = ObjectStore(str(self.home / "objects"))
        (folder / "ask.sh").write_text(ASK)

    def make(
        self,
        n_cases: int | Sequence[str],
        *,
        arms: Sequence[str] = ("main",),
        slice_blocks: int = 25,
        seed: int = 11,
        **spec: Any,
    ) -> ExperimentRecord:
        """Store an experiment whose arms ask the meter; the arm "recorded" reads a file that lacks the first case.

        n_cases     how many, or their ids
        """
        ids = [f"k{n:04d}" for n in range(n_cases)] if isinstance(n_cases, int) else list(n_cases)
        name = f"{len(ids)}-{content_hash(ids)[:8]}"
        self._write(f"cases-{name}.jsonl", [{"id": case, "input": f"q {case}", "expected": "x"} for case in ids])
        self._write(f"recorded-{name}.jsonl", [{"id": case, "output": "x"} for case in ids[1:]])
        tasks: dict[str, Any] = {
            arm: {"kind": "recorded", "path": f"recorded-{name}.jsonl"}
            if arm == "recorded"
            else {"kind": "command", "command": ["bash", "ask.sh", arm], "stdin": "none"}
            for arm in arms
        }
        specs = {
            arm: parse_spec(
                {"name": "fire", "task": task, "graders": [{"kind": "contains"}], "seed": seed, **spec},
                place="spec",
                folder=self.folder,
            )
            for arm, task in tasks.items()
        }
        asked = Asked(
            name="fire",
            arms=tuple(ArmSpec(arm, one) for arm, one in specs.items()),
            dataset=load_dataset(self.folder / f"cases-{name}.jsonl"),
            dataset_name=f"cases-{name}.jsonl",
            selection=Selection(),
            slice_blocks=slice_blocks,
        )
        prepared = prepare(asked, environ=dict(os.environ))
        store(prepared, asked.dataset, engine=self.engine, objects=self.objects)
        return prepared.record

    def options(self, experiment: str, **changes: Any) -> Options:
        """Return the options of a run of an experiment of this bench."""
        environ = {"RIG_PORT": str(self.meter.port), MARK: self.mark}
        return Options(home=str(self.home), experiment=experiment, environ=environ, **changes)

    def rows(self, query: str, *values: Any) -> list[dict[str, Any]]:
        """Ask the store in SQL, past the product."""
        with sqlite3.connect(f"file:{self.home / 'fairtrial.db'}?mode=ro", uri=True, timeout=30) as connection:
            connection.row_factory = sqlite3.Row
            found = [dict(row) for row in connection.execute(query, values)]
        connection.close()
        return found

    def table(self, name: str, experiment: str) -> list[dict[str, Any]]:
        """Return all rows of one table that belong to an experiment."""
        column = "id" if name == "experiment" else "experiment"
        return self.rows(f"select * from {name} where {column} = ?", experiment)

    def dump(self, experiment: str, *, leave_out: Sequence[str] = ()) -> dict[str, Any]:
        """Return everything that is stored of an experiment: its rows in all tables, and the hash of every object."""
        tables = [name for name in TABLES if name not in leave_out]
        stored: dict[str, Any] = {name: self.table(name, experiment) for name in tables}
        files = sorted(path for path in (self.home / "objects").rglob("*") if path.is_file())
        # What a writer has not given its name yet is no object.
        files = [path for path in files if not path.name.startswith(".part-")]
        stored["objects"] = {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
        return stored

    def body(self, experiment: str) -> bytes:
        """Return the canonical bytes of the body of the stored verdict."""
        document: Any = parse_canonical(
            (self.home / "objects" / "experiments" / experiment / "verdict.json").read_bytes()
        )
        return canonical_json(document["body"])

    def forget_blob(self, content: bytes) -> None:
        """Take a blob out of the store, so that the next run writes it again."""
        (self.home / "objects" / "blobs" / hashlib.sha256(content).hexdigest()).unlink(missing_ok=True)

    def marked(self) -> list[int]:
        """Return the processes that bear this bench's mark and are not this one."""
        pair = f"{MARK}={self.mark}".encode()
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                if pair in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
            except OSError:
                continue
        return found

    def survivors(self, within_s: float = 5.0) -> list[int]:
        """Return the marked processes that are left after the time that is promised."""
        deadline = time.monotonic() + within_s
        while (left := self.marked()) and time.monotonic() < deadline:
            time.sleep(0.05)
        return left

    def _write(self, name: str, records: Sequence[dict[str, Any]]) -> None:
        path = self.folder / name
        if not path.exists():
            path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
