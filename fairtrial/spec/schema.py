"""The spec and the dataset record as JSON Schema, and the page about the spec, made from the models.

docs/spec.md is never edited by hand: a description belongs into the model, where the schema finds it too.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Annotated, Final, Literal, get_args, get_origin

import annotated_types
from pydantic import BaseModel
from pydantic import JsonValue as AnyJson
from pydantic.fields import FieldInfo

from fairtrial.hashing import JsonValue
from fairtrial.spec import examples
from fairtrial.spec.case import CASE_KINDS
from fairtrial.spec.dataset import MAX_ID
from fairtrial.spec.models import ExperimentSpec, FromEnv, GraderSpec, Limits, Task
from fairtrial.spec.shape import kinds_of, models_in

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"

_TYPE_NAMES: Final[dict[object, str]] = {
    str: "text",
    int: "whole number",
    float: "number",
    bool: "true or false",
    Decimal: "number, or text for an exact one",
    FromEnv: '`{"from_env": NAME}`',
    Limits: "mapping, see Limits",
    AnyJson: "any JSON value",
}

_INTRO: Final = """\
# The spec

A spec describes one experiment: a task is run over a dataset and its answers are graded. It is a file that ends in
`.json`, `.yaml`, `.yml` or `.toml`, of at most 1 MiB; the three formats say the same things. `exp schema spec` prints
its JSON Schema, for editors.

An unknown key is an error that names the nearest known one, and nothing changes its type: `"3"` is not 3. A path is
relative to the folder of the spec. How text is read, and what is refused, is in [datasets.md](datasets.md); why, in
[decisions/0003](decisions/0003-strict-input.md).

Arms of one experiment (`--arm NAME=SPEC`) agree in dataset, graders, trials and seed; task and limits may differ, and
the report lists every difference.

This page is made from `fairtrial/spec/models.py` by `fairtrial.spec.schema.spec_markdown`.
"""


def spec_schema() -> dict[str, JsonValue]:
    """Return the JSON Schema (draft 2020-12) of a spec."""
    schema: dict[str, JsonValue] = ExperimentSpec.model_json_schema()
    return {"$schema": _DIALECT, "$id": "fairtrial/spec/1", **schema}


def case_schema() -> dict[str, JsonValue]:
    """Return the JSON Schema (draft 2020-12) of one record of a dataset; keys it does not name are fields."""
    text: JsonValue = {"type": "string", "minLength": 1, "maxLength": MAX_ID}
    label: JsonValue = [text, {"type": "integer"}, {"type": "null"}]
    return {
        "$schema": _DIALECT,
        "$id": "fairtrial/case/1",
        "title": "Case",
        "type": "object",
        "required": ["input"],
        "properties": {
            "id": {
                "description": "Name of the case; made from the input when left out. An integer becomes its digits.",
                "anyOf": label,
            },
            "input": {"description": "What the task is given: any JSON value."},
            "expected": {"description": "The right answer: any JSON value. null is an answer too."},
            "kind": {
                "description": "bad: a case the change is meant to mend; guard: one it must not break; control.",
                "enum": [*CASE_KINDS, None],
                "default": "ordinary",
            },
            "split": {"description": "Part of the dataset, such as train or test.", "anyOf": label},
            "group": {"description": "Cases of one group depend on each other.", "anyOf": label},
            "tags": {"description": "Words to select cases by.", "type": ["array", "null"], "items": text},
        },
        "additionalProperties": True,
    }


def spec_markdown() -> str:
    """Return the text of docs/spec.md."""
    blocks = [
        _INTRO,
        _table(ExperimentSpec),
        "## An example, three times",
        _fenced("json", json.dumps(examples.SPEC, indent=2)),
        _fenced("yaml", examples.SPEC_YAML),
        _fenced("toml", examples.SPEC_TOML),
        "## Tasks",
        "`task.kind` says what is run.",
        *_kinds(Task, examples.TASKS),
        "## Graders",
        "A score is in [0, 1]; at 0.5 and above it is a pass. The same JSON goes after `-g`.",
        *_kinds(GraderSpec, examples.GRADERS),
        "## Limits",
        _about(Limits),
        _table(Limits),
    ]
    return "\n\n".join(block.strip("\n") for block in blocks) + "\n"


def _kinds(annotation: object, shown_as: dict[str, dict[str, JsonValue]]) -> Iterator[str]:
    for model in models_in(annotation):
        kinds = kinds_of(model)
        yield f"### {', '.join(kinds)}"
        yield _about(model)
        yield _table(model)
        for kind in kinds:
            yield _fenced("json", json.dumps(shown_as[kind]))


def _about(model: type[BaseModel]) -> str:
    return " ".join(inspect.cleandoc(model.__doc__ or "").split())


def _table(model: type[BaseModel]) -> str:
    lines = ["| key | type | default | meaning |", "|---|---|---|---|"]
    for key, field in model.model_fields.items():
        if key != "kind":
            cells = (f"`{field.alias or key}`", _type_text(field), _default(field), field.description or "")
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines)


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if value is None:
        return "none"
    if isinstance(value, BaseModel):
        return "each its own"
    return f"`{json.dumps(value)}`"


def _type_text(field: FieldInfo) -> str:
    bounds = ", ".join(_bounds(field.metadata))
    text = _type_name(field.annotation)
    return f"{text}, {bounds}" if bounds else text


def _type_name(annotation: object) -> str:
    if annotation in _TYPE_NAMES:
        return _TYPE_NAMES[annotation]
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _type_name(arguments[0])
    if origin is Literal:
        return " or ".join(f"`{value}`" for value in arguments)
    if origin is list:
        return f"list of {_type_name(arguments[0])}"
    if origin is dict:
        return f"mapping from text to {_type_name(arguments[1])}"
    if len(models_in(annotation)) > 1:
        return "mapping by `kind`"
    # Of a union: None is what a key left out has, and is not written.
    return " or ".join(_type_name(part) for part in arguments if part is not type(None))


def _bounds(metadata: list[object]) -> Iterator[str]:
    for bound in metadata:
        if isinstance(bound, annotated_types.Gt):
            yield f"above {bound.gt}"
        elif isinstance(bound, annotated_types.Ge):
            yield f"at least {bound.ge}"
        elif isinstance(bound, annotated_types.Lt):
            yield f"below {bound.lt}"
        elif isinstance(bound, annotated_types.Le):
            yield f"at most {bound.le}"
        elif isinstance(bound, annotated_types.MinLen):
            yield "not empty"
        elif isinstance(bound, annotated_types.MaxLen):
            yield f"at most {bound.max_length} characters"


def _fenced(language: str, text: str) -> str:
    return f"```{language}\n{text.rstrip()}\n```"
