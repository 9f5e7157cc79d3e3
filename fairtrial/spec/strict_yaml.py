"""Strict YAML: the core schema of YAML 1.2 and nothing that can surprise or grow.

`no`, `on`, `1:30`, `1_000` and `2024-01-01` are text; `010` is ten. PyYAML's own resolver follows YAML 1.1 and is not
used: values are built here from its parser's events, one at a time, so that a limit stops a document before it is in
memory.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Final

from fairtrial.errors import InputError
from fairtrial.hashing import JsonValue
from fairtrial.spec.text import (
    MAX_DEPTH,
    MAX_SPEC_BYTES,
    MAX_YAML_NODES,
    Position,
    decode_text,
    max_integer_digits,
    position_at,
    shown,
)

if TYPE_CHECKING:
    from yaml import Event, MarkedYAMLError

# The tag resolution table of YAML 1.2.2, section 10.3.2.
_NULL: Final = frozenset(("", "~", "null", "Null", "NULL"))
_BOOL: Final = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_DECIMAL: Final = re.compile(r"[-+]?[0-9]+")
_OCTAL: Final = re.compile(r"0o[0-7]+")
_HEX: Final = re.compile(r"0x[0-9a-fA-F]+")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE: Final = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")

# YAML 1.1, which PyYAML's scanner follows, ends a line at these and would fold them into a space.
_OLD_BREAK: Final = re.compile("[\x85\u2028\u2029]")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def parse_yaml(data: bytes | str, *, place: str) -> JsonValue:
    """Return the value of one YAML document.

    Raises InputError with line and column for a syntax error, a tag, anchor, alias or directive, a second document, a
    key that stands twice or is not a single text, NaN and the infinities, more than 1 MiB, 20,000 nodes or 100 levels.
    Keys are text as written: `1: x` has the key "1".
    """
    if len(data) > MAX_SPEC_BYTES:
        raise InputError(f"the text is longer than {MAX_SPEC_BYTES:,} bytes.", place=place)
    text = decode_text(data, place=place) if isinstance(data, bytes) else data.removeprefix("\ufeff")
    return _build(text, place=place).value


def yaml_positions(text: str) -> dict[tuple[str | int, ...], Position]:
    """Return where every key and list element of a valid YAML text stands, by its path."""
    return _build(text, place="").positions


class _Builder:
    """Takes the parser's events in order; afterwards `value` is the document.

    `_open` holds the mappings and lists that are not yet closed, `_path` one part for each: the key or index last met.
    `_at_key` says, for each, whether its next node is a key.
    """

    def __init__(self, place: str):
        self.value: JsonValue = None
        self.positions: dict[tuple[str | int, ...], Position] = {}
        self.n_documents = 0
        self._place = place
        self._open: list[dict[str, JsonValue] | list[JsonValue]] = []
        self._path: list[str | int] = []
        self._at_key: list[bool] = []
        self._n_nodes = 0

    def take(self, event: Event) -> None:
        """Add one event. Raises InputError for what the rules refuse."""
        import yaml

        at = _position(event.start_mark)
        if isinstance(event, yaml.DocumentStartEvent):
            self.n_documents += 1
            if self.n_documents > 1:
                raise self._error("a second document begins; a file holds one.", at)
            if event.tags or (event.version or (1, 2)) != (1, 2):
                raise self._error("directives are refused; the text is read as YAML 1.2.", at)
        elif isinstance(event, yaml.AliasEvent):
            raise self._error("aliases are refused.", at, hint="Write the value out.")
        elif isinstance(event, yaml.ScalarEvent):
            self._check_node(event.anchor, event.tag, at)
            self._take_scalar(_joined(event.value), is_plain=event.implicit[0], at=at)
        elif isinstance(event, yaml.CollectionStartEvent):
            self._check_node(event.anchor, event.tag, at)
            is_mapping = isinstance(event, yaml.MappingStartEvent)
            self._open_container({} if is_mapping else [], at)
            self._at_key.append(is_mapping)
        elif isinstance(event, yaml.CollectionEndEvent):
            self._open.pop()
            self._path.pop()
            self._at_key.pop()

    def _check_node(self, anchor: str | None, tag: str | None, at: Position) -> None:
        self._n_nodes += 1
        if self._n_nodes > MAX_YAML_NODES:
            raise self._error(f"the document has more than {MAX_YAML_NODES:,} nodes.", at)
        if anchor is not None:
            raise self._error("anchors are refused.", at, hint="Write the value out where it is needed.")
        if tag is not None:
            raise self._error("tags are refused.", at, hint="Put a text in quotes to keep it a text.")

    def _open_container(self, container: dict[str, JsonValue] | list[JsonValue], at: Position) -> None:
        if len(self._open) >= MAX_DEPTH:
            raise self._error(f"keys and lists are nested deeper than {MAX_DEPTH} levels.", at)
        self._add(container, at)
        self._open.append(container)
        self._path.append(-1)

    def _take_scalar(self, text: str, *, is_plain: bool, at: Position) -> None:
        if self._at_key and self._at_key[-1]:
            self._path[-1] = text
            first = self.positions.get(tuple(self._path))
            if first:
                raise self._error(f"the key {shown(text)} stands twice (first on line {first.line}).", at)
            self._note(at)
            self._at_key[-1] = False
        else:
            # Only a plain scalar has a type; a quoted one is text whatever it holds.
            self._add(self._resolve(text, at) if is_plain else text, at)

    def _add(self, value: JsonValue, at: Position) -> None:
        if not self._open:
            self.value = value
            return
        container = self._open[-1]
        if isinstance(container, list):
            container.append(value)
            self._path[-1] = len(container) - 1
            self._note(at)
        elif self._at_key[-1]:
            raise self._error("a key must be one text, not a list or a mapping.", at)
        else:
            container[str(self._path[-1])] = value
            self._at_key[-1] = True

    def _note(self, at: Position) -> None:
        self.positions[tuple(self._path)] = at

    def _resolve(self, text: str, at: Position) -> JsonValue:
        if text in _NULL:
            return None
        if text in _BOOL:
            return _BOOL[text]
        if _DECIMAL.fullmatch(text):
            if len(text.lstrip("+-")) > max_integer_digits():
                raise self._error(f"an integer has more than {max_integer_digits():,} digits.", at)
            return int(text)
        if _OCTAL.fullmatch(text) or _HEX.fullmatch(text):
            # A hexadecimal digit is worth 1.21 decimal ones, and the value is written in decimal later.
            if len(text) > max_integer_digits() / 1.25:
                raise self._error("an integer is too long.", at)
            return int(text, 0)
        if _NOT_FINITE.fullmatch(text):
            raise self._error("NaN and the infinities are refused.", at, hint="Put a text in quotes.")
        if _FLOAT.fullmatch(text):
            value = float(text)
            if math.isinf(value):
                raise self._error("the number is too large for a float.", at, hint="Put a text in quotes.")
            return value
        return text

    def _error(self, message: str, at: Position, *, hint: str | None = None) -> InputError:
        return InputError(message, hint=hint, place=f"{self._place}:{at.line}:{at.column}")


def _build(text: str, *, place: str) -> _Builder:
    import yaml

    if old_break := _OLD_BREAK.search(text):
        raise InputError(
            f"U+{ord(old_break.group()):04X} stands in the text; YAML readers disagree whether it ends a line.",
            hint='Write it as an escape ("\\u2028") in double quotes.',
            place=_place(text, old_break.start(), place),
        )
    if not text.strip():
        raise InputError("the file is empty.", place=place)
    builder = _Builder(place)
    try:
        loader = yaml.SafeLoader(text)
    except yaml.reader.ReaderError as error:
        raise InputError(
            f"the character U+{error.character:04X} may not stand in YAML.",
            place=_place(text, error.position, place),
        ) from None
    try:
        while loader.check_event():
            builder.take(loader.get_event())  # type: ignore[no-untyped-call]  # PyYAML's stubs leave it out
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(error, place) from None
    except (ValueError, OverflowError):
        # chr() of an escape past U+10FFFF ends as a ValueError without a mark; the scanner still stands there.
        at = _position(loader.get_mark())
        raise InputError(
            "not valid YAML: an escape names no character.", place=f"{place}:{at.line}:{at.column}"
        ) from None
    finally:
        loader.dispose()
    if builder.n_documents == 0:
        raise InputError("the file is empty.", place=place)
    return builder


def _joined(text: str) -> str:
    """Return `text` with pairs of half surrogates as the one character JSON reads them as."""
    if not _SURROGATE.search(text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def _position(mark: object) -> Position:
    return Position(mark.line + 1, mark.column + 1)  # type: ignore[attr-defined]  # PyYAML has two unrelated Mark types


def _syntax_error(error: MarkedYAMLError, place: str) -> InputError:
    mark = error.problem_mark or error.context_mark
    at = _position(mark) if mark else Position(1, 1)
    problem = error.problem or "the text ends early"
    hint = "Indent with blanks, not tabs." if "'\\t'" in problem else None
    return InputError(f"not valid YAML: {problem}.", hint=hint, place=f"{place}:{at.line}:{at.column}")


def _place(text: str, offset: int, place: str) -> str:
    at = position_at(text, offset)
    return f"{place}:{at.line}:{at.column}"
