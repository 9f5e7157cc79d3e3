"""Running an open experiment through Prefect, from a face.

The verdict is out and the exit status fixed before Prefect's last calls, so a lost server cannot hold the answer back.
Importing this module imports Prefect: its settings must be in the environment by then.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import Final
from urllib.parse import urlsplit

from prefect import tags
from prefect.settings import PREFECT_API_URL

from fairtrial.engine.open import OpenRun
from fairtrial.errors import FairtrialError
from fairtrial.records.verdict import RunDocument
from flows.run import run_flow
from tasks.publish import publish_run
from tasks.slice import OPEN_RUNS

GRACE_S: Final = 10.0
"""How long trials in flight may go on after the first Ctrl-C or SIGTERM."""

LAST_CALLS_S: Final = 8.0
"""How long Prefect's last calls may take when its server is gone."""

LAST_CALLS_ALIVE_S: Final = 60.0
"""The same when the server still takes connections."""

Announce = Callable[[RunDocument, "signal.Signals | None"], int]


def execute(run: OpenRun, *, title: str, labels: list[str], announce: Announce, say: Callable[[str], None]) -> int:
    """Run the experiment to its verdict, or to the signal that stops it, and return the exit status.

    announce    called once with the stored verdict and the signal that stopped the run, if one did; what it returns is
                the exit status, whatever Prefect's server does afterwards
    say         takes a line for people while the run is stopping

    Raises FairtrialError: server_unreachable when the flow could not begin, and what the store or the lease raise.
    """
    session = _Session(run, announce, say)
    OPEN_RUNS[run.record.id] = run
    try:
        return asyncio.run(session.main(title, labels))
    finally:
        OPEN_RUNS.pop(run.record.id, None)


class _Session:
    def __init__(self, run: OpenRun, announce: Announce, say: Callable[[str], None]):
        self._run = run
        self._announce = announce
        self._say = say
        self._began = False
        self._stopped_by: signal.Signals | None = None
        self._status: int | None = None
        run.on_begin = self._begin
        run.on_verdict = self._answer

    async def main(self, title: str, labels: list[str]) -> int:
        run = self._run
        try:
            with tags(*labels):
                await run_flow.with_options(name=run.record.kind)(run.record.id, title)
        except FairtrialError:
            raise
        except (Exception, asyncio.CancelledError) as error:
            # Prefect's own trouble. What the run measured is in the journal, and the answer comes from there.
            if not self._began:
                raise _not_begun(error) from error
            if self._status is None:
                self._answer(
                    await asyncio.to_thread(publish_run, run.engine, run.objects, run.record.id, fence=run.lease.fence)
                )
        finally:
            await run.close()
        if self._status is None:
            raise FairtrialError("the run ended without a verdict.", hint="Resume it to get one.")
        return self._status

    def _begin(self) -> None:
        self._began = True
        if threading.current_thread() is threading.main_thread():
            loop = asyncio.get_running_loop()
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                loop.add_signal_handler(number, self._stop, number)

    def _stop(self, number: signal.Signals) -> None:
        if self._stopped_by is not None:
            _leave(128 + number)
        self._stopped_by = number
        self._run.loop.stop.set()
        self._say(f"stopping: trials in flight get {GRACE_S:.0f} s to end; once more to leave at once")
        asyncio.get_running_loop().call_later(GRACE_S, self._cancel)

    def _cancel(self) -> None:
        for task in self._run.working:
            task.cancel()

    def _answer(self, document: RunDocument) -> None:
        run = self._run
        # Nothing more is written, so the next owner need not wait for Prefect's last calls.
        run.writer.close()
        self._status = self._announce(document, self._stopped_by)
        threading.Thread(target=_end_in_time, args=(self._status,), daemon=True).start()


def _end_in_time(status: int) -> None:
    time.sleep(LAST_CALLS_S)
    end = time.monotonic() + LAST_CALLS_ALIVE_S
    # Asked again and again: a server may go away after it was seen alive.
    while time.monotonic() < end and _server_takes_connections():
        time.sleep(1.0)
    _leave(status)


def _leave(status: int) -> None:
    # A process whose server is gone hangs in Prefect's event queue for minutes; everything of ours is stored.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _server_takes_connections() -> bool:
    address = urlsplit(PREFECT_API_URL.value() or "")
    try:
        with socket.create_connection((address.hostname or "", address.port or 80), timeout=1.0):
            return True
    except OSError:
        return False


def _not_begun(error: BaseException) -> FairtrialError:
    return FairtrialError(
        f"the Prefect server did not take the run ({type(error).__name__}).",
        code="server_unreachable",
        hint="Check PREFECT_API_URL, or `exp down` and try again; nothing was run. Resume with --resume.",
    )
