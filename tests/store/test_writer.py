"""The one writer: what it says is stored is stored, and whatever goes wrong nobody waits for ever."""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine

from fairtrial.errors import ConflictError, FairtrialError, StoreError
from fairtrial.records.experiment import ExperimentRecord
from fairtrial.store import writer as writer_module
from fairtrial.store.database import open_database, sqlite_url
from fairtrial.store.experiments import summaries_of
from fairtrial.store.lease import LEASE_S, acquire, this_process
from fairtrial.store.writer import Write, Writer

OUTCOMES = ("graded", "agent_failure", "infra_loss", "ungraded")
COLUMN_OF = dict(zip(OUTCOMES, ("n_graded", "n_agent_failures", "n_infra_losses", "n_ungraded"), strict=True))


def writer_for(engine: Engine, record: ExperimentRecord) -> Writer:
    return Writer(engine, record.id, acquire(engine, record.id, this_process()).fence)


def begun(record: ExperimentRecord, number: int, *, arm: str = "main", attempt: int = 1) -> Write:
    columns = {"experiment": record.id, "arm": arm, "case_id": f"k{number:05d}", "repetition": 1, "attempt": attempt}
    return Write({"attempt": [columns | {"fence": 1, "started_at": 1.5, "outcome": None, "error_kind": None}]})


def done(record: ExperimentRecord, number: int, *, arm: str = "main", tokens: int | None = None) -> Write:
    """A finished trial with its count; which outcome it has follows from its number."""
    outcome = OUTCOMES[number % 4]
    value = {"graded": float(number % 8 == 0), "agent_failure": 0.0}.get(outcome)
    row = {
        "experiment": record.id,
        "arm": arm,
        "case_id": f"k{number:05d}",
        "repetition": 1,
        "state": "done",
        "outcome": outcome,
        "value": value,
        "error_kind": None,
        "attempt": 1,
        "fence": 1,
        "latency_s": 0.25,
        "input_tokens": tokens,
        "output_tokens": None,
        "cost_usd": "0.10",
        "started_at": 1.5,
        "finished_at": 2.5,
    }
    counts = Counter({(arm, "n_done"): 1, (arm, COLUMN_OF[outcome]): 1})
    if value == 1.0:
        counts[arm, "n_passed"] = 1
    return Write({"trial": [row]}, counts)


def run(writer: Writer, *writes: Write) -> list[object]:
    """Write all at once and return what came of each."""

    async def main() -> list[object]:
        return await asyncio.wait_for(
            asyncio.gather(*(writer.write(each) for each in writes), return_exceptions=True), 120
        )

    return asyncio.run(main())


def test_k69_sixty_four_writers_share_few_commits_and_every_row_is_there(engine: Engine, make: Any, ask: Any) -> None:
    record = make(arms=("base", "cand"), n_cases=1000)
    writer = writer_for(engine, record)

    async def one(lane: int) -> None:
        for step in range(20):
            await writer.write(begun(record, lane * 20 + step))
            await writer.write(done(record, lane * 20 + step, arm=("base", "cand")[lane % 2]))

    async def main() -> None:
        await asyncio.gather(*(one(lane) for lane in range(64)))

    asyncio.run(main())
    writer.close()
    # 64 lanes x 20 trials x 2 writes, by hand; with one commit a write there would be 2,560.
    assert writer.commits < 2560 / 8
    assert ask("select count(*) from attempt") == ask("select count(*) from trial") == [(1280,)]


def test_the_totals_are_those_of_the_rows(engine: Engine, make: Any, ask: Any) -> None:
    record = make(arms=("base", "cand"), n_cases=1000)
    writer = writer_for(engine, record)
    assert run(writer, *(done(record, n, arm=("base", "cand")[n % 3 == 0]) for n in range(500))) == [None] * 500
    writer.close()
    with engine.connect() as connection:
        totals = {summary.arm: summary for summary in summaries_of(connection, [record.id])[record.id]}
    assert set(totals) == {"base", "cand"}
    for arm, summary in totals.items():
        counted = dict(ask("select outcome, count(*) from trial where arm = :a group by outcome", a=arm))
        assert {outcome: getattr(summary, COLUMN_OF[outcome]) for outcome in OUTCOMES} == counted
        assert summary.n_done == sum(counted.values())
        assert [(summary.n_passed,)] == ask("select count(*) from trial where arm = :a and value = 1", a=arm)


