"""`exp status`: how far runs are, who works on them, and what they wait for. Imports neither Prefect nor scipy."""

from __future__ import annotations

import json as json_text
import sys
import time
from typing import Annotated, Any, Final

from cyclopts import Parameter
from cyclopts.validators import Number

from faces.cli.output import note, out, out_json
from faces.cli.settings import quiet, read_settings
from faces.cli.store import Store, open_store
from fairtrial.records.status import RunStatus
from fairtrial.reports.status import status_json, status_lines
from fairtrial.store.experiments import get_experiment, resolve_id, unfinished_experiments
from fairtrial.store.status import status_of

MOST_SHOWN: Final = 20


def status(
    experiment: list[str] | None = None,
    /,
    *,
    watch: bool = False,
    every: Annotated[float, Parameter(validator=Number(gte=0.2))] = 2.0,
    json: bool = False,
) -> int:
    """Show how far runs are: done and total, pass rate, time left, cost so far, who runs them and when last seen.

    Without an id, every run that is not at its end. A trial that has been
    open for long is named, so that a hanging case is found.

    Examples:
      exp status
      exp status latest --watch
      exp status --json

    Parameters
    ----------
    experiment
        Experiment ids, starts of ids, or `latest`.
    watch
        Show again and again until the runs have ended or wait for a resume.
    every
        Seconds between two looks of --watch.
    json
        Print a JSON object; with --watch one line a look.
    """
    store = open_store(read_settings(), must_exist=True)
    ids = _ids(store, experiment or [])
    if not watch:
        found = _look(store, ids)
        if json:
            out_json(_document(found))
        else:
            _print(found)
        return 0
    return _watch(store, ids, every=every, as_json=json)


def _ids(store: Store, named: list[str]) -> list[str]:
    with store.engine.connect() as connection:
        if named:
            return [resolve_id(connection, text) for text in named]
        return unfinished_experiments(connection, limit=MOST_SHOWN)


def _look(store: Store, ids: list[str]) -> list[RunStatus]:
    with store.engine.connect() as connection:
        return [status_of(connection, get_experiment(connection, experiment)) for experiment in ids]


def _print(found: list[RunStatus]) -> None:
    if not found:
        note("no run is under way or waits for a resume; `exp list` shows those that ended")
    for index, each in enumerate(found):
        out(*([""] if index else []), *status_lines(each))


def _document(found: list[RunStatus]) -> dict[str, Any]:
    return {"schema": "fairtrial/status/1", "experiments": [status_json(each) for each in found]}


def _watch(store: Store, ids: list[str], *, every: float, as_json: bool) -> int:
    if as_json or not sys.stdout.isatty() or quiet("CI"):
        last: list[str] = []
        while True:
            found = _look(store, ids)
            if as_json:
                out(json_text.dumps(_document(found), ensure_ascii=True, allow_nan=False))
            else:
                lines = [line for each in found for line in status_lines(each)]
                if lines != last:
                    _print(found)
                last = lines
            sys.stdout.flush()
            if not any(each.running for each in found):
                return 0
            time.sleep(every)
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    with Live(console=Console(no_color=quiet("NO_COLOR")), auto_refresh=False) as live:
        while True:
            found = _look(store, ids)
            lines = [line for each in found for line in [*status_lines(each), ""]]
            live.update(Text("\n".join(lines[:-1] or ["no run is under way"])), refresh=True)
            if not any(each.running for each in found):
                return 0
            time.sleep(every)
