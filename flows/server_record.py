"""What is known about the local Prefect server: one small file that its owner alone may read.

The file says where a server was, never that it lives: `living` asks the operating system, because the number of a dead
process is given to the next one.
"""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

_RECORD: Final = "server.json"
_FORMAT: Final = 1
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class Process:
    """One process for good: `born` is what process_birth said, so a reused number is not taken for it."""

    pid: int
    born: str

    def is_alive(self) -> bool:
        """Return whether this very process still runs."""
        return process_birth(self.pid) == self.born


@dataclass(frozen=True, slots=True)
class Record:
    """One local server.

    url      its API, ending in /api
    auth     the login, `name:password`
    prefect  the version of Prefect it runs
    process  None while nobody runs, or before the process has said its number
    """

    url: str
    auth: str = field(repr=False)
    prefect: str
    process: Process | None = None


def lock_path(state_dir: Path) -> Path:
    """Return the file whose lock is held for as long as a server of this folder lives."""
    return state_dir / "server.lock"


def log_path(state_dir: Path) -> Path:
    """Return the file that the server writes its output to."""
    return state_dir / "server.log"


def prefect_home(state_dir: Path) -> Path:
    """Return the PREFECT_HOME of the server: its database and nothing of the user's own Prefect."""
    return state_dir / "prefect"


def read_record(state_dir: Path) -> Record | None:
    """Return the record, or None when there is none that can be read: a damaged one is as good as none."""
    try:
        data = json.loads((state_dir / _RECORD).read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(data, dict) or data.pop("format", None) != _FORMAT:
        return None
    url, auth, prefect, pid, born = (data.get(name) for name in ("url", "auth", "prefect", "pid", "born"))
    if not (isinstance(url, str) and isinstance(auth, str) and isinstance(prefect, str)):
        return None
    process = Process(pid, born) if isinstance(pid, int) and isinstance(born, str) else None
    return Record(url=url, auth=auth, prefect=prefect, process=process)


def living(state_dir: Path) -> tuple[Record, Process] | None:
    """Return the record and the process it names when that process runs."""
    record = read_record(state_dir)
    if record is None or record.process is None or not record.process.is_alive():
        return None
    return record, record.process


def write_record(state_dir: Path, record: Record) -> None:
    """Replace the record in one step; nobody but the owner can read it at any moment."""
    temporary = state_dir / f".{_RECORD}.{os.getpid()}"
    with contextlib.suppress(FileNotFoundError):
        temporary.unlink()
    # O_EXCL: a file laid there beforehand by somebody else is an error, not a place to put a login.
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    process = record.process
    named = {"pid": process.pid, "born": process.born} if process is not None else {}
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump({"format": _FORMAT, "url": record.url, "auth": record.auth, "prefect": record.prefect, **named}, file)
    temporary.replace(state_dir / _RECORD)


def announce(state_dir: Path) -> Record:
    """Put the calling process into the record; the server does this before anything slow.

    Raises LookupError when there is no record to complete.
    """
    record = read_record(state_dir)
    if record is None:
        raise LookupError(f"no readable server record in {state_dir}")
    mine = replace(record, process=this_process())
    write_record(state_dir, mine)
    return mine


def this_process() -> Process:
    """Return the calling process."""
    born = process_birth(os.getpid())
    if born is None:
        raise LookupError("the operating system does not list the calling process")
    return Process(os.getpid(), born)


def process_birth(pid: int) -> str | None:
    """Return a text that two processes never share, or None when there is no such process or it has ended.

    Linux: boot id and start in clock ticks, which no change of the wall clock moves. Elsewhere psutil's start time.
    """
    if not _BOOT_ID.exists():
        return _birth_elsewhere(pid)
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name in parentheses may hold anything, so counting starts behind the last one. proc(5): state is field 3.
    state, *rest = stat.rpartition(b")")[2].split()
    if state in (b"Z", b"X"):
        return None
    return f"{_BOOT_ID.read_text(encoding='ascii').strip()}:{int(rest[18])}"


def _birth_elsewhere(pid: int) -> str | None:
    import psutil

    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else f"{process.create_time():.2f}"
    except psutil.NoSuchProcess:
        return None
