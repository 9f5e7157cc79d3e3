"""Whether a program is there, and why it could not be started, by name.

A full machine is not the program's fault: those kinds are in OUR_SIDE and become infra losses, never failed answers.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from fairtrial.errors import SpecError

OUR_SIDE: Final = frozenset({"no_resources"})

_BY_ERRNO: Final = {
    errno.EACCES: ("not_executable", "is not executable"),
    errno.EPERM: ("not_executable", "may not be executed"),
    errno.ENOENT: ("missing", "was not found"),
    errno.ENOTDIR: ("missing", "was not found: a part of its path is a file"),
    errno.ELOOP: ("missing", "was not found: its links run in a circle"),
    errno.ENAMETOOLONG: ("missing", "was not found: its name is too long"),
    errno.ETXTBSY: ("busy", "is open for writing in another process (text file busy)"),
    errno.E2BIG: (
        "too_long",
        "got arguments or an environment longer than the system passes; read the case from stdin instead",
    ),
    errno.ENOEXEC: ("bad_format", "is not a program of this machine and has no #! line"),
    errno.EAGAIN: ("no_resources", "could not be started: the limit of processes is reached"),
    errno.ENOMEM: ("no_resources", "could not be started: out of memory"),
    errno.EMFILE: ("no_resources", "could not be started: too many open files"),
    errno.ENFILE: ("no_resources", "could not be started: too many open files on this machine"),
}


class NotStarted(Exception):
    """A program that never ran. kind is a short word, message a line for people."""

    def __init__(self, kind: str, message: str):
        super().__init__(message)
        self.kind = kind
        self.message = message


def check_program(program: str, *, env: Mapping[str, str | bytes], cwd: Path, place: str) -> None:
    """Raise SpecError when `program` cannot be found with the PATH of `env`, or may not be executed."""
    if "/" in program:
        path = cwd / program
        is_found = path.is_file() and os.access(path, os.X_OK)
    else:
        is_found = shutil.which(program, path=os.fsdecode(env.get("PATH", os.defpath))) is not None
    if not is_found:
        raise SpecError(
            f'the program "{program}" was not found, or may not be executed.',
            hint="A name without a slash is looked up in PATH; one with a slash starts from the working folder.",
            place=place,
        )


def not_started(error: OSError | ValueError, program: str | bytes, cwd: str | None) -> NotStarted:
    """Return the named form of what starting `program` in `cwd` raised."""
    name = os.fsdecode(program)
    if isinstance(error, UnicodeError):
        return NotStarted("not_text", f'"{name}" got an argument that cannot be passed on as a text of this system')
    if isinstance(error, ValueError):
        return NotStarted("nul_byte", f'"{name}" got an argument or a variable that holds a NUL character')
    if cwd is not None and error.filename == cwd:
        return NotStarted("no_folder", f'the working folder "{cwd}" cannot be entered ({error.strerror})')
    if error.errno == errno.ENOENT and _exists(name, cwd):
        return NotStarted("no_interpreter", f'"{name}" names an interpreter in its first line that was not found')
    kind, text = _BY_ERRNO.get(error.errno or 0, ("not_started", f"could not be started ({error.strerror})"))
    return NotStarted(kind, f'"{name}" {text}')


def _exists(program: str, cwd: str | None) -> bool:
    return "/" in program and (Path(cwd or ".") / program).exists()
