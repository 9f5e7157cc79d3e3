"""Opening a file that a person named: what can be wrong with it is said before it is read.

A pipe or device is refused, because reading it could wait for ever.
"""

from __future__ import annotations

import errno
import stat
from pathlib import Path

from fairtrial.errors import InputError
from fairtrial.spec.text import nearest, shown, shown_path


def check_file(path: Path, *, what: str) -> int:
    """Return the size in bytes of the regular file at `path`; what names its role, such as "spec".

    Raises InputError for a missing file (with the nearest name in its folder), a folder, a device, no permission.
    """
    place = shown_path(path)
    try:
        found = path.stat()
    except (OSError, ValueError) as error:
        raise cannot_read(path, error, what=what) from None
    if stat.S_ISDIR(found.st_mode):
        raise InputError(f"this is a folder; a {what} is a file.", hint="Name the file in it.", place=place)
    if not stat.S_ISREG(found.st_mode):
        raise InputError(f"this is a pipe or a device; a {what} is a plain file.", place=place)
    return found.st_size


def read_file(path: Path, *, what: str, max_bytes: int) -> bytes:
    """Return the bytes of a file. Raises InputError as check_file does, and for a file over the limit."""
    if check_file(path, what=what) > max_bytes:
        raise InputError(f"the file is longer than the limit of {max_bytes:,} bytes.", place=shown_path(path))
    try:
        return path.read_bytes()
    except OSError as error:
        raise cannot_read(path, error, what=what) from None


def cannot_read(path: Path, error: OSError | ValueError, *, what: str) -> InputError:
    """Return what to raise for a failure of the operating system, or for a name that no file can have."""
    place = shown_path(path)
    number = error.errno if isinstance(error, OSError) else None
    if number == errno.ENOENT:
        near = nearest(path.name, _names_in(path.parent))
        hint = f"Did you mean {shown(near[0])}?" if near else None
        return InputError(f"there is no such {what}.", hint=hint, place=place)
    reason = error.strerror if isinstance(error, OSError) and error.strerror else "no file can have this name"
    return InputError(f"the {what} cannot be read: {reason}.", place=place)


def _names_in(folder: Path) -> list[str]:
    try:
        return sorted(entry.name for entry in folder.iterdir())
    except OSError:
        return []


def is_path(text: str) -> bool:
    """Return whether a dataset argument means a file: it has a slash or a suffix. Else it is a registered name."""
    return any(sign in text for sign in "/\\.")
