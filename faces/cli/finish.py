"""`exp finish`: the end of a run that will not end by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from faces.cli.files import check_outputs
from faces.cli.output import note
from faces.cli.settings import read_settings
from faces.cli.shown import Shown
from faces.cli.store import open_store
from fairtrial.reports.figures import count
from fairtrial.store.experiments import get_experiment, resolve_id, summaries_of
from fairtrial.store.lease import acquire, give_back, this_process
from tasks.publish import publish_run


def finish(
    experiment: str,
    /,
    *,
    output: Annotated[list[Path] | None, Parameter(name=["--output", "-o"])] = None,
    json: bool = False,
) -> int:
    """Close a run with what it has, so that it waits for nothing any more.

    Its verdict counts the trials that are done and says how many were not.
    A run that a live process works on is refused: end that process first.
    Nothing is asked of anybody, and no Prefect server is needed.

    Examples:
      exp finish latest
      exp finish exp_01M6SAJYC5RM7A5TCT65R3SFSM -o report.md

    Parameters
    ----------
    experiment
        An experiment id, the start of one, or `latest`.
    output
        Write the report there too: .md, .txt or .json; repeatable.
    json
        Print the verdict as JSON on stdout, and nothing else there.
    """
    check_outputs(output or [])
    store = open_store(read_settings(), must_exist=True)
    with store.engine.connect() as connection:
        record = get_experiment(connection, resolve_id(connection, experiment))
        summaries = summaries_of(connection, [record.id])[record.id]
    shown = Shown(store, output or [], as_json=json)
    n_done = sum(summary.n_done for summary in summaries)
    if record.state in ("finished", "closed"):
        note(f"{record.id} is {record.state} already")
        return shown.stored(record)
    lease = acquire(store.engine, record.id, this_process())
    try:
        if lease.taken_from is not None:
            note(f"taken over from {lease.taken_from}")
        document = publish_run(store.engine, store.objects, record.id, fence=lease.fence, closed=True)
    finally:
        give_back(store.engine, record.id, lease.fence)
    note(f"{record.id}: {document.meta.state} with {n_done:,} of {count(record.n_trials, 'trial')}")
    return shown.verdict(document, record)
