"""Arms of one experiment: what must agree between them, and every setting that does not.

Arms are compared after parsing and with defaults filled in, so a setting that one file spells out and the other leaves
out is no difference.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import takewhile, zip_longest
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from fairtrial.errors import SpecError
from fairtrial.hashing import canonical_json
from fairtrial.spec.files import is_path
from fairtrial.spec.loader import LoadedSpec
from fairtrial.spec.models import CommandGrader, ExperimentSpec, GraderSpec, JsonSchemaGrader, PythonGrader
from fairtrial.spec.text import shown

_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,60}")
_SHOWN: Final = 80
"""Characters of a value in a list of differences."""

Settings: TypeAlias = "ExperimentSpec | Mapping[str, object]"


class ArmArgument(NamedTuple):
    """An `--arm` argument in its two parts."""

    name: str
    path: str


@dataclass(frozen=True, slots=True)
class ArmSpec:
    """A named configuration under comparison."""

    name: str
    loaded: LoadedSpec


@dataclass(frozen=True, slots=True)
class Difference:
    """A setting two specs do not share: its key path, and each side as short text."""

    path: str
    a: str
    b: str


def parse_arm(text: str) -> ArmArgument:
    r"""Return the parts of `name=path`, cut at the first `=` only: `arm=C:\x=1.json` has the path `C:\x=1.json`.

    Raises SpecError (bad_usage).
    """
    name, equals, path = text.partition("=")
    if not equals or not path.strip():
        raise SpecError(
            f"{shown(text)} is no arm.", code="bad_usage", hint="Write --arm name=spec.json.", place="--arm"
        )
    _check_name(name)
    return ArmArgument(name=name, path=path)


def check_arms(arms: Sequence[ArmSpec]) -> None:
    """Refuse arms that cannot be run as one experiment.

    Raises SpecError: bad_usage for a name that is not allowed or stands twice, arms_disagree when dataset, graders,
    trials or seed differ, naming every difference.
    """
    for arm in arms:
        _check_name(arm.name)
    by_name: dict[str, str] = {}
    for arm in arms:
        folded = arm.name.casefold()
        if folded in by_name:
            raise SpecError(
                f"two arms are named {shown(by_name[folded])} and {shown(arm.name)}; "
                "names differ by more than upper and lower case.",
                code="bad_usage",
                place="--arm",
            )
        by_name[folded] = arm.name
    lines = [line for other in arms[1:] for line in _disagreements(arms[0], other)]
    if lines:
        raise SpecError(
            "the arms disagree where they must not:\n  " + "\n  ".join(lines) + ".",
            code="arms_disagree",
            hint="Dataset, graders, trials and seed are shared; task and limits may differ.",
        )


def settings_that_differ(a: Settings, b: Settings) -> list[Difference]:
    """Return every setting that differs, by key path in the order of `a`.

    a, b   specs, or what a stored experiment keeps of them; of a spec, name, description and tags are no settings
    A variable given literally is shown, one from the environment by its name only.
    """
    left, right = dict(_settings(_document(a), "")), dict(_settings(_document(b), ""))
    return list(_differences(left, right))


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise SpecError(
            f"{shown(name)} cannot name an arm.",
            code="bad_usage",
            hint="Use 1 to 60 of A-Z, a-z, 0-9, dot, _ and -.",
            place="--arm",
        )
    if name.casefold().startswith("exp_"):
        raise SpecError(
            f"{shown(name)} cannot name an arm: exp_ begins the id of an experiment.", code="bad_usage", place="--arm"
        )


def _disagreements(first: ArmSpec, other: ArmSpec) -> Iterator[str]:
    """Yield a line for each thing that should agree; paths are compared from each spec's own folder."""
    a, b = first.loaded, other.loaded
    found: list[Difference] = []
    if _dataset_identity(a) != _dataset_identity(b):
        same_text = a.spec.dataset == b.spec.dataset
        sides = [_dataset_identity(side) if same_text else side.spec.dataset for side in (a, b)]
        found.append(_difference("dataset", *sides))
    found += _grader_differences(a, b)
    for key in ("trials", "seed"):
        one, two = getattr(a.spec, key), getattr(b.spec, key)
        if one != two:
            found.append(_difference(key, one, two))
    for difference in found:
        yield f"{difference.path}: {difference.a} in {first.name}, {difference.b} in {other.name}"


