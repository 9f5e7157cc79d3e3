"""From flags and files to what the engine is asked: every file is read and every flag applied here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from faces.cli.store import Store
from fairtrial.engine.create import ONLY_ARM, Asked
from fairtrial.engine.plan import SLICE_BLOCKS
from fairtrial.errors import SpecError
from fairtrial.spec.arms import ArmSpec, check_arms, parse_arm
from fairtrial.spec.dataset import Dataset, dataset_from_content, load_dataset
from fairtrial.spec.files import is_path
from fairtrial.spec.loader import LoadedSpec, load_spec, parse_grader, parse_spec
from fairtrial.spec.selection import Selection
from fairtrial.store.datasets import get_dataset


@dataclass(frozen=True, slots=True)
class RunFlags:
    """The flags of `exp run` that change what is asked; None or empty where not given."""

    spec: str | None
    arms: tuple[str, ...]
    dataset: str | None
    graders: tuple[str, ...]
    name: str | None
    trials: int | None
    seed: int | None
    trial_timeout_s: float | None
    retries: int | None
    first_n: int | None
    cases: tuple[str, ...]
    slice_blocks: int | None


def ask(flags: RunFlags, store: Store) -> Asked:
    """Return what a person asked for. Raises SpecError and InputError with place and remedy; stores nothing."""
    arms = tuple(ArmSpec(arm.name, _apply(arm.loaded, flags)) for arm in _arms(flags))
    if len(arms) > 1:
        check_arms(arms)
    dataset_name, dataset = _dataset(arms[0].loaded, store)
    return Asked(
        name=flags.name or arms[0].loaded.spec.name or "unnamed",
        arms=arms,
        dataset=dataset,
        dataset_name=dataset_name,
        selection=Selection(first_n=flags.first_n, cases=_case_ids(flags.cases)),
        slice_blocks=flags.slice_blocks or SLICE_BLOCKS,
    )


def _arms(flags: RunFlags) -> list[ArmSpec]:
    if flags.spec is not None and flags.arms:
        raise SpecError(
            f"both a spec ({flags.spec}) and --arm were given.",
            code="bad_usage",
            hint="Give one spec, or two or more --arm NAME=SPEC.",
        )
    if flags.spec is not None:
        return [ArmSpec(ONLY_ARM, _load(flags.spec))]
    if not flags.arms:
        raise SpecError(
            "there is no spec to run.",
            code="bad_usage",
            hint="Write `exp run spec.json`, or `exp run --arm base=a.json --arm cand=b.json`.",
        )
    if len(flags.arms) == 1:
        raise SpecError(
            "there is only one --arm.", code="bad_usage", hint="A comparison needs two or more; for one run give SPEC."
        )
    return [ArmSpec(name, _load(path)) for name, path in map(parse_arm, flags.arms)]


def _load(text: str) -> LoadedSpec:
    if text.startswith("exp_") and not Path(text).exists():
        raise SpecError(
            f"{text} is an experiment, not a spec.", code="bad_usage", hint=f"Did you mean `exp run --resume {text}`?"
        )
    return load_spec(Path(text))


def _apply(loaded: LoadedSpec, flags: RunFlags) -> LoadedSpec:
    """Return the spec with the flags in it, checked like a spec that said the same. Raises SpecError."""
    spec, here = loaded.spec, Path.cwd()
    changes: dict[str, Any] = {}
    if flags.dataset is not None:
        changes["dataset"] = str(here / flags.dataset) if is_path(flags.dataset) else flags.dataset
    if flags.graders:
        given = [parse_grader(text, place=f"-g, number {at}") for at, text in enumerate(flags.graders, start=1)]
        changes["graders"] = [_from_here(grader, here) for grader in given]
    if flags.trials is not None:
        changes["trials"] = flags.trials
    if flags.seed is not None:
        changes["seed"] = flags.seed
    limits = {"trial_timeout_s": flags.trial_timeout_s, "retries": flags.retries}
    if any(value is not None for value in limits.values()):
        changes["limits"] = spec.limits.model_copy(
            update={key: value for key, value in limits.items() if value is not None}
        )
    if not changes:
        return loaded
    document = spec.model_copy(update=changes).model_dump(mode="json")
    checked = parse_spec(document, place="flags", folder=loaded.folder)
    return LoadedSpec(spec=checked.spec, path=loaded.path, folder=loaded.folder)


def _from_here(grader: Any, here: Path) -> Any:
    """Return a grader given on the command line with its paths made absolute: they start here, in no spec's folder."""
    changes = {}
    if getattr(grader, "path", None) is not None:
        changes["path"] = str(here / grader.path)
    if hasattr(grader, "cwd"):
        changes["cwd"] = str(here / (grader.cwd or "."))
    return grader.model_copy(update=changes)


def _dataset(loaded: LoadedSpec, store: Store) -> tuple[str, Dataset]:
    text = loaded.spec.dataset
    if text is None:
        raise SpecError(
            "the spec names no dataset.",
            hint='Add "dataset" to it, or pass -d PATH or NAME.',
            place=str(loaded.path) if loaded.path else None,
        )
    if is_path(text):
        path = loaded.folder / text
        return path.name, load_dataset(path)
    with store.engine.connect() as connection:
        found = get_dataset(connection, text)
    return f"{found.name}@{found.version}", dataset_from_content(store.objects.get_blob(found.hash))


def _case_ids(given: Sequence[str]) -> tuple[str, ...]:
    """Return the ids of --case; @FILE stands for the lines of a file."""
    ids: list[str] = []
    for text in given:
        if not text.startswith("@"):
            ids.append(text)
            continue
        path = Path(text[1:])
        try:
            lines = path.read_text(encoding="utf-8-sig").split("\n")
        except (OSError, UnicodeDecodeError) as error:
            raise SpecError(
                f"{path} cannot be read as a list of case ids: {error}.", code="bad_usage", hint="One id a line, UTF-8."
            ) from error
        ids += [line.removesuffix("\r") for line in lines if line.strip()]
    return tuple(ids)
