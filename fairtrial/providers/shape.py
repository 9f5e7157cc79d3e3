"""The wire shapes by name, and looking into JSON that should have one of them."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from fairtrial.hashing import JsonValue

Shape: TypeAlias = Literal["openai-chat", "openai-responses", "anthropic-messages"]

SHAPES: Final[tuple[Shape, ...]] = ("openai-chat", "openai-responses", "anthropic-messages")


class NotTheShape(Exception):
    """JSON that is not what the wire shape says. The message says what is wrong, without the content."""


def as_object(value: JsonValue) -> dict[str, JsonValue]:
    """Return an object as it is. Raises NotTheShape for anything else."""
    if not isinstance(value, dict):
        raise NotTheShape("an object was expected and something else stands there")
    return value


def as_list(value: JsonValue) -> list[JsonValue]:
    """Return a list as it is, and an empty one for null or nothing. Raises NotTheShape for anything else."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise NotTheShape("a list was expected and something else stands there")
    return value


def text_or_none(value: JsonValue) -> str | None:
    """Return a text that is not empty, None for everything else."""
    return value if isinstance(value, str) and value else None
