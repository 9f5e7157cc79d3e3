"""Every operation of the store that writes, one by one: killed there, the disk full there, an I/O error there.

The way of SQLite's own tests: fail the n-th operation, for every n, until a run passes without reaching it.
"""

from __future__ import annotations

import dataclasses
import os
import time
from collections import Counter
from itertools import count
from pathlib import Path
from typing import Any, Final

import pytest

from tests.rig.history import Rejected, check, history_of, part_of
from tests.rig.lanes import Lane, MakeLane, in_lanes
from tests.rig.meter import LONG_BYTES, Knobs, answer_to
from tests.rig.zygote import Running

KNOBS: Final = Knobs(long_share=0.3, fail_share=0.2)
ARMS: Final = ("main", "recorded")
CODES: Final = {"ENOSPC": "no_space", "EIO": "store_unavailable"}


def case_ids() -> list[str]:
    """Return three cases by what the meter answers the arm main: a long text, a failure, a short text."""
    wanted = {(200, True): "", (500, False): "", (200, False): ""}
    for n in range(1000):
        status, text = answer_to(f"main/k{n:04d}/1", KNOBS)
        wanted[status, len(text) == LONG_BYTES] = wanted[status, len(text) == LONG_BYTES] or f"k{n:04d}"
    return list(wanted.values())


LONG: Final = answer_to(f"main/{case_ids()[0]}/1", KNOBS)[1]


def run_with_fault(lane: Lane, body: bytes, what: str, n: int, **changes: Any) -> str | None:
    """Run six trials with one fault, resume them without, check both; return the label of the operation that failed."""
    bench = lane.bench
    record = bench.make(case_ids(), arms=ARMS, slice_blocks=2)
    # The long answer is the same in every run, and a blob that is there is not written again.
    bench.forget_blob(LONG.encode())
    first = lane.zygote.start(bench.options(record.id, concurrency=1, fault=(n, what), **changes))
    first.wait()
    fired = first.said("fired ")
    if fired is None:
        assert first.status == 0, first.lines
        return None
    _, _, label, at = fired.split()
    where = f"{what} at operation {n} ({label})"
    part = part_of(first)
    if what == "kill":
        assert first.status == -9, where
        part = dataclasses.replace(part, killed=True)
    elif first.said("published") is None:
        check_the_end(first, CODES[what], where)
        # One trial at a time: whatever was asked was asked before. A heartbeat fails beside a call that is under way.
        late = [call for call in bench.meter.calls(record.id) if call.at > float(at)]
        assert len(late) <= (label == "lease.beat"), (where, late)
    second = lane.zygote.start(bench.options(record.id, concurrency=1))
    assert second.wait() == 0, (where, second.lines)
    assert bench.body(record.id) == body, where
    try:
        check(history_of(bench, record.id, [part, part_of(second)], concurrency=1, refused=frozenset({4})))
    except Rejected as rejected:
        raise AssertionError(where) from rejected
    return label


def check_the_end(running: Running, code: str, where: str) -> None:
    """A fault of the store ends in one line with the right code and the exit status 4."""
    errors = [line for line in running.lines if line.startswith("error ")]
    assert running.status == 4, (where, running.lines)
    assert len(errors) == 1, (where, running.lines)
    assert errors[0].split()[1] == code, (where, errors)
    assert "resume" in errors[0], (where, errors)


def whole_body(lane: Lane) -> bytes:
    """Return the verdict of a run without a fault, and make sure that it has what the faults are about."""
    record = lane.bench.make(case_ids(), arms=ARMS, slice_blocks=2)
    assert lane.zygote.start(lane.bench.options(record.id, concurrency=1)).wait() == 0
    outcomes = Counter((row["arm"], row["outcome"]) for row in lane.bench.table("trial", record.id))
    assert outcomes == {
        ("main", "graded"): 2,
        ("main", "agent_failure"): 1,
        ("recorded", "graded"): 2,
        ("recorded", "infra_loss"): 1,
    }
    inline = [row["inline"] is None for row in lane.bench.table("trial_output", record.id)]
    assert sorted(inline) == [False] * 5 + [True]
    return lane.bench.body(record.id)


@pytest.mark.timeout(600)
def test_r03_r10_g02_every_store_operation_killed_or_failed_resumes_to_the_same_verdict(tmp_path: Path) -> None:
    began, load = time.monotonic(), os.getloadavg()[0]

    def work_of(what: str) -> Any:
        def work(lane: Lane) -> list[str]:
            body = whole_body(lane)
            labels: list[str] = []
            for n in count(1):
                label = run_with_fault(lane, body, what, n)
                if label is None:
                    return labels
                labels.append(label)
            raise AssertionError("the count has no end")

        return work

    whats = ("kill", "ENOSPC", "EIO")
    found = dict(zip(whats, in_lanes(tmp_path, KNOBS, [work_of(what) for what in whats]), strict=True))
    print(
        f"\n{sum(map(len, found.values()))} faults in {time.monotonic() - began:.0f} s (load {load:.1f} at the start)"
    )
    for label in sorted(set().union(*found.values())):
        print(f"  {label:24}" + "".join(f"{what} {labels.count(label):3}   " for what, labels in found.items()))
    expected = {
        "lease.acquire", "lease.release", "state", "commit", "committed", "insert.attempt", "insert.trial",
        "insert.trial_output", "insert.grade", "update.summary", "file.write", "file.fsync", "folder.fsync",
        "rename.blob", "rename.verdict.json", "rename.report.md",
    }  # fmt: skip
    for what, labels in found.items():
        assert expected <= set(labels), (what, expected - set(labels))
        # By hand: 6 trials of an attempt, an answer (not for the loss) and a result each are 17 commits, and lease,
        # state and release three more.
        assert labels.count("commit") >= 20, what


@pytest.mark.parametrize("what", ["kill", "ENOSPC", "EIO"])
def test_r03_g02_a_heartbeat_that_fails_ends_the_run_as_any_other_write_does(make_lane: MakeLane, what: str) -> None:
    lane = make_lane(dataclasses.replace(KNOBS, delay_s=0.1))
    body = whole_body(lane)
    for n in (1, 2, 4):
        label = run_with_fault(lane, body, what, n, fault_at="lease.beat", heartbeat_s=0.04)
        assert label == "lease.beat"


def test_r10_with_eight_in_flight_a_full_disk_starts_no_further_call(make_lane: MakeLane) -> None:
    lane = make_lane(Knobs(delay_s=0.02))
    bench = lane.bench
    for n in range(10, 130, 20):
        record = bench.make(40)
        running = lane.zygote.start(bench.options(record.id, fault=(n, "ENOSPC")))
        assert running.wait() == 4, running.lines
        check_the_end(running, "no_space", f"operation {n}")
        at = float((running.said("fired ") or "").split()[3])
        # Those that were marked as begun before it may still have been on their way to the meter.
        begun = {f"{row['arm']}/{row['case_id']}/1" for row in bench.table("attempt", record.id)}
        late = {call.key for call in bench.meter.calls(record.id) if call.at > at}
        assert late <= begun
        assert len(late) <= 8
        n_begun = len(begun)
        assert n_begun < 40
        assert lane.zygote.start(bench.options(record.id)).wait() == 0