def test_a_lone_write_does_not_wait_for_company(engine: Engine, make: Any) -> None:
    record = make()
    writer = writer_for(engine, record)
    took = []
    for number in range(10):
        began = time.monotonic()
        assert run(writer, begun(record, number)) == [None]
        took.append(time.monotonic() - began)
    writer.close()
    # The quickest tells what the writer itself adds: not the 50 ms that it may group for when busy.
    assert min(took) < 0.05
    assert writer.commits == 11


READER = """
    import sqlite3, sys
    from fairtrial.store.database import open_database
    from fairtrial.store.experiments import list_experiments, summaries_of

    engine = open_database(sys.argv[1])
    print("ready", flush=True)
    reads, totals = 0, []
    sys.stdin.readline()
    while True:
        with engine.connect() as connection:
            ids = [record.id for record in list_experiments(connection, limit=10)]
            found = summaries_of(connection, ids)[ids[0]][0]
            rows = connection.exec_driver_sql("select count(*) from trial").scalar()
        # One transaction sees one state: rows and totals are of the same commit.
        assert found.n_done == rows, (found.n_done, rows)
        totals.append(rows)
        reads += 1
        if rows == int(sys.argv[2]):
            break
    assert totals == sorted(totals)
    print("reads", reads, flush=True)
"""


def test_k69_a_process_that_reads_all_the_time_never_meets_a_lock(
    child: Any, engine: Engine, make: Any, database_url: str
) -> None:
    record = make(n_cases=2000)
    reader = child(READER, database_url, 2000)
    assert reader.line() == "ready"
    writer = writer_for(engine, record)
    reader.tell("go")
    for start in range(0, 2000, 50):
        assert run(writer, *(done(record, n) for n in range(start, start + 50))) == [None] * 50
    writer.close()
    assert reader.line().startswith("reads ")


KILLED = """
    import asyncio, sys
    from fairtrial.store.database import open_database
    from fairtrial.store.lease import acquire, this_process
    from fairtrial.store.writer import Write, Writer

    engine, experiment = open_database(sys.argv[1]), sys.argv[2]
    fence = acquire(engine, experiment, this_process()).fence
    writer = Writer(engine, experiment, fence)

    async def lane(number):
        step = 0
        while True:
            case = f"{fence}-{number}-{step}"
            columns = {"experiment": experiment, "arm": "main", "case_id": case, "repetition": 1, "attempt": 1}
            rest = {"fence": fence, "started_at": 1.0, "outcome": None, "error_kind": None}
            await writer.write(Write({"attempt": [columns | rest]}))
            sys.stdout.write(case + "\\n")
            sys.stdout.flush()
            step += 1

    async def main():
        await asyncio.gather(*(lane(number) for number in range(16)))

    asyncio.run(main())
"""


@pytest.mark.fire
def test_a1_killed_at_random_every_write_that_was_acknowledged_is_there(
    child: Any, engine: Engine, make: Any, database_url: str, ask: Any
) -> None:
    record = make()
    chance = random.Random(3)
    acknowledged: set[str] = set()
    for _ in range(5):
        killed = child(KILLED, database_url, record.id)
        acknowledged.add(killed.line())
        time.sleep(chance.uniform(0.02, 0.3))
        killed.process.kill()
        # What stands in the pipe was said before the end; a line cut by the kill was not.
        acknowledged.update(killed.rest().split("\n")[:-1])
        stored = {case for (case,) in ask("select case_id from attempt")}
        assert acknowledged <= stored
        # Of each lane at most the one write in flight is there without a word of it.
        assert len(stored - acknowledged) <= 16 * 5
    assert len(acknowledged) > 100
    if engine.dialect.name == "sqlite":
        assert ask("pragma integrity_check") == [("ok",)]


HOLDER = """
    import sqlite3, sys, time
    connection = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=60)
    connection.execute("begin immediate")
    print("locked", flush=True)
    time.sleep(3)
    connection.execute("rollback")
"""


@pytest.mark.parametrize("backend", ["sqlite"])
def test_r19_a_lock_held_from_outside_delays_and_loses_nothing(
    child: Any, engine: Engine, make: Any, db_path: Path, ask: Any
) -> None:
    record = make()
    writer = writer_for(engine, record)
    assert child(HOLDER, db_path).line() == "locked"
    began = time.monotonic()
    assert run(writer, *(done(record, n) for n in range(64))) == [None] * 64
    assert time.monotonic() - began > 2
    writer.close()
    assert ask("select count(*) from trial") == [(64,)]


