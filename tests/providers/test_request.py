"""Bodies are what the provider's own libraries would send; a key is in one header and in no message."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import openai
import pytest

from fairtrial.errors import SpecError
from fairtrial.providers.known import PROVIDERS, Known
from fairtrial.providers.request import (
    Message,
    ModelRequest,
    OutputSchema,
    address,
    encode_body,
    request_body,
    request_headers,
)
from fairtrial.providers.shape import SHAPES, Shape

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "number"}}, "required": ["a"]}
TURNS = [Message("user", "hello"), Message("assistant", "hi"), Message("user", "\u00fc?")]
AS_DICTS: Any = [{"role": turn.role, "content": turn.content} for turn in TURNS]


def sent_by_sdk(call: Any) -> tuple[str, dict[str, Any], httpx2.Headers]:
    """Return path, body and headers of the request that a call of an SDK makes."""
    seen: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        seen.append(request)
        return httpx2.Response(418)

    http = httpx2.Client(transport=httpx2.MockTransport(answer))
    with pytest.raises((openai.APIStatusError, anthropic.APIStatusError)):
        call(http)
    return seen[0].url.path, json.loads(seen[0].content), seen[0].headers


def by_us(shape: Shape, request: ModelRequest, base_url: str) -> tuple[str, dict[str, Any], dict[str, str]]:
    url = address(shape, base_url)
    headers = request_headers(shape, url=url, key="k-1", stream=request.stream)
    path = httpx2.URL(url).path
    return path, json.loads(encode_body(request_body(shape, request))), headers


@pytest.mark.parametrize("stream", [False, True])
def test_a_chat_request_is_what_the_sdk_sends(stream: bool) -> None:
    more: dict[str, Any] = {"stream": True, "stream_options": {"include_usage": True}} if stream else {}
    path, body, headers = sent_by_sdk(
        lambda http: openai.OpenAI(api_key="k-1", http_client=http, max_retries=0).chat.completions.create(
            model="m",
            messages=[{"role": "system", "content": "s"}, *AS_DICTS],
            temperature=0,
            response_format={
                "type": "json_schema",
                "json_schema": {"name": "answer", "schema": SCHEMA, "strict": True},
            },
            **more,
        )
    )
    request = ModelRequest("m", TURNS, "s", {"temperature": 0}, OutputSchema(SCHEMA), stream)
    our_path, our_body, our_headers = by_us("openai-chat", request, "https://api.openai.com/v1")
    assert (our_path, our_body) == (path, body)
    assert our_headers["authorization"] == headers["authorization"]


@pytest.mark.parametrize("stream", [False, True])
def test_a_responses_request_is_what_the_sdk_sends(stream: bool) -> None:
    more: dict[str, Any] = {"stream": True} if stream else {}
    path, body, _ = sent_by_sdk(
        lambda http: openai.OpenAI(api_key="k-1", http_client=http, max_retries=0).responses.create(
            model="m",
            instructions="s",
            input=AS_DICTS,
            max_output_tokens=9,
            text={
                "verbosity": "low",
                "format": {"type": "json_schema", "name": "answer", "schema": SCHEMA, "strict": True},
            },
            **more,
        )
    )
    parameters: dict[str, Any] = {"max_output_tokens": 9, "text": {"verbosity": "low"}}
    request = ModelRequest("m", TURNS, "s", parameters, OutputSchema(SCHEMA), stream)
    assert by_us("openai-responses", request, "https://api.openai.com/v1")[:2] == (path, body)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("base_url", ["https://api.anthropic.com", "https://api.anthropic.com/v1/"])
def test_a_messages_request_is_what_the_sdk_sends(stream: bool, base_url: str) -> None:
    more: dict[str, Any] = {"stream": True} if stream else {}
    path, body, _ = sent_by_sdk(
        lambda http: anthropic.Anthropic(api_key="k-1", http_client=http, max_retries=0).messages.create(
            model="m",
            system="s",
            messages=AS_DICTS,
            max_tokens=4096,
            output_config={"format": {"type": "json_schema", "schema": SCHEMA}},
            **more,
        )
    )
    request = ModelRequest("m", TURNS, "s", {}, OutputSchema(SCHEMA), stream)
    our_path, our_body, our_headers = by_us("anthropic-messages", request, base_url)
    assert (our_path, our_body) == (path, body)
    # The version of the recorded traffic, which our reader is tested on, and the header that this version asks for; the
    # SDK has gone on to a later one, with which the key is a bearer token.
    assert (our_headers["anthropic-version"], our_headers["x-api-key"]) == ("2023-06-01", "k-1")
    assert "authorization" not in our_headers


def test_system_messages_at_the_beginning_become_the_system_text_of_anthropic() -> None:
    turns = [Message("system", "one"), Message("user", "x")]
    assert request_body("anthropic-messages", ModelRequest("m", turns))["system"] == "one"
    both = request_body("anthropic-messages", ModelRequest("m", turns, system="zero"))["system"]
    assert both == [{"type": "text", "text": "zero"}, {"type": "text", "text": "one"}]
    with pytest.raises(SpecError, match="after the first turn"):
        request_body("anthropic-messages", ModelRequest("m", turns[::-1]))


@pytest.mark.parametrize(
    ("shape", "parameters", "words"),
    [
        ("openai-chat", {"messages": []}, "messages"),
        ("openai-responses", {"input": "x"}, "input"),
        ("anthropic-messages", {"system": "x"}, "system"),
        ("openai-chat", {"stream": True}, "stream"),
        ("openai-chat", {"n": 2}, "more answers"),
        ("openai-responses", {"background": True}, "background"),
        ("openai-chat", {"response_format": {}}, "response_format"),
        ("openai-responses", {"text": {"format": {}}}, "text.format"),
        ("anthropic-messages", {"output_config": {"format": {}}}, "output_config.format"),
    ],
)
def test_a_parameter_that_is_ours_to_set_is_refused(shape: Shape, parameters: dict[str, Any], words: str) -> None:
    with pytest.raises(SpecError, match=words):
        request_body(shape, ModelRequest("m", TURNS, parameters=parameters, output=OutputSchema(SCHEMA)))


def test_k85_half_a_surrogate_pair_in_a_prompt_is_sent_as_an_escape() -> None:
    data = encode_body({"messages": [{"role": "user", "content": "\ud835"}]})
    assert rb"\ud835" in data
    assert json.loads(data) == {"messages": [{"role": "user", "content": "\ud835"}]}


def test_a_number_that_json_cannot_say_is_refused() -> None:
    with pytest.raises(SpecError, match="NaN"):
        encode_body({"temperature": float("nan")})


@pytest.mark.parametrize(
    "base_url", ["", "api.openai.com", "file:///etc/passwd", "ftp://a/b", "http://", "http://a:99999/", "http://[::1"]
)
def test_an_address_that_cannot_be_called_is_refused(base_url: str) -> None:
    with pytest.raises(SpecError, match="no http or https address"):
        address("openai-chat", base_url)


def test_r62_a_password_in_an_address_is_refused_without_showing_it() -> None:
    with pytest.raises(SpecError) as caught:
        address("openai-chat", "https://user:canary-secret@host.example/v1")
    assert "canary" not in str(caught.value)


def test_the_query_of_an_address_stays_behind_the_path() -> None:
    url = address("openai-chat", "https://x.openai.azure.com/openai/deployments/d?api-version=1")
    assert url == "https://x.openai.azure.com/openai/deployments/d/chat/completions?api-version=1"
    assert request_headers("openai-chat", url=url, key="k", stream=False)["api-key"] == "k"


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("key", ["", " canary", "canary\n", "can\u00e4ry", "canary\r\nX-Other: 1"])
def test_r62_a_key_that_cannot_be_a_header_is_refused_without_showing_it(shape: Shape, key: str) -> None:
    with pytest.raises(SpecError) as caught:
        request_headers(shape, url="https://host.example", key=key, stream=False)
    assert "anary" not in str(caught.value)
    assert "\u00e4ry" not in str(caught.value)


def test_without_a_key_no_header_says_one() -> None:
    for shape in SHAPES:
        headers = request_headers(shape, url="http://127.0.0.1", key=None, stream=False, idempotency_key="i-1")
        assert not {"authorization", "x-api-key", "api-key"} & set(headers)
        assert headers["idempotency-key"] == "i-1"


def test_every_provider_of_the_page_is_known_as_it_says() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "providers.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([a-z-]+)` \| ([a-z ]+)[^|]*\| `(https[^`]+)` \| `([A-Z_]+)` \|$", page, re.MULTILINE)
    shapes: dict[str, Shape] = {
        "chat completions": "openai-chat",
        "responses": "openai-responses",
        "messages": "anthropic-messages",
    }
    said = {name: Known(shapes[shape.strip()], url, variable) for name, shape, url, variable in rows}
    assert said == PROVIDERS
