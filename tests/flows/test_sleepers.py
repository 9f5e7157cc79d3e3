"""A task that leaves a child behind: at the time limit, after Ctrl-C and after `kill -9` of ours its beat stops."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.prefect, pytest.mark.fire]

CAP_S = 2.0
BEAT_S = 0.2
# The child writes the time; the task itself waits far longer than any test.
BEAT = "while true; do date +%s.%N >> {path}; sleep 0.2; done"
SLEEPER = f"({BEAT.format(path='beat')}) & sleep 300"


@pytest.fixture
def bystander(tmp_path: Path) -> Iterator[Path]:
    """The heartbeat of a process that does the same as the sleeper's child and is none of ours."""
    path = tmp_path / "bystander"
    process = subprocess.Popen(["/bin/sh", "-c", BEAT.format(path=path)], start_new_session=True)
    yield path
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def write_sleeper(fire: Any) -> None:
    (fire.folder / "cases.jsonl").write_text('{"id": "c1", "input": "x", "expected": "x"}\n')
    spec = {
        "name": "sleeper",
        "dataset": "cases.jsonl",
        "task": {"kind": "command", "command": SLEEPER},
        "graders": [{"kind": "exact"}],
        "seed": 1,
    }
    (fire.folder / "spec.json").write_text(json.dumps(spec))


def beats(path: Path) -> list[float]:
    # The last line may be half written.
    return [float(line) for line in path.read_text().split("\n")[:-1]] if path.exists() else []


def until_beating(fire: Any, run: Any) -> None:
    deadline = time.monotonic() + 60
    while len(beats(fire.folder / "beat")) < 3:
        assert time.monotonic() < deadline
        assert not run.ended, run.err
        time.sleep(0.02)


def stopped_for_good(fire: Any, bystander: Path) -> float:
    """Return the last beat, after four more that did not come while the bystander's did."""
    last = beats(fire.folder / "beat")[-1]
    before = len(beats(bystander))
    time.sleep(4 * BEAT_S)
    assert beats(fire.folder / "beat")[-1] == last
    assert len(beats(bystander)) >= before + 2
    return last


def test_k68_k13_at_the_time_limit_the_whole_group_is_ended(fire: Any, exp: Any, bystander: Path) -> None:
    write_sleeper(fire)
    run = fire.start("run", "spec.json", "--trial-timeout", str(CAP_S), "--json")
    assert run.wait() == 0, run.err
    (side,) = run.json["body"]["arms"]
    assert side["errors"] == [{"outcome": "agent_failure", "kind": "timeout", "n": 1}]
    first = beats(fire.folder / "beat")[0]
    last = stopped_for_good(fire, bystander)
    assert CAP_S - 2 * BEAT_S <= last - first <= CAP_S + 1, last - first
    fire.wait_until_gone()


def test_k68_after_ctrl_c_it_stops_within_a_second_of_the_end_of_the_grace(fire: Any, bystander: Path) -> None:
    write_sleeper(fire)
    run = fire.start("run", "spec.json")
    until_beating(fire, run)
    run.to_group(signal.SIGINT)
    run.wait_for("stopping:", within_s=5)
    # The second Ctrl-C ends the grace of 10 s that the first one gives to trials in flight.
    at = time.time()
    run.to_group(signal.SIGINT)
    assert run.wait(within_s=10) == 130
    fire.wait_until_gone()
    late_s = stopped_for_good(fire, bystander) - at
    assert late_s <= 1, late_s
    print(f"last beat {late_s:.2f} s after the second Ctrl-C")


def test_k68_after_kill_9_of_ours_it_stops_within_5_s(fire: Any, bystander: Path) -> None:
    write_sleeper(fire)
    run = fire.start("run", "spec.json")
    until_beating(fire, run)
    at = time.time()
    run.kill()
    fire.wait_until_gone()
    late_s = stopped_for_good(fire, bystander) - at
    assert late_s <= 5, late_s
    print(f"last beat {late_s:.2f} s after kill -9")
