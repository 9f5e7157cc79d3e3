"""Request bodies, addresses and headers of the three wire shapes.

Parameters go into the body as they are written, under the provider's own names; what this module sets itself cannot be
set by them. The key stands in a header and nowhere else.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from fairtrial.errors import SpecError
from fairtrial.hashing import JsonValue
from fairtrial.providers.shape import Shape
from fairtrial.spec.text import shown

ANTHROPIC_VERSION: Final = "2023-06-01"
"""The version of the wire that the recorded traffic in our tests has."""
ANTHROPIC_MAX_TOKENS: Final = 4096
"""That API asks for a limit on the answer; this one is sent when the parameters have none."""

_PATHS: Final[dict[Shape, str]] = {
    "openai-chat": "/chat/completions",
    "openai-responses": "/responses",
    "anthropic-messages": "/v1/messages",
}
_OURS: Final[dict[Shape, tuple[str, ...]]] = {
    "openai-chat": ("model", "messages", "stream"),
    "openai-responses": ("model", "input", "instructions", "stream"),
    "anthropic-messages": ("model", "messages", "system", "stream"),
}
_LIMITS: Final[dict[Shape, tuple[str, ...]]] = {
    "openai-chat": ("max_completion_tokens", "max_tokens"),
    "openai-responses": ("max_output_tokens",),
    "anthropic-messages": ("max_tokens",),
}


@dataclass(frozen=True, slots=True)
class Message:
    """One turn. content is a text, or the provider's own list of parts."""

    role: str
    content: str | list[JsonValue]


@dataclass(frozen=True, slots=True)
class OutputSchema:
    """A JSON schema that the answer has to follow. The name matters to OpenAI's shapes only."""

    schema: Mapping[str, JsonValue]
    name: str = "answer"
    strict: bool = True


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """What is asked of a model, before it has a wire shape. parameters are the provider's own names and values."""

    model: str
    messages: Sequence[Message]
    system: str | None = None
    parameters: Mapping[str, JsonValue] = field(default_factory=dict)
    output: OutputSchema | None = None
    stream: bool = False


def request_body(shape: Shape, request: ModelRequest) -> dict[str, JsonValue]:
    """Return the JSON body.

    Raises SpecError for a parameter that this module sets itself, for more than one answer a call, and for a system
    message that is not at the beginning where the shape has no place for it.
    """
    parameters = _checked(shape, request)
    if shape == "openai-chat":
        body = _chat_body(request, parameters)
    elif shape == "openai-responses":
        body = _responses_body(request, parameters)
    else:
        body = _messages_body(request, parameters)
    return body | ({"stream": True} if request.stream else {})


def encode_body(body: Mapping[str, JsonValue]) -> bytes:
    """Return the body as JSON bytes. Raises SpecError for NaN and the infinities."""
    try:
        text = json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except ValueError:
        raise SpecError("a parameter of the task is NaN or infinite, which JSON cannot say.") from None
    try:
        return text.encode()
    except UnicodeEncodeError:
        # Half a surrogate pair has no UTF-8 form; as an escape it is still JSON.
        return json.dumps(body, separators=(",", ":"), allow_nan=False).encode("ascii")


def output_limit(shape: Shape, parameters: Mapping[str, JsonValue]) -> int | None:
    """Return the most tokens the answer may have, reasoning included; None when the request sets no limit."""
    found = [value for name in _LIMITS[shape] if _is_count(value := parameters.get(name))]
    if found:
        return max(int(str(value)) for value in found)
    return ANTHROPIC_MAX_TOKENS if shape == "anthropic-messages" and "max_tokens" not in parameters else None


def address(shape: Shape, base_url: str) -> str:
    """Return the URL of a call.

    base_url   as the providers' own libraries take it: with /v1 for OpenAI's shapes, without for Anthropic's (with it
               is understood); a query is kept

    Raises SpecError for what is no http or https address, and for a user name or password in it.
    """
    try:
        parts = urlsplit(base_url)
        fits = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        fits = False
    if not fits:
        raise SpecError("base_url is no http or https address.", place="task.base_url")
    if "@" in parts.netloc:
        raise SpecError(
            "base_url holds a user name or a password.",
            hint="Put the key into a variable and name that with api_key_env.",
            place="task.base_url",
        )
    path, end = parts.path.rstrip("/"), _PATHS[shape]
    if shape == "anthropic-messages" and path.endswith("/v1"):
        path = path.removesuffix("/v1")
    return urlunsplit((parts.scheme, parts.netloc, path + end, parts.query, ""))


