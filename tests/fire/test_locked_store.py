"""Somebody else holds the store's write lock: a run waits for it, reads go on, and past the limit one line says so."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import pytest

from fairtrial.store.experiments import list_experiments, summaries_of
from fairtrial.store.lease import holder
from fairtrial.store.trials import page_of_trials, values_of
from tests.rig.bench import Bench
from tests.rig.history import check, history_of, part_of
from tests.rig.lanes import Lane, MakeLane
from tests.rig.meter import Knobs
from tests.rig.zygote import Running

N: Final = 64
TOGETHER: Final = Knobs(delay_s=0.6, together=N)
"""All 64 answers go out at the same moment, 0.6 s after the last call came in."""

# Takes the write lock as soon as it is told to, says so, and gives it back after the seconds it was told.
HOLDER: Final = """
import sqlite3, sys, time
connection = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=30)
seconds = float(sys.stdin.readline())
connection.execute("BEGIN IMMEDIATE")
print("held", flush=True)
time.sleep(seconds)
connection.execute("ROLLBACK")
"""


def run_beside_a_lock(lane: Lane, seconds: float, **changes: float) -> tuple[str, Running, int]:
    """Run 64 trials that finish while another process holds the lock, and read all the while; return the reads too."""
    bench = lane.bench
    record = bench.make(N, slice_blocks=N)
    command = [sys.executable, "-c", HOLDER, str(bench.home / "fairtrial.db")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        running = lane.zygote.start(bench.options(record.id, concurrency=N, **changes))
        n_before = len(bench.meter.calls()) - len(bench.meter.calls(record.id))
        bench.meter.wait_for(n_before + N)
        process.stdin.write(f"{seconds}\n")
        process.stdin.flush()
        assert process.stdout.readline() == "held\n"
        held_at = time.monotonic()
        stored = len(bench.table("trial", record.id))
        assert stored == 0, "the lock came too late to show anything"
        reads = 0
        while not running.wait_at_most(0.001):
            read(bench, record.id)
            reads += 1
            assert time.monotonic() < held_at + seconds + 60
        process.wait(60)
    return record.id, running, reads


def read(bench: Bench, experiment: str) -> None:
    """Ask what `exp status`, `list` and `show` ask."""
    with bench.engine.connect() as connection:
        list_experiments(connection, limit=10)
        (summary,) = summaries_of(connection, [experiment])[experiment]
        assert len(values_of(connection, experiment, "main")) == summary.n_done
        page_of_trials(connection, bench.objects, experiment)
        holder(connection, experiment)


@pytest.mark.parametrize("seconds", [1, 10, pytest.param(40, marks=pytest.mark.slow)])
def test_r19_k69_a_lock_of_some_seconds_costs_no_trial_no_error_and_no_read(make_lane: MakeLane, seconds: int) -> None:
    lane = make_lane(TOGETHER)
    experiment, running, reads = run_beside_a_lock(lane, seconds)
    assert running.status == 0, running.lines
    check(history_of(lane.bench, experiment, [part_of(running)], concurrency=N))
    assert len(lane.bench.meter.calls(experiment)) == N
    assert reads >= 10 * seconds
    print(f"\n{seconds} s: {N} trials stored, {reads} rounds of reads")


def test_r19_past_the_limit_one_plain_line_ends_the_run_and_it_can_be_resumed(make_lane: MakeLane) -> None:
    lane = make_lane(TOGETHER)
    bench = lane.bench
    experiment, running, _ = run_beside_a_lock(lane, 6.0, busy_timeout_s=1.0)
    assert running.status == 4, running.lines
    errors = [line for line in running.lines if line.startswith("error ")]
    assert len(errors) == 1
    assert errors[0].startswith("error store_unavailable another process has held the write lock of the store ")
    assert "resume" in errors[0]
    assert running.said("finished ") is None
    second = lane.zygote.start(bench.options(experiment, concurrency=N))
    assert second.wait() == 0, second.lines
    parts = [part_of(running), part_of(second)]
    check(history_of(bench, experiment, parts, concurrency=N, refused=frozenset({4})))


def test_r19_the_lock_that_the_test_takes_is_the_one_that_writers_need(tmp_path: Path) -> None:
    sqlite3.connect(tmp_path / "a.db").executescript("PRAGMA journal_mode=WAL; create table t (x)")
    command = [sys.executable, "-c", HOLDER, str(tmp_path / "a.db")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("0.5\n")
        process.stdin.flush()
        process.stdout.readline()
        connection = sqlite3.connect(tmp_path / "a.db", timeout=0)
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            connection.execute("insert into t values (1)")
        connection.close()
