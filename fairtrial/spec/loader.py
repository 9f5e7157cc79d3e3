"""Reading a spec or a grader from a file or from text.

One error leaves for whatever is wrong with it, with the place; values never appear in it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, TypeVar

from pydantic import TypeAdapter, ValidationError

from fairtrial.errors import InputError
from fairtrial.hashing import JsonValue
from fairtrial.spec.files import check_file, read_file
from fairtrial.spec.invalid import Locate, spec_error
from fairtrial.spec.models import ExperimentSpec, GraderSpec
from fairtrial.spec.shape import Path as KeyPath
from fairtrial.spec.shape import all_kinds, models_in
from fairtrial.spec.strict_json import json_positions, parse_json
from fairtrial.spec.strict_toml import parse_toml, toml_positions
from fairtrial.spec.strict_yaml import parse_yaml, yaml_positions
from fairtrial.spec.text import MAX_SPEC_BYTES, Position, decode_text, has_control_character, position_at, shown_path

SPEC_SUFFIXES: Final = (".json", ".yaml", ".yml", ".toml")

_MAX_NAME = 200

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LoadedSpec:
    """A spec, its file if it has one, and the absolute folder its paths are relative to."""

    spec: ExperimentSpec
    path: Path | None
    folder: Path


def load_spec(path: Path) -> LoadedSpec:
    """Return the spec in a .json, .yaml, .yml or .toml file; its name is the file's stem when it states none.

    Raises InputError for a file that cannot be read, SpecError for a spec that cannot run as written.
    """
    document, locate = _read_document(path, what="spec")
    spec = _validated(document, place=shown_path(path), locate=locate)
    if spec.name is None:
        spec = spec.model_copy(update={"name": _name_of(path)})
    # Absolute, not resolved: a spec that is a link has the folder it is named in.
    return LoadedSpec(spec=spec, path=path, folder=path.absolute().parent)


def parse_spec(document: JsonValue, *, place: str, folder: Path) -> LoadedSpec:
    """Return a spec that is already a JSON value; folder is where its paths start. Raises SpecError."""
    spec = _validated(document, place=place, locate=_nowhere)
    return LoadedSpec(spec=spec, path=None, folder=folder.absolute())


def parse_grader(text: str, *, place: str) -> GraderSpec:
    """Return the grader that a `-g` argument gives: JSON, `@file`, or the path of a spec-format file.

    Raises InputError, SpecError.
    """
    stripped = text.strip()
    if stripped.startswith("{"):
        return _grader(parse_json(stripped, place=place, max_bytes=MAX_SPEC_BYTES), place, _json_locate(stripped))
    if stripped.startswith("@") or stripped.lower().endswith(SPEC_SUFFIXES):
        path = Path(stripped.removeprefix("@"))
        document, locate = _read_document(path, what="grader")
        return _grader(document, shown_path(path), locate)
    if stripped in all_kinds(models_in(GraderSpec)):
        raise InputError("a grader is a JSON object.", hint=f"""Write -g '{{"kind": "{stripped}"}}'""", place=place)
    hint = """Write it like -g '{"kind": "exact"}', or give the path of a JSON file; repeat -g for several."""
    raise InputError("this is neither a JSON object nor a grader file.", hint=hint, place=place)


def _read_document(path: Path, *, what: str) -> tuple[JsonValue, Locate]:
    check_file(path, what=what)
    suffix = path.suffix.lower()
    if suffix not in SPEC_SUFFIXES:
        known = ", ".join(SPEC_SUFFIXES)
        raise InputError(f"a {what} file ends in one of {known}.", hint="Rename or convert it.", place=shown_path(path))
    place = shown_path(path)
    text = decode_text(read_file(path, what=what, max_bytes=MAX_SPEC_BYTES), place=place)
    if suffix == ".json":
        return parse_json(text, place=place, max_bytes=MAX_SPEC_BYTES), _json_locate(text)
    if suffix == ".toml":
        return parse_toml(text, place=place), _locate(lambda: toml_positions(text), lambda at: position_at(text, at))
    return parse_yaml(text, place=place), _locate(lambda: yaml_positions(text), lambda at: at)


def _json_locate(text: str) -> Locate:
    return _locate(lambda: json_positions(text), lambda at: position_at(text, at))


def _locate(find: Callable[[], dict[KeyPath, T]], position_of: Callable[[T], Position]) -> Locate:
    """Return a finder of the place of a path, or of the longest part of it that has one.

    The text is walked when something is wrong and not before; a line is counted only for what is asked.
    """
    positions = cache(find)

    def locate(path: KeyPath) -> Position | None:
        prefixes = (path[:length] for length in range(len(path), 0, -1))
        return next((position_of(positions()[prefix]) for prefix in prefixes if prefix in positions()), None)

    return locate


def _nowhere(path: KeyPath) -> None:
    return None


def _validated(document: JsonValue, *, place: str, locate: Locate) -> ExperimentSpec:
    try:
        return ExperimentSpec.model_validate(document)
    except ValidationError as error:
        raise spec_error(error, document=document, root=ExperimentSpec, place=place, locate=locate) from None


def _grader(document: JsonValue, place: str, locate: Locate) -> GraderSpec:
    try:
        return _grader_adapter().validate_python(document)
    except ValidationError as error:
        raise spec_error(error, document=document, root=GraderSpec, place=place, locate=locate) from None


@cache
def _grader_adapter() -> TypeAdapter[GraderSpec]:
    return TypeAdapter(GraderSpec)


def _name_of(path: Path) -> str:
    """Return a file's stem as a name; a file name may hold bytes and characters that a name may not."""
    text = os.fsencode(path.stem).decode("utf-8", "replace")[:_MAX_NAME]
    visible = "".join("\ufffd" if has_control_character(character) else character for character in text)
    return visible if visible.strip() else "experiment"