def request_headers(
    shape: Shape, *, url: str, key: str | None, stream: bool, idempotency_key: str | None = None
) -> dict[str, str]:
    """Return the headers of a call. key is None for a server that wants none.

    Raises SpecError for a key that cannot stand in a header, without showing it.
    """
    headers = {
        "content-type": "application/json",
        "accept": "text/event-stream" if stream else "application/json",
        "accept-encoding": "gzip",
        "user-agent": "fairtrial",
    }
    if shape == "anthropic-messages":
        headers["anthropic-version"] = ANTHROPIC_VERSION
    if idempotency_key is not None:
        headers["idempotency-key"] = idempotency_key
    if key is None:
        return headers
    if not (key.isascii() and key.isprintable() and key.strip() == key and key):
        raise SpecError(
            "the API key is empty or holds a space at an end, a line break or a character that no key has.",
            place="task.api_key_env",
        )
    if shape == "anthropic-messages":
        return headers | {"x-api-key": key}
    if (urlsplit(url).hostname or "").endswith(".azure.com"):
        return headers | {"api-key": key}
    return headers | {"authorization": f"Bearer {key}"}


def _checked(shape: Shape, request: ModelRequest) -> dict[str, JsonValue]:
    parameters = dict(request.parameters)
    ours = [name for name in _OURS[shape] if name in parameters]
    if ours:
        raise SpecError(
            f"{shown(ours[0])} is no parameter: the task's own keys set it.", place=f"task.parameters.{ours[0]}"
        )
    if parameters.get("n", 1) not in (1, None):
        raise SpecError(
            'the parameter "n" asks for more answers than a trial reads.',
            hint="Repeat the trials instead (trials in the spec).",
            place="task.parameters.n",
        )
    if parameters.get("background"):
        raise SpecError("a trial waits for its answer; it cannot run in the background.", place="task.parameters")
    return parameters


def _chat_body(request: ModelRequest, parameters: dict[str, JsonValue]) -> dict[str, JsonValue]:
    messages: list[JsonValue] = []
    if request.system is not None:
        messages.append({"role": "system", "content": request.system})
    body: dict[str, JsonValue] = {
        "model": request.model,
        "messages": [*messages, *_plain(request.messages)],
        **parameters,
    }
    if request.output is not None:
        _set(body, "response_format", {"type": "json_schema", "json_schema": _named(request.output)})
    if request.stream:
        # Without it a stream reports no usage.
        body.setdefault("stream_options", {"include_usage": True})
    return body


def _responses_body(request: ModelRequest, parameters: dict[str, JsonValue]) -> dict[str, JsonValue]:
    body: dict[str, JsonValue] = {"model": request.model, "input": _plain(request.messages), **parameters}
    if request.system is not None:
        body["instructions"] = request.system
    if request.output is not None:
        _set_format(body, "text", {"type": "json_schema", **_named(request.output)})
    return body


def _messages_body(request: ModelRequest, parameters: dict[str, JsonValue]) -> dict[str, JsonValue]:
    system: list[JsonValue] = [] if request.system is None else [request.system]
    messages = list(request.messages)
    while messages and messages[0].role in ("system", "developer"):
        system.append(messages.pop(0).content)
    if any(message.role in ("system", "developer") for message in messages):
        raise SpecError(
            "a system message stands after the first turn, where this provider takes none.", place="task.messages"
        )
    body: dict[str, JsonValue] = {"model": request.model, "messages": _plain(messages), **parameters}
    if system:
        body["system"] = system[0] if len(system) == 1 else _blocks(system)
    body.setdefault("max_tokens", ANTHROPIC_MAX_TOKENS)
    if request.output is not None:
        _set_format(body, "output_config", {"type": "json_schema", "schema": dict(request.output.schema)})
    return body


def _plain(messages: Sequence[Message]) -> list[JsonValue]:
    return [{"role": message.role, "content": message.content} for message in messages]


def _blocks(contents: list[JsonValue]) -> list[JsonValue]:
    blocks: list[JsonValue] = []
    for content in contents:
        blocks.extend(content if isinstance(content, list) else [{"type": "text", "text": content}])
    return blocks


def _named(output: OutputSchema) -> dict[str, JsonValue]:
    return {"name": output.name, "schema": dict(output.schema), "strict": output.strict}


def _set(body: dict[str, JsonValue], name: str, value: JsonValue, *, place: str | None = None) -> None:
    if name in body:
        where = place or name
        raise SpecError(
            f"{shown(where)} is set by the parameters and by the output schema.",
            hint="Take one of the two away.",
            place=f"task.parameters.{where}",
        )
    body[name] = value


def _set_format(body: dict[str, JsonValue], outer: str, value: JsonValue) -> None:
    """Set the format inside an object that parameters may have begun."""
    begun = body.get(outer)
    inner = dict(begun) if isinstance(begun, dict) else {}
    _set(inner, "format", value, place=f"{outer}.format")
    body[outer] = inner


def _is_count(value: JsonValue) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
