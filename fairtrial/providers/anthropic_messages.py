"""Anthropic messages: whole answers and streams.

Counts in a stream are totals so far: a later one replaces an earlier one, and one that is left out keeps its value.
"""

from __future__ import annotations

import json

from fairtrial.hashing import JsonValue
from fairtrial.providers.answer import STOPS, ModelAnswer, Stop, ToolCall, failure_of, whole_text
from fairtrial.providers.shape import NotTheShape, as_object, text_or_none
from fairtrial.providers.usage import from_anthropic


def read_message(body: dict[str, JsonValue]) -> ModelAnswer:
    """Return a whole answer. Raises NotTheShape."""
    content = body.get("content")
    if not isinstance(content, list):
        raise NotTheShape("it has no content")
    blocks = [as_object(block) for block in content]
    parts = [text_or_none(block.get("text")) or "" for block in blocks if block.get("type") == "text"]
    calls = [
        _call(block, json.dumps(block.get("input"), ensure_ascii=False))
        for block in blocks
        if block.get("type") == "tool_use"
    ]
    return _answer(body, parts=parts, calls=tuple(calls), model=_served_by(blocks))


class MessageStream:
    """Puts the blocks of a stream together."""

    def __init__(self) -> None:
        self.is_complete = False
        self._message: dict[str, JsonValue] | None = None
        self._blocks: dict[int, dict[str, JsonValue]] = {}
        self._pieces: dict[int, list[str]] = {}

    def take(self, name: str, value: JsonValue) -> None:
        """Take the JSON of one event; kinds that are not known are passed over. Raises NotTheShape."""
        if value is None:
            return
        event = as_object(value)
        kind = event.get("type")
        if kind == "message_start":
            self._message = dict(as_object(event.get("message")))
        elif self._message is None:
            return
        elif kind == "content_block_start":
            self._start(_index(event), as_object(event.get("content_block")))
        elif kind == "content_block_delta":
            self._add(_index(event), as_object(event.get("delta")))
        elif kind == "message_delta":
            self._message |= as_object(event.get("delta"))
            self._message["usage"] = _laid_over(self._message.get("usage"), event.get("usage"))
        elif kind == "message_stop":
            self.is_complete = self._message.get("stop_reason") is not None

    def answer(self) -> ModelAnswer:
        """Return what came, once is_complete."""
        blocks = sorted(self._blocks.items())
        parts = [piece for index, block in blocks if block.get("type") == "text" for piece in self._pieces[index]]
        calls = [
            _call(block, whole_text(self._pieces[index]) or "{}")
            for index, block in blocks
            if block.get("type") == "tool_use"
        ]
        model = _served_by([block for _, block in blocks])
        return _answer(self._message or {}, parts=parts, calls=tuple(calls), model=model)

    def _start(self, index: int, block: dict[str, JsonValue]) -> None:
        self._blocks[index] = block
        self._pieces[index] = [text_or_none(block.get("text")) or ""]

    def _add(self, index: int, delta: dict[str, JsonValue]) -> None:
        if index not in self._pieces:
            raise NotTheShape("a piece came for a block that was not begun")
        fields = {"text_delta": "text", "input_json_delta": "partial_json"}
        field = fields.get(str(delta.get("type")))
        if field is not None:
            self._pieces[index].append(text_or_none(delta.get(field)) or "")


def _answer(
    message: dict[str, JsonValue], *, parts: list[str], calls: tuple[ToolCall, ...], model: str | None
) -> ModelAnswer:
    text = whole_text(parts)
    stop_word = text_or_none(message.get("stop_reason"))
    stop: Stop = STOPS.get(stop_word or "", "other")
    details = message.get("stop_details")
    said = text_or_none(details.get("explanation")) if isinstance(details, dict) else None
    usage = message.get("usage")
    return ModelAnswer(
        text=text,
        stop=stop,
        stop_word=stop_word,
        refusal=said if stop == "refused" else None,
        failed=failure_of(text, stop=stop, refusal=None, tool_calls=calls),
        tool_calls=calls,
        model=model or text_or_none(message.get("model")),
        response_id=text_or_none(message.get("id")),
        usage=from_anthropic(usage),
        service_tier=text_or_none(usage.get("service_tier")) if isinstance(usage, dict) else None,
    )


def _served_by(blocks: list[dict[str, JsonValue]]) -> str | None:
    """Return the model that took over, when one did: the message still names the one that was asked."""
    model = None
    for block in blocks:
        to = block.get("to")
        if block.get("type") == "fallback" and isinstance(to, dict):
            model = text_or_none(to.get("model")) or model
    return model


def _call(block: dict[str, JsonValue], arguments: str) -> ToolCall:
    return ToolCall(text_or_none(block.get("name")) or "", arguments, text_or_none(block.get("id")))


def _index(event: dict[str, JsonValue]) -> int:
    index = event.get("index")
    if not isinstance(index, int):
        raise NotTheShape("an event has no index")
    return index


def _laid_over(before: JsonValue, after: JsonValue) -> JsonValue:
    merged = dict(before) if isinstance(before, dict) else {}
    merged |= {name: value for name, value in (after.items() if isinstance(after, dict) else ()) if value is not None}
    return merged
