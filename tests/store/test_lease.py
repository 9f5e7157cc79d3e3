"""One owner at a time: who may take over, when, and what the one before can still do."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, text

from fairtrial.errors import ConflictError
from fairtrial.ids import new_experiment_id
from fairtrial.store.lease import LEASE_S, acquire, database_clock, holder, release, this_process
from fairtrial.store.writer import Write, Writer

OWNER = """
    import asyncio, os, signal, sys
    from fairtrial.errors import FairtrialError
    from fairtrial.store.database import open_database
    from fairtrial.store.lease import acquire, this_process
    from fairtrial.store.writer import Write, Writer

    engine = open_database(sys.argv[1])
    print("ready", flush=True)
    for line in sys.stdin:
        try:
            lease = acquire(engine, line.strip(), this_process())
            print("fence", lease.fence, lease.taken_from, flush=True)
        except FairtrialError as error:
            print(error.code, error, flush=True)
"""


@pytest.fixture
def experiment() -> str:
    return new_experiment_id()


def set_lease(engine: Engine, experiment: str, **columns: object) -> None:
    """Write into the row of the lease what time or another machine would have written."""
    assignments = ", ".join(f"{name} = :{name}" for name in columns)
    with engine.begin() as connection:
        connection.execute(text(f"update lease set {assignments} where experiment = :e"), {"e": experiment} | columns)


def age(engine: Engine, experiment: str, seconds: float) -> None:
    """Make the last sign of life that old, by the database's clock."""
    with engine.connect() as connection:
        now = database_clock(connection)
    set_lease(engine, experiment, heartbeat_at=now - seconds)


def test_a_first_owner_gets_it_and_a_second_is_told_who_has_it(
    child: Any, database_url: str, engine: Engine, experiment: str
) -> None:
    first = child(OWNER, database_url)
    assert first.line() == "ready"
    first.tell(experiment)
    assert first.line() == "fence 1 None"
    with pytest.raises(ConflictError) as refused:
        acquire(engine, experiment, this_process())
    assert (refused.value.code, refused.value.exit_status) == ("run_owned", 64)
    assert f"process {first.process.pid} on {socket.gethostname()}" in refused.value.message
    assert "last seen 0 s ago" in refused.value.message


def test_r09_a_killed_owner_is_taken_over_at_once_also_while_it_is_a_zombie(
    child: Any, database_url: str, engine: Engine, experiment: str
) -> None:
    first = child(OWNER, database_url)
    first.line()
    first.tell(experiment)
    assert first.line() == "fence 1 None"
    os.kill(first.process.pid, signal.SIGKILL)
    # Nobody has asked for its exit status yet: its pid is still in the process table.
    os.waitid(os.P_PID, first.process.pid, os.WEXITED | os.WNOWAIT)
    lease = acquire(engine, experiment, this_process())
    assert lease.fence == 2
    assert f"process {first.process.pid} on {socket.gethostname()}" in (lease.taken_from or "")
    first.process.wait()


def test_a_process_that_has_the_pid_of_a_dead_owner_is_not_that_owner(engine: Engine, experiment: str) -> None:
    mine = this_process()
    acquire(engine, experiment, mine)
    set_lease(engine, experiment, process_started=mine.process_started - 5.0)
    assert acquire(engine, experiment, mine).fence == 2


def test_r18_the_start_of_a_process_does_not_move_with_the_wall_clock() -> None:
    # /proc/stat btime moves when the clock is set; ticks since the boot do not, and this process started after it.
    uptime = float(Path("/proc/uptime").read_text(encoding="ascii").split()[0])
    assert 0 < this_process().process_started < uptime


