"""Where things are. Read once, in a face, from flags and the environment; below that, values are passed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fairtrial.store.database import sqlite_url

PROJECT_FOLDER = ".fairtrial"


@dataclass(frozen=True, slots=True)
class Settings:
    """What every command needs to know.

    home           project state: database and objects by default (FAIRTRIAL_HOME, else .fairtrial found upward)
    state_dir      per-user state: the local Prefect server (FAIRTRIAL_STATE_DIR)
    database_url   FAIRTRIAL_DATABASE_URL, else SQLite in `home`
    storage_url    FAIRTRIAL_STORAGE_URL, else a folder in `home`
    """

    home: Path
    state_dir: Path
    database_url: str
    storage_url: str


def settings_for(
    home: Path, *, state_dir: Path, database_url: str | None = None, storage_url: str | None = None
) -> Settings:
    """Return settings with everything left out filled in from `home`."""
    return Settings(
        home=home,
        state_dir=state_dir,
        database_url=database_url or sqlite_url(home / "fairtrial.db"),
        storage_url=storage_url or str(home / "objects"),
    )


def find_home(start: Path) -> Path:
    """Return the nearest .fairtrial at or above `start`; when there is none, the one to make in `start`."""
    for folder in (start, *start.parents):
        if (folder / PROJECT_FOLDER).is_dir():
            return folder / PROJECT_FOLDER
    return start / PROJECT_FOLDER
