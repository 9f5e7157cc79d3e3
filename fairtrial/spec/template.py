"""Text with `{{…}}` places that a case fills.

Filled once: what a case holds is never read as a template again, and nothing in it is computed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from fairtrial.errors import SpecError
from fairtrial.hashing import JsonValue, canonical_json
from fairtrial.spec.case import Case
from fairtrial.spec.text import shown

_PLACE: Final = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
_NAMES: Final = "{{input}}, {{input.field}}, {{id}} and {{fields.name}}"


class MissingVariable(SpecError):
    """A case does not have what a template asks for."""


@dataclass(frozen=True, slots=True)
class Template:
    """A parsed template: texts and, between them, the paths of the variables. Made by `parse_template`."""

    texts: tuple[str, ...]
    paths: tuple[tuple[str, ...], ...]

    def render(self, case: Case) -> str:
        """Return the text for `case`; a value that is not text stands as canonical JSON.

        Raises MissingVariable naming the case and the variable.
        """
        if not self.paths:
            return self.texts[0]
        pieces = [self.texts[0]]
        for path, text in zip(self.paths, self.texts[1:], strict=True):
            pieces += [json_as_text(_look_up(case, path)), text]
        return "".join(pieces)


def parse_template(text: str, *, place: str) -> Template:
    """Return `text` as a template. Raises SpecError for a variable no case can have; place is the key it stands at."""
    pieces = _PLACE.split(text)
    paths = tuple(tuple(part.strip() for part in name.split(".")) for name in pieces[1::2])
    for path in paths:
        known = path == ("id",) or path[0] == "input" or (path[0] == "fields" and len(path) > 1)
        if not known or "" in path:
            raise SpecError(f"{_written(path)} is not a variable of a case.", hint=f"There are {_NAMES}.", place=place)
    return Template(tuple(pieces[::2]), paths)


def json_as_text(value: JsonValue) -> str:
    """Return a JSON value as a program reads it: text as it is, everything else as canonical JSON."""
    return value if isinstance(value, str) else canonical_json(value).decode("utf-8", "surrogatepass")


def _written(path: tuple[str, ...]) -> str:
    # Between the braces may stand anything, an escape code too.
    return "{{" + shown(".".join(path))[1:-1] + "}}"


def _look_up(case: Case, path: tuple[str, ...]) -> JsonValue:
    value: object = {"id": case.id, "input": case.input, "fields": case.fields}
    for part in path:
        if isinstance(value, Mapping) and part in value:
            value = value[part]
        elif isinstance(value, list) and part.isascii() and part.isdigit() and int(part) < len(value):
            value = value[int(part)]
        else:
            raise MissingVariable(
                f"case {shown(case.id)} has no {_written(path)}.",
                hint="Add it to the case, or leave the variable out of the command.",
            )
    return value  # type: ignore[return-value]  # every path starts at one of the three keys above
