"""The gate under a clock that only the test moves: no burst, no caller forgotten, one caller's news is everyone's."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairtrial.errors import InfraError
from fairtrial.providers.faults import StopTheRun, infra_error
from fairtrial.providers.limiter import FIRST_PAUSE_S, JITTER, MINUTE_S, ROUND_S, Limiter, Limiters


class Handle:
    def __init__(self, at: float, callback: Callable[[], None]) -> None:
        self.at = at
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class FakeClock:
    """Time that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.handles: list[Handle] = []

    def time(self) -> float:
        return self.now

    def call_later(self, delay: float, callback: Callable[[], None], /) -> Handle:
        handle = Handle(self.now + delay, callback)
        self.handles.append(handle)
        return handle

    async def move(self, seconds: float) -> None:
        """Go on by so many seconds, stopping wherever something is due."""
        end = self.now + seconds
        await settle()
        while due := [handle for handle in self.handles if not handle.cancelled and handle.at <= end]:
            handle = min(due, key=lambda one: one.at)
            self.handles.remove(handle)
            self.now = max(self.now, handle.at)
            handle.callback()
            await settle()
        self.now = end


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


class World:
    """A limiter, its clock, and callers whose calls end when the test says so."""

    def __init__(self, **limits: Any) -> None:
        self.clock = FakeClock()
        self.limiter = Limiter(jitter=random.Random(1), clock=self.clock, **limits)
        self.began: list[tuple[str, float]] = []
        self.ends: dict[str, asyncio.Future[None]] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    def ask(self, name: str, *, model: str = "m", tokens: int = 0) -> None:
        self.tasks[name] = asyncio.get_running_loop().create_task(self._call(name, model, tokens))

    async def end(self, name: str, error: Exception | None = None) -> None:
        if error is None:
            self.ends[name].set_result(None)
        else:
            self.ends[name].set_exception(error)
        await settle()

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.began]

    async def close(self) -> None:
        for task in self.tasks.values():
            task.cancel()
        await asyncio.gather(*self.tasks.values(), return_exceptions=True)

    async def _call(self, name: str, model: str, tokens: int) -> None:
        async with self.limiter.slot(model, tokens=tokens):
            self.began.append((name, self.clock.time()))
            self.ends[name] = asyncio.get_running_loop().create_future()
            await self.ends[name]


def within(world: Callable[[], World], steps: Callable[[World], Awaitable[None]]) -> None:
    async def main() -> None:
        room = world()
        try:
            await steps(room)
        finally:
            await room.close()

    asyncio.run(main())


def rate_limited(retry_after_s: float | None = None) -> InfraError:
    return infra_error("rate_limit", "slow down.", retry_after_s=retry_after_s)


def test_k66_no_more_calls_are_in_flight_than_the_gate_lets_in() -> None:
    async def steps(world: World) -> None:
        for name in "abcdef":
            world.ask(name)
        await settle()
        assert world.names == ["a", "b", "c", "d"]
        await world.end("b")
        assert world.names == ["a", "b", "c", "d", "e"]
        assert world.limiter.n_in_flight == 4

    within(lambda: World(concurrency=4), steps)


def test_callers_enter_in_the_order_they_came_and_one_that_gives_up_is_passed_over() -> None:
    async def steps(world: World) -> None:
        for name in "abc":
            world.ask(name)
        await settle()
        world.tasks["b"].cancel()
        await world.end("a")
        assert world.names == ["a", "c"]

    within(lambda: World(concurrency=1), steps)


def test_a_caller_that_gives_up_as_it_is_let_in_leaves_the_place_to_the_next() -> None:
    async def steps(world: World) -> None:
        async with world.limiter.slot("m"):
            world.ask("b")
            world.ask("c")
            await settle()
        # The place is given to b, which gives up before it could run again.
        world.tasks["b"].cancel()
        await settle()
        assert world.names == ["c"]
        assert world.limiter.n_in_flight == 1

    within(lambda: World(concurrency=1), steps)