def _dataset_identity(loaded: LoadedSpec) -> str | None:
    name = loaded.spec.dataset
    if name is None or not is_path(name):
        return name
    return str(_resolved(loaded.folder, name))


def _grader_differences(a: LoadedSpec, b: LoadedSpec) -> Iterator[Difference]:
    """Yield what differs grader by grader; of a grader that the other side has not, or of another kind, its kind."""
    for number, (one, other) in enumerate(zip_longest(a.spec.graders, b.spec.graders)):
        path = f"graders[{number}]"
        if one is None or other is None or one.kind != other.kind:
            yield _difference(path, one and one.kind, other and other.kind)
            continue
        # The name of a grader is a label.
        left, right = (_located(g, f).model_dump(exclude={"name"}) for g, f in ((one, a.folder), (other, b.folder)))
        found = list(_differences(dict(_settings(left, path)), dict(_settings(right, path))))
        if not found and not _same(left, right):
            # A JSON value in a grader: an empty object has no leaf to differ in, [1] and [true] are equal to Python.
            found = [_difference(path, left, right)]
        yield from found


def _located(grader: GraderSpec, folder: Path) -> GraderSpec:
    """Return a grader with its file or folder as a full path: one text in two folders may be two graders."""
    if isinstance(grader, PythonGrader | JsonSchemaGrader) and grader.path is not None:
        return grader.model_copy(update={"path": str(_resolved(folder, grader.path))})
    if isinstance(grader, CommandGrader):
        return grader.model_copy(update={"cwd": str(_resolved(folder, grader.cwd or "."))})
    return grader


def _resolved(folder: Path, path: str) -> Path:
    return (folder / path).resolve()


def _document(settings: Settings) -> Mapping[str, object]:
    if not isinstance(settings, ExperimentSpec):
        return settings
    document = settings.model_dump(exclude={"name", "description", "tags"})
    for grader in document["graders"]:
        del grader["name"]
    return document


def _settings(value: object, path: str) -> Iterator[tuple[str, object]]:
    """Yield the leaves of a document with their key paths. A list of plain values is one leaf, an argv for one."""
    if isinstance(value, Mapping) and set(value) != {"from_env"}:
        for key, item in value.items():
            yield from _settings(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list) and any(isinstance(item, Mapping) for item in value):
        for number, item in enumerate(value):
            yield from _settings(item, f"{path}[{number}]")
    else:
        yield path, value


def _differences(left: dict[str, object], right: dict[str, object]) -> Iterator[Difference]:
    # What one side does not have at all, such as a key of another kind of task, is not set there.
    for path in dict.fromkeys([*left, *right]):
        one, other = left.get(path), right.get(path)
        if not _equal(one, other):
            yield _difference(path, one, other)


def _equal(a: object, b: object) -> bool:
    # 1 and True are equal in Python; in a spec they are two settings.
    return a == b and isinstance(a, bool) == isinstance(b, bool)


def _same(a: object, b: object) -> bool:
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(_same(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_same, a, b))
    return _equal(a, b)


def _difference(path: str, a: object, b: object) -> Difference:
    one, other = _text(a), _text(b)
    if one == other:
        # 3 and "3", or a text that reads like the words of this function.
        one, other = _json(a), _json(b)
    # Long texts are cut where they begin to differ, so that what is shown does differ.
    start = 0
    if max(len(one), len(other)) > _SHOWN:
        n_common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
        start = max(0, n_common - _SHOWN // 4)
    return Difference(path, _window(one, start), _window(other, start))


def _window(text: str, start: int) -> str:
    if len(text) <= _SHOWN:
        return text
    cut = text[start : start + _SHOWN - 2]
    return ("…" if start else "") + cut + ("…" if start + len(cut) < len(text) else "")


def _text(value: object) -> str:
    if value is None:
        return "not set"
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping) and set(value) == {"from_env"}:
        return f"from ${value['from_env']}"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return f"{value:f}" if isinstance(value, Decimal) else _json(value)


def _json(value: object) -> str:
    return canonical_json(str(value) if isinstance(value, Decimal) else value).decode("utf-8", "backslashreplace")
