"""The shape of the spec models, read from their annotations: which model stands at a key path, which kinds there are.

Nothing here lists a model by name, so a new task or grader kind is known to error messages and documentation at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast, get_args

from pydantic import BaseModel

from fairtrial.hashing import JsonValue

Path = tuple[str | int, ...]
"""Keys and 0-based list positions that lead from a document to a value in it."""


def models_in(annotation: object) -> list[type[BaseModel]]:
    """Return the models an annotation names, through unions, lists, dicts and Annotated, in order."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in models_in(part)]


def kinds_of(model: type[BaseModel]) -> tuple[str, ...]:
    """Return the values of a model's `kind`, none when it has no such key."""
    field = model.model_fields.get("kind")
    return get_args(field.annotation) if field else ()


def all_kinds(models: Iterable[type[BaseModel]]) -> list[str]:
    """Return the kinds of several models, in order."""
    return [kind for model in models for kind in kinds_of(model)]


def models_at(annotation: object, document: JsonValue, path: Path) -> list[type[BaseModel]]:
    """Return the models that may stand at `path` of a document whose root is `annotation`.

    Of several kinds only those are kept that the document's own `kind` names; all, when it names none.
    """
    models = _narrowed(models_in(annotation), document)
    for part in path:
        document = value_at(document, (part,))
        fields = [model.model_fields[part].annotation for model in models if part in model.model_fields]
        # A list position, or a key of a dict such as env, leads to what is inside the same annotation.
        if fields:
            models = [found for field in fields for found in models_in(field)]
        models = _narrowed(models, document)
    return models


def value_at(document: JsonValue, path: Path) -> JsonValue:
    """Return the value at `path`, which must be in the document."""
    for part in path:
        document = cast("dict[str | int, JsonValue]", document)[part]
    return document


def _narrowed(models: list[type[BaseModel]], document: JsonValue) -> list[type[BaseModel]]:
    kind = document.get("kind") if isinstance(document, dict) else None
    return [model for model in models if kind in kinds_of(model)] or models
