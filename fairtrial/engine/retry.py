"""Further tries after a failure that was not the agent's.

Looks at InfraError and at nothing else: a failed task or grade is never run again.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from fairtrial.errors import InfraError

T = TypeVar("T")

FIRST_WAIT_S: Final = 0.5
LONGEST_WAIT_S: Final = 60.0


async def with_retries(
    call: Callable[[], Awaitable[T]], *, retries: int, deadline: float | None, jitter: random.Random
) -> T:
    """Return what `call` gives, trying again up to `retries` times with growing, jittered waits.

    deadline    monotonic time after which no further try starts; None without one

    Raises the last InfraError.
    """
    for tried in range(retries + 1):
        try:
            return await call()
        except InfraError as error:
            wait_s = _wait_s(error, tried, jitter)
            late = deadline is not None and time.monotonic() + wait_s >= deadline
            if tried == retries or not error.retryable or late:
                raise
            await asyncio.sleep(wait_s)
    raise AssertionError("the loop returns or raises")


def _wait_s(error: InfraError, tried: int, jitter: random.Random) -> float:
    backoff = min(FIRST_WAIT_S * float(2**tried), LONGEST_WAIT_S)
    asked = min(max(error.retry_after_s or 0.0, 0.0), LONGEST_WAIT_S)
    return asked + backoff * (0.5 + jitter.random() / 2)
