"""One experiment has one owner at a time.

Every owner gets a higher fencing number, and every write checks it: a process that was stopped for minutes and wakes up
finds its number old and writes nothing. Ages are by the database's clock, so no two machines' clocks are compared.

A process that is seen to be gone loses its lease at once; one that cannot be seen from here loses it when it was silent
for LEASE_S. Never the other way round: not being seen is no proof of death.
"""

from __future__ import annotations

import os
import socket
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil
from sqlalchemy import Connection, Engine, func, insert, select, text, update

from fairtrial.errors import ConflictError
from fairtrial.store.database import lock_alone
from fairtrial.store.tables import LeaseRow, table_of

LEASE_S: Final = 60.0
HEARTBEAT_S: Final = 10.0

_LEASE: Final = table_of(LeaseRow)
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class Owner:
    """A process that can own experiments; its start tells it from a later one with the same pid.

    process_started     seconds since the boot on Linux, since the epoch elsewhere
    boot_id             names a boot and a pid namespace: only processes that share it can see each other
    """

    owner: str
    host: str
    pid: int
    process_started: float
    boot_id: str


@dataclass(frozen=True, slots=True)
class Lease:
    """Ownership of one experiment. `taken_from` says whose dead lease it was, in words, or is None."""

    experiment: str
    fence: int
    taken_from: str | None


def this_process() -> Owner:
    """Return this process as an owner."""
    return Owner(
        owner=uuid.uuid4().hex,
        host=socket.gethostname(),
        pid=os.getpid(),
        process_started=_start_of(psutil.Process()),
        boot_id=_boot_id(),
    )


def acquire(engine: Engine, experiment: str, owner: Owner) -> Lease:
    """Take the experiment, from a dead owner if need be.

    Raises ConflictError (run_owned) naming host, pid and last sign of life when a live process has it, StoreError.
    """
    with engine.connect().execution_options(writes=True) as connection, connection.begin():
        lock_alone(connection)
        # Locked: a commit of the owner that is under way counts as a sign of life.
        query = select(_LEASE).where(_LEASE.c.experiment == experiment).with_for_update()
        found = connection.execute(query).mappings().first()
        now = database_clock(connection)
        row = {**_as_row(owner), "acquired_at": now, "heartbeat_at": now, "released": False}
        if found is None:
            connection.execute(insert(_LEASE).values(experiment=experiment, fence=1, **row))
            return Lease(experiment, fence=1, taken_from=None)
        held = Owner(found.owner, found.host, found.pid, found.process_started, found.boot_id)
        age_s = now - found.heartbeat_at
        if not found.released and _is_alive(held, age_s=age_s, here=owner):
            raise ConflictError(
                f"{experiment} is being run by process {held.pid} on {held.host}, last seen {max(age_s, 0):.0f} s ago.",
                hint="Wait for it, or end that process; then resume.",
            )
        fence = found.fence + 1
        connection.execute(update(_LEASE).where(_LEASE.c.experiment == experiment).values(fence=fence, **row))
        taken = None if found.released else f"process {held.pid} on {held.host}, last seen {max(age_s, 0):.0f} s ago"
        return Lease(experiment, fence=fence, taken_from=taken)


def check_fence(connection: Connection, experiment: str, fence: int) -> None:
    """Raise ConflictError when the experiment has a newer owner; called inside every writing transaction.

    Until that transaction ends nobody can become one: SQLite has one writer at a time, Postgres locks the row.
    """
    query = select(_LEASE.c.fence).where(_LEASE.c.experiment == experiment).with_for_update()
    current = connection.execute(query).scalar()
    if current != fence:
        raise ConflictError(
            f"another process has taken over {experiment} while this one was away.",
            hint="Nothing more was written here; the other process goes on.",
        )


def beat(connection: Connection, experiment: str, fence: int) -> None:
    """Renew the lease, after check_fence in the same transaction."""
    now = database_clock(connection)
    connection.execute(
        update(_LEASE).where(_LEASE.c.experiment == experiment, _LEASE.c.fence == fence).values(heartbeat_at=now)
    )


def release(connection: Connection, experiment: str, fence: int) -> None:
    """Give the experiment back, so that the next owner need not wait."""
    connection.execute(
        update(_LEASE).where(_LEASE.c.experiment == experiment, _LEASE.c.fence == fence).values(released=True)
    )


def give_back(engine: Engine, experiment: str, fence: int) -> None:
    """Release a lease that no writer holds. Raises StoreError."""
    with engine.connect().execution_options(writes=True) as connection, connection.begin():
        release(connection, experiment, fence)


def database_clock(connection: Connection) -> float:
    """Return the database's time in seconds since the epoch."""
    if connection.dialect.name == "sqlite":
        return float(connection.execute(text("select (julianday('now') - 2440587.5) * 86400.0")).scalar_one())
    return float(connection.execute(select(func.extract("epoch", func.clock_timestamp()))).scalar_one())


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds an experiment now, for lists. held_s and last_seen_s are seconds ago, by the database's clock."""

    host: str
    pid: int
    last_seen_s: float
    alive: bool
    fence: int
    held_s: float


def holder(connection: Connection, experiment: str) -> Holder | None:
    """Return the owner of an experiment that was not given back, or None."""
    found = connection.execute(select(_LEASE).where(_LEASE.c.experiment == experiment)).mappings().first()
    if found is None or found.released:
        return None
    held = Owner(found.owner, found.host, found.pid, found.process_started, found.boot_id)
    now = database_clock(connection)
    age_s = max(now - found.heartbeat_at, 0.0)
    here = Owner("", socket.gethostname(), 0, 0.0, _boot_id())
    return Holder(
        host=held.host,
        pid=held.pid,
        last_seen_s=age_s,
        alive=_is_alive(held, age_s=age_s, here=here),
        fence=found.fence,
        held_s=max(now - found.acquired_at, 0.0),
    )


def _is_alive(held: Owner, *, age_s: float, here: Owner) -> bool:
    if (held.host, held.boot_id) == (here.host, here.boot_id) and _is_gone(held):
        return False
    # A heartbeat from the future is from before the clock was put back; a live owner corrects it with its next one.
    return abs(age_s) < LEASE_S


def _is_gone(held: Owner) -> bool:
    try:
        process = psutil.Process(held.pid)
        # A zombie does nothing any more; its parent has only not asked how it ended.
        if process.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD):
            return True
        return abs(_start_of(process) - held.process_started) > 1.0
    except (psutil.Error, OSError):
        return not _exists(held.pid)


def _exists(pid: int) -> bool:
    # Asked of the system itself: /proc may hide the processes of other users.
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _start_of(process: psutil.Process) -> float:
    """Return when a process started, on Linux by a clock that nobody sets: psutil's own moves with the wall clock."""
    if not _BOOT_ID.exists():
        return process.create_time()
    # proc(5): field 22; the fields behind the name's last bracket begin with the third.
    fields = Path(f"/proc/{process.pid}/stat").read_bytes().rpartition(b")")[2].split()
    return int(fields[19]) / os.sysconf("SC_CLK_TCK")


def _as_row(owner: Owner) -> dict[str, object]:
    return {
        "owner": owner.owner,
        "host": owner.host,
        "pid": owner.pid,
        "process_started": owner.process_started,
        "boot_id": owner.boot_id,
    }


def _boot_id() -> str:
    if not _BOOT_ID.exists():
        return f"{psutil.boot_time():.0f}"
    return f"{_BOOT_ID.read_text(encoding='ascii').strip()} {Path('/proc/self/ns/pid').readlink()}"
