"""`kill -9` of the whole command, at any moment: nothing lost, nothing stored twice, nobody left, the same verdict."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.prefect, pytest.mark.fire]

IN_FLIGHT = 4
HOW = ["--concurrency", str(IN_FLIGHT), "--slice", "10", "--json"]


def test_r01_c78_ten_random_kills_end_in_the_verdict_of_a_run_never_killed(
    fire: Any, tmp_path: Path, flow_runs: Any
) -> None:
    fire.write(80, pause_s=0.15)
    whole = fire.start("run", *fire.arms, *HOW, FAIRTRIAL_HOME=str(tmp_path / "whole"))
    startup_s = whole.wait_for_call(fire)
    assert whole.wait() == 0, whole.err
    planned = set(fire.ledger())
    assert len(planned) == fire.n_trials
    fire.forget_calls()

    chance = random.Random(1)
    lives, gone_s = 0, 0.0
    for kills in range(1, 11):
        before = (fire.ledger().total(), fire.stored().total())
        resume = ["--resume"] if fire.experiment else []
        run = fire.start("run", *fire.arms, *HOW, *resume)
        if kills % 3:
            run.wait_for_call(fire, beyond=before[0])
            wait_s = chance.uniform(0.0, 1.5)
        else:
            # Before the first call of this process, down to its imports.
            wait_s = chance.uniform(0.3, startup_s)
        assert not run.ends_within(wait_s), run.err
        run.kill()
        gone_s = max(gone_s, fire.wait_until_gone())
        called, stored = fire.ledger(), fire.stored()
        lives += called.total() > before[0]
        # A kill costs at most the calls in flight, answered ones included (R06).
        assert (called.total() - before[0]) - (stored.total() - before[1]) <= IN_FLIGHT
        assert (fire.ledger("end") - stored).total() <= IN_FLIGHT * kills
        assert set(stored.values()) <= {1}
    assert lives >= 7, "the kills came too early to say anything"

    last = fire.start("run", *fire.arms, *HOW, "--resume")
    assert last.wait() == 0, last.err
    assert last.json["body"] == whole.json["body"]
    assert fire.stored() == Counter(planned)
    assert fire.rows("select sum(n_done), sum(n_planned) from summary") == [(fire.n_trials, fire.n_trials)]
    assert set(fire.ledger()) == planned
    repeats = fire.ledger().total() - fire.n_trials
    # Killed between the mark of an attempt and the call itself, an attempt counts and nothing was called.
    assert repeats <= last.json["meta"]["repeated_calls"] <= IN_FLIGHT * 10
    runs = flow_runs(fire.experiment)
    assert lives + 1 <= len(runs) <= 11
    assert all(fire.experiment in run["name"] for run in runs)
    assert runs[-1]["state_type"] == "COMPLETED"
    print(f"repeats {repeats}, children gone after {gone_s:.1f} s at most, {lives} of 10 kills in the trials")
