"""200 random `kill -9` on the bare engine, each resumed. A failing experiment is replayed alone by its seed:

FAIRTRIAL_TEST_SEED=<seed> pytest tests/fire/test_kills.py
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

import pytest

from fairtrial.hashing import parse_canonical
from fairtrial.store.experiments import summaries_of
from tests.rig.history import History, Part, Rejected, Takeover, check, history_of, part_of, takeover
from tests.rig.lanes import Lane, MakeLane, in_lanes
from tests.rig.meter import Knobs

N_KILLS: Final = 200
N_TRIALS: Final = 200
IN_FLIGHT: Final = 8
LANES: Final = 2
MOST_KILLS: Final = 8
"""Kills of one experiment; after these it runs to its end."""

FIRST_SEED: Final = 41_000
ARMS: Final = (("main",), ("base", "cand"))
KNOBS: Final = Knobs(delay_s=0.01, long_share=0.1, fail_share=0.05)


@dataclass(frozen=True)
class Swept:
    """One experiment that was killed and resumed to its end.

    lags            at each kill, trials that the killed part had paid for and whose answer is not stored
    said_repeats    repeated calls, as the stored verdict counts them
    ledger_extra    calls in the ledger besides the first one of each trial
    """

    seed: int
    kills: int
    lags: list[int]
    history: History
    same_body: bool
    said_repeats: int
    ledger_extra: int


@dataclass
class Pace:
    """How long runs take in one lane, measured anew with every part: seconds until it owns, and seconds a trial."""

    start_s: float
    trial_s: float

    def measure(self, part: Part, began: float) -> None:
        """Take a part's own times, when it did enough to tell."""
        if part.owned_at is not None and len(part.finished) >= 20:
            self.start_s = part.owned_at - began
            self.trial_s = (part.ended_at - part.owned_at) / len(part.finished)


@dataclass(frozen=True)
class Sweep:
    """All of them."""

    swept: list[Swept]
    seconds: float


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Sweep:
    """Kill until there were N_KILLS; every experiment has a seed of its own, printed with the figures."""
    began, load = time.monotonic(), os.getloadavg()[0]
    alone = os.environ.get("FAIRTRIAL_TEST_SEED")
    seeds = iter([int(alone)]) if alone else count(FIRST_SEED)
    kills_left = [N_KILLS]
    folder = tmp_path_factory.mktemp("sweep")
    works = [lambda lane: _lane(lane, seeds, kills_left)] * (1 if alone else LANES)
    swept = [each for lane in in_lanes(folder, KNOBS, works) for each in lane]
    found = Sweep(swept, time.monotonic() - began)
    n_kills = sum(each.kills for each in swept)
    repeats = sum(each.said_repeats for each in swept)
    print(
        f"\n{n_kills} kills over {len(swept)} experiments of {N_TRIALS} trials in {found.seconds:.0f} s "
        f"(load {load:.1f} at the start): {repeats} calls repeated, at most "
        f"{max((lag for each in swept for lag in each.lags), default=0)} paid and not stored at a kill; "
        f"seeds {min(each.seed for each in swept)} to {max(each.seed for each in swept)}"
    )
    return found


def _lane(lane: Lane, seeds: Iterator[int], kills_left: list[int]) -> list[Swept]:
    pace = Pace(0.0, 0.0)
    wholes = {arms: _whole(lane, arms, pace) for arms in ARMS}
    swept = []
    for seed in seeds:
        if kills_left[0] <= 0:
            break
        arms = ARMS[seed % len(ARMS)]
        swept.append(_sweep_one(lane, seed, arms, wholes[arms], pace))
        kills_left[0] -= swept[-1].kills
    return swept


