"""OpenAI chat completions, as OpenAI, Azure and many other servers speak them: whole answers and streams.

A stream is over at `[DONE]` and not before: a connection that ends early looks the same up to there.
"""

from __future__ import annotations

from fairtrial.hashing import JsonValue
from fairtrial.providers.answer import STOPS, ModelAnswer, Stop, ToolCall, failure_of, whole_text
from fairtrial.providers.shape import NotTheShape, as_list, as_object, text_or_none
from fairtrial.providers.usage import from_openai


def read_chat(body: dict[str, JsonValue]) -> ModelAnswer:
    """Return the first choice of a whole answer. Raises NotTheShape."""
    choices = as_list(body.get("choices"))
    if not choices:
        raise NotTheShape("it has no choice")
    choice = as_object(choices[0])
    # Azure's filter leaves the message out.
    left_out = "message" not in choice and choice.get("finish_reason") == "content_filter"
    message = as_object({} if left_out else choice.get("message"))
    calls = [_call(as_object(call)) for call in as_list(message.get("tool_calls"))]
    if isinstance(message.get("function_call"), dict):
        calls.append(_call({"function": message["function_call"]}))
    return _answer(
        body,
        parts=[_content(message.get("content"))],
        refusal=text_or_none(message.get("refusal")),
        calls=tuple(calls),
        stop_word=text_or_none(choice.get("finish_reason")),
    )


class ChatStream:
    """Puts the first choice of a stream together."""

    def __init__(self) -> None:
        self.is_complete = False
        self._seen = False
        self._head: dict[str, JsonValue] = {}
        self._parts: list[str] = []
        self._refusal: list[str] = []
        self._calls: dict[int, dict[str, list[str]]] = {}
        self._stop_word: str | None = None

    def take(self, name: str, value: JsonValue) -> None:
        """Take the JSON of one event; `[DONE]` is given as None. Raises NotTheShape."""
        if value is None:
            # Without a reason to stop the server gave up, whatever it wrote after.
            self.is_complete = self._seen and self._stop_word is not None
            return
        chunk = as_object(value)
        self._seen = True
        for key in ("id", "model", "usage", "service_tier"):
            if chunk.get(key):
                self._head[key] = chunk[key]
        for choice in map(as_object, as_list(chunk.get("choices"))):
            if choice.get("index", 0) == 0:
                self._take_choice(choice)

    def answer(self) -> ModelAnswer:
        """Return what came, once is_complete."""
        calls = [
            ToolCall(
                name="".join(call["name"]), arguments=whole_text(call["arguments"]), id="".join(call["id"]) or None
            )
            for _, call in sorted(self._calls.items())
        ]
        return _answer(
            self._head,
            parts=self._parts,
            refusal=whole_text(self._refusal) or None,
            calls=tuple(calls),
            stop_word=self._stop_word,
        )

    def _take_choice(self, choice: dict[str, JsonValue]) -> None:
        delta = as_object(choice.get("delta") or {})
        self._parts.append(_content(delta.get("content")))
        self._refusal.append(text_or_none(delta.get("refusal")) or "")
        for place, call in enumerate(map(as_object, as_list(delta.get("tool_calls")))):
            index = call.get("index", place)
            self._take_call(index if isinstance(index, int) else place, call)
        if isinstance(delta.get("function_call"), dict):
            self._take_call(0, {"function": delta["function_call"]})
        self._stop_word = text_or_none(choice.get("finish_reason")) or self._stop_word

    def _take_call(self, index: int, piece: dict[str, JsonValue]) -> None:
        call = self._calls.setdefault(index, {"id": [], "name": [], "arguments": []})
        read = _call(piece)
        # Some servers repeat id and name in every piece.
        if read.id and not call["id"]:
            call["id"].append(read.id)
        if read.name and call["name"] != [read.name]:
            call["name"].append(read.name)
        call["arguments"].append(read.arguments)


def _answer(
    head: dict[str, JsonValue],
    *,
    parts: list[str],
    refusal: str | None,
    calls: tuple[ToolCall, ...],
    stop_word: str | None,
) -> ModelAnswer:
    text = whole_text(parts)
    stop: Stop = STOPS.get(stop_word or "", "other")
    return ModelAnswer(
        text=text,
        stop=stop,
        stop_word=stop_word,
        refusal=refusal,
        failed=failure_of(text, stop=stop, refusal=refusal, tool_calls=calls),
        tool_calls=calls,
        model=text_or_none(head.get("model")),
        response_id=text_or_none(head.get("id")),
        usage=from_openai(head.get("usage")),
        service_tier=text_or_none(head.get("service_tier")),
    )


def _content(value: JsonValue) -> str:
    """Return a message's text; some servers give it as a list of parts."""
    if isinstance(value, list):
        return "".join(text_or_none(part.get("text")) or "" for part in value if isinstance(part, dict))
    if value is not None and not isinstance(value, str):
        raise NotTheShape("a message's content is neither text nor parts")
    return value or ""


def _call(call: dict[str, JsonValue]) -> ToolCall:
    function = as_object(call.get("function") or call.get("custom") or {})
    arguments = function.get("arguments", function.get("input"))
    return ToolCall(
        name=text_or_none(function.get("name")) or "",
        arguments=text_or_none(arguments) or "",
        id=text_or_none(call.get("id")),
    )
