"""Wall clocks that jump. Only the time of day moves, the database's with it; the monotonic clock stays what it is."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Final

DAY: Final = 86_400.0
FIRST_S: Final = 0.15
"""Seconds after the start at which a clock jumps first: runs of the tests last about half a second and more."""

Offset = Callable[[float], float]
"""Seconds since the start -> seconds that are added to the real time of day."""


def _jump(by: float) -> Offset:
    return lambda since: by if since >= FIRST_S else 0.0


def _every(step_s: float, by: float) -> Offset:
    return lambda since: by * (since // step_s)


def _there_and_back(period_s: float, by: float) -> Offset:
    return lambda since: by if int(since / period_s) % 2 else 0.0


def _walk(seed: int) -> Offset:
    return lambda since: random.Random(seed * 1_000_003 + int(since / 0.05)).uniform(-3600, 3600)


PATTERNS: Final[dict[str, Offset]] = {
    "a day back": _jump(-DAY),
    "a day on": _jump(DAY),
    "a second back every tenth": _every(0.1, -1.0),
    "a second on every tenth": _every(0.1, 1.0),
    "an hour back (summer time ends)": _jump(-3600.0),
    "an hour on (summer time begins)": _jump(3600.0),
    "a second twice (leap second)": _jump(-1.0),
    "a second left out": _jump(1.0),
    "just over a lease back": _jump(-61.0),
    "just over a lease on": _jump(61.0),
    "half a minute to and fro": _there_and_back(0.05, 30.0),
    "a minute and a half to and fro": _there_and_back(0.05, 90.0),
    "a day to and fro": _there_and_back(0.07, -DAY),
    "stands still": lambda since: -since,
    "half as fast": lambda since: -since / 2,
    "ten times as fast": lambda since: 9 * since,
    "runs backwards": lambda since: -2 * since,
    "anywhere within an hour": _walk(7),
    "ten years on": _jump(3650 * DAY),
    "ten years back": _jump(-3650 * DAY),
}


def install(pattern: str) -> None:
    """Set time.time and the clock of the database by `pattern`, in this process, from now on."""
    import fairtrial.store.lease as lease

    offset, started = PATTERNS[pattern], time.monotonic()
    real_time, database_clock = time.time, lease.database_clock
    time.time = lambda: real_time() + offset(time.monotonic() - started)
    lease.database_clock = lambda connection: database_clock(connection) + offset(time.monotonic() - started)
