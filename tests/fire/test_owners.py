"""One owner at a time: double resumes, an owner that was stopped and wakes up, an owner that was killed."""

from __future__ import annotations

import os
import re
import signal
import socket
import sqlite3
import time
from collections import Counter
from itertools import count
from pathlib import Path
from typing import Any, Final

import pytest

from fairtrial.store.lease import Holder, holder
from tests.rig.bench import Bench
from tests.rig.history import check, history_of, part_of, takeover
from tests.rig.lanes import Lane, MakeLane, in_lanes
from tests.rig.meter import Knobs

ROUNDS: Final = 1000
STOPS: Final = 100
FEWEST_STOPS: Final = 12
STOP_BUDGET_S: Final = 90.0
LANES: Final = 2


@pytest.mark.timeout(1500)
def test_r08_g20_of_two_resumes_at_once_one_works_and_the_other_is_told_who(tmp_path: Path) -> None:
    began, load = time.monotonic(), os.getloadavg()[0]
    found = in_lanes(tmp_path, Knobs(delay_s=0.02), [lambda lane: double_resumes(lane, ROUNDS // LANES)] * LANES)
    overlapped = sum(found)
    print(
        f"\n{ROUNDS} double resumes in {time.monotonic() - began:.0f} s (load {load:.1f} at the start): "
        f"{overlapped} overlapped, 0 double calls"
    )
    assert overlapped >= 0.9 * ROUNDS


def double_resumes(lane: Lane, rounds: int) -> int:
    """Let two processes loose on one experiment, round after round; return in how many rounds one was refused."""
    bench, zygote = lane.bench, lane.zygote
    record = bench.make(rounds * 2, slice_blocks=1)
    refused = 0
    for number in range(rounds):
        options = bench.options(record.id, max_slices=1, barrier=f"round {number}")
        pair = [zygote.start(options), zygote.start(options)]
        for running in pair:
            running.wait_line("ready")
        zygote.release(f"round {number}")
        statuses = Counter(running.wait() for running in pair)
        assert set(statuses) <= {0, 64}, [running.lines for running in pair]
        assert statuses[0] >= 1, [running.lines for running in pair]
        if statuses[64]:
            refused += 1
            loser, winner = sorted(pair, key=lambda running: -(running.status or 0))
            line = loser.said("error run_owned ") or ""
            said = rf"by process {winner.pid} on {re.escape(socket.gethostname())}, last seen \d+ s ago"
            assert re.search(said, line), loser.lines
            assert loser.said("finished ") is None
    calls = Counter(call.key for call in bench.meter.calls(record.id))
    attempts = Counter((row["case_id"], row["attempt"]) for row in bench.table("attempt", record.id))
    done = bench.table("trial", record.id)
    assert set(calls.values()) == {1}
    assert len(calls) == len(attempts) == len(done) == 2 * rounds - refused
    return refused


@pytest.mark.timeout(1500)
def test_r09_g20_an_owner_that_wakes_up_after_its_lease_ran_out_writes_nothing(tmp_path: Path) -> None:
    began, load = time.monotonic(), os.getloadavg()[0]
    numbers = count(1)
    rounds = sum(
        in_lanes(tmp_path, Knobs(delay_s=0.12), [lambda lane: stops(lane, numbers, began + STOP_BUDGET_S)] * 3)
    )
    print(f"\n{rounds} owners stopped and continued in {time.monotonic() - began:.0f} s (load {load:.1f} at the start)")
    assert rounds >= FEWEST_STOPS


def stops(lane: Lane, numbers: Any, until: float) -> int:
    """Stop an owner with four calls in flight, let another one finish, continue the first; return the rounds."""
    bench, rounds = lane.bench, 0
    for number in numbers:
        if number > STOPS or (number > FEWEST_STOPS and time.monotonic() > until):
            break
        record = bench.make(8)
        first = lane.zygote.start(bench.options(record.id, concurrency=4))
        bench.meter.wait_for(4, experiment=record.id)
        first.signal(signal.SIGSTOP)
        # Every attempt is committed before its call, so the journal holds still from here on.
        before = takeover(bench, record.id, 2)
        time.sleep(0.3)
        second = lane.zygote.start(bench.options(record.id, concurrency=4, lease_s=0.25))
        assert second.wait() == 0, second.lines
        stored = bench.dump(record.id)
        n_said = len(first.lines)
        first.signal(signal.SIGCONT)
        assert first.wait() == 64, first.lines
        assert "another process has taken over" in (first.said("error run_owned ") or ""), first.lines
        assert not [line for line in first.lines[n_said:] if line.startswith("finished ")]
        assert bench.dump(record.id) == stored
        parts = [part_of(first), part_of(second)]
        check(history_of(bench, record.id, parts, concurrency=4, takeovers=[before], refused=frozenset({64})))
        rounds += 1
    return rounds


AWAY: Final = ("committed", "file.write", "file.fsync", "rename.blob", "folder.fsync")
"""Where an owner may be stopped without holding the database's write lock."""


@pytest.mark.parametrize("label", AWAY)
def test_r09_an_owner_stopped_between_any_two_steps_of_a_trial_writes_nothing_afterwards(
    make_lane: MakeLane, label: str
) -> None:
    lane = make_lane(Knobs(long_share=1.0))
    bench = lane.bench
    # The first commit is the lease's.
    for n in range(2, 8, 2) if label == "committed" else (1, 2):
        record = bench.make(4, seed=100 + n)
        for blob in (bench.home / "objects" / "blobs").iterdir():
            if blob.stat().st_size > 10_000:
                blob.unlink()
        first = lane.zygote.start(bench.options(record.id, concurrency=1, fault=(n, "stop"), fault_at=label))
        first.wait_line("fired ")
        before = takeover(bench, record.id, 2)
        time.sleep(0.3)
        second = lane.zygote.start(bench.options(record.id, concurrency=1, lease_s=0.25))
        assert second.wait() == 0, second.lines
        stored = bench.dump(record.id)
        first.signal(signal.SIGCONT)
        assert first.wait() == 64, first.lines
        assert bench.dump(record.id) == stored
        parts = [part_of(first), part_of(second)]
        check(history_of(bench, record.id, parts, concurrency=1, takeovers=[before], refused=frozenset({64})))


def test_r09_an_owner_is_taken_over_within_5_s_of_its_death_while_its_task_lives_on(make_lane: MakeLane) -> None:
    lane = make_lane(Knobs(delay_s=30.0))
    bench = lane.bench
    for _ in range(5):
        record = bench.make(3, trials=1, limits={"trial_timeout_s": 1.0})
        first = lane.zygote.start(bench.options(record.id, concurrency=3))
        bench.meter.wait_for(3, experiment=record.id)
        assert len(bench.marked()) >= 3
        first.kill()
        began = time.monotonic()
        second = lane.zygote.start(bench.options(record.id, concurrency=3))
        owned = float(second.wait_line("owner ").split()[2])
        assert owned - began < 5
        assert second.wait() == 0, second.lines
        assert {row["error_kind"] for row in bench.table("trial", record.id)} == {"timeout"}
        parts = [part_of(first), part_of(second)]
        check(history_of(bench, record.id, parts, concurrency=3))
        assert not bench.survivors(within_s=5.0)


def test_r16_k12_a_dead_owner_is_said_to_be_dead_and_a_slow_one_is_not(make_lane: MakeLane) -> None:
    lane = make_lane(Knobs(delay_s=0.3))
    bench = lane.bench
    record = bench.make(8)
    running = lane.zygote.start(bench.options(record.id, concurrency=4))
    bench.meter.wait_for(4, experiment=record.id)
    found = _holder(bench, record.id)
    assert (found.pid, found.host, found.alive) == (running.pid, socket.gethostname(), True)
    running.signal(signal.SIGSTOP)
    # A heartbeat that is late by 30 s, then one that is late by more than a lease.
    for late_s, alive in ((30.0, True), (61.0, False)):
        _set_back(bench, record.id, late_s)
        found = _holder(bench, record.id)
        assert found.alive is alive
        assert late_s <= found.last_seen_s < late_s + 5
    _set_back(bench, record.id, 0.0)
    running.kill()
    found = _holder(bench, record.id)
    assert (found.pid, found.alive) == (running.pid, False)
    assert 0 <= found.last_seen_s < 5
    second = lane.zygote.start(bench.options(record.id, concurrency=4))
    assert second.wait() == 0
    with bench.engine.connect() as connection:
        assert holder(connection, record.id) is None
    check(history_of(bench, record.id, [part_of(running), part_of(second)], concurrency=4))


def _holder(bench: Bench, experiment: str) -> Holder:
    with bench.engine.connect() as connection:
        found = holder(connection, experiment)
    assert found is not None
    return found


def _set_back(bench: Bench, experiment: str, late_s: float) -> None:
    connection = sqlite3.connect(bench.home / "fairtrial.db", timeout=30)
    with connection:
        connection.execute("update lease set heartbeat_at = ? where experiment = ?", (time.time() - late_s, experiment))
    connection.close()
