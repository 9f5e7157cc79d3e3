"""Stable ids: experiments sort by the time they were made, unnamed cases are named by their input alone."""

from __future__ import annotations

import re
import threading

from ulid import ULID

_LOCK = threading.Lock()
_last: int = 0

EXPERIMENT_ID = re.compile(r"exp_[0-9A-HJKMNP-TV-Z]{26}")


def new_experiment_id() -> str:
    """Return `exp_` + a ULID; ids made by one process always sort in the order they were made."""
    global _last
    with _LOCK:
        value = int(ULID())
        # Two ids of one millisecond differ by chance only, so the later one steps past the earlier.
        _last = value if value > _last else _last + 1
        return f"exp_{ULID.from_int(_last)}"


def is_experiment_id(text: str) -> bool:
    """Return whether `text` has the form of an experiment id."""
    return EXPERIMENT_ID.fullmatch(text) is not None


def unnamed_case_id(input_hash: str) -> str:
    """Return the id of a case that has none: `c_` + the first 16 hex digits of its input hash."""
    return f"c_{input_hash[:16]}"