@pytest.mark.parametrize(
    ("silent_s", "taken"), [(0.0, False), (30.0, False), (LEASE_S - 3, False), (LEASE_S + 1, True), (86_400.0, True)]
)
@pytest.mark.parametrize("where", ["another host", "another boot", "another container", "this process"])
def test_who_cannot_be_seen_or_does_not_beat_loses_it_after_one_lease_of_silence(
    engine: Engine, experiment: str, where: str, silent_s: float, taken: bool
) -> None:
    mine = this_process()
    owners = {
        "another host": replace(mine, host="elsewhere", pid=1),
        # The same host name after a restart, or on a machine that has the same name: which, cannot be told.
        "another boot": replace(mine, boot_id="00000000-0000-0000-0000-000000000000 pid:[1]", pid=999_999_999),
        "another container": replace(mine, boot_id=mine.boot_id.split(" ")[0] + " pid:[1]", pid=999_999_999),
        # Alive by the process table and silent: stopped, or stuck.
        "this process": mine,
    }
    acquire(engine, experiment, owners[where])
    age(engine, experiment, silent_s)
    if taken:
        assert acquire(engine, experiment, this_process()).fence == 2
    else:
        with pytest.raises(ConflictError):
            acquire(engine, experiment, this_process())


@pytest.mark.parametrize(("ahead_s", "taken"), [(5.0, False), (86_400.0, True)])
def test_r18_a_clock_that_was_put_back_blocks_nobody_for_a_day(
    engine: Engine, experiment: str, ahead_s: float, taken: bool
) -> None:
    acquire(engine, experiment, replace(this_process(), host="elsewhere"))
    age(engine, experiment, -ahead_s)
    if taken:
        assert "last seen 0 s ago" in (acquire(engine, experiment, this_process()).taken_from or "")
    else:
        with pytest.raises(ConflictError, match="last seen 0 s ago"):
            acquire(engine, experiment, this_process())


def test_a_lease_that_was_given_back_is_taken_from_nobody(engine: Engine, experiment: str) -> None:
    acquire(engine, experiment, this_process())
    with engine.begin() as connection:
        release(connection, experiment, 1)
        assert holder(connection, experiment) is None
    lease = acquire(engine, experiment, this_process())
    assert (lease.fence, lease.taken_from) == (2, None)


def test_giving_back_an_old_lease_leaves_the_new_owner_alone(engine: Engine, experiment: str) -> None:
    acquire(engine, experiment, this_process())
    age(engine, experiment, LEASE_S + 1)
    acquire(engine, experiment, this_process())
    with engine.begin() as connection:
        release(connection, experiment, 1)
        found = holder(connection, experiment)
    assert found is not None
    assert found.alive


def test_k12_lists_see_whether_the_owner_lives(engine: Engine, experiment: str) -> None:
    with engine.connect() as connection:
        assert holder(connection, experiment) is None
    acquire(engine, experiment, this_process())
    for silent_s, alive in ((0.0, True), (30.0, True), (90.0, False)):
        age(engine, experiment, silent_s)
        with engine.connect() as connection:
            found = holder(connection, experiment)
        assert found is not None
        assert (found.pid, found.host, found.alive) == (os.getpid(), socket.gethostname(), alive)
        assert found.last_seen_s == pytest.approx(silent_s, abs=2.0)


@pytest.mark.fire
def test_r08_of_two_processes_that_start_at_once_exactly_one_gets_it(
    child: Any, database_url: str, engine: Engine
) -> None:
    pair = [child(OWNER, database_url) for _ in range(2)]
    assert [each.line() for each in pair] == ["ready", "ready"]
    for number in range(50):
        experiment = new_experiment_id()
        if number % 2:
            # Every other one was left behind by an owner that is dead.
            acquire(engine, experiment, replace(this_process(), pid=999_999_999))
        for each in pair:
            each.tell(experiment)
        answers = sorted(each.line().split(" ")[0] for each in pair)
        assert answers == ["fence", "run_owned"]


def row(experiment: str, case: int, fence: int) -> Write:
    columns = {"experiment": experiment, "arm": "main", "case_id": f"k{case}", "repetition": 1, "attempt": 1}
    return Write({"attempt": [columns | {"fence": fence, "started_at": 1.0, "outcome": None, "error_kind": None}]})


