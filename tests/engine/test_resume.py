"""Kill and resume of the bare engine: nothing finished is lost, nothing runs twice, the verdict is the same bytes."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest

from fairtrial.engine.create import Prepared
from fairtrial.engine.resume import check_files, check_same
from fairtrial.errors import ChangedInputs, ConflictError
from fairtrial.store.experiments import cases_of, get_experiment

ROOT = Path(__file__).resolve().parents[2]
BOTH_STORES = pytest.mark.parametrize("backend", ["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])

# Runs one experiment bare, in a process of its own, so that it can be killed.
RUNNER = """
    import asyncio, os, sys
    from fairtrial.engine.loop import run_slice
    from fairtrial.engine.open import open_run
    from fairtrial.store.database import open_database
    from fairtrial.store.lease import this_process
    from fairtrial.store.objects import ObjectStore

    database, storage, experiment = sys.argv[1:]
    run = open_run(open_database(database), ObjectStore(storage), experiment,
                   owner=this_process(), environ=dict(os.environ), concurrency=8)

    async def main():
        pending = iter(run.unfinished)
        async def work():
            for number in pending:
                await run_slice(run.loop, number)
        await asyncio.gather(*(work() for _ in range(run.loop.slices_in_flight)))
        await run.close()

    print("open", flush=True)
    asyncio.run(main())
"""

# Appends one line to the ledger before it answers: the ledger, not our log, says how often the task was called.
TASK = """
    import os, sys, time
    with open("ledger", "a") as ledger:
        ledger.write(os.environ["FAIRTRIAL_CASE_ID"] + "\\n")
    time.sleep(0.01)
    case = os.environ["FAIRTRIAL_CASE_ID"]
    print("x" if sum(map(ord, case)) % 3 else "y")
