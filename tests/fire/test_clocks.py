"""Wall clocks that jump, the database's with them: a run measures and waits by the monotonic clock alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from fairtrial.hashing import parse_canonical
from tests.rig.clocks import PATTERNS
from tests.rig.history import check, history_of, part_of
from tests.rig.lanes import Lane, in_lanes
from tests.rig.meter import Knobs

LANES: Final = 3
IN_FLIGHT: Final = 4


def shared_out(work: Callable[[Lane, str], None], before: Callable[[Lane], Any] = lambda _lane: None) -> Any:
    """Return what each lane does: its share of the patterns, one after the other."""

    def lane_of(number: int) -> Callable[[Lane], None]:
        def run(lane: Lane) -> None:
            before(lane)
            for pattern in list(PATTERNS)[number::LANES]:
                work(lane, pattern)

        return run

    return [lane_of(number) for number in range(LANES)]


def test_r18_g19_under_twenty_jumping_clocks_a_killed_run_comes_to_the_same_verdict(tmp_path: Path) -> None:
    bodies: dict[Lane, bytes] = {}

    def whole(lane: Lane) -> None:
        record = lane.bench.make(24, limits={"trial_timeout_s": 20.0})
        assert lane.zygote.start(lane.bench.options(record.id, concurrency=IN_FLIGHT)).wait() == 0
        bodies[lane] = lane.bench.body(record.id)

    def work(lane: Lane, pattern: str) -> None:
        bench = lane.bench
        record = bench.make(24, limits={"trial_timeout_s": 20.0})
        options = bench.options(record.id, concurrency=IN_FLIGHT, clock=pattern, heartbeat_s=0.05)
        first = lane.zygote.start(options)
        bench.meter.wait_for(12, experiment=record.id)
        first.kill()
        second = lane.zygote.start(options)
        # Its lease is its own to the end, however old its heartbeats look.
        assert second.wait() == 0, (pattern, second.lines)
        assert bench.body(record.id) == bodies[lane], pattern
        check(history_of(bench, record.id, [part_of(first), part_of(second)], concurrency=IN_FLIGHT))
        trials = bench.table("trial", record.id)
        assert {row["error_kind"] for row in trials} <= {None, "exit_code"}, pattern
        assert all(0 <= row["latency_s"] < 20 for row in trials), pattern
        document: Any = parse_canonical(bench.objects.get(f"experiments/{record.id}/verdict.json") or b"")
        assert document["meta"]["duration_s"] >= 0, pattern

    in_lanes(tmp_path, Knobs(delay_s=0.06, fail_share=0.05), shared_out(work, whole))


def test_r18_g19_a_trial_s_time_limit_fires_neither_early_nor_late(tmp_path: Path) -> None:
    def work(lane: Lane, pattern: str) -> None:
        bench = lane.bench
        record = bench.make(2, limits={"trial_timeout_s": 0.5})
        running = lane.zygote.start(bench.options(record.id, concurrency=2, clock=pattern, heartbeat_s=0.05))
        assert running.wait() == 0, (pattern, running.lines)
        trials = bench.table("trial", record.id)
        assert [row["error_kind"] for row in trials] == ["timeout"] * 2, pattern
        # The limit, and the second that a loaded machine may be late by.
        assert all(0.45 <= row["latency_s"] < 1.5 for row in trials), (pattern, trials)

    in_lanes(tmp_path, Knobs(delay_s=30.0), shared_out(work))