def test_r07_a_write_that_is_repeated_leaves_one_row_with_its_last_values(engine: Engine, make: Any, ask: Any) -> None:
    record = make()
    writer = writer_for(engine, record)
    first, second = begun(record, 1), begun(record, 1)
    second.rows["attempt"][0]["outcome"] = "infra_loss"
    for write in (first, first, second):
        assert run(writer, write) == [None]
    # Twice in one commit too.
    assert run(writer, second, second) == [None, None]
    writer.close()
    assert ask("select case_id, attempt, outcome from attempt") == [("k00001", 1, "infra_loss")]


def test_a_commit_that_fails_fails_every_write_that_waited_for_it_and_every_later_one(
    engine: Engine, make: Any, ask: Any
) -> None:
    record = make()
    writer = writer_for(engine, record)
    assert run(writer, done(record, 0)) == [None]
    # More than 64 bits: SQLite's driver refuses it with an error that is none of the database's.
    results = run(writer, *(done(record, n, tokens=2**70 if n == 20 else 1) for n in range(1, 40)))
    failed = [result for result in results if result is not None]
    assert failed
    assert {type(each) for each in failed} == {StoreError}
    code = "internal" if engine.dialect.name == "sqlite" else "store_unavailable"
    assert {each.code for each in failed if isinstance(each, FairtrialError)} == {code}
    assert results[19] in failed
    (later,) = run(writer, done(record, 50))
    assert isinstance(later, StoreError)
    writer.close()
    # What was acknowledged is there, nothing of the commit that failed is, and the totals agree.
    stored = ask("select count(*) from trial")
    assert stored == [(1 + len(results) - len(failed),)] == ask("select n_done from summary")


@pytest.mark.parametrize("backend", ["sqlite"])
def test_a_database_that_goes_away_before_the_first_commit_fails_the_write(
    make: Any, engine: Engine, tmp_path: Path
) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    other = open_database(sqlite_url(folder / "fairtrial.db"))
    record = make()
    other.dispose()
    folder.rename(tmp_path / "moved")
    writer = Writer(other, record.id, 1)
    (result,) = run(writer, begun(record, 1))
    assert isinstance(result, StoreError)
    assert "unable to open database file" in str(result)
    writer.close()


def test_an_experiment_without_a_lease_takes_no_writes(engine: Engine, make: Any, ask: Any) -> None:
    record = make()
    writer = Writer(engine, record.id, 1)
    (result,) = run(writer, begun(record, 1))
    assert isinstance(result, ConflictError)
    writer.close()
    assert ask("select count(*) from attempt") == [(0,)]


@pytest.mark.fire
@pytest.mark.parametrize("backend", ["sqlite"])
def test_r10_on_a_full_disk_what_was_acknowledged_stays_and_a_new_owner_goes_on(
    small_disk: Callable[..., Path], make: Any
) -> None:
    disk = small_disk(mb=2)
    engine = open_database(sqlite_url(disk / "fairtrial.db"))
    record = make(into=engine)
    filler = disk / "filler"
    filler.write_bytes(b"x" * 1024 * 512)
    writer = writer_for(engine, record)
    acknowledged, failure = 0, None
    while failure is None:
        results = run(writer, *(begun(record, acknowledged + n) for n in range(50)))
        acknowledged += results.count(None)
        failure = next((result for result in results if result is not None), None)
    assert isinstance(failure, StoreError)
    assert (failure.code, failure.exit_status) == ("no_space", 4)
    writer.close()
    engine.dispose()
    assert acknowledged > 100
    engine = open_database(sqlite_url(disk / "fairtrial.db"))
    with engine.connect() as connection:
        assert connection.exec_driver_sql("select count(*) from attempt").scalar() == acknowledged
        assert connection.exec_driver_sql("pragma integrity_check").scalar() == "ok"
    # The owner is this process, which lives; its lease was not given back, for that would have been a write.
    filler.unlink()
    with engine.begin() as connection:
        connection.exec_driver_sql(f"update lease set heartbeat_at = heartbeat_at - {LEASE_S}")
    writer = writer_for(engine, record)
    assert run(writer, begun(record, acknowledged)) == [None]
    writer.close()
    engine.dispose()


