"""What graders there are, for `exp graders` and the docs: read off the spec models, so it cannot lag behind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from fairtrial.hashing import canonical_json
from fairtrial.spec.models import CommandGrader, ContainsGrader, ExactGrader, NumberGrader, PythonGrader, RegexGrader

_ABOUT: Final = {
    "exact": "1 when the answer equals the expected value.",
    "iexact": "As exact, upper and lower case alike.",
    "contains": "1 when the answer contains the expected text.",
    "icontains": "As contains, upper and lower case alike.",
    "regex": "1 when a pattern is found in the answer.",
    "number": "1 when the number in the answer is the expected one.",
    "python": "A function of yours, grade(output, case), run in a process of its own.",
    "command": "A program of yours that reads the answer and the case and prints a score.",
}
_MODELS: Final = (ExactGrader, ContainsGrader, RegexGrader, NumberGrader, PythonGrader, CommandGrader)


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
        for model in _MODELS
        for kind in get_args(model.model_fields["kind"].annotation)
    )


def _parameters(model: type[Any]) -> tuple[Parameter, ...]:
    own = [name for name in model.model_fields if name in model.__annotations__]
    shared = [name for name in model.model_fields if name not in own]
    return tuple(_parameter(name, model.model_fields[name]) for name in own + shared if name != "kind")


def _parameter(name: str, info: FieldInfo) -> Parameter:
    default = info.get_default(call_default_factory=True, validated_data={})
    shown = None if default is PydanticUndefined else canonical_json(default).decode()
    return Parameter(name, _type_name(info.annotation), shown, info.description or "")


def _type_name(annotation: Any) -> str:
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
    names = {str: "text", float: "number", int: "whole number", bool: "true | false"}
    return names.get(annotation) or ('{"from_env": text}' if annotation.__name__ == "FromEnv" else annotation.__name__)
