"""The window a run is seen through: a named Prefect server, or the local one, started while the spec is being read."""

from __future__ import annotations

import os
from collections.abc import Callable
from types import TracebackType

from faces.cli.settings import environment, point_prefect_at
from fairtrial.settings import Settings
from flows.local_server import Start, begin_start, check_named, client_environment


class Window:
    """A Prefect server for this command. Entering begins its start; wait() blocks until it answers.

    A server that PREFECT_API_URL names is used as it is: when it does not answer there is no silent other one.
    """

    def __init__(self, settings: Settings, *, say: Callable[[str], None]):
        self._settings = settings
        self._say = say
        self._start: Start | None = None
        self._named = os.environ.get("PREFECT_API_URL") or None

    def __enter__(self) -> Window:
        if self._named is None:
            self._start = begin_start(state_dir=self._settings.state_dir, environ=environment(), say=self._say)
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        """The server outlives the command."""

    def wait(self) -> None:
        """Return when the server answers and Prefect's settings point at it. Raises server_unreachable."""
        if self._named is not None:
            check_named(
                self._named,
                auth=os.environ.get("PREFECT_API_AUTH_STRING"),
                key=os.environ.get("PREFECT_API_KEY"),
            )
            return
        assert self._start is not None, "wait() comes after entering"
        server = self._start.wait()
        point_prefect_at(client_environment(server))
