"""How soon a resume of 200,000 trials, one of them owed, makes its first call, and in how much memory.

Run with `python -m benchmarks.resume [TRIALS]`. Each measurement has a process of its own; the call is a real command
that notes the time it was started at. The reference is reading the same rows with sqlite3 and every case with json, in
the process that was measured. The bars are in benchmarks/README.md.
"""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.memory import memory_mb
from benchmarks.stamp import stamp

TRIALS = 200_000
FIRST_CALL_BAR_S = 5.0
MEMORY_BAR_MB = 300
ROWS_AT_A_TIME = 20_000

TASK = """
import time
from pathlib import Path
Path("called").write_text(str(time.time()))
print(1)
"""


def main() -> int:
    """Measure and print; returns 1 past a bar."""
    if sys.argv[1:2] == ["--in-process"]:
        in_process(Path(sys.argv[2]))
        return 0
    trials = int(sys.argv[1]) if len(sys.argv) > 1 else TRIALS
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder)
        write_project(project, trials)
        command = [sys.executable, "-m", "benchmarks.resume", "--in-process", folder]
        seen = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        whole, again = whole_commands(project)
    print(stamp())
    print(f"resume of {trials:,} trials, one of them owed")
    print(f"  open_run, in process        {seen['open_s']:6.2f} s")
    print(
        f"  first call after its start  {seen['call_s']:6.2f} s, {seen['call_s'] / seen['raw_s']:.1f} x a raw read of "
        f"the same rows and cases ({seen['raw_s']:.2f} s); bar {FIRST_CALL_BAR_S:.0f} s"
    )
    print(
        f"  peak memory of the process  {seen['peak_mb']:4.0f} MB, {seen['imports_mb']:.0f} of them after the imports; "
        f"bar {MEMORY_BAR_MB}"
    )
    print(f"  first call after the start of `exp run --resume EXP`, server up            {whole:6.2f} s")
    print(f"  the same with the spec named, so that its dataset is read and compared     {again:6.2f} s")
    return int(seen["call_s"] > FIRST_CALL_BAR_S or seen["peak_mb"] > MEMORY_BAR_MB)


def in_process(project: Path) -> None:
    """Open the run, run what it owes on the bare engine, and print the figures as JSON."""
    from fairtrial.engine.loop import run_slice
    from fairtrial.engine.open import open_run
    from fairtrial.store.database import open_database, sqlite_url
    from fairtrial.store.lease import this_process
    from fairtrial.store.objects import ObjectStore

    home, experiment = project / "home", (project / "id").read_text()
    engine, objects = open_database(sqlite_url(home / "fairtrial.db")), ObjectStore(str(home / "objects"))
    imports_mb = memory_mb()["VmRSS"]
    began = time.time()
    run = open_run(engine, objects, experiment, owner=this_process(), environ=dict(os.environ))
    open_s = time.time() - began
    (number,) = run.unfinished

    async def work() -> None:
        await run_slice(run.loop, number)
        await run.close()

    asyncio.run(work())
    call_s = float((project / "called").read_text()) - began
    peak_mb = memory_mb()["VmHWM"]
    print(
        json.dumps(
            {
                "open_s": open_s,
                "call_s": call_s,
                "peak_mb": peak_mb,
                "imports_mb": imports_mb,
                "raw_s": _raw_read(home, experiment),
            }
        )
    )


def whole_commands(project: Path) -> tuple[float, float]:
    """Return the seconds from the start of a command to its first call, without the spec and with it."""
    from flows.local_server import find_or_start, stop

    state = project / "state"
    environ = {**os.environ, "FAIRTRIAL_STATE_DIR": str(state), "FAIRTRIAL_HOME": str(project / "home")}
    find_or_start(state_dir=state, environ=environ, say=lambda _line: None)
    experiment = (project / "id").read_text()
    seconds = []
    try:
        for spec in ([], ["spec.json"]):
            _owe_the_last(project)
            command = [sys.executable, "-m", "faces.cli.main", "run", *spec, "--resume", experiment, "-q"]
            began = time.time()
            subprocess.run(
                command,
                env={**environ, "PYTHONPATH": str(Path.cwd())},
                cwd=project,
                check=True,
                capture_output=True,
            )
            seconds.append(float((project / "called").read_text()) - began)
    finally:
        stop(state)
    return seconds[0], seconds[1]


