"""Recorded model traffic as the bytes that a client reads, and what the official SDKs make of the same bytes.

The SDKs get the bytes through a transport of their own HTTP library, so everything behind it is theirs: decoder,
models, accumulators.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import openai
import yaml
from openai.lib.streaming.chat import ChatCompletionStreamState

from fairtrial.providers.shape import Shape

OBJECTS: dict[str, Shape] = {
    "chat.completion": "openai-chat",
    "chat.completion.chunk": "openai-chat",
    "response": "openai-responses",
    "response.created": "openai-responses",
    "message": "anthropic-messages",
    "message_start": "anthropic-messages",
}


@dataclass(frozen=True)
class Recorded:
    """One recorded answer of a shape of ours. stream says that the body is one."""

    name: str
    shape: Shape
    body: bytes
    stream: bool
    status: int


@dataclass(frozen=True)
class Expected:
    """What an SDK reads in it. Tokens as the wire counts them, with the parts inside or beside."""

    text: str
    model: str
    stop: str | None
    tool_calls: list[tuple[str, Any]]
    read: int | None
    written: int | None
    cached: int | None


def cassettes(folder: Path) -> Iterator[Recorded]:
    """Yield the chat, responses and messages answers of vcrpy cassettes; calls of other endpoints are passed over."""
    for path in sorted([*folder.rglob("*.yaml"), *folder.rglob("*.yaml.gz")]):
        raw = path.read_bytes()
        content = yaml.load(gzip.decompress(raw) if path.suffix == ".gz" else raw, Loader=yaml.CSafeLoader)
        for number, response in enumerate(_responses(content)):
            body = _body(response)
            found = _shape(body)
            if found is not None:
                status = response["status"]
                code = status["code"] if isinstance(status, dict) else status
                yield Recorded(f"{path.stem}#{number}", *found, status=code)


def event_texts(folder: Path) -> Iterator[Recorded]:
    """Yield the streams that the Anthropic SDK's authors wrote for its tests."""
    for path in sorted([*folder.glob("*.txt"), *folder.glob("*.sse")]):
        yield Recorded(path.stem, "anthropic-messages", path.read_bytes(), stream=True, status=200)


def by_sdk(recorded: Recorded) -> Expected:
    """Return what the official SDK of the shape reads."""
    kind = "text/event-stream" if recorded.stream else "application/json"

    def answer(_request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(recorded.status, headers={"content-type": kind}, content=recorded.body)

    http = httpx2.Client(transport=httpx2.MockTransport(answer))
    if recorded.shape == "anthropic-messages":
        return _by_anthropic(anthropic.Anthropic(api_key="none", http_client=http, max_retries=0), recorded)
    client = openai.OpenAI(api_key="none", http_client=http, max_retries=0)
    return _chat(client, recorded) if recorded.shape == "openai-chat" else _response(client, recorded)


def _chat(client: openai.OpenAI, recorded: Recorded) -> Expected:
    asked: Any = {"model": "m", "messages": [{"role": "user", "content": "x"}]}
    if recorded.stream:
        state = ChatCompletionStreamState()
        model = ""
        for chunk in client.chat.completions.create(**asked, stream=True):
            state.handle_chunk(chunk)
            model = chunk.model or model
        done: Any = state.current_completion_snapshot
        # The accumulator keeps the name in the first chunk, which Azure leaves empty.
        done.model = model
    else:
        done = client.chat.completions.create(**asked)
    choice = done.choices[0]
    if choice.message is None:
        read, written = done.usage.prompt_tokens, done.usage.completion_tokens
        return Expected("", done.model, choice.finish_reason, [], read, written, None)
    calls = [(call.function.name, call.function.arguments) for call in choice.message.tool_calls or []]
    if choice.message.function_call is not None:
        calls.append((choice.message.function_call.name, choice.message.function_call.arguments))
    details = done.usage.prompt_tokens_details if done.usage is not None else None
    return Expected(
        text=choice.message.content or "",
        model=done.model,
        stop=choice.finish_reason,
        tool_calls=calls,
        read=done.usage.prompt_tokens if done.usage is not None else None,
        written=done.usage.completion_tokens if done.usage is not None else None,
        cached=details.cached_tokens if details is not None else None,
    )


def _response(client: openai.OpenAI, recorded: Recorded) -> Expected:
    done: Any
    if recorded.stream:
        for event in client.responses.create(model="m", input="x", stream=True):
            if event.type in ("response.completed", "response.incomplete"):
                done = event.response
    else:
        done = client.responses.create(model="m", input="x")
    calls = [
        (item.name, item.arguments if item.type == "function_call" else item.input)
        for item in done.output
        if item.type in ("function_call", "custom_tool_call")
    ]
    return Expected(
        text=done.output_text,
        model=done.model,
        stop=done.incomplete_details.reason if done.status == "incomplete" else done.status,
        tool_calls=calls,
        read=done.usage.input_tokens,
        written=done.usage.output_tokens,
        cached=done.usage.input_tokens_details.cached_tokens,
    )


def _by_anthropic(client: anthropic.Anthropic, recorded: Recorded) -> Expected:
    asked: Any = {"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": "x"}]}
    if recorded.stream:
        # The beta accumulator knows the fallback blocks, the other one does not.
        with client.beta.messages.stream(**asked) as stream:
            done: Any = stream.get_final_message()
    else:
        done = client.messages.create(**asked)
    return Expected(
        text="".join(block.text for block in done.content if block.type == "text"),
        model=done.model,
        stop=done.stop_reason,
        tool_calls=[(block.name, block.input) for block in done.content if block.type == "tool_use"],
        read=done.usage.input_tokens,
        written=done.usage.output_tokens,
        cached=done.usage.cache_read_input_tokens,
    )


def _responses(content: dict[str, Any]) -> list[dict[str, Any]]:
    if "responses" in content:
        return content["responses"]  # type: ignore[no-any-return]
    return [interaction["response"] for interaction in content["interactions"]]


def _body(response: dict[str, Any]) -> bytes:
    body = response["body"]
    text = body.get("string") if isinstance(body, dict) else body
    data = text.encode() if isinstance(text, str) else text or b""
    return gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data


def _shape(body: bytes) -> tuple[Shape, bytes, bool] | None:
    if body.lstrip().startswith(b"{"):
        value = json.loads(body)
        shape = OBJECTS.get(value.get("object") or value.get("type"))
        return None if shape is None else (shape, body, False)
    for line in body.splitlines():
        if line.startswith(b"data:") and line.removeprefix(b"data:").strip() != b"[DONE]":
            value = json.loads(line.removeprefix(b"data:"))
            shape = OBJECTS.get(value.get("object") or value.get("type"))
            # Azure's first chunk has neither; its choices tell what it is.
            shape = "openai-chat" if shape is None and "prompt_filter_results" in value else shape
            return None if shape is None else (shape, body, True)
    return None
