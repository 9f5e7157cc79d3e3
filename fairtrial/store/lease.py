"""One experiment has one owner at a time.

Every owner gets a higher fencing number, and every write checks it: a process that was stopped for minutes and wakes up
finds its number old and writes nothing. Ages are by the database's clock, so no two machines' clocks are compared.
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
from fairtrial.store.tables import LeaseRow, table_of

LEASE_S: Final = 60.0
HEARTBEAT_S: Final = 10.0

_LEASE: Final = table_of(LeaseRow)


@dataclass(frozen=True, slots=True)
class Owner:
    """A process that can own experiments; start time and boot id tell it from a later one with the same pid."""

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
        process_started=psutil.Process().create_time(),
        boot_id=_boot_id(),
    )


def acquire(engine: Engine, experiment: str, owner: Owner) -> Lease:
    """Take the experiment, from a dead owner if need be.

    Raises ConflictError (run_owned) naming host, pid and last sign of life when a live process has it.
    """
    with engine.connect().execution_options(writes=True) as connection, connection.begin():
        now = database_clock(connection)
        found = connection.execute(select(_LEASE).where(_LEASE.c.experiment == experiment)).mappings().first()
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
        taken = None if found.released else f"process {held.pid} on {held.host}, last seen {age_s:.0f} s ago"
        return Lease(experiment, fence=fence, taken_from=taken)


def check_fence(connection: Connection, experiment: str, fence: int) -> None:
    """Raise ConflictError when the experiment has a newer owner; called inside every writing transaction."""
    current = connection.execute(select(_LEASE.c.fence).where(_LEASE.c.experiment == experiment)).scalar()
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


def database_clock(connection: Connection) -> float:
    """Return the database's time in seconds since the epoch."""
    if connection.dialect.name == "sqlite":
        return float(connection.execute(text("select (julianday('now') - 2440587.5) * 86400.0")).scalar_one())
    return float(connection.execute(select(func.extract("epoch", func.clock_timestamp()))).scalar_one())


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds an experiment now, for lists."""

    host: str
    pid: int
    last_seen_s: float
    alive: bool


def holder(connection: Connection, experiment: str) -> Holder | None:
    """Return the owner of an experiment that was not given back, or None."""
    found = connection.execute(select(_LEASE).where(_LEASE.c.experiment == experiment)).mappings().first()
    if found is None or found.released:
        return None
    held = Owner(found.owner, found.host, found.pid, found.process_started, found.boot_id)
    age_s = max(database_clock(connection) - found.heartbeat_at, 0.0)
    here = Owner("", socket.gethostname(), 0, 0.0, _boot_id())
    return Holder(held.host, held.pid, age_s, alive=_is_alive(held, age_s=age_s, here=here))


def _is_alive(held: Owner, *, age_s: float, here: Owner) -> bool:
    if held.host == here.host:
        if held.boot_id != here.boot_id:
            return False
        try:
            started = psutil.Process(held.pid).create_time()
        except psutil.NoSuchProcess:
            return False
        if abs(started - held.process_started) > 1.0:
            return False
    return age_s < LEASE_S


def _as_row(owner: Owner) -> dict[str, object]:
    return {
        "owner": owner.owner,
        "host": owner.host,
        "pid": owner.pid,
        "process_started": owner.process_started,
        "boot_id": owner.boot_id,
    }


def _boot_id() -> str:
    path = Path("/proc/sys/kernel/random/boot_id")
    return path.read_text(encoding="ascii").strip() if path.exists() else f"{psutil.boot_time():.0f}"
