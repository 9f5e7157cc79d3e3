"""Opening the project's store for a command."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, Engine

from fairtrial.errors import SpecError, StoreError
from fairtrial.records.experiment import ArmRecord, ExperimentRecord
from fairtrial.settings import Settings
from fairtrial.store.database import open_database
from fairtrial.store.experiments import get_experiment, resolve_id
from fairtrial.store.objects import ObjectStore


@dataclass(frozen=True, slots=True)
class Store:
    """The database and the objects of one project."""

    engine: Engine
    objects: ObjectStore


def open_store(settings: Settings, *, must_exist: bool = False) -> Store:
    """Return the project's store, made on first use.

    must_exist  for a command that only reads: a project without a store is an error, not a new empty one

    Raises SpecError, StoreError.
    """
    objects = ObjectStore(settings.storage_url)
    if settings.database_url.startswith("sqlite"):
        _make_home(settings, must_exist=must_exist)
        _refuse_emptied(Path(settings.database_url.removeprefix("sqlite:///")), objects)
    return Store(open_database(settings.database_url), objects)


def find_arm(connection: Connection, text: str) -> tuple[ExperimentRecord, ArmRecord]:
    """Return the experiment and arm that `EXP` or `EXP/arm` names. Raises SpecError naming the arms there are."""
    name, slash, arm = text.partition("/")
    experiment = get_experiment(connection, resolve_id(connection, name))
    names = ", ".join(each.name for each in experiment.arms)
    if not slash:
        if len(experiment.arms) > 1:
            raise SpecError(
                f"{experiment.id} has several arms: {names}.",
                code="bad_usage",
                hint=f"Name one, as in {experiment.id}/{experiment.arms[0].name}.",
            )
        return experiment, experiment.arms[0]
    try:
        return experiment, experiment.arm(arm)
    except KeyError:
        raise SpecError(f"{experiment.id} has no arm {arm!r}.", code="bad_usage", hint=f"Its arms: {names}.") from None


def _refuse_emptied(database: Path, objects: ObjectStore) -> None:
    """Raise StoreError for a database of nothing beside the objects of experiments: it was emptied, not made."""
    if objects.folder is None or not database.exists() or database.stat().st_size:
        return
    experiments = objects.folder / "experiments"
    if experiments.is_dir() and any(experiments.iterdir()):
        raise StoreError(
            f"the store {database} is empty, but {experiments} has experiments of it.",
            code="damaged_record",
            hint="Restore it from a copy; to begin anew, move the whole folder away.",
        )


def _make_home(settings: Settings, *, must_exist: bool) -> None:
    home = settings.home
    if must_exist and not Path(settings.database_url.removeprefix("sqlite:///")).exists():
        raise SpecError(
            f"there is no store in {home}.",
            code="unknown_experiment",
            hint="`exp run` makes one; FAIRTRIAL_HOME names another folder.",
        )
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        ignore = home / ".gitignore"
        if not ignore.exists():
            ignore.write_text("*\n", encoding="utf-8")
    except OSError as error:
        raise StoreError(f"{home} cannot be made: {error.strerror}.", hint="FAIRTRIAL_HOME names another.") from error
