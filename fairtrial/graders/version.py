"""What decides a grader's scores, as one hash and as named parts.

The name and the time limits are left out: renaming a grader, or giving it more time, keeps its grades.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from fairtrial.errors import SpecError
from fairtrial.hashing import content_hash
from fairtrial.spec.models import (
    BleuGrader,
    ChrfGrader,
    CommandGrader,
    ContainsGrader,
    CostGrader,
    ExactGrader,
    JsonGrader,
    JsonSchemaGrader,
    LatencyGrader,
    LengthGrader,
    NumberGrader,
    PythonGrader,
    RegexGrader,
    SimilarityGrader,
    ValuesGrader,
)
from fairtrial.subjects.code_files import UNREADABLE, code_version, relative_name, sha256_of_file
from fairtrial.subjects.version import command_parts, file_parts

RULES: Final = 1
"""Goes up when the same spec would score an answer differently than before, so that old grades are told apart."""

_DIGITS: Final = 16
_NOT_MEASURED: Final = frozenset({"name", "timeout_s", "kind"})

AnyGraderSpec = (
    ExactGrader
    | ContainsGrader
    | RegexGrader
    | NumberGrader
    | JsonGrader
    | JsonSchemaGrader
    | SimilarityGrader
    | BleuGrader
    | ChrfGrader
    | LengthGrader
    | LatencyGrader
    | CostGrader
    | ValuesGrader
    | PythonGrader
    | CommandGrader
)


@dataclass(frozen=True, slots=True)
class GraderVersion:
    """hash is 16 hex digits and stored with every grade; parts maps a name for people (`pattern`) to a digest."""

    hash: str
    parts: dict[str, str] = field(default_factory=dict)


def grader_version(spec: AnyGraderSpec, folder: Path) -> GraderVersion:
    """Return the version of a grader whose spec stands in `folder`. Raises SpecError as code_version does."""
    if isinstance(spec, CommandGrader):
        parts = command_parts(spec.command, env=spec.env, cwd=spec.cwd, files=spec.files, folder=folder)
    elif isinstance(spec, PythonGrader):
        parts = _python_parts(spec, folder)
    else:
        parts = {key: content_hash(_exact(value)) for key, value in spec if key not in _NOT_MEASURED}
    if isinstance(spec, JsonSchemaGrader):
        parts |= _schema_parts(spec, folder)
        del parts["inline"]
    if isinstance(spec, BleuGrader | ChrfGrader):
        from fairtrial.graders.references import signature_of

        parts["signature"] = content_hash(signature_of(spec))
    whole = content_hash({"kind": spec.kind, "rules": RULES, "parts": dict(parts)})
    return GraderVersion(whole[:_DIGITS], parts)


def _python_parts(spec: PythonGrader, folder: Path) -> dict[str, str]:
    code = code_version(spec.files, folder=folder, named=[spec.path])
    interpreter = spec.interpreter
    if interpreter is not None and "/" in interpreter:
        interpreter = relative_name(folder / interpreter, folder)
    return {
        "path": content_hash(relative_name(folder / spec.path, folder)),
        "function": content_hash(spec.function),
        "interpreter": content_hash(interpreter),
    } | file_parts(code.files)


def _schema_parts(spec: JsonSchemaGrader, folder: Path) -> dict[str, str]:
    if spec.path is None:
        return {"schema": content_hash(spec.inline)}
    name, digest = relative_name(folder / spec.path, folder), sha256_of_file(folder / spec.path)
    if digest == UNREADABLE:
        raise SpecError(f'the schema "{spec.path}" cannot be read.', hint="A path starts at the spec's folder.")
    return {"path": content_hash(name)} | file_parts([(name, digest)])


def _exact(value: Any) -> Any:
    if isinstance(value, Decimal):
        # 0.10 and 0.1 are the same price.
        return f"{value.normalize():f}"
    # A tolerance of 0 and one of 0.0 are the same tolerance, although they are two numbers in canonical JSON.
    return float(value) if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**53 else value
