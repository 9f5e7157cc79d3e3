"""One run of one experiment in a forked process, bare: the real store and engine, without Prefect and without a screen.

What it prints is what it promises: `finished …` is written after the trial loop counted the trial, and a line that is
out survives any kill. Lines: ready, owner FENCE TIME, finished ARM CASE REPETITION, published, closed, error CODE TEXT.
"""

from __future__ import annotations

import asyncio
import contextvars
import importlib
import os
import sys
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.rig import clocks, faults

CRASHED: Final = 99
"""Exit status of a run that ended with an exception no user should see."""

_KEY: contextvars.ContextVar[str] = contextvars.ContextVar("key")


@dataclass(frozen=True, slots=True)
class Options:
    """What one run does besides running.

    environ         added to the environment of the run and of everything it starts
    max_slices      slices after which it gives the experiment back without a verdict; None for all
    lease_s, heartbeat_s, busy_timeout_s    instead of the product's, in this process only
    fault           (number of the store operation, kill | stop | ENOSPC | EIO)
    fault_at        count only operations with this label; None for all
    trace           file that gets every store operation
    clock           name of a pattern of tests.rig.clocks
    barrier         wait, opened store in hand, until the barrier of that name is released
    """

    home: str
    experiment: str
    environ: dict[str, str] = field(default_factory=dict)
    concurrency: int = 8
    max_slices: int | None = None
    lease_s: float | None = None
    heartbeat_s: float | None = None
    busy_timeout_s: float | None = None
    fault: tuple[int, str] | None = None
    fault_at: str | None = None
    trace: str | None = None
    clock: str | None = None
    barrier: str | None = None


NEEDED: Final = (
    "fairtrial.engine.loop",
    "fairtrial.engine.open",
    "fairtrial.store.database",
    "fairtrial.subjects.process",
    "fairtrial.graders.text",
    "tasks.publish",
    "concurrent.futures.thread",
    "encodings.ascii",
    "psutil",
    "secrets",
    "sqlalchemy.dialects.sqlite",
)


def warm_up() -> None:
    """Import what a run needs, so that a fork has it."""
    for name in NEEDED:
        importlib.import_module(name)


def run(options: Options, *, barrier: int | None) -> int:
    """Run the experiment and return the exit status; the process is the run's own."""
    from fairtrial.errors import FairtrialError

    try:
        points = _prepare(options)
        _run(options, points, barrier)
    except FairtrialError as error:
        _say(f"error {error.code} {error}")
        return error.exit_status
    except BaseException:
        traceback.print_exc()
        return CRASHED
    _say(f"closed {points.n}")
    return 0


def _say(line: str) -> None:
    os.write(1, line.replace("\n", " ").encode() + b"\n")


def _prepare(options: Options) -> faults.Points:
    """Put the rig's parts between the product and its surroundings."""
    import fairtrial.engine.loop as loop
    import fairtrial.store.database as database
    import fairtrial.store.lease as lease
    import fairtrial.store.writer as writer
    from fairtrial.engine.progress import Progress

    os.environ |= options.environ | {"RIG_EXPERIMENT": options.experiment}
    os.chdir(Path(options.home).parent)
    at, what = options.fault or (0, "kill")
    points = faults.Points(at=at, what=what, only=options.fault_at, say=_say, trace=options.trace)
    if options.fault is not None or options.trace is not None:
        faults.install(points, objects=Path(options.home) / "objects")
    if options.clock is not None:
        clocks.install(options.clock)
    if options.lease_s is not None:
        _patch(lease, "LEASE_S", options.lease_s)
    if options.heartbeat_s is not None:
        _patch(writer, "HEARTBEAT_S", options.heartbeat_s)
    if options.busy_timeout_s is not None:
        _patch(database, "BUSY_TIMEOUT_MS", int(options.busy_timeout_s * 1000))
    run_trial: Any = vars(loop)["run_trial"]
    count = Progress.count

    async def run_trial_and_say(context: Any, arm: Any, case: Any, repetition: int, **known: Any) -> Any:
        _KEY.set(f"{arm.name} {case.id} {repetition}")
        verdict = await run_trial(context, arm, case, repetition, **known)
        _say(f"finished {arm.name} {case.id} {repetition}")
        return verdict

    def count_and_note(progress: Progress, *arguments: Any) -> None:
        points.note("counted", key=_KEY.get())
        count(progress, *arguments)

    _patch(loop, "run_trial", run_trial_and_say)
    _patch(Progress, "count", count_and_note)
    return points


def _patch(where: object, name: str, value: object) -> None:
    # A name that the product no longer has must fail here, not pass without effect.
    getattr(where, name)
    setattr(where, name, value)


def _run(options: Options, points: faults.Points, barrier: int | None) -> None:
    from fairtrial.engine.open import open_run
    from fairtrial.store.database import open_database, sqlite_url
    from fairtrial.store.lease import this_process
    from fairtrial.store.objects import ObjectStore

    home = Path(options.home)
    engine = open_database(sqlite_url(home / "fairtrial.db"))
    owner = this_process()
    if barrier is not None:
        _say("ready")
        os.read(barrier, 1)
    run = open_run(
        engine,
        ObjectStore(str(home / "objects")),
        options.experiment,
        owner=owner,
        environ=dict(os.environ),
        concurrency=options.concurrency,
    )
    _say(f"owner {run.lease.fence} {time.monotonic()}")
    asyncio.run(_main(run, options.max_slices))


async def _main(run: Any, max_slices: int | None) -> None:
    from fairtrial.engine.loop import run_slice
    from tasks.publish import publish_run

    numbers = run.unfinished[:max_slices]
    pending = iter(numbers)

    async def work() -> None:
        for number in pending:
            await run_slice(run.loop, number)

    try:
        # A group: the first failure ends the other slices too, as the flow does it.
        async with asyncio.TaskGroup() as group:
            for _ in range(min(run.loop.slices_in_flight, len(numbers))):
                group.create_task(work())
        if len(numbers) == len(run.unfinished):
            await asyncio.to_thread(publish_run, run.engine, run.objects, run.record.id, fence=run.lease.fence)
            _say("published")
    except* Exception as failures:
        raise failures.exceptions[0] from None
    finally:
        await run.close()


def leave(status: int) -> None:
    """End this process at once: what the zygote had registered for its own end is not ours to run."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
