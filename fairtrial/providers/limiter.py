"""One gate for everything that one provider and key is asked: by arms, graders and retries alike.

It holds calls in flight, calls and tokens a minute, and the waits that the provider asks for. What one caller is told,
all of them heed: a 429 slows everyone, and a key that is refused lets nobody through any more.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, Protocol

from fairtrial.errors import InfraError
from fairtrial.hashing import sha256_hex
from fairtrial.providers.faults import StopTheRun
from fairtrial.providers.retry_after import LONGEST_RETRY_AFTER_S

MINUTE_S: Final = 60.0
ROUND_S: Final = 1.0
"""Over how long the first calls after a pause are spread."""
FIRST_PAUSE_S: Final = 1.0
"""The wait of everyone after a 429 that says nothing; it doubles with each one that follows without a success."""
JITTER: Final = 0.25
"""A wait is longer by up to this share of it, so that many programs do not come back at one instant."""
SLOWING: Final = ("rate_limit", "overloaded")
"""Kinds of fault that slow everyone down."""


class Handle(Protocol):
    """A call that was put off."""

    def cancel(self) -> None: ...


class Clock(Protocol):
    """What the limiter needs of an event loop."""

    def time(self) -> float: ...

    def call_later(self, delay: float, callback: Callable[[], None], /) -> Handle: ...


@dataclass(slots=True, eq=False)
class Slot:
    """One caller's place.

    waited_s   seconds it waited for the place, which are no latency of the model
    tokens     what the call is counted with; set it to what was used once that is known
    """

    model: str
    tokens: int
    waited_s: float = 0.0
    entered_at: float = 0.0
    number: int = 0
    granted: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class Limiter:
    """The gate of one provider and key, in one event loop.

    concurrency           calls in flight at most; it is halved by each 429 and grows back by one a round of successes
    requests_per_minute   calls begun in any 60 seconds, None for no limit
    tokens_per_minute     tokens of the calls begun in any 60 seconds, None for no limit; a call that is larger than
                          the limit itself goes alone
    jitter                where the random part of waits comes from
    clock                 None for the running event loop
    """

    def __init__(
        self,
        *,
        concurrency: int,
        requests_per_minute: int | None = None,
        tokens_per_minute: int | None = None,
        jitter: random.Random,
        clock: Clock | None = None,
        longest_pause_s: float = LONGEST_RETRY_AFTER_S,
    ) -> None:
        self._concurrency = concurrency
        self._requests_per_minute = requests_per_minute
        self._tokens_per_minute = tokens_per_minute
        self._jitter = jitter
        self._given_clock = clock
        self._longest_pause_s = longest_pause_s
        self._window = float(concurrency)
        self._in_flight: set[Slot] = set()
        self._waiting: deque[Slot] = deque()
        self._recent: deque[Slot] = deque()
        self._open_at = 0.0
        self._n_granted = 0
        self._slowed_after = 0
        self._n_slowed = 0
        self._n_spaced = 0
        self._timer: Handle | None = None
        self._stops: dict[str | None, StopTheRun] = {}

    @property
    def window(self) -> int:
        """Return how many calls may be in flight now."""
        return max(int(self._window), 1)

    @property
    def n_in_flight(self) -> int:
        """Return how many calls are in flight."""
        return len(self._in_flight)

    @asynccontextmanager
    async def slot(self, model: str, *, tokens: int = 0) -> AsyncIterator[Slot]:
        """Hold a place for one call; the place learns from how the call ends.

        tokens   what the call is expected to use

        Raises StopTheRun, waiting or not, once a call met a fault that this one would meet too.
        """
        place = await self._enter(model, tokens)
        try:
            yield place
        except InfraError as error:
            self._failed(place, error)
            raise
        else:
            self._succeeded()
        finally:
            self._in_flight.discard(place)
            self._let_in()

    async def _enter(self, model: str, tokens: int) -> Slot:
        self._refuse(model)
        place = Slot(model, tokens)
        began = self._now()
        self._waiting.append(place)
        self._let_in()
        try:
            await place.granted
            # The stop may have come between the grant and now.
            self._refuse(model)
        except BaseException:
            # Given up while waiting, or at the very moment the place was given.
            if place in self._in_flight:
                self._in_flight.discard(place)
            else:
                self._waiting = deque(other for other in self._waiting if other is not place)
            self._let_in()
            raise
        place.waited_s = self._now() - began
        return place

    def _refuse(self, model: str) -> None:
        stop = self._stops.get(None) or self._stops.get(model)
        if stop is not None:
            raise _again(stop)

    def _let_in(self) -> None:
        """Let in whom the limits allow, in the order they came; else come back when the next may be let in."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._waiting and len(self._in_flight) < self.window:
            place = self._waiting[0]
            wait_s = self._wait_s(place)
            if wait_s > 0:
                self._timer = self._clock().call_later(wait_s, self._let_in)
                return
            self._waiting.popleft()
            if place.granted.done():
                continue
            self._n_granted += 1
            place.number = self._n_granted
            place.entered_at = self._now()
            self._in_flight.add(place)
            if self._requests_per_minute is not None or self._tokens_per_minute is not None:
                self._recent.append(place)
            if self._n_spaced:
                # After a pause the first round comes one by one: all at once is what the provider slowed us for.
                self._n_spaced -= 1
                self._open_at = self._now() + ROUND_S / self.window * (1 + JITTER * self._jitter.random())
            place.granted.set_result(None)

    def _wait_s(self, place: Slot) -> float:
        now = self._now()
        while self._recent and self._recent[0].entered_at <= now - MINUTE_S:
            self._recent.popleft()
        until = self._open_at
        limit = self._requests_per_minute
        if limit is not None and len(self._recent) >= limit:
            until = max(until, self._recent[len(self._recent) - limit].entered_at + MINUTE_S)
        if self._tokens_per_minute is not None:
            until = max(until, self._tokens_free_at(place.tokens, self._tokens_per_minute))
        return until - now

    def _tokens_free_at(self, tokens: int, limit: int) -> float:
        free_at = float("-inf")
        held = sum(other.tokens for other in self._recent)
        for other in self._recent:
            if held + tokens <= limit:
                break
            held -= other.tokens
            free_at = other.entered_at + MINUTE_S
        return free_at

    def _succeeded(self) -> None:
        self._n_slowed = 0
        self._window = min(self._window + 1 / self._window, float(self._concurrency))

    def _failed(self, place: Slot, error: InfraError) -> None:
        if isinstance(error, StopTheRun):
            self._stop(error, place.model)
        elif error.kind in SLOWING:
            self._slow_down(place, error)

    def _slow_down(self, place: Slot, error: InfraError) -> None:
        now = self._now()
        # Calls that were in flight when the first was refused tell nothing new, except a longer wait.
        is_news = place.number > self._slowed_after
        if is_news:
            self._slowed_after = self._n_granted
            self._n_slowed += 1
            self._window = max(self._window / 2, 1.0)
            self._n_spaced = self.window
        asked = error.retry_after_s
        if asked is None:
            if not is_news:
                return
            asked = FIRST_PAUSE_S * 2.0 ** min(self._n_slowed - 1, 10)
        pause = min(max(asked, 0.0), self._longest_pause_s)
        self._open_at = max(self._open_at, now + pause * (1 + JITTER * self._jitter.random()))

    def _stop(self, error: StopTheRun, model: str) -> None:
        scope = None if error.scope == "key" else model
        self._stops.setdefault(scope, error)
        kept: deque[Slot] = deque()
        for place in self._waiting:
            if place.granted.done():
                continue
            if scope is None or place.model == scope:
                place.granted.set_exception(_again(error))
            else:
                kept.append(place)
        self._waiting = kept

    def _clock(self) -> Clock:
        return self._given_clock if self._given_clock is not None else asyncio.get_running_loop()

    def _now(self) -> float:
        return self._clock().time()


class Limiters:
    """The gates of a run: one for each address and key, however many arms and graders ask there."""

    def __init__(self, make: Callable[[], Limiter]) -> None:
        self._make = make
        self._limiters: dict[tuple[str, str], Limiter] = {}

    def of(self, base_url: str, key: str | None) -> Limiter:
        """Return the gate of an address and key. The key is kept as its hash."""
        name = (base_url.rstrip("/"), "" if key is None else sha256_hex(key.encode("utf-8", "surrogatepass")))
        if name not in self._limiters:
            self._limiters[name] = self._make()
        return self._limiters[name]


def _again(stop: StopTheRun) -> StopTheRun:
    # One exception raised in many places would gather all their tracebacks.
    return StopTheRun(stop.message, kind=stop.kind, scope=stop.scope)
