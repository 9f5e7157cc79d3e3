"""OpenAI responses: whole answers and streams.

The last event of a stream holds the whole answer again, so the pieces before it are only needed where a server leaves
its output out there.
"""

from __future__ import annotations

from typing import Final

from fairtrial.hashing import JsonValue
from fairtrial.providers.answer import STOPS, ModelAnswer, Stop, ToolCall, failure_of, whole_text
from fairtrial.providers.shape import NotTheShape, as_list, as_object, text_or_none
from fairtrial.providers.usage import from_openai

_LAST: Final = ("response.completed", "response.incomplete", "response.failed", "response.cancelled")
_CLIENT_CALLS: Final = {"function_call": "arguments", "custom_tool_call": "input"}
_HOSTED: Final = (
    "web_search_call",
    "file_search_call",
    "code_interpreter_call",
    "image_generation_call",
)


def read_response(body: dict[str, JsonValue]) -> ModelAnswer:
    """Return a whole answer. Raises NotTheShape, also for one that is not finished."""
    output = body.get("output")
    status = text_or_none(body.get("status"))
    if not isinstance(output, list):
        raise NotTheShape("it has no output")
    if status not in ("completed", "incomplete", None):
        raise NotTheShape(f"its status is not completed but {status[:40]}")
    return _answer(body, [as_object(item) for item in output], status=status)


class ResponseStream:
    """Reads a stream up to its last event."""

    def __init__(self) -> None:
        self.is_complete = False
        self._items: list[JsonValue] = []
        self._body: dict[str, JsonValue] = {}

    def take(self, name: str, value: JsonValue) -> None:
        """Take the JSON of one event. Raises NotTheShape."""
        if value is None:
            return
        event = as_object(value)
        kind = event.get("type")
        if kind == "response.output_item.done" and isinstance(event.get("item"), dict):
            self._items.append(event["item"])
        elif kind in _LAST:
            self._body = as_object(event.get("response"))
            self.is_complete = True

    def answer(self) -> ModelAnswer:
        """Return what came, once is_complete. Raises NotTheShape for an answer that was given up."""
        return read_response(self._body if self._body.get("output") else {**self._body, "output": self._items})

    @property
    def failure(self) -> JsonValue:
        """Return the error object of an answer that failed, None when there is none."""
        return self._body.get("error")


def _answer(body: dict[str, JsonValue], items: list[dict[str, JsonValue]], *, status: str | None) -> ModelAnswer:
    parts: list[str] = []
    refusals: list[str] = []
    calls: list[ToolCall] = []
    for item in items:
        kind = item.get("type")
        if kind == "message":
            for content in map(as_object, as_list(item.get("content"))):
                if content.get("type") == "output_text":
                    parts.append(text_or_none(content.get("text")) or "")
                elif content.get("type") == "refusal":
                    refusals.append(text_or_none(content.get("refusal")) or "")
        elif isinstance(kind, str) and kind in _CLIENT_CALLS:
            name, arguments = item.get("name"), item.get(_CLIENT_CALLS[kind])
            calls.append(
                ToolCall(text_or_none(name) or "", text_or_none(arguments) or "", text_or_none(item.get("call_id")))
            )
    text, refusal = whole_text(parts), whole_text(refusals) or None
    details = body.get("incomplete_details")
    reason = text_or_none(details.get("reason")) if status == "incomplete" and isinstance(details, dict) else status
    stop: Stop = STOPS.get(reason or "", "other")
    if stop == "end" and calls:
        stop = "tool_calls"
    elif stop == "end" and refusal and not text:
        stop = "refused"
    # The prices of these stand apart from those of tokens, per call.
    hosted = [str(item["type"]).removesuffix("_call") for item in items if item.get("type") in _HOSTED]
    return ModelAnswer(
        text=text,
        stop=stop,
        stop_word=reason,
        refusal=refusal,
        failed=failure_of(text, stop=stop, refusal=refusal, tool_calls=tuple(calls)),
        tool_calls=tuple(calls),
        model=text_or_none(body.get("model")),
        response_id=text_or_none(body.get("id")),
        usage=from_openai(body.get("usage"), hosted_tools=hosted),
        service_tier=text_or_none(body.get("service_tier")),
    )
