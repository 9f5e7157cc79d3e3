"""`exp up` and `exp down`: the local Prefect server by hand."""

from __future__ import annotations

from faces.cli.output import note, out, out_json
from faces.cli.settings import environment, read_settings
from flows.local_server import find_or_start, stop

Json = bool


def up(*, json: Json = False) -> int:
    """Start the local Prefect server unless it runs, and say where its pages are.

    Parameters
    ----------
    json
        Print JSON.
    """
    server = find_or_start(state_dir=read_settings().state_dir, environ=environment(), say=note)
    page = server.url.removesuffix("/api")
    if json:
        out_json({"schema": "fairtrial/server/1", "url": server.url, "pid": server.pid, "started": server.started})
        return 0
    # The pages ask for it in one box.
    out(f"Prefect server at {page}, process {server.pid}", f"login {server.auth}")
    return 0


def down(*, json: Json = False) -> int:
    """Stop the local Prefect server. Nothing measured is lost: the record is in the project's store.

    Parameters
    ----------
    json
        Print JSON.
    """
    stopped = stop(read_settings().state_dir)
    if json:
        out_json({"schema": "fairtrial/server/1", "stopped": stopped})
    else:
        out("stopped" if stopped else "no local server was running")
    return 0
