"""What came back from a model, the same for every wire shape.

An answer that was refused or is empty is the agent's failure and says so in `failed`; everything else that is not an
answer is raised by whoever reads the wire.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from fairtrial.providers.usage import NOT_REPORTED, TokenUsage

Stop: TypeAlias = Literal["end", "length", "tool_calls", "refused", "other"]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool that the model wants called. arguments is the text it wrote, which need not be valid JSON."""

    name: str
    arguments: str
    id: str | None = None


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """One whole answer.

    text           as the model wrote it; may hold half a surrogate pair, so encode it with "surrogatepass"
    stop           why it ended, in our words; stop_word in the provider's
    refusal        what the model or its filter said instead of an answer
    failed         None for an answer, else the agent's failure: `refused`, `too_long` (the input) or `empty`
    model          the model that answered, as the provider names it
    response_id    the provider's id of the answer; request_id its id of the request, from a header
    service_tier   the tier it was served by; it can decide the price
    """

    text: str
    stop: Stop = "other"
    stop_word: str | None = None
    refusal: str | None = None
    failed: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    model: str | None = None
    response_id: str | None = None
    request_id: str | None = None
    usage: TokenUsage = NOT_REPORTED
    service_tier: str | None = None


STOPS: Final[dict[str, Stop]] = {
    "stop": "end",
    "end_turn": "end",
    "stop_sequence": "end",
    "completed": "end",
    "length": "length",
    "max_tokens": "length",
    "max_output_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "tool_use": "tool_calls",
    "content_filter": "refused",
    "refusal": "refused",
}
"""The providers' words for why an answer ended. A word that is not here is `other`."""


def failure_of(text: str, *, stop: Stop, refusal: str | None, tool_calls: tuple[ToolCall, ...]) -> str | None:
    """Return the agent's failure in an answer, None when it is one."""
    if stop == "refused" or (refusal and not text.strip()):
        return "refused"
    return None if text.strip() or tool_calls else "empty"


def whole_text(parts: list[str]) -> str:
    """Return the parts as one text, with surrogate halves that two parts share made into one character."""
    text = "".join(parts)
    if text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