def test_r09_what_an_owner_writes_after_it_lost_the_lease_is_refused_all_of_it(
    engine: Engine, experiment: str, ask: Any
) -> None:
    lease = acquire(engine, experiment, this_process())
    writer = Writer(engine, experiment, lease.fence)

    async def main() -> None:
        await writer.write(row(experiment, 0, 1))
        age(engine, experiment, LEASE_S + 1)
        assert acquire(engine, experiment, this_process()).fence == 2
        results = await asyncio.gather(
            *(writer.write(row(experiment, n, 1)) for n in range(1, 65)), return_exceptions=True
        )
        assert {type(result) for result in results} == {ConflictError}
        with pytest.raises(ConflictError, match="taken over"):
            await writer.write(row(experiment, 100, 1))

    asyncio.run(main())
    writer.close()
    writer.close()
    assert ask("select case_id, fence from attempt") == [("k0", 1)]
    # The loser did not give back what is no longer its own.
    assert ask("select fence, released from lease") == [(2, 0)]


STOPPED = """
    import asyncio, os, signal, sys
    from fairtrial.errors import FairtrialError
    from fairtrial.store.database import open_database
    from fairtrial.store.lease import acquire, this_process
    from fairtrial.store.writer import Write, Writer

    engine, experiment = open_database(sys.argv[1]), sys.argv[2]
    writer = Writer(engine, experiment, acquire(engine, experiment, this_process()).fence)

    async def main():
        for number in range(20):
            columns = {"experiment": experiment, "arm": "main", "case_id": f"k{number}", "repetition": 1, "attempt": 1}
            rest = {"fence": 1, "started_at": 1.0, "outcome": None, "error_kind": None}
            await writer.write(Write({"attempt": [columns | rest]}))
            print("stored", flush=True)
            if number == 9:
                os.kill(os.getpid(), signal.SIGSTOP)

    try:
        asyncio.run(main())
    except FairtrialError as error:
        print(error.code, flush=True)
    writer.close()
    print("closed", flush=True)
"""


@pytest.mark.fire
def test_r09_an_owner_that_was_stopped_finds_its_lease_gone_when_it_wakes(
    child: Any, database_url: str, engine: Engine, experiment: str, ask: Any
) -> None:
    stopped = child(STOPPED, database_url, experiment)
    assert [stopped.line() for _ in range(10)] == ["stored"] * 10
    while "T" not in state_of(stopped.process.pid):
        time.sleep(0.01)
    with pytest.raises(ConflictError):
        acquire(engine, experiment, this_process())
    # Two leases of silence, without waiting for them.
    age(engine, experiment, 2 * LEASE_S)
    lease = acquire(engine, experiment, this_process())
    assert lease.fence == 2
    writer = Writer(engine, experiment, lease.fence)
    asyncio.run(writer.write(row(experiment, 100, 2)))
    os.kill(stopped.process.pid, signal.SIGCONT)
    assert stopped.rest() == "run_owned\nclosed\n"
    writer.close()
    # Ten rows of the first owner, all from before; the second owner's is untouched.
    assert ask("select fence, count(*) from attempt group by fence order by fence") == [(1, 10), (2, 1)]


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]


def test_the_writer_keeps_the_lease_alive_while_nothing_is_written(
    engine: Engine, experiment: str, monkeypatch: pytest.MonkeyPatch, ask: Any
) -> None:
    monkeypatch.setattr("fairtrial.store.writer.HEARTBEAT_S", 0.05)
    writer = Writer(engine, experiment, acquire(engine, experiment, this_process()).fence)
    age(engine, experiment, 59.0)
    deadline = time.monotonic() + 10
    while holder_age(engine, experiment) > 5 and time.monotonic() < deadline:
        time.sleep(0.02)
    assert holder_age(engine, experiment) < 5
    writer.close()
    assert ask("select released from lease") == [(1,)]


def holder_age(engine: Engine, experiment: str) -> float:
    with engine.connect() as connection:
        found = holder(connection, experiment)
    assert found is not None
    return found.last_seen_s


def test_the_databases_clock_is_fine_enough_for_a_lease(engine: Engine) -> None:
    with engine.connect() as connection:
        before, shown, after = time.time(), database_clock(connection), time.time()
    # SQLite counts in milliseconds; a day number above 2**21 in a double is off by at most 2**-32 days: 20 us.
    assert before - 0.002 < shown < after + 0.002


def test_an_owner_names_itself_anew_each_time() -> None:
    first, second = this_process(), this_process()
    assert first.owner != second.owner
    assert replace(first, owner="") == replace(second, owner="")
