"""Reading a JSON Schema and finding everything about it that could fail only later.

A reference leads inside the schema or to a published dialect; anything else is refused here, and never fetched.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fairtrial.errors import InputError, SpecError
from fairtrial.graders.json_reading import path_text
from fairtrial.hashing import JsonValue
from fairtrial.spec.files import read_file
from fairtrial.spec.strict import parse_json
from fairtrial.spec.text import shown

if TYPE_CHECKING:
    from referencing import Resource
    from referencing._core import Resolver

MAX_SCHEMA_BYTES: Final = 1024**2

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_SHOWN: Final = 200


def read_schema_file(path: Path, *, place: str) -> JsonValue:
    """Return the JSON of a schema file. Raises SpecError naming `place`, the spec's key, and what is wrong."""
    try:
        data = read_file(path, what="schema", max_bytes=MAX_SCHEMA_BYTES)
        return parse_json(data, place=path.name)
    except InputError as error:
        raise SpecError(str(error), hint=error.hint, place=place) from None


def checked_schema(schema: JsonValue, *, place: str) -> str:
    """Return a schema as JSON text once it is known to be usable.

    place   the spec's key, for messages
    Raises SpecError for an unknown `$schema`, for what the dialect does not allow, and for a reference out of it.
    """
    from jsonschema import exceptions

    if not isinstance(schema, dict | bool):
        raise SpecError("a JSON Schema is an object, true or false.", place=place)
    kind = _kind(schema, place)
    try:
        kind.check_schema(schema)
    except exceptions.SchemaError as error:
        where = path_text(tuple(error.absolute_path)) if error.absolute_path else "the schema"
        message = error.message if len(error.message) <= _SHOWN else f"{error.message[:_SHOWN]}…"
        raise SpecError(f"this is not a valid JSON Schema: {where}: {message}.", place=place) from None
    except (RecursionError, OverflowError):
        raise SpecError("the JSON Schema is too deep or holds a number that is too large.", place=place) from None
    if isinstance(schema, dict):
        _check_references(schema, kind.META_SCHEMA["$schema"], place)
    return json.dumps(schema)


def _kind(schema: JsonValue, place: str) -> Any:
    """Return the validator class of the schema's dialect."""
    from jsonschema import validators

    dialect = schema.get("$schema", _DIALECT) if isinstance(schema, dict) else _DIALECT
    known = validators.validator_for({"$schema": dialect}, default=None) if isinstance(dialect, str) else None
    if known is None:
        raise SpecError(
            'the "$schema" of the JSON Schema is no published dialect.',
            hint=f"Leave it out for {_DIALECT}, or name draft 3, 4, 6, 7 or 2019-09 by its address.",
            place=place,
        )
    return known


def _check_references(schema: dict[str, JsonValue], dialect: str, place: str) -> None:
    from jsonschema_specifications import REGISTRY
    from referencing.jsonschema import specification_with

    root = specification_with(dialect).create_resource(schema)
    left: list[tuple[Resolver[Any], Resource[Any]]] = [(REGISTRY.resolver_with_root(root), root)]
    while left:
        resolver, resource = left.pop()
        for key in _REFERENCES:
            reference = resource.contents.get(key) if isinstance(resource.contents, dict) else None
            if isinstance(reference, str) and not _leads_somewhere(resolver, reference):
                raise SpecError(
                    f"the JSON Schema refers to {shown(reference)}, which is not in it.",
                    hint='References are never fetched: put what is meant into "$defs" and refer to it from there.',
                    place=place,
                )
        left += [(resolver.in_subresource(part), part) for part in resource.subresources()]


def _leads_somewhere(resolver: Resolver[Any], reference: str) -> bool:
    from referencing.exceptions import Unresolvable

    try:
        found = resolver.lookup(reference).contents
    except (Unresolvable, LookupError, TypeError, ValueError):
        return False
    return isinstance(found, dict | bool)