def _whole(lane: Lane, arms: tuple[str, ...], pace: Pace) -> bytes:
    """Return the verdict of a run that nobody kills."""
    record = lane.bench.make(N_TRIALS // len(arms), arms=arms)
    running = lane.zygote.start(lane.bench.options(record.id, concurrency=IN_FLIGHT))
    assert running.wait() == 0, running.lines
    check(history_of(lane.bench, record.id, [part_of(running)], concurrency=IN_FLIGHT))
    pace.measure(part_of(running), running.began)
    return lane.bench.body(record.id)


def _sweep_one(lane: Lane, seed: int, arms: tuple[str, ...], whole: bytes, pace: Pace) -> Swept:
    bench, chance = lane.bench, random.Random(seed)
    record = bench.make(N_TRIALS // len(arms), arms=arms)
    parts: list[Part] = []
    takeovers: list[Takeover] = []
    lags: list[int] = []
    while True:
        stored = bench.table("trial", record.id)
        left = N_TRIALS - sum(row["state"] == "done" for row in stored)
        running = lane.zygote.start(bench.options(record.id, concurrency=IN_FLIGHT))
        # Uniform over how long this part would take by the last one's pace.
        after_s = chance.uniform(0.0, pace.start_s + pace.trial_s * left)
        if len(lags) == MOST_KILLS or running.wait_at_most(running.began + after_s - time.monotonic()):
            assert running.wait() == 0, (seed, running.lines[-3:])
            parts.append(part_of(running))
            break
        running.kill()
        part = part_of(running)
        pace.measure(part, running.began)
        parts.append(part)
        if not part.killed:
            # It came to its end in the moment between.
            assert part.status == 0, (seed, running.lines[-3:])
            break
        if part.fence is not None:
            takeovers.append(takeover(bench, record.id, part.fence + 1))
        kept = {
            (row["arm"], row["case_id"], row["repetition"]): row["state"] for row in bench.table("trial", record.id)
        }
        assert all(kept.get(key) == "done" for key in part.finished), (seed, "lost", part.finished)
        begun = [row for row in bench.table("attempt", record.id) if row["fence"] == part.fence]
        open_keys = {(row["arm"], row["case_id"], row["repetition"]) for row in begun} - kept.keys()
        paid = {call.key for call in bench.meter.calls(record.id)}
        lags.append(len(paid & {"/".join(map(str, key)) for key in open_keys}))
    more: dict[str, Any] = {"concurrency": IN_FLIGHT, "takeovers": takeovers}
    history = history_of(bench, record.id, parts, **more)
    document: Any = parse_canonical(bench.objects.get(f"experiments/{record.id}/verdict.json") or b"")
    return Swept(
        seed=seed,
        kills=len(lags),
        lags=lags,
        history=history,
        same_body=bench.body(record.id) == whole,
        said_repeats=document["meta"]["repeated_calls"],
        ledger_extra=len(history.calls) - len({call.key for call in history.calls}),
    )


@pytest.mark.timeout(600)
def test_k01_r01_g01_200_kills_lose_nothing_store_nothing_twice_and_give_the_same_verdict_bytes(sweep: Sweep) -> None:
    for each in sweep.swept:
        try:
            check(each.history)
        except Rejected as rejected:
            raise AssertionError(f"seed {each.seed}") from rejected
        assert each.same_body, f"seed {each.seed}: another verdict"
        assert len(each.history.trials) == N_TRIALS
    if "FAIRTRIAL_TEST_SEED" not in os.environ:
        assert sum(each.kills for each in sweep.swept) >= N_KILLS


@pytest.mark.timeout(600)
def test_a2_a_kill_repeats_at_most_the_calls_in_flight_and_the_verdict_counts_them(sweep: Sweep) -> None:
    for each in sweep.swept:
        n_repeated = len(each.history.attempts) - N_TRIALS
        assert n_repeated <= IN_FLIGHT * each.kills, f"seed {each.seed}"
        assert each.ledger_extra <= n_repeated, f"seed {each.seed}: paid more often than the journal knows"
        assert each.said_repeats == n_repeated, f"seed {each.seed}"


@pytest.mark.timeout(600)
def test_r06_a_kill_finds_at_most_the_calls_in_flight_paid_and_not_stored(sweep: Sweep) -> None:
    for each in sweep.swept:
        assert max(each.lags, default=0) <= IN_FLIGHT, f"seed {each.seed}: {each.lags}"


def test_r07_resumed_twice_more_a_finished_run_gets_no_row_no_call_and_the_same_verdict(make_lane: MakeLane) -> None:
    lane = make_lane(KNOBS)
    bench = lane.bench
    record = bench.make(12, arms=("base", "cand"))
    assert lane.zygote.start(bench.options(record.id)).wait() == 0
    body, calls = bench.body(record.id), bench.meter.calls()
    before = {name: bench.table(name, record.id) for name in ("attempt", "trial", "trial_output", "grade", "summary")}
    for _ in range(2):
        running = lane.zygote.start(bench.options(record.id))
        assert running.wait() == 0
        assert running.said("finished ") is None
    assert {name: bench.table(name, record.id) for name in before} == before
    assert (bench.body(record.id), bench.meter.calls()) == (body, calls)
    with bench.engine.connect() as connection:
        assert [arm.n_done for arm in summaries_of(connection, [record.id])[record.id]] == [12, 12]
