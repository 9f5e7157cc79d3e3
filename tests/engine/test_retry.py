"""Further tries look at InfraError and at nothing else, and end in time."""

from __future__ import annotations

import asyncio
import random
import time
from typing import Any

import pytest

from fairtrial.engine import retry
from fairtrial.engine.retry import with_retries
from fairtrial.errors import InfraError


class Calls:
    """A call that fails as often as it is told, with the errors it is given."""

    def __init__(self, *errors: Exception):
        self.errors = list(errors)
        self.n = 0

    async def __call__(self) -> str:
        self.n += 1
        if self.errors:
            raise self.errors.pop(0)
        return "answer"


def lost(kind: str = "rate_limit", **details: Any) -> InfraError:
    return InfraError("not now", kind=kind, **details)


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "FIRST_WAIT_S", 0.01)
    monkeypatch.setattr(retry, "LONGEST_WAIT_S", 0.2)


def ask(calls: Calls, *, retries: int = 3, deadline: float | None = None) -> str:
    return asyncio.run(with_retries(calls, retries=retries, deadline=deadline, jitter=random.Random(1)))


def test_c84_two_failures_of_the_infrastructure_are_waited_out() -> None:
    calls = Calls(lost(), lost("server_error"))
    assert ask(calls) == "answer"
    assert calls.n == 3


@pytest.mark.parametrize("retries", [0, 2])
def test_the_last_error_leaves_when_the_tries_are_used_up(retries: int) -> None:
    calls = Calls(*(lost() for _ in range(9)))
    with pytest.raises(InfraError, match="not now"):
        ask(calls, retries=retries)
    assert calls.n == retries + 1


def test_what_is_not_worth_another_try_leaves_at_once() -> None:
    calls = Calls(lost("recording", retryable=False))
    with pytest.raises(InfraError):
        ask(calls)
    assert calls.n == 1


def test_a_fault_that_is_not_of_the_infrastructure_is_never_tried_again() -> None:
    calls = Calls(ValueError("a bug"))
    with pytest.raises(ValueError, match="a bug"):
        ask(calls)
    assert calls.n == 1


def test_no_further_try_starts_after_the_deadline() -> None:
    calls = Calls(*(lost(retry_after_s=0.15) for _ in range(9)))
    began = time.monotonic()
    with pytest.raises(InfraError):
        ask(calls, retries=9, deadline=began + 0.1)
    assert calls.n == 1
    assert time.monotonic() - began < 0.1


# R22: what servers have sent as Retry-After; the wait stays within its cap whatever it says.
@pytest.mark.parametrize("asked", [-5.0, 0.0, 1e9, None])
def test_r22_a_wait_is_never_negative_and_never_longer_than_the_cap(asked: float | None) -> None:
    calls = Calls(lost(retry_after_s=asked))
    began = time.monotonic()
    assert ask(calls) == "answer"
    assert time.monotonic() - began < 0.2 + 0.01 + 0.5
