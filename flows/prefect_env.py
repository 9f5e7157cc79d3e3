"""What Prefect reads before anything runs: which server the user named, and settings that would spoil a resume.

Prefect takes its settings once, at its import. So `named_server` and `prepare` come before that import, and both work
without it.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from fairtrial.errors import FairtrialError, SpecError
from flows.local_server import Server, client_environment

# The two that make Prefect run finished slices again without a word; other caching settings yield to what our tasks
# say themselves.
_CACHE_SWITCHES: Final = {
    "PREFECT_TASKS_DISABLE_CACHING": "disable_caching",
    "PREFECT_TASKS_REFRESH_CACHE": "refresh_cache",
}
# What Prefect's settings take for true.
_TRUE: Final = ("1", "true", "t", "yes", "y", "on")


@dataclass(frozen=True, slots=True)
class NamedServer:
    """A server that the user chose. `source` says where the address stands, for messages."""

    url: str
    auth: str | None = field(repr=False)
    key: str | None = field(repr=False)
    source: str


def named_server(environ: Mapping[str, str], *, folder: Path) -> NamedServer | None:
    """Return the server that Prefect itself would use from `folder`, or None when nobody named one.

    Looks where Prefect looks, in its order: environment, .env, prefect.toml, pyproject.toml, active profile.
    Raises SpecError for a file of these that cannot be read.
    """
    sources = _sources(environ, folder)

    def first(setting: str) -> tuple[str | None, str]:
        # An empty value counts as said: it hides what a later place says, and names nothing.
        found = ((said[setting], where) for where, said in sources if said.get(setting) is not None)
        value, where = next(found, ("", ""))
        return str(value) or None, where

    url, where = first("PREFECT_API_URL")
    if url is None:
        return None
    auth, key = first("PREFECT_API_AUTH_STRING")[0], first("PREFECT_API_KEY")[0]
    return NamedServer(url=url, auth=auth, key=key, source=f"PREFECT_API_URL{where}")


def prepare(environ: MutableMapping[str, str], server: Server) -> None:
    """Point the Prefect of this process at the local server; `environ` is the process's own environment.

    Raises FairtrialError when Prefect has been imported already, for then it would not listen any more.
    """
    if "prefect" in sys.modules:
        raise FairtrialError("Prefect was imported before its settings were made")
    # A profile of the user's home is not in the home that is set here, and Prefect would say so on the terminal.
    for name in ("PREFECT_PROFILE", "PREFECT_PROFILES_PATH"):
        environ.pop(name, None)
    environ.update(client_environment(server))
    # Otherwise a server that went away shows as lines between our own: "--- Error logging to API ---".
    logging.raiseExceptions = False


def settings_that_break_resume(environ: Mapping[str, str]) -> list[str]:
    """Return the names of the settings in force that make Prefect forget finished slices; imports Prefect."""
    from prefect.settings import get_current_settings

    tasks = get_current_settings().tasks
    return [
        name
        for name, attribute in _CACHE_SWITCHES.items()
        if (environ[name].lower() in _TRUE if environ.get(name) else getattr(tasks, attribute))
    ]


def _sources(environ: Mapping[str, str], folder: Path) -> list[tuple[str, Mapping[str, Any]]]:
    """Return what each place says, best first, with the words that follow a setting's name in a message."""
    dotenv = _dotenv(folder / ".env")
    found: list[tuple[str, Mapping[str, Any]]] = [("", environ), (" in .env", dotenv)]
    paths = [environ.get("PREFECT_PROFILES_PATH"), dotenv.get("PREFECT_PROFILES_PATH")]
    for file, table in (("prefect.toml", ()), ("pyproject.toml", ("tool", "prefect"))):
        settings = _table(_toml(folder / file), *table)
        api = _table(settings, "api")
        found.append((f" ([api] in {file})", {f"PREFECT_API_{name.upper()}": value for name, value in api.items()}))
        paths.append(settings.get("profiles_path"))
    home = Path(environ.get("PREFECT_HOME") or Path(environ.get("HOME", "~")).expanduser() / ".prefect")
    profiles = _toml(folder / next((path for path in paths if path), home / "profiles.toml"))
    active = environ.get("PREFECT_PROFILE") or str(profiles.get("active"))
    found.append((f" in the Prefect profile {active!r}", _table(profiles, "profiles", active)))
    return found


def _dotenv(path: Path) -> Mapping[str, str | None]:
    if not path.is_file():
        return {}
    from dotenv import dotenv_values

    return dotenv_values(path)


def _table(settings: Mapping[str, Any], *keys: str) -> Mapping[str, Any]:
    """Return the table under `keys`, empty where there is none or something else."""
    for key in keys:
        inner = settings.get(key)
        settings = inner if isinstance(inner, dict) else {}
    return settings


def _toml(path: Path) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise SpecError(f"Prefect's settings in {path} cannot be read: {error}") from error
