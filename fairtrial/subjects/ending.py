"""How a program ended, in words: every exit code and every signal by its name."""

from __future__ import annotations

import signal
from typing import Final

# By the shell's own convention; other programs use these codes for anything.
_SHELL_CODES: Final = {126: "the shell could not execute the command", 127: "the shell did not find the command"}


def exit_line(code: int, *, is_shell: bool) -> str:
    """Return what an exit code says, for people."""
    if is_shell and code in _SHELL_CODES:
        return f"exit code {code}: {_SHELL_CODES[code]}"
    # A shell reports the signal of the command it ran as 128 more.
    name = f" (128 + {signal_name(code - 128)})" if code > 128 and _is_signal(code - 128) else ""
    return f"exit code {code}{name}"


def signal_name(number: int) -> str:
    """Return a signal's number with its name: `signal 9 (SIGKILL)`."""
    name = f" ({signal.Signals(number).name})" if _is_signal(number) else ""
    return f"signal {number}{name}"


def _is_signal(number: int) -> bool:
    return number in set(signal.Signals)