"""


def killable(lab: Any, n: int) -> Any:
    lab.cases([{"id": f"k{i:03d}", "input": f"q{i}", "expected": "x"} for i in range(n)])
    (lab.folder / "task.py").write_text(textwrap.dedent(TASK))
    (lab.folder / "runner.py").write_text(textwrap.dedent(RUNNER))
    return lab.make({"main": {"kind": "command", "command": [sys.executable, "-S", "-E", "task.py"]}})


def start(lab: Any, experiment: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, str(lab.folder / "runner.py"), lab.database_url, lab.storage_url, experiment]
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(command, stdout=subprocess.PIPE, env=environ, cwd=lab.folder)


@pytest.mark.fire
@BOTH_STORES
def test_c78_c80_killed_at_random_and_resumed_to_the_same_verdict_bytes(lab: Any, backend: str) -> None:
    # Fewer where each start takes longer, for the drivers of Postgres and S3 are imported.
    n = 60 if backend == "sqlite" else 24
    record = killable(lab, n)
    whole = killable(lab, n)
    lab.run(whole.id, concurrency=8)
    (lab.folder / "ledger").unlink()
    chance = random.Random(4)
    kills = 0
    while True:
        process = start(lab, record.id)
        assert process.stdout is not None
        assert process.stdout.readline() == b"open\n"
        try:
            # Longer each time: on a slow machine too the last part comes to its end.
            process.wait(chance.uniform(0.05, 0.4 + 0.1 * kills))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            kills += 1
        finally:
            process.stdout.close()
        stored = lab.rows("select count(*), count(distinct case_id) from trial where experiment = :e", e=record.id)
        called = len((lab.folder / "ledger").read_text().splitlines()) if (lab.folder / "ledger").exists() else 0
        # Finished trials that are not stored: at most those in flight, 8 at each kill.
        assert stored[0][0] == stored[0][1]
        assert called - stored[0][0] <= 8 * kills
        if process.returncode == 0:
            break
    assert kills >= 3
    assert lab.bytes(record.id) == lab.bytes(whole.id)
    repeats = lab.rows("select count(*) from attempt where experiment = :e", e=record.id)[0][0] - n
    assert repeats <= 8 * kills


@BOTH_STORES
def test_r05_an_answer_that_was_stored_is_graded_without_another_call(lab: Any) -> None:
    record = killable(lab, 6)
    lab.run(record.id)
    assert len((lab.folder / "ledger").read_text().splitlines()) == 6
    with lab.engine.connect().execution_options(writes=True) as connection, connection.begin():
        # What a crash between answer and grade leaves: the answer, and no grade.
        connection.exec_driver_sql("update trial set state = 'answered', outcome = null, value = null")
        connection.exec_driver_sql("delete from grade")
        connection.exec_driver_sql("update summary set n_done = 0, n_graded = 0, n_passed = 0")
    before = lab.open(record.id)
    assert before.finished == ()
    before.writer.close()
    lab.run(record.id)
    assert len((lab.folder / "ledger").read_text().splitlines()) == 6
    assert lab.rows("select count(*) from grade") == [(6,)]
    assert lab.body(record.id).arms[0].complete


@BOTH_STORES
def test_c82_only_what_is_missing_runs_again(lab: Any) -> None:
    record = killable(lab, 20)
    lab.run(record.id)
    with lab.engine.connect().execution_options(writes=True) as connection, connection.begin():
        connection.exec_driver_sql("delete from trial where case_id in ('k003', 'k017')")
        connection.exec_driver_sql("update summary set n_done = 18, n_graded = 18")
    (lab.folder / "ledger").unlink()
    lab.run(record.id)
    assert sorted((lab.folder / "ledger").read_text().split()) == ["k003", "k017"]


@BOTH_STORES
def test_a_second_owner_is_told_who_runs_it_and_changes_nothing(lab: Any) -> None:
    record = killable(lab, 200)
    process = start(lab, record.id)
    assert process.stdout is not None
    process.stdout.readline()
    try:
        with pytest.raises(ConflictError, match=f"process {process.pid} on ") as caught:
            lab.open(record.id)
        assert caught.value.exit_status == 64
        process.send_signal(signal.SIGKILL)
        process.wait()
        # Same host and a dead process: taken over at once, not after the lease has run out.
        began = time.monotonic()
        run = lab.open(record.id)
        assert time.monotonic() - began < 5
        assert str(process.pid) in (run.lease.taken_from or "")
        run.writer.close()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


CHANGES = {
    "dataset: case k003 (expected)": (
        "cases.jsonl",
        '"k003", "input": "q3", "expected": "x"',
        '"k003", "input": "q3", "expected": "z"',
    ),
    "dataset: case k003 (input)": ("cases.jsonl", '"k003", "input": "q3"', '"k003", "input": "q3!"'),
    "file task.py": ("task.py", "% 3", "% 5"),
}


@pytest.mark.parametrize("named", CHANGES)
@BOTH_STORES
def test_c81_a_resume_is_refused_by_the_name_of_what_changed(lab: Any, named: str) -> None:
    record = killable(lab, 6)
    name, old, new = CHANGES[named]
    path = lab.folder / name
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(ChangedInputs) as caught:
        _check(lab, record)
    assert named in str(caught.value)


def test_c81_without_its_spec_changed_code_is_found_too(lab: Any) -> None:
    record = killable(lab, 6)
    check_files(record)
    (lab.folder / "task.py").write_text("print('x')\n")
    with pytest.raises(ChangedInputs, match=r"file task\.py"):
        check_files(record)


@pytest.mark.parametrize(("named", "spec"), [("trials (1 → 2)", {"trials": 2}), ("seed (11 → 12)", {"seed": 12})])
def test_c81_another_seed_or_number_of_trials_is_another_measurement(lab: Any, named: str, spec: Any) -> None:
    record = killable(lab, 6)
    with pytest.raises(ChangedInputs) as caught:
        _check(lab, record, **spec)
    assert named in str(caught.value)


@BOTH_STORES
def test_k07_what_is_not_measured_may_change(lab: Any) -> None:
    record = killable(lab, 6)
    _check(lab, record, limits={"retries": 9}, trials=1, description="written out")


def _check(lab: Any, record: Any, **spec: Any) -> None:
    before = {experiment for (experiment,) in lab.rows("select id from experiment")}
    task = {"kind": "command", "command": [sys.executable, "-S", "-E", "task.py"]}
    again = lab.make({"main": task}, **spec)
    with lab.engine.connect() as connection:
        stored = get_experiment(connection, record.id)
        cases = cases_of(connection, record.id)
    from fairtrial.spec.dataset import load_dataset

    assert before
    check_same(
        stored, cases, Prepared(again, load_dataset(lab.folder / "cases.jsonl").cases, b""), seed=spec.get("seed")
    )