def write_project(project: Path, trials: int) -> None:
    """Write the cases and the spec, and store a run of them that owes its last trial."""
    from fairtrial.engine.create import Asked, prepare, store
    from fairtrial.spec.arms import ArmSpec
    from fairtrial.spec.dataset import load_dataset
    from fairtrial.spec.loader import load_spec
    from fairtrial.spec.selection import Selection
    from fairtrial.store.database import open_database, sqlite_url
    from fairtrial.store.lease import acquire, this_process
    from fairtrial.store.objects import ObjectStore
    from fairtrial.store.writer import Writer

    with (project / "cases.jsonl").open("w", encoding="utf-8") as cases:
        for i in range(trials):
            text = f"What is {i} plus 1? Say the number and nothing else, please."
            cases.write(json.dumps({"id": f"k{i:06d}", "input": text, "expected": i + 1}) + "\n")
    (project / "task.py").write_text(TASK, encoding="utf-8")
    task = {"kind": "command", "command": [sys.executable, "-S", "-E", "task.py"]}
    spec = {"name": "resume", "dataset": "cases.jsonl", "task": task, "graders": [{"kind": "number"}], "seed": 1}
    (project / "spec.json").write_text(json.dumps(spec), encoding="utf-8")
    (project / "home").mkdir()
    engine = open_database(sqlite_url(project / "home" / "fairtrial.db"))
    objects = ObjectStore(str(project / "home" / "objects"))
    dataset = load_dataset(project / "cases.jsonl")
    asked = Asked(
        name="resume",
        arms=(ArmSpec("main", load_spec(project / "spec.json")),),
        dataset=dataset,
        dataset_name="cases.jsonl",
        selection=Selection(),
        slice_blocks=50,
    )
    prepared = prepare(asked, environ=dict(os.environ))
    store(prepared, dataset, engine=engine, objects=objects)
    record = prepared.record
    (project / "id").write_text(record.id, encoding="utf-8")
    lease = acquire(engine, record.id, this_process())
    ids = [case.id for case in prepared.cases]
    for start in range(0, trials, ROWS_AT_A_TIME):
        _insert_finished(engine, record, ids[start : start + ROWS_AT_A_TIME], fence=lease.fence)
    Writer(engine, record.id, lease.fence).close()
    with sqlite3.connect(project / "home" / "fairtrial.db") as plain:
        plain.execute("update summary set n_done = ?, n_graded = ?, n_passed = ?", (trials, trials, trials))
    plain.close()
    _owe_the_last(project)


def _insert_finished(engine: Any, record: Any, ids: list[str], *, fence: int) -> None:
    from fairtrial.hashing import sha256_hex
    from fairtrial.store.tables import AttemptRow, GradeRow, OutputRow, TrialRow, table_of

    grader = record.graders[0]
    rows: dict[type[Any], list[dict[str, Any]]] = {AttemptRow: [], TrialRow: [], OutputRow: [], GradeRow: []}
    for case_id in ids:
        key = {"experiment": record.id, "arm": record.arms[0].name, "case_id": case_id, "repetition": 1}
        begun = {**key, "attempt": 1, "fence": fence, "started_at": 1.0}
        done = {"state": "done", "outcome": "graded", "value": 1.0, "latency_s": 0.1, "finished_at": 2.0}
        graded = {"grader": grader.name, "version": grader.version, "state": "scored", "score": 1.0, "reason": b""}
        rows[AttemptRow].append(begun)
        rows[TrialRow].append({**begun, **done})
        rows[OutputRow].append(
            {**key, "sha256": sha256_hex(b"1\n"), "size": 2, "cut": False, "inline": b"1\n", "error": b""}
        )
        rows[GradeRow].append({**key, "try_no": 1, **graded})
    with engine.connect().execution_options(writes=True) as connection, connection.begin():
        for model, of_model in rows.items():
            connection.execute(table_of(model).insert(), of_model)


def _owe_the_last(project: Path) -> None:
    """Take the last case's trial out of the store, as if it had never run."""
    with sqlite3.connect(project / "home" / "fairtrial.db") as plain:
        (last,) = plain.execute("select max(case_id) from experiment_case").fetchone()
        for table in ("grade", "trial_output", "trial", "attempt"):
            plain.execute(f"delete from {table} where case_id = ?", (last,))
        plain.execute("update summary set n_done = n_done - 1, n_graded = n_graded - 1, n_passed = n_passed - 1")
        plain.execute("update experiment set state = 'partial'")
    plain.close()


def _raw_read(home: Path, experiment: str) -> float:
    began = time.perf_counter()
    plain = sqlite3.connect(home / "fairtrial.db")
    plain.execute("select case_id from experiment_case where experiment = ?", (experiment,)).fetchall()
    plain.execute("select arm, case_id, repetition from trial where experiment = ?", (experiment,)).fetchall()
    (digest,) = plain.execute("select dataset_hash from experiment where id = ?", (experiment,)).fetchone()
    plain.close()
    with (home / "objects" / "blobs" / digest).open("rb") as content:
        for line in content:
            json.loads(line)
    return time.perf_counter() - began


if __name__ == "__main__":
    sys.exit(main())