def test_close_commits_what_waits_and_gives_the_lease_back(engine: Engine, make: Any, ask: Any) -> None:
    record = make(n_cases=3000)
    writer = writer_for(engine, record)

    async def main() -> None:
        waiting = [asyncio.create_task(writer.write(done(record, n))) for n in range(2500)]
        # Let every task put its write into the queue, then close before one of them is answered.
        await asyncio.sleep(0)
        await asyncio.to_thread(writer.close)
        assert await asyncio.gather(*waiting) == [None] * 2500

    asyncio.run(main())
    assert ask("select count(*) from trial") == [(2500,)] == ask("select n_done from summary")
    assert ask("select released from lease") == [(1,)]
    # Writes beyond what one commit takes went into the next.
    assert writer.commits >= 2500 / writer_module.MOST_IN_ONE_COMMIT


def test_a_write_after_the_end_is_refused_and_closing_again_does_nothing(engine: Engine, make: Any) -> None:
    record = make()
    writer = writer_for(engine, record)
    writer.close()
    writer.close()
    (result,) = run(writer, begun(record, 1))
    assert isinstance(result, StoreError)
    assert "closed" in str(result)


@pytest.mark.parametrize("closers", [1, 3])
def test_writes_that_race_with_the_end_are_stored_or_refused(engine: Engine, make: Any, ask: Any, closers: int) -> None:
    record = make()
    writer = writer_for(engine, record)
    closing = [threading.Timer(0.05, writer.close) for _ in range(closers)]
    for timer in closing:
        timer.start()

    async def lane(number: int) -> int:
        stored = 0
        with contextlib.suppress(StoreError):
            while True:
                await writer.write(begun(record, number * 1000 + stored))
                stored += 1
        return stored

    async def main() -> int:
        return sum(await asyncio.wait_for(asyncio.gather(*(lane(n) for n in range(8))), 60))

    stored = asyncio.run(main())
    for timer in closing:
        timer.join()
    assert ask("select count(*) from attempt") == [(stored,)]


def test_a_caller_that_gives_up_waiting_disturbs_nobody(engine: Engine, make: Any, ask: Any) -> None:
    record = make()
    writer = writer_for(engine, record)

    async def main() -> None:
        impatient = asyncio.create_task(writer.write(begun(record, 1)))
        patient = asyncio.create_task(writer.write(begun(record, 2)))
        await asyncio.sleep(0)
        impatient.cancel()
        await patient
        with pytest.raises(asyncio.CancelledError):
            await impatient

    asyncio.run(main())
    # An event loop that has ended while its write waited is nobody's trouble either.
    loop = asyncio.new_event_loop()
    left = loop.create_task(writer.write(begun(record, 3)))
    loop.call_soon(loop.stop)
    loop.run_forever()
    left.cancel()
    loop.call_soon(loop.stop)
    loop.run_forever()
    loop.close()
    assert run(writer, begun(record, 4)) == [None]
    writer.close()
    assert ask("select count(*) from attempt") == [(4,)]


def test_two_event_loops_in_two_threads_share_the_writer(engine: Engine, make: Any, ask: Any) -> None:
    record = make()
    writer = writer_for(engine, record)
    results: list[list[object]] = []
    threads = [
        threading.Thread(target=lambda n=n: results.append(run(writer, *(begun(record, n + k) for k in range(50)))))
        for n in (0, 100)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    writer.close()
    assert results == [[None] * 50] * 2
    assert ask("select count(*) from attempt") == [(100,)]


def test_a_stale_lease_is_still_ours_until_somebody_takes_it(engine: Engine, make: Any, ask: Any) -> None:
    # A laptop that slept for an hour goes on where it was.
    record = make()
    writer = writer_for(engine, record)
    with engine.begin() as connection:
        connection.exec_driver_sql(f"update lease set heartbeat_at = heartbeat_at - {60 * LEASE_S}")
    assert run(writer, begun(record, 1)) == [None]
    writer.close()
    assert ask("select count(*) from attempt") == [(1,)]


def test_rows_for_a_table_nobody_writes_are_a_fault_of_ours_and_not_lost_in_silence(engine: Engine, make: Any) -> None:
    writer = writer_for(engine, make())
    (result,) = run(writer, Write({"atempt": [{}]}))
    assert isinstance(result, KeyError)
    writer.close()
