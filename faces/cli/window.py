"""The window a run is seen through: a named Prefect server, or the local one, started while the rest gets ready."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from faces.cli.settings import environment
from fairtrial.settings import Settings
from flows.local_server import Start, begin_start, check_named
from flows.prefect_env import named_server, prepare, settings_that_break_resume


class Window:
    """A Prefect server for this command: its start begins here, and wait() blocks until it answers.

    A server that the user names is used as it is: when it does not answer there is no silent other one.
    """

    def __init__(self, settings: Settings, *, say: Callable[[str], None]):
        self._say = say
        self._named = named_server(environment(), folder=Path.cwd())
        self._start: Start | None = None
        if self._named is None:
            self._start = begin_start(state_dir=settings.state_dir, environ=environment(), say=say)

    def wait(self) -> None:
        """Return when the server answers and Prefect's settings point at it. Raises server_unreachable."""
        if self._named is not None:
            named = self._named
            check_named(named.url, auth=named.auth, key=named.key, source=named.source)
        elif self._start is not None:
            prepare(os.environ, self._start.wait())

    def warn_of_settings(self) -> None:
        """Say which of Prefect's settings make it forget finished slices; imports Prefect. The journal decides."""
        for name in settings_that_break_resume(environment()):
            self._say(
                f"warning: {name} makes Prefect run finished slices again; their trials are in the journal and are not "
                "repeated"
            )
