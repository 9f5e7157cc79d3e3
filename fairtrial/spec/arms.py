"""Several arms of one experiment: what must agree between them, and what differs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fairtrial.errors import SpecError
from fairtrial.hashing import canonical_json
from fairtrial.spec.loader import LoadedSpec
from fairtrial.spec.models import ExperimentSpec
from fairtrial.spec.text import shown

ARM_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,60}")
MOST_SHOWN: Final = 60
"""Characters of a setting in a report."""

_ABSENT: Final = object()


@dataclass(frozen=True, slots=True)
class ArmSpec:
    """One arm: its name, and the spec it runs."""

    name: str
    loaded: LoadedSpec


@dataclass(frozen=True, slots=True)
class Difference:
    """A setting that two sides have differently; a and b are short text, `not set` where one side has none."""

    path: str
    a: str
    b: str


def parse_arm(text: str) -> tuple[str, str]:
    """Return the name and the spec's path of `NAME=SPEC`, split at the first `=` only. Raises SpecError."""
    name, sign, path = text.partition("=")
    if not sign or not path:
        raise SpecError(
            f"--arm {shown(text)} is not NAME=SPEC.", code="bad_usage", hint="Write it like --arm base=a.json."
        )
    if not ARM_NAME.fullmatch(name) or name.startswith("exp_"):
        raise SpecError(
            f"{shown(name)} cannot name an arm.",
            code="bad_usage",
            hint="Use 1 to 60 letters, digits, dots, dashes and underscores, not beginning with exp_.",
        )
    return name, path


def check_arms(arms: Sequence[ArmSpec]) -> None:
    """Raise SpecError when two arms share a name, or differ in dataset, graders, trials or seed."""
    seen: dict[str, str] = {}
    for arm in arms:
        other = seen.setdefault(arm.name.casefold(), arm.name)
        if other is not arm.name:
            raise SpecError(
                f"two arms are named {arm.name!r} and {other!r}.",
                code="bad_usage",
                hint="Names of arms differ in more than upper and lower case.",
            )
    first, *others = arms
    for arm in others:
        differing = [
            what for what in ("dataset", "graders", "trials", "seed") if _agreed(first, what) != _agreed(arm, what)
        ]
        if differing:
            raise SpecError(
                f"arms {first.name} and {arm.name} differ in {', '.join(differing)}.",
                code="arms_disagree",
                hint="Arms of one experiment share these; -d, -g, --trials and --seed set them for all arms.",
            )


def settings_that_differ(a: Mapping[str, object], b: Mapping[str, object]) -> list[Difference]:
    """Return every setting that two parsed, default-filled documents have differently, by path, in order of path."""
    flat_a, flat_b = dict(_leaves(a, ())), dict(_leaves(b, ()))
    return [
        Difference(path=".".join(path), a=_text(flat_a.get(path, _ABSENT)), b=_text(flat_b.get(path, _ABSENT)))
        for path in sorted(flat_a.keys() | flat_b.keys())
        if _key(flat_a.get(path, _ABSENT)) != _key(flat_b.get(path, _ABSENT))
    ]


def _agreed(arm: ArmSpec, what: str) -> object:
    spec: ExperimentSpec = arm.loaded.spec
    if what == "dataset" and spec.dataset is not None and ("/" in spec.dataset or "." in spec.dataset):
        return (arm.loaded.folder / Path(spec.dataset)).resolve()
    if what == "graders":
        return [grader.model_dump() for grader in spec.graders]
    value: object = getattr(spec, what)
    return value


def _leaves(value: object, path: tuple[str, ...]) -> list[tuple[tuple[str, ...], object]]:
    if isinstance(value, Mapping) and set(value) != {"from_env"}:
        return [leaf for key, inner in value.items() for leaf in _leaves(inner, (*path, str(key)))]
    return [(path, value)]


def _key(value: object) -> object:
    return value if value is _ABSENT else canonical_json(value)


def _text(value: object) -> str:
    if value is _ABSENT:
        return "not set"
    if isinstance(value, Mapping) and set(value) == {"from_env"}:
        return f"from ${value['from_env']}"
    text = value if isinstance(value, str) else canonical_json(value).decode("utf-8", "backslashreplace")
    return text if len(text) <= MOST_SHOWN else f"{text[: MOST_SHOWN - 1]}…"