def test_no_minute_has_more_calls_than_the_limit() -> None:
    async def steps(world: World) -> None:
        for name in "abcdef":
            world.ask(name)
        await settle()
        assert world.names == ["a", "b"]
        await world.clock.move(MINUTE_S - 0.1)
        assert world.names == ["a", "b"]
        await world.clock.move(0.2)
        assert world.names == ["a", "b", "c", "d"]

    within(lambda: World(concurrency=9, requests_per_minute=2), steps)


def test_no_minute_has_more_tokens_than_the_limit_and_a_call_too_large_goes_alone() -> None:
    async def steps(world: World) -> None:
        world.ask("a", tokens=60)
        world.ask("b", tokens=30)
        world.ask("c", tokens=20)
        world.ask("large", tokens=500)
        await settle()
        assert world.names == ["a", "b"]
        await world.clock.move(MINUTE_S)
        assert world.names == ["a", "b", "c"]
        await world.clock.move(MINUTE_S)
        assert world.names == ["a", "b", "c", "large"]

    within(lambda: World(concurrency=9, tokens_per_minute=100), steps)


@given(st.lists(st.tuples(st.integers(0, 60), st.floats(0, 40)), max_size=25))
def test_any_sixty_seconds_keep_both_limits(calls: list[tuple[int, float]]) -> None:
    async def steps(world: World) -> None:
        sizes = {}
        for number, (tokens, pause) in enumerate(calls):
            name = str(number)
            sizes[name] = tokens
            world.ask(name, tokens=tokens)
            await world.clock.move(pause)
        await world.clock.move(MINUTE_S * 30)
        assert world.names == list(sizes)
        for _, start in world.began:
            inside = [name for name, at in world.began if start <= at < start + MINUTE_S]
            assert len(inside) <= 3
            assert sum(sizes[name] for name in inside) <= 100

    within(lambda: World(concurrency=99, requests_per_minute=3, tokens_per_minute=100), steps)


def test_k65_everyone_waits_as_long_as_one_is_asked_to_and_comes_back_one_by_one() -> None:
    async def steps(world: World) -> None:
        for name in "abcdefgh":
            world.ask(name)
        await settle()
        assert world.names == ["a", "b", "c", "d"]
        for name in "abcd":
            await world.end(name, rate_limited(3.0))
        await world.clock.move(2.99)
        assert len(world.began) == 4
        await world.clock.move(3.0 * JITTER + 0.02)
        # Halved once, not four times: the four were one burst.
        assert world.limiter.window == 2
        await world.clock.move(10)
        times = [at for _, at in world.began[4:]]
        assert len(times) == 2
        assert 3.0 <= times[0] - 1000.0 <= 3.0 * (1 + JITTER)
        assert times[1] - times[0] >= ROUND_S / 2

    within(lambda: World(concurrency=4), steps)


def test_k65_without_a_header_the_wait_doubles_until_a_success() -> None:
    async def steps(world: World) -> None:
        waits = []
        for number in range(4):
            world.ask(str(number))
            await world.clock.move(MINUTE_S)
            await world.end(str(number), rate_limited())
            before = world.clock.time()
            world.ask(f"{number} again")
            await world.clock.move(MINUTE_S)
            waits.append(world.began[-1][1] - before)
            if number < 2:
                await world.end(f"{number} again", rate_limited())
            else:
                await world.end(f"{number} again")
        # Refusals without a success between them: the 1st, 3rd and 5th before a wait, then the first of a new row.
        for wait, least in zip(waits, (1, 4, 16, 1), strict=True):
            assert least * FIRST_PAUSE_S <= wait <= least * FIRST_PAUSE_S * (1 + JITTER)

    within(lambda: World(concurrency=1), steps)


def test_r22_no_wait_is_longer_than_the_cap() -> None:
    async def steps(world: World) -> None:
        world.ask("a")
        await settle()
        await world.end("a", rate_limited(1e9))
        world.ask("b")
        await world.clock.move(20 * (1 + JITTER))
        assert world.names == ["a", "b"]

    within(lambda: World(concurrency=1, longest_pause_s=20), steps)


