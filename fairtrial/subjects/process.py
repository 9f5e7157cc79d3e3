"""The one way a program of the user's is run: capped output, a deadline that holds, nothing left behind.

A child that keeps a pipe open does not hold the trial: the program's own end counts, and the rest of its tree is ended.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final

from fairtrial.subjects.child import Child, ProcessCommand
from fairtrial.subjects.pipes import Head, Tail
from fairtrial.subjects.starting import NotStarted

OUTPUT_CAP: Final = 10_000_000
ERROR_CAP: Final = 256 * 1024
GRACE_S: Final = 0.5
# A filter behind the program (`> >(tee log)`) writes its last lines after the program's end.
_LINGER_S: Final = 0.25


@dataclass(frozen=True, slots=True)
class ProcessResult:
    """What one program did. One of exit_code, signal and start_error is set; none when no time was left to start it,
    or when it is stuck in the kernel and even KILL waits.

    timed_out       it was ended by us at its deadline; exit_code or signal say how it went then
    stdout, stderr  bytes as they came, the first up to the cap of one, the last ERROR_CAP of the other
    *_cut           there were more than that
    duration_s      from the start to its own end or to the deadline
    start_error     short word why it could not start; start_message the line for people
    leftovers       processes that outlived it and were ended by us
    """

    exit_code: int | None = None
    signal: int | None = None
    timed_out: bool = False
    stdout: bytes = b""
    stderr: bytes = b""
    stdout_cut: bool = False
    stderr_cut: bool = False
    duration_s: float = 0.0
    start_error: str | None = None
    start_message: str = ""
    leftovers: int = 0


async def run_process(
    command: ProcessCommand,
    *,
    stdin: bytes,
    timeout_s: float | None,
    output_cap: int = OUTPUT_CAP,
    grace_s: float = GRACE_S,
) -> ProcessResult:
    """Run `command` to its end and return what it did; what a program does wrong never raises.

    timeout_s   seconds until TERM, `grace_s` later KILL; None for no limit
    output_cap  bytes of stdout that are kept

    A cancellation ends the whole tree before it goes on.
    """
    if timeout_s is not None and timeout_s <= 0:
        return ProcessResult(timed_out=True)
    out, err = Head(output_cap), Tail(ERROR_CAP)
    started = time.monotonic()
    try:
        child = Child.start(command, stdin=stdin, out=out, err=err)
    except NotStarted as failure:
        return ProcessResult(start_error=failure.kind, start_message=failure.message)
    try:
        ended = await child.wait(timeout_s)
        duration_s = time.monotonic() - started
        if ended:
            await child.drained(_LINGER_S)
        await child.end(grace_s)
    except BaseException:
        await child.end(grace_s)
        raise
    finally:
        child.close()
    code = child.returncode
    return ProcessResult(
        exit_code=code if code is not None and code >= 0 else None,
        signal=-code if code is not None and code < 0 else None,
        timed_out=not ended,
        stdout=bytes(out.data),
        stderr=bytes(err.data),
        stdout_cut=out.cut,
        stderr_cut=err.cut,
        duration_s=duration_s,
        leftovers=child.n_leftovers,
    )
