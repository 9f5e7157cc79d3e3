"""Stopped by a signal: what is done is kept, what was left is said, the status says how, and a resume ends it all."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.prefect, pytest.mark.fire]

GRACE_S = 10.0
"""How long trials in flight may go on after a first signal, as the command says it."""

FIRST = ((signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129))


def test_k41_a_first_signal_lets_trials_in_flight_end_and_the_resumed_run_comes_to_the_whole_verdict(
    fire: Any, tmp_path: Path
) -> None:
    fire.write(20, pause_s=0.0)
    whole = fire.start("run", *fire.arms, "--json", "--concurrency", "4", FAIRTRIAL_HOME=str(tmp_path / "whole"))
    assert whole.wait() == 0, whole.err
    fire.forget_calls()
    fire.pause(0.7)
    resume: list[str] = []
    for number, status in FIRST:
        called = fire.ledger().total()
        run = fire.start("run", *fire.arms, *resume, "--concurrency", "2", "--slice", "3")
        run.wait_for_call(fire, beyond=called + 2)
        # To the whole group, as a terminal does for Ctrl-C and when it is closed.
        run.to_group(number)
        run.wait_for("stopping: trials in flight get 10 s to end; once more to leave at once", within_s=5)
        done = fire.stored().total()
        assert run.wait() == status, (number.name, run.err)
        # No trial begins after the signal; the two that were under way come to their end and are stored.
        assert fire.ledger().total() <= done + 2
        assert fire.stored() == fire.ledger("end") == fire.ledger()
        assert f"stopped by {number.name}; go on with: exp run --resume {fire.experiment}" in run.err
        assert "(partial" in run.out
        assert "Traceback" not in run.err
        fire.wait_until_gone()
        resume = ["--resume"]
    fire.pause(0.0)
    last = fire.start("run", "--resume", fire.experiment, "--json", "--concurrency", "4")
    assert last.wait() == 0, last.err
    assert last.json["body"] == whole.json["body"]
    # Nothing was cut off, so nothing was asked for twice.
    assert fire.stored() == fire.ledger()
    assert fire.stored().total() == fire.n_trials
    assert last.json["meta"]["repeated_calls"] == 0


def test_k41_a_second_ctrl_c_leaves_at_once_and_takes_the_tasks_with_it(fire: Any) -> None:
    fire.write(4, pause_s=60.0)
    run = fire.start("run", *fire.arms, "--concurrency", "2")
    run.wait_for_call(fire, beyond=1)
    run.to_group(signal.SIGINT)
    run.wait_for("stopping:", within_s=5)
    began = time.monotonic()
    run.to_group(signal.SIGINT)
    assert run.wait(within_s=10) == 130
    left_s = time.monotonic() - began
    gone_s = fire.wait_until_gone()
    assert left_s < 2
    assert fire.experiment in run.err
    fire.pause(0.0)
    last = fire.start("run", "--resume", fire.experiment, "--concurrency", "2")
    assert last.wait() == 0, last.err
    assert fire.stored().total() == fire.n_trials
    assert fire.ledger().total() == fire.n_trials + 2
    print(f"left {left_s:.2f} s after the second Ctrl-C, children gone {gone_s:.2f} s later")


def test_k41_what_does_not_end_in_the_stated_time_is_ended_and_left_to_the_resume(fire: Any) -> None:
    fire.write(4, pause_s=60.0)
    run = fire.start("run", *fire.arms, "--concurrency", "2")
    run.wait_for_call(fire, beyond=1)
    run.to_group(signal.SIGTERM)
    began = time.monotonic()
    assert run.wait(within_s=GRACE_S + 30) == 143
    ended_s = time.monotonic() - began
    fire.wait_until_gone()
    assert GRACE_S <= ended_s < GRACE_S + 10, ended_s
    assert f"go on with: exp run --resume {fire.experiment}" in run.err
    assert fire.stored().total() == 0
    fire.pause(0.0)
    last = fire.start("run", "--resume", fire.experiment, "--concurrency", "2")
    assert last.wait() == 0, last.err
    assert fire.ledger().total() == fire.n_trials + 2
    print(f"ended {ended_s:.1f} s after SIGTERM")