def test_the_window_halves_and_grows_back_slowly_and_never_past_the_limit() -> None:
    async def steps(world: World) -> None:
        windows = []
        for number, error in enumerate([rate_limited(0), rate_limited(0), rate_limited(0), *[None] * 60]):
            world.ask(str(number))
            await world.clock.move(2 * ROUND_S)
            await world.end(str(number), error)
            windows.append(world.limiter.window)
        # By hand: 8 → 4 → 2 → 1; then 1/window a success: 1 → 2 after one, → 3 after about two more.
        assert windows[:4] == [4, 2, 1, 2]
        assert windows[-1] == 8
        assert windows.index(8) > 20

    within(lambda: World(concurrency=8), steps)


@pytest.mark.parametrize("kind", ["not_authorised", "out_of_money"])
def test_k50_a_key_that_is_refused_stops_everyone_who_waits_or_comes_later(kind: str) -> None:
    async def steps(world: World) -> None:
        world.ask("a")
        world.ask("b", model="other")
        await settle()
        await world.end("a", infra_error(kind, "no."))
        world.ask("c")
        await settle()
        for name in "abc":
            with pytest.raises(StopTheRun, match=r"no\.") as caught:
                await world.tasks[name]
            assert caught.value.kind == kind
        assert world.names == ["a"]

    within(lambda: World(concurrency=1), steps)


def test_k50_a_model_that_is_gone_stops_its_own_callers_alone() -> None:
    async def steps(world: World) -> None:
        world.ask("a", model="gone")
        world.ask("b", model="gone")
        world.ask("c", model="here")
        await settle()
        await world.end("a", infra_error("not_found", "gone."))
        assert world.names == ["a", "c"]
        with pytest.raises(StopTheRun, match="gone"):
            await world.tasks["b"]

    within(lambda: World(concurrency=1), steps)


def test_other_faults_change_nothing() -> None:
    async def steps(world: World) -> None:
        for name in "abc":
            world.ask(name)
        await settle()
        await world.end("a", infra_error("server_error", "oops."))
        await world.end("b", ValueError("a fault of ours"))
        assert (world.limiter.window, world.names) == (2, ["a", "b", "c"])

    within(lambda: World(concurrency=2), steps)


def test_the_time_in_the_queue_is_told_apart() -> None:
    async def steps(world: World) -> None:
        waited: list[float] = []

        async def late() -> None:
            async with world.limiter.slot("m") as place:
                waited.append(place.waited_s)

        world.ask("a")
        await settle()
        task = asyncio.get_running_loop().create_task(late())
        await world.clock.move(7)
        await world.end("a")
        await task
        assert waited == [7.0]

    within(lambda: World(concurrency=1), steps)


def test_one_address_and_key_has_one_gate_and_the_key_is_not_kept() -> None:
    limiters = Limiters(lambda: Limiter(concurrency=1, jitter=random.Random(1)))
    gate = limiters.of("https://a.example/v1", "canary-key")
    assert limiters.of("https://a.example/v1/", "canary-key") is gate
    others = [limiters.of("https://a.example/v1", "another"), limiters.of("https://b.example/v1", "canary-key")]
    assert len({id(gate), *map(id, others), id(limiters.of("https://a.example/v1", None))}) == 4
    assert "canary" not in repr(vars(limiters))


def test_the_running_loop_is_the_clock_unless_another_is_given() -> None:
    async def main() -> list[float]:
        limiter = Limiter(concurrency=1, jitter=random.Random(1))
        times: list[float] = []
        loop = asyncio.get_running_loop()

        async def one(error: InfraError | None) -> None:
            async with limiter.slot("m"):
                times.append(loop.time())
                if error is not None:
                    raise error

        with pytest.raises(InfraError):
            await one(rate_limited(0.05))
        await one(None)
        return times

    first, second = asyncio.run(main())
    assert second - first >= 0.05
