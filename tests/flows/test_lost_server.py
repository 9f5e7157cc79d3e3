"""The Prefect server comes and goes, and is gone at the end: the run neither stops, nor repeats, nor waits for it."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sqlite3
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from flows import local_server

pytestmark = [pytest.mark.prefect, pytest.mark.fire]

EXIT_S = 10.0
"""Longest time from the last trial to the end of the command when the server is gone (G15)."""


def test_r20_g15_restarted_again_and_again_and_then_gone_it_costs_no_trial_and_not_ten_seconds(
    fire: Any, tmp_path: Path, prefect_server: Any
) -> None:
    state_dir = tmp_path / "own-state"
    # The session's database saves making one; the server of this test is its own.
    (state_dir / "prefect").mkdir(parents=True, mode=0o700)
    backup(prefect_server.home / "prefect.db", state_dir / "prefect" / "prefect.db")
    fire.use(FAIRTRIAL_STATE_DIR=str(state_dir))
    chance = random.Random(20)
    fire.write(100, pause_s=0.45)
    restarts = 0
    try:
        start_server(state_dir).wait(240)
        run = fire.start("run", *fire.arms, "--concurrency", "2", "--slice", "4", "--json")
        run.wait_for_call(fire)
        while fire.ledger().total() < 150:
            assert not run.ends_within(chance.uniform(5, 10)), run.err
            kill_server(state_dir)
            assert not run.ends_within(chance.uniform(0, 5)), run.err
            start_server(state_dir)
            while local_server.status(state_dir).state != "running":
                # On a busy machine a server takes longer to start than the run has left.
                fire.hold(fire.ledger().total() >= 170)
                assert not run.ends_within(0.2), run.err
            fire.hold(False)
            restarts += 1
        run.wait_for_call(fire, beyond=fire.n_trials - 25)
        kill_server(state_dir)
        assert fire.ledger("end").total() < fire.n_trials
        while fire.ledger("end").total() < fire.n_trials:
            assert not run.ends_within(0.02), run.err
        last_trial = time.monotonic()
        assert run.wait() == 0, run.err
        exit_s = time.monotonic() - last_trial
    finally:
        local_server.stop(state_dir)
    assert restarts >= 2
    assert exit_s < EXIT_S
    # By hand: the base is right on the 34 multiples of 3 below 100, the candidate always.
    base, cand = run.json["body"]["arms"]
    assert (base["n_done"], base["n_graded_passed"]) == (100, 34)
    assert (cand["n_done"], cand["n_graded_passed"]) == (100, 100)
    assert run.json["body"]["comparisons"][0]["decision"]["outcome"] == "better"
    assert set(fire.ledger().values()) == {1}
    assert fire.stored() == fire.ledger()
    assert fire.stored().total() == fire.n_trials
    assert "Traceback" not in run.err
    fire.wait_until_gone()
    print(f"{restarts} restarts, out {exit_s:.1f} s after the last trial")


def start_server(state_dir: Path) -> local_server.Start:
    return local_server.begin_start(state_dir=state_dir, environ=os.environ, say=lambda _line: None)


def kill_server(state_dir: Path) -> None:
    server = local_server.status(state_dir)
    assert server.pid is not None
    process = psutil.Process(server.pid)
    process.send_signal(signal.SIGKILL)
    # It is this process's own child; whoever waits for it buries it.
    process.wait(10)


def backup(source: Path, target: Path) -> None:
    with contextlib.closing(sqlite3.connect(source)) as given, contextlib.closing(sqlite3.connect(target)) as copy:
        given.backup(copy)
