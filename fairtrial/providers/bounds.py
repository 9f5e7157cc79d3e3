"""The most tokens a call can read, from the bytes of its request.

A token of the tokenisers in use is at least one byte of text, so bytes bound tokens. What a provider adds that is not
in the bytes (a picture behind an address, a stored prompt, a hosted tool) has no bound, and then the answer is None.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fairtrial.hashing import JsonValue
from fairtrial.providers.request import encode_body, output_limit
from fairtrial.providers.shape import Shape

ADDED_TOKENS: Final = 64
"""What frames the turns, beyond the bytes of the JSON around them."""
ADDED_FOR_TOOLS: Final = 2048
"""What providers add to explain tools or a schema to the model; Anthropic states up to about 800 for tools."""

_TEXT_PARTS: Final = ("text", "input_text", "output_text")
_TOOL_TYPES: Final = (None, "function", "custom")
# Keys whose value names something that the provider keeps and puts in itself.
_KEPT_THERE: Final = (
    "previous_response_id",
    "conversation",
    "prompt",
    "container",
    "mcp_servers",
    "web_search_options",
)


def input_bound(shape: Shape, body: Mapping[str, JsonValue]) -> int | None:
    """Return the most tokens that a request can be read as, None when that cannot be bounded."""
    if any(body.get(name) for name in _KEPT_THERE):
        return None
    tools = body.get("tools") or []
    if not isinstance(tools, list) or not all(
        isinstance(tool, dict) and tool.get("type") in _TOOL_TYPES for tool in tools
    ):
        return None
    turns = body.get("input" if shape == "openai-responses" else "messages")
    if not (_is_text_only(turns) and _is_text_only(body.get("system"))):
        return None
    explained = bool(tools) or any(name in body for name in ("response_format", "text", "output_config", "functions"))
    return len(encode_body(body)) + ADDED_TOKENS + (ADDED_FOR_TOOLS if explained else 0)


def output_bound(shape: Shape, body: Mapping[str, JsonValue]) -> int | None:
    """Return the most tokens that may be written, None without a limit in the request."""
    return output_limit(shape, body)


def can_write_cache(shape: Shape, body: Mapping[str, JsonValue]) -> bool:
    """Return whether the provider may write to its cache: Anthropic does only when asked."""
    return shape != "anthropic-messages" or b'"cache_control"' in encode_body(body)


def _is_text_only(value: JsonValue) -> bool:
    if isinstance(value, list):
        return all(_is_text_only(part) for part in value)
    if isinstance(value, dict):
        kind = value.get("type")
        if kind is not None and kind not in (*_TEXT_PARTS, "message"):
            return False
        return _is_text_only(value.get("content"))
    return value is None or isinstance(value, str)
