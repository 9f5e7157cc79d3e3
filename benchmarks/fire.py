"""Thirty kills through Prefect: the flow's process, a worker and the server in turn, every run gone on with.

Run with `python -m benchmarks.fire [KILLS [SEED]]`; it takes some minutes. The task's own synced ledger says what was
called, the store what is kept, and the environment mark who is alive. Ends with 1 when a promise is broken: nothing
lost, nothing stored twice, repeats no more than what was in flight, nobody left, the verdict of a run never killed.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.fire_ground import IN_FLIGHT, Ground, Project, until
from benchmarks.stamp import stamp

KILLS = 30
TURNS = ("flow", "worker", "server")


@dataclass(slots=True)
class Counts:
    """What the kills came to."""

    kills: Counter[str] = field(default_factory=Counter)
    lost: int = 0
    double: int = 0
    repeats: int = 0
    allowed: int = 0
    orphans: int = 0
    wrong: int = 0
    runs: int = 0
    survived: int = 0
    refused: int = 0
    gone_s: float = 0.0

    @property
    def kept(self) -> bool:
        """Return whether every promise was kept."""
        broken = self.lost + self.double + self.orphans + self.wrong + (self.refused != self.survived)
        return not broken and self.repeats <= self.allowed


def main() -> int:
    """Kill, resume, count and print; returns 1 when a promise is broken."""
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else KILLS
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    counts = Counts()
    with tempfile.TemporaryDirectory() as folder:
        ground = Ground(Path(folder))
        try:
            reference = ground.project("reference", pause_s=0.0)
            body = finish(ground, reference)
            began = time.monotonic()
            rounds(ground, counts, body, kills=kills, chance=random.Random(seed))
            seconds = time.monotonic() - began
        finally:
            ground.close()
    print(stamp())
    print(f"{kills} kills with seed {seed}: {', '.join(f'{counts.kills[turn]} of the {turn}' for turn in TURNS)}")
    print(f"  {counts.runs} runs of {reference.n_trials} trials came to their verdict, {counts.wrong} to another one")
    print(f"  lost {counts.lost}, stored twice {counts.double}, left behind {counts.orphans}")
    print(f"  repeated calls {counts.repeats}, with at most {counts.allowed} in flight at the kills")
    print(f"  runs that outlived their worker {counts.survived}; second owners refused meanwhile {counts.refused}")
    print(f"  {seconds / kills:.1f} s a kill, resume included; tasks gone {counts.gone_s:.1f} s after a kill at most")
    print("every promise kept" if counts.kept else "A PROMISE IS BROKEN")
    return 0 if counts.kept else 1


def rounds(ground: Ground, counts: Counts, body: object, *, kills: int, chance: random.Random) -> None:
    """Kill in turn until there were enough kills; a project that is nearly done is finished, another begins."""
    strikes = {"flow": kill_flow, "worker": kill_worker, "server": kill_server}
    project = ground.project("fire-0")
    while counts.kills.total() < kills:
        number = counts.kills.total()
        turn = TURNS[number % len(TURNS)]
        if project.stored().total() > project.n_trials * 2 // 3:
            check(ground, project, counts, body)
            project = ground.project(f"fire-{counts.runs}")
        if strikes[turn](ground, project, counts, chance):
            counts.kills[turn] += 1
            print(f"{number + 1:3d} {turn:7} {project.stored().total():4d}/{project.n_trials} stored", file=sys.stderr)
    check(ground, project, counts, body)


def kill_flow(ground: Ground, project: Project, counts: Counts, chance: random.Random) -> bool:
    """Kill the process that runs the flow, a moment after a call of its own; False when it had ended by itself."""
    run = ground.running(project)
    project.wait_for_call(run, chance.uniform(0.0, 1.5))
    return end_by_kill(ground, counts, run.pid)


def kill_worker(ground: Ground, project: Project, counts: Counts, chance: random.Random) -> bool:
    """Let a worker run the experiment and kill the worker; what it started may live on, and then is the owner."""
    # The run of the last turn ends first: a worker could not own what another process has.
    if (pid := ground.owner(project)) is not None:
        end_by_kill(ground, counts, pid)
    worker = ground.start_worker(project)
    project.wait_for_call(worker, chance.uniform(0.0, 1.5), within_s=120)
    worker.kill()
    worker.wait()
    time.sleep(1.0)
    if (pid := ground.owner(project)) is not None:
        counts.survived += 1
        counts.refused += ground.is_refused(project)
        end_by_kill(ground, counts, pid)
    else:
        counts.allowed += IN_FLIGHT
    ground.end_worker_tree()
    return True


def kill_server(ground: Ground, project: Project, _counts: Counts, chance: random.Random) -> bool:
    """Kill the server under a run, start it again some seconds later, and see the run go on."""
    run = ground.running(project)
    project.wait_for_call(run, chance.uniform(0.0, 1.5))
    ground.kill_server()
    time.sleep(chance.uniform(0.0, 3.0))
    ground.start_server()
    project.wait_for_call(run, 0.0)
    if run.poll():
        raise RuntimeError(f"a run ended with {run.returncode} because its server was away: {ground.said(run)}")
    return True


def end_by_kill(ground: Ground, counts: Counts, pid: int) -> bool:
    """Kill the owner of a run; its tasks have to be gone within 5 s. Returns False when there was nobody to kill."""
    if not ground.kill(pid):
        return False
    counts.allowed += IN_FLIGHT
    gone_s, left = ground.until_gone()
    counts.gone_s = max(counts.gone_s, gone_s)
    counts.orphans += left
    return True


def check(ground: Ground, project: Project, counts: Counts, body: object) -> None:
    """Bring a project to its end and count what is missing, doubled, repeated or different."""
    project.pause(0.0)
    if (pid := ground.owner(project)) is not None:
        end_by_kill(ground, counts, pid)
    found = finish(ground, project)
    stored, called = project.stored(), project.calls()
    counts.runs += 1
    counts.lost += project.n_trials - len(stored)
    counts.double += abs(project.n_done() - project.n_trials) + stored.total() - len(stored)
    counts.repeats += called.total() - len(called)
    counts.wrong += found != body


def finish(ground: Ground, project: Project) -> object:
    """Run or resume to the end and return the verdict's body."""
    run = ground.start(project, "--json")
    until(lambda: run.poll() is not None, within_s=300, what="the end of a run")
    if run.returncode:
        raise RuntimeError(f"a run ended with {run.returncode}: {ground.said(run)}")
    return json.loads(ground.printed(run))["body"]


if __name__ == "__main__":
    sys.exit(main())
