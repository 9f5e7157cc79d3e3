"""The one place that reads the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from fairtrial.errors import SpecError
from fairtrial.settings import Settings, find_home, settings_for

# docs/settings.md is checked against this table.
VARIABLES: dict[str, str] = {
    "FAIRTRIAL_HOME": "Folder of the project's state; else .fairtrial in this folder or above, else made here.",
    "FAIRTRIAL_DATABASE_URL": "Database of the project; else SQLite in the project's state folder.",
    "FAIRTRIAL_STORAGE_URL": "Where large objects lie: a folder or s3://bucket/prefix; else in the project's folder.",
    "FAIRTRIAL_STATE_DIR": "Folder of this user's state: the local Prefect server.",
    "FAIRTRIAL_CONCURRENCY": "Trials in flight when --concurrency is not given.",
}


def read_settings() -> Settings:
    """Return where everything is, from the environment. Raises SpecError for a value that cannot be used."""
    from platformdirs import user_state_path

    home = os.environ.get("FAIRTRIAL_HOME")
    state = os.environ.get("FAIRTRIAL_STATE_DIR")
    return settings_for(
        Path(home).absolute() if home else find_home(Path.cwd()),
        state_dir=Path(state).absolute() if state else user_state_path("fairtrial"),
        database_url=os.environ.get("FAIRTRIAL_DATABASE_URL"),
        storage_url=os.environ.get("FAIRTRIAL_STORAGE_URL"),
    )


def read_concurrency() -> int | None:
    """Return FAIRTRIAL_CONCURRENCY as a number, None when it is not set."""
    text = os.environ.get("FAIRTRIAL_CONCURRENCY")
    if not text:
        return None
    if not text.isdecimal() or int(text) < 1:
        raise SpecError(f"FAIRTRIAL_CONCURRENCY is {text!r}; it takes a whole number from 1.", code="bad_usage")
    return int(text)


def environment() -> Mapping[str, str]:
    """Return the environment that tasks and graders inherit and that from_env looks into."""
    return dict(os.environ)


def quiet(name: str) -> bool:
    """Return whether an on-off variable such as NO_COLOR is set to anything."""
    return bool(os.environ.get(name))
