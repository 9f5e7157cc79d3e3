"""How long a provider asks to wait, from headers that anybody may have written.

The result is always between 0 and the cap: one wrong header must not put a run to sleep for a day.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

LONGEST_RETRY_AFTER_S: Final = 60.0
"""The longest wait that is believed; the engine waits no longer between two tries of one call either."""

_NUMBER: Final = re.compile(r"[+-]?\d{1,30}(\.\d{0,30})?([eE][+-]?\d{1,3})?")


def retry_after_s(
    headers: Sequence[tuple[str, str]], *, now: datetime, cap_s: float = LONGEST_RETRY_AFTER_S
) -> float | None:
    """Return the seconds to wait, in [0, cap_s]; None when no header says it in a form that can be read.

    headers   names in any case with their values; `retry-after-ms` (milliseconds) and `retry-after` (seconds or an HTTP
              date) are read, and of several the longest counts
    now       aware; what a date is compared with
    """
    found = []
    for name, value in headers:
        seconds = None
        if name.lower() == "retry-after-ms":
            seconds = _seconds(value, unit=1000.0)
        elif name.lower() == "retry-after":
            seconds = _seconds(value, unit=1.0)
            seconds = _until(value, now) if seconds is None else seconds
        if seconds is not None:
            found.append(seconds)
    return min(max(*found, 0.0), cap_s) if found else None


def _seconds(value: str, *, unit: float) -> float | None:
    # float() alone would also read "nan", "inf" and "1_000".
    text = value.strip()
    return float(text) / unit if text.isascii() and _NUMBER.fullmatch(text) else None


def _until(value: str, now: datetime) -> float | None:
    try:
        date = parsedate_to_datetime(value)
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
    aware = date.replace(tzinfo=UTC) if date.tzinfo is None else date
    return (aware - now).total_seconds()
