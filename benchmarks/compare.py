"""How fast `exp compare` answers: the whole process against importing scipy.stats, and in process against a raw read.

Run with `python -m benchmarks.compare`. The bars are in benchmarks/README.md.
"""

from __future__ import annotations

import os
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.stamp import stamp
from fairtrial.hashing import content_hash
from fairtrial.records.experiment import ArmRecord, CaseRef, DatasetRef, ExperimentRecord, GraderRecord
from fairtrial.store.database import open_database, sqlite_url
from fairtrial.store.experiments import save_experiment
from fairtrial.store.tables import GradeRow, TrialRow, table_of
from tasks.arrays import load_side
from tasks.compare import compare_with_first

REPEATS = 5


def main() -> int:
    """Measure and print; returns 0."""
    print(stamp())
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        whole_process(home, 1_000)
        in_process(home, 100_000)
    return 0


def whole_process(home: Path, n: int) -> None:
    """Time `exp compare` of two stored runs of n cases, and `python -c "import scipy.stats"`, in turn."""
    ids = [write_run(home, f"exp_01M6SAJYC5RM7A5TCT65R3{arm:04d}", n, shift=arm) for arm in (1, 2)]
    environ = {**os.environ, "FAIRTRIAL_HOME": str(home)}
    command = [sys.executable, "-m", "faces.cli.main", "compare", *ids]
    compares, imports = [], []
    for _ in range(REPEATS):
        compares.append(_seconds(command, environ))
        imports.append(_seconds([sys.executable, "-c", "import scipy.stats"], environ))
    ratio = min(compares) / min(imports)
    print(f"compare of 2 x {n:,} cases, whole process: {min(compares):.2f} s, {ratio:.2f} x import scipy.stats (bar 2)")


def in_process(home: Path, n: int) -> None:
    """Time comparing 2 x n cases after the imports, against reading the same scores with sqlite3 alone."""
    ids = [write_run(home, f"exp_01M6SAJYC5RM7A5TCT65R4{arm:04d}", n, shift=arm) for arm in (1, 2)]
    engine = open_database(sqlite_url(home / "fairtrial.db"))
    from fairtrial.store.experiments import get_experiment

    ours, raw = [], []
    for _ in range(3):
        began = time.perf_counter()
        with engine.connect() as connection:
            records = [get_experiment(connection, identity) for identity in ids]
            sides = [load_side(connection, record, record.arms[0], label=record.id) for record in records]
            compare_with_first(connection, sides)
        ours.append(time.perf_counter() - began)
        del sides
        began = time.perf_counter()
        plain = sqlite3.connect(home / "fairtrial.db")
        query = (
            "select case_id, repetition, outcome, value from trial where experiment = ? order by case_id, repetition"
        )
        for identity in ids:
            plain.execute(query, (identity,)).fetchall()
        plain.close()
        raw.append(time.perf_counter() - began)
    memory_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"compare of 2 x {n:,} cases, in process: {min(ours):.2f} s, {min(ours) / min(raw):.1f} x a raw read of the "
        f"same scores (bar 5); peak memory of this process {memory_mb:.0f} MB (bar 300)"
    )


def write_run(home: Path, identity: str, n: int, *, shift: int) -> str:
    """Store a finished run of n cases without running it."""
    engine = open_database(sqlite_url(home / "fairtrial.db"))
    record = ExperimentRecord(
        id=identity,
        name="compare",
        kind="run",
        state="finished",
        created_at=0.0,
        finished_at=1.0,
        seed=1,
        trials=1,
        dataset=DatasetRef("cases", "0" * 64, "cases.jsonl", n),
        graders=(GraderRecord("exact", "exact", "0" * 16, {}, {}),),
        arms=(ArmRecord("main", {"kind": "recorded"}, {}, ".", "0" * 64, {}),),
        selection={},
        tags=(),
        description=None,
        n_cases=n,
        n_blocks=n,
        slice_blocks=50,
        plan_hash="0" * 64,
    )
    ids = [f"k{index:06d}" for index in range(n)]
    save_experiment(
        engine, record, (CaseRef(i, case, content_hash(case), "0" * 64, "ordinary") for i, case in enumerate(ids))
    )
    trials, grades = [], []
    for index, case in enumerate(ids):
        value = float((index * 7919 + shift * (index % 11)) % 10 < 6)
        key = {"experiment": identity, "arm": "main", "case_id": case, "repetition": 1}
        trials.append(
            {**key, "state": "done", "outcome": "graded", "value": value, "attempt": 1, "fence": 1, "started_at": 0.0}
        )
        grades.append(
            {
                **key,
                "try_no": 1,
                "grader": "exact",
                "version": "0" * 16,
                "state": "scored",
                "score": value,
                "reason": b"",
            }
        )
    with engine.connect().execution_options(writes=True) as connection, connection.begin():
        connection.execute(table_of(TrialRow).insert(), trials)
        connection.execute(table_of(GradeRow).insert(), grades)
    return identity


def _seconds(command: list[str], environ: dict[str, str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, env=environ, check=True, capture_output=True)
    return time.perf_counter() - began


if __name__ == "__main__":
    sys.exit(main())
