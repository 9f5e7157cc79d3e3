"""One owner at a time, through the whole command: taken over from the dead at once, never from one who is only late."""

from __future__ import annotations

import os
import re
import signal
import socket
from typing import Any

import psutil
import pytest

pytestmark = [pytest.mark.prefect, pytest.mark.fire]

ROUNDS = 3


def test_r09_a_run_whose_task_outlives_it_is_taken_over_within_5_s(fire: Any, exp: Any) -> None:
    fire.write(6, pause_s=60.0)
    owner = fire.start()
    owner.wait_for_call(fire)
    # Without its reaper the task really lives on, with everything it has inherited.
    (reaper,) = [pid for pid, command in fire.alive().items() if "reaper.py" in command]
    os.kill(reaper, signal.SIGKILL)
    owner.kill()
    (orphan,) = fire.alive()
    try:
        # K12: not "running" for ever; `exp list` says so at once, and since when.
        listed = exp("list", env=fire.environ).out
        assert "(partial), last seen" in listed
        assert "(running)" not in listed
        assert exp("list", "--json", env=fire.environ).json[0]["state"] == "partial"
        fire.pause(0.0)
        after = fire.start("run", "--resume", fire.experiment)
        began = after.wait_for(f"{fire.experiment}  fire")
        taken_s = after.wait_for("taken over from") - began
        assert psutil.pid_exists(orphan)
    finally:
        os.kill(orphan, signal.SIGKILL)
    assert taken_s < 5
    assert f"taken over from process {owner.pid} on {socket.gethostname()}, last seen " in after.err
    assert after.wait() == 0, after.err
    assert fire.ledger().total() == fire.n_trials + 1
    print(f"taken over {taken_s:.2f} s after the experiment was named")


def test_r08_of_two_resumes_at_once_one_works_and_the_other_names_who_does(fire: Any) -> None:
    fire.write(6, pause_s=60.0)
    owner = fire.start()
    owner.wait_for_call(fire)
    for _ in range(ROUNDS):
        owner.kill()
        fire.wait_until_gone()
        both = [fire.start("run", "--resume", fire.experiment, "--json") for _ in range(2)]
        owner, other = both if _first_to_end(both) is both[1] else both[::-1]
        assert other.wait() == 64
        assert other.json["code"] == "run_owned"
        message = other.json["message"]
        assert f"process {owner.pid} on {socket.gethostname()}, last seen " in message
        assert not owner.ended
    # A trial takes a minute and one is in flight at a time: the one that works, and nobody else, has called.
    owner.wait_for_call(fire, beyond=1)
    assert fire.ledger().total() <= 1 + ROUNDS
    fire.pause(0.0)
    owner.kill()
    fire.wait_until_gone()
    last = fire.start("run", "--resume", fire.experiment)
    assert last.wait() == 0, last.err
    assert fire.stored() == dict.fromkeys(fire.ledger(), 1)
    assert len(fire.stored()) == fire.n_trials


def test_k12_r17_a_run_whose_heartbeat_is_30_s_late_is_not_declared_dead(fire: Any, exp: Any) -> None:
    fire.write(4, pause_s=1.0)
    owner = fire.start()
    owner.wait_for_call(fire)
    owner.process.send_signal(signal.SIGSTOP)
    try:
        # Instead of waiting: its last sign of life is put back. It cannot give a new one, for it is stopped.
        fire.change("update lease set heartbeat_at = heartbeat_at - 30")
        assert "(running)" in exp("list", env=fire.environ).out
        assert f"running: process {owner.pid} on " in exp("status", env=fire.environ).out
        refused = fire.start("run", "--resume", fire.experiment)
        assert refused.wait() == 64
        told = re.search(rf"run by process {owner.pid} on {socket.gethostname()}, last seen (\d+) s ago", refused.err)
        assert told
        assert 30 <= int(told[1]) < 60
    finally:
        owner.process.send_signal(signal.SIGCONT)
    assert owner.wait() == 0, owner.err
    assert fire.ledger() == dict.fromkeys(fire.stored(), 1)
    assert len(fire.stored()) == fire.n_trials


def test_r09_an_owner_that_slept_past_its_lease_finds_it_gone_and_writes_nothing(fire: Any) -> None:
    fire.write(4, pause_s=1.0)
    owner = fire.start()
    owner.wait_for_call(fire)
    owner.process.send_signal(signal.SIGSTOP)
    try:
        fire.change("update lease set heartbeat_at = heartbeat_at - 61")
        fire.pause(0.0)
        after = fire.start("run", "--resume", fire.experiment, "--json")
        assert after.wait() == 0, after.err
        assert f"taken over from process {owner.pid} " in after.err
        before = fire.rows("select * from trial order by arm, case_id")
    finally:
        owner.process.send_signal(signal.SIGCONT)
    assert owner.wait() == 64
    assert "another process has taken over" in owner.err
    assert fire.rows("select * from trial order by arm, case_id") == before
    assert fire.stored().total() == fire.n_trials
    # Only the trial that the first one had in flight was called twice.
    assert fire.ledger().total() == fire.n_trials + 1


def _first_to_end(commands: list[Any]) -> Any:
    while True:
        for command in commands:
            if command.ends_within(0.05):
                return command
