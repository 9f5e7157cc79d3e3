"""What durability and Prefect cost: 5,000 recorded trials through `exp run`, as a ratio to the same engine bare.

Run with `python -m benchmarks.overhead [TRIALS]`. Both sides use the same store, plan and graders; CPU is that of the
process that runs the trials, the Prefect server apart. The bare engine is timed before and after, so a machine that
gets busier meanwhile shows as a difference between the two.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.stamp import stamp

TRIALS = 5_000


@dataclass(frozen=True, slots=True)
class Cost:
    """Wall and CPU seconds of running every trial once."""

    wall_s: float
    cpu_s: float


def main() -> int:
    """Measure and print; returns 0."""
    trials = int(sys.argv[1]) if len(sys.argv) > 1 else TRIALS
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder)
        os.chdir(project)
        write_project(project, trials)
        before = bare(project)
        through, command_s = through_prefect(project)
        after = bare(project)
    best = min(before.cpu_s, after.cpu_s)
    print(stamp())
    print(f"{trials:,} recorded trials, number grader, 64 in flight, slices of 50")
    for name, cost in (("bare engine, before", before), ("through Prefect", through), ("bare engine, after", after)):
        per_trial = cost.cpu_s / trials * 1000
        print(f"  {name:22} {cost.wall_s:6.2f} s wall  {cost.cpu_s:6.2f} s CPU  {per_trial:5.2f} ms CPU a trial")
    print(f"  ratio of CPU           {through.cpu_s / best:6.2f} x the bare engine")
    print(f"  whole command, server up, imports and report included: {command_s:.2f} s wall")
    return 0


def write_project(project: Path, trials: int) -> None:
    """Write the cases, the answers and the spec."""
    cases = (json.dumps({"id": f"k{i:06d}", "input": f"q{i}", "expected": i}) for i in range(trials))
    answers = (json.dumps({"id": f"k{i:06d}", "output": f"So it is {i if i % 3 else i + 1}."}) for i in range(trials))
    (project / "cases.jsonl").write_text("\n".join(cases), encoding="utf-8")
    (project / "answers.jsonl").write_text("\n".join(answers), encoding="utf-8")
    task = {"kind": "recorded", "path": "answers.jsonl"}
    spec = {"name": "overhead", "dataset": "cases.jsonl", "task": task, "graders": [{"kind": "number"}], "seed": 1}
    (project / "spec.json").write_text(json.dumps(spec), encoding="utf-8")


def bare(project: Path) -> Cost:
    """Run the experiment on the engine alone."""
    from fairtrial.engine.loop import run_slice

    run = _open(project)

    async def work() -> None:
        numbers = iter(run.unfinished)

        async def worker() -> None:
            for number in numbers:
                await run_slice(run.loop, number)

        await asyncio.gather(*(worker() for _ in range(run.loop.slices_in_flight)))
        await run.close()

    began, cpu = time.perf_counter(), time.process_time()
    asyncio.run(work())
    return Cost(time.perf_counter() - began, time.process_time() - cpu)


def through_prefect(project: Path) -> tuple[Cost, float]:
    """Run the same in a Prefect flow of this process, and once as the whole command; the server is up for both."""
    import subprocess

    from flows.local_server import client_environment, find_or_start

    state = project / "state"
    server = find_or_start(state_dir=state, environ=os.environ, say=lambda _line: None)
    try:
        os.environ.update(client_environment(server))
        from prefect import flow

        from flows.run import run_slices

        run = _open(project)

        @flow(name="overhead", validate_parameters=False)
        async def measured() -> Cost:
            began, cpu = time.perf_counter(), time.process_time()
            await run_slices(run)
            return Cost(time.perf_counter() - began, time.process_time() - cpu)

        from tasks.slice import OPEN_RUNS

        OPEN_RUNS[run.record.id] = run
        cost = asyncio.run(measured())
        asyncio.run(run.close())
        began = time.perf_counter()
        command = [sys.executable, "-m", "faces.cli.main", "run", "spec.json", "-q"]
        environ = {**os.environ, "FAIRTRIAL_STATE_DIR": str(state), "FAIRTRIAL_HOME": str(project / "home")}
        environ.pop("PREFECT_API_URL")
        subprocess.run(command, env=environ, check=True, capture_output=True)
        return cost, time.perf_counter() - began
    finally:
        from flows.local_server import stop

        stop(state)


def _open(project: Path):  # type: ignore[no-untyped-def]
    from fairtrial.engine.create import Asked, prepare, store
    from fairtrial.engine.open import open_run
    from fairtrial.engine.plan import SLICE_BLOCKS
    from fairtrial.spec.arms import ArmSpec
    from fairtrial.spec.dataset import load_dataset
    from fairtrial.spec.loader import load_spec
    from fairtrial.spec.selection import Selection
    from fairtrial.store.database import open_database, sqlite_url
    from fairtrial.store.lease import this_process
    from fairtrial.store.objects import ObjectStore

    home = project / "bare"
    home.mkdir(exist_ok=True)
    engine, objects = open_database(sqlite_url(home / "fairtrial.db")), ObjectStore(str(home / "objects"))
    dataset = load_dataset(project / "cases.jsonl")
    asked = Asked(
        name="overhead",
        arms=(ArmSpec("main", load_spec(project / "spec.json")),),
        dataset=dataset,
        dataset_name="cases.jsonl",
        selection=Selection(),
        slice_blocks=SLICE_BLOCKS,
    )
    prepared = prepare(asked, environ={})
    store(prepared, dataset, engine=engine, objects=objects)
    return open_run(engine, objects, prepared.record.id, owner=this_process(), environ={})


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.exit(main())
