"""Kill tests side by side: each lane is a thread with a meter, a zygote and a bench of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from tests.rig.bench import Bench
from tests.rig.meter import Knobs, Meter
from tests.rig.zygote import Zygote

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Lane:
    """What one thread works with."""

    bench: Bench
    zygote: Zygote


MakeLane = Callable[[Knobs], Lane]
"""The fixture make_lane: a lane for a meter with these knobs, on the session's zygote."""


def in_lanes(folder: Path, knobs: Knobs, works: Sequence[Callable[[Lane], T]]) -> list[T]:
    """Run each of `works` in a lane of its own, all at once, and return what they gave, in order.

    Raises the first failure; AssertionError when a run wrote to stderr or left a process running for 5 s.
    """
    with ExitStack() as stack:
        lanes = []
        for number in range(len(works)):
            place = folder / f"lane{number}"
            meter = stack.enter_context(Meter(place / "meter", knobs))
            zygote = stack.enter_context(Zygote(place / "stderr"))
            lanes.append(Lane(Bench(place / "lab", meter), zygote))
        with ThreadPoolExecutor(len(lanes)) as pool:
            waiting = [pool.submit(work, lane) for work, lane in zip(works, lanes, strict=True)]
            found = [each.result() for each in waiting]
        for lane in lanes:
            assert not (text := lane.zygote.errors.read_text(errors="replace")), f"a run wrote to stderr:\n{text}"
            assert not (left := lane.bench.survivors()), f"processes outlived their run by 5 s: {left}"
            lane.bench.engine.dispose()
        return found
