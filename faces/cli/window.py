"""The window a run is seen through: a named Prefect server, or the local one, started while the rest gets ready."""

from __future__ import annotations

import os
from collections.abc import Callable

from faces.cli.settings import environment, point_prefect_at
from fairtrial.settings import Settings
from flows.local_server import Start, begin_start, check_named, client_environment


class Window:
    """A Prefect server for this command: its start begins here, and wait() blocks until it answers.

    A server that PREFECT_API_URL names is used as it is: when it does not answer there is no silent other one.
    """

    def __init__(self, settings: Settings, *, say: Callable[[str], None]):
        self._named = os.environ.get("PREFECT_API_URL") or None
        self._start: Start | None = None
        if self._named is None:
            self._start = begin_start(state_dir=settings.state_dir, environ=environment(), say=say)

    def wait(self) -> None:
        """Return when the server answers and Prefect's settings point at it. Raises server_unreachable."""
        if self._start is None:
            check_named(
                self._named or "",
                auth=os.environ.get("PREFECT_API_AUTH_STRING"),
                key=os.environ.get("PREFECT_API_KEY"),
            )
            return
        server = self._start.wait()
        point_prefect_at(client_environment(server))
