"""What graders there are, for `exp graders` and the docs: read off the spec models, so it cannot lag behind."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

from pydantic import JsonValue
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from fairtrial.graders.version import AnyGraderSpec
from fairtrial.hashing import canonical_json

_ABOUT: Final = {
    "exact": "1 when the answer equals the expected value.",
    "iexact": "As exact, upper and lower case alike.",
    "contains": "1 when the answer contains the expected text.",
    "icontains": "As contains, upper and lower case alike.",
    "regex": "1 when a pattern is found in the answer.",
    "number": "1 when the number in the answer is the expected one.",
    "json": "1 when the answer is the expected JSON value, or holds all of it.",
    "json_schema": "1 when the answer is JSON that a schema allows.",
    "similarity": "How alike the answer and the expected text are, by characters or words.",
    "bleu": "Sentence BLEU of the answer against references, by sacrebleu.",
    "chrf": "Sentence chrF or chrF++ of the answer against references, by sacrebleu.",
    "length": "1 when the answer has a length within limits.",
    "latency": "1 when the answer took at most so many seconds.",
    "cost": "1 when the answer cost at most so many US dollars.",
    "values": "F1 of the values that the answer extracted, property by property.",
    "python": "A function of yours, grade(output, case), run in a process of its own.",
    "command": "A program of yours that reads the answer and the case and prints a score.",
}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One key of a grader's spec. default is JSON text, None when the key is required."""

    name: str
    type: str
    default: str | None
    about: str


@dataclass(frozen=True, slots=True)
class GraderEntry:
    """One kind of grader."""

    kind: str
    about: str
    parameters: tuple[Parameter, ...]


def catalogue() -> tuple[GraderEntry, ...]:
    """Return every kind of grader with its parameters, its own before those that several kinds share."""
    return tuple(
        GraderEntry(kind, _ABOUT[kind], _parameters(model))
        for model in get_args(AnyGraderSpec)
        for kind in get_args(model.model_fields["kind"].annotation)
    )


def _parameters(model: type[Any]) -> tuple[Parameter, ...]:
    own = [name for name in model.model_fields if name in model.__annotations__]
    shared = [name for name in model.model_fields if name not in own]
    fields = {name: model.model_fields[name] for name in own + shared if name != "kind"}
    return tuple(_parameter(info.alias or name, info) for name, info in fields.items())


def _parameter(name: str, info: FieldInfo) -> Parameter:
    default = info.get_default(call_default_factory=True, validated_data={})
    shown = None if default is PydanticUndefined else canonical_json(default).decode()
    return Parameter(name, _type_name(info.annotation), shown, info.description or "")


def _type_name(annotation: Any) -> str:
    if annotation is JsonValue:
        return "any JSON value"
    if get_origin(annotation) is Literal:
        return " | ".join(f'"{choice}"' for choice in get_args(annotation))
    if get_origin(annotation) is Union or type(annotation).__name__ == "UnionType":
        parts = [part for part in get_args(annotation) if part is not type(None)]
        return " | ".join(_type_name(part) for part in parts if part is not int or float not in parts)
    if get_origin(annotation) is Annotated:
        return _type_name(get_args(annotation)[0])
    if get_origin(annotation) is list:
        return f"list of {_type_name(get_args(annotation)[0])}"
    if get_origin(annotation) is dict:
        return f"object of {_type_name(get_args(annotation)[1])}"
    names = {str: "text", float: "number", int: "whole number", bool: "true | false", Decimal: "number | text"}
    return names.get(annotation) or ('{"from_env": text}' if annotation.__name__ == "FromEnv" else annotation.__name__)
