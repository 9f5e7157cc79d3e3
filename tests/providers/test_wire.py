"""What is not a whole answer is raised with its kind; what the agent did wrong comes back as its failure."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fairtrial.errors import InfraError
from fairtrial.providers.answer import ModelAnswer, ToolCall
from fairtrial.providers.faults import StopTheRun
from fairtrial.providers.shape import SHAPES, Shape
from fairtrial.providers.wire import AnswerStream, Head, read_answer


def chat(**message: Any) -> bytes:
    reason = message.pop("finish_reason", "stop")
    return json.dumps({"model": "m-1", "choices": [{"message": message, "finish_reason": reason}]}).encode()


def sse(*values: Any) -> bytes:
    return b"".join(b"data: " + (v if isinstance(v, bytes) else json.dumps(v).encode()) + b"\n\n" for v in values)


def streamed(shape: Shape, data: bytes) -> ModelAnswer:
    stream = AnswerStream(shape)
    stream.feed(data)
    return stream.finish()


def loss(shape: Shape, body: bytes, status: int = 200) -> InfraError:
    with pytest.raises(InfraError) as caught:
        read_answer(shape, body, Head(status=status))
    return caught.value


# --- not an answer ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "is empty"),
        (b" \n ", "is empty"),
        (b"<!DOCTYPE html><title>Log in</title>", "HTML page"),
        (b"  <html><body>busy</body></html>", "HTML page"),
        (b"[1, 2]", "not an object"),
        (b"{}", "does not have the shape"),
        (b'{"choices": 3, "output": 3, "content": 3}', "does not have the shape"),
        (b'{"choices": [3], "output": [3], "content": [3]}', "does not have the shape"),
        (b'{"a": 1, "a": 2}', "stands twice"),
        (b'{"a": NaN}', "NaN is not a JSON value"),
        (b'{"a": 1e999}', "too large for a float"),
        (b'{"a": "\xff"}', "not UTF-8"),
        (b'{"choices": [{"message": {"content": "4', "not valid JSON"),
        (b'{"a": ' + b"[" * 100_000, "nested deeper"),
    ],
    ids=lambda value: None if isinstance(value, bytes) else value.replace(" ", "-"),
)
def test_r23_k71_a_200_that_is_no_answer_is_an_infra_loss(shape: Shape, body: bytes, words: str) -> None:
    error = loss(shape, body)
    assert (error.kind, error.retryable) == ("bad_answer", True)
    assert words in str(error)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ({"error": {"message": "busy", "type": "server_error"}}, "server_error"),
        ({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, "overloaded"),
        ({"error": {"code": 429, "message": "slow"}, "choices": [], "content": []}, "rate_limit"),
        ({"error": "something"}, "error_in_answer"),
        ({"object": "error", "message": "no", "code": 40303}, "error_in_answer"),
        ({"status": "failed", "output": [], "error": {"code": "rate_limit_exceeded", "message": "m"}}, "rate_limit"),
    ],
)
def test_r23_an_error_object_under_status_200_is_an_error(shape: Shape, body: dict[str, Any], kind: str) -> None:
    assert loss(shape, json.dumps(body).encode()).kind == kind


def test_a_null_error_is_none() -> None:
    body = {"error": None, "status": "completed", "output": []}
    assert read_answer("openai-responses", json.dumps(body).encode()).failed == "empty"


@pytest.mark.parametrize("status", ["queued", "in_progress", "cancelled"])
def test_a_response_that_is_not_finished_is_no_answer(status: str) -> None:
    assert loss("openai-responses", json.dumps({"status": status, "output": []}).encode()).kind == "bad_answer"


@pytest.mark.parametrize(
    ("shape", "data"),
    [
        ("openai-chat", sse({"choices": [{"delta": {"content": "4"}}]}, {"error": {"type": "server_error"}})),
        ("openai-responses", sse({"type": "error", "code": "server_error", "message": "m"})),
        (
            "openai-responses",
            sse({"type": "response.failed", "response": {"output": [], "error": {"code": "server_error"}}}),
        ),
        ("anthropic-messages", sse({"type": "error", "error": {"type": "api_error", "message": "m"}})),
    ],
)
def test_an_error_in_the_middle_of_a_stream_is_an_error(shape: Shape, data: bytes) -> None:
    with pytest.raises(InfraError) as caught:
        streamed(shape, data)
    assert (caught.value.kind, caught.value.retryable) == ("server_error", True)


@pytest.mark.parametrize(
    ("shape", "data"),
    [
        ("openai-chat", sse({"choices": [{"delta": {"content": "4"}}]})),
        ("openai-chat", sse({"choices": [{"delta": {"content": "4"}}]}, b"[DONE]")),
        ("openai-chat", sse({"choices": [{"delta": {"content": "4"}, "finish_reason": "stop"}]})),
        ("openai-chat", sse(b"[DONE]")),
        ("openai-responses", sse({"type": "response.output_text.delta", "delta": "4"})),
        ("anthropic-messages", sse({"type": "message_start", "message": {}}, {"type": "message_stop"})),
        ("anthropic-messages", b": ping\n\n" * 3),
        ("openai-chat", b""),
    ],
)
def test_r25_a_stream_without_its_end_is_cut(shape: Shape, data: bytes) -> None:
    with pytest.raises(InfraError) as caught:
        streamed(shape, data)
    assert (caught.value.kind, caught.value.retryable) == ("cut", True)


def test_r25_a_last_event_that_lacks_only_its_blank_line_counts() -> None:
    whole = sse({"choices": [{"delta": {"content": "4"}, "finish_reason": "stop"}]}, b"[DONE]")
    assert streamed("openai-chat", whole.rstrip()).text == "4"


def test_nothing_after_the_last_event_counts() -> None:
    whole = sse({"choices": [{"delta": {"content": "4"}, "finish_reason": "stop"}]}, b"[DONE]")
    assert streamed("openai-chat", whole + sse({"choices": [{"delta": {"content": "5"}}]}, b"rubbish")).text == "4"


def test_a_page_instead_of_a_stream_is_named() -> None:
    with pytest.raises(InfraError, match="HTML page") as caught:
        streamed("openai-chat", b"<html>log in</html>")
    assert caught.value.kind == "bad_answer"


def test_a_stream_that_is_no_json_is_a_bad_answer() -> None:
    with pytest.raises(InfraError, match="not valid JSON") as caught:
        streamed("openai-chat", b"data: {4\n\n")
    assert caught.value.kind == "bad_answer"


# --- answers and the agent's failures ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "failed"),
    [
        (chat(content="4"), None),
        (chat(content=""), "empty"),
        (chat(content=" \n"), "empty"),
        (chat(content=None), "empty"),
        (chat(content=None, refusal="I will not."), "refused"),
        (chat(content="so far", finish_reason="content_filter"), "refused"),
        (chat(content="so far", finish_reason="length"), None),
        (chat(content="", finish_reason="length"), "empty"),
        (chat(content=None, tool_calls=[{"id": "c", "function": {"name": "f", "arguments": "{}"}}]), None),
    ],
)
def test_k71_a_refused_or_empty_answer_is_the_agents_failure(body: bytes, failed: str | None) -> None:
    assert read_answer("openai-chat", body).failed == failed


def test_a_refusal_of_the_responses_api_is_one() -> None:
    item = {"type": "message", "content": [{"type": "refusal", "refusal": "I will not."}]}
    body = {"status": "completed", "output": [item], "model": "m"}
    answer = read_answer("openai-responses", json.dumps(body).encode())
    assert (answer.failed, answer.refusal, answer.stop) == ("refused", "I will not.", "refused")


def test_content_as_parts_is_one_text() -> None:
    assert read_answer(
        "openai-chat", chat(content=[{"type": "text", "text": "4"}, {"type": "text", "text": "2"}])
    ).text == ("42")


def test_tool_calls_that_come_in_pieces_are_put_together() -> None:
    pieces = [
        {"index": 0, "id": "a", "function": {"name": "f", "arguments": '{"x"'}},
        {"index": 1, "id": "b", "function": {"name": "g", "arguments": "{"}},
        {"index": 0, "function": {"arguments": ": 1}"}},
        {"index": 1, "function": {"arguments": "}"}},
    ]
    chunks = [{"choices": [{"index": 0, "delta": {"tool_calls": [piece]}}]} for piece in pieces]
    last = {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}
    answer = streamed("openai-chat", sse(*chunks, last, b"[DONE]"))
    assert answer.tool_calls == (ToolCall("f", '{"x": 1}', "a"), ToolCall("g", "{}", "b"))
    assert (answer.stop, answer.failed) == ("tool_calls", None)


def test_only_the_first_choice_is_read() -> None:
    chunks = [
        {"choices": [{"index": i, "delta": {"content": t}, "finish_reason": "stop"}]} for i, t in ((1, "B"), (0, "A"))
    ]
    assert streamed("openai-chat", sse(*chunks, b"[DONE]")).text == "A"


def test_an_output_that_the_last_event_leaves_out_is_taken_from_its_items() -> None:
    item = {"type": "message", "content": [{"type": "output_text", "text": "4"}]}
    done = {"type": "response.completed", "response": {"status": "completed", "output": [], "model": "m"}}
    answer = streamed("openai-responses", sse({"type": "response.output_item.done", "item": item}, done))
    assert (answer.text, answer.model) == ("4", "m")


def test_the_model_that_took_over_is_the_one_that_answered() -> None:
    body = {
        "model": "asked",
        "stop_reason": "end_turn",
        "content": [
            {"type": "fallback", "from": {"model": "asked"}, "to": {"model": "other"}},
            {"type": "text", "text": "4"},
        ],
    }
    assert read_answer("anthropic-messages", json.dumps(body).encode()).model == "other"


@pytest.mark.parametrize(
    ("status", "error", "failed"),
    [
        (400, {"code": "content_filter", "message": "filtered", "innererror": {"code": "x"}}, "refused"),
        (400, {"code": "context_length_exceeded", "type": "invalid_request_error", "message": "m"}, "too_long"),
        (400, {"type": "invalid_request_error", "message": "prompt is too long: 9 tokens > 8 maximum"}, "too_long"),
        (413, {"type": "request_too_large", "message": "m"}, "too_long"),
    ],
)
def test_an_input_that_the_model_does_not_take_is_the_agents_failure(
    status: int, error: dict[str, Any], failed: str
) -> None:
    answer = read_answer("openai-chat", json.dumps({"error": error}).encode(), Head(status=status))
    assert (answer.failed, answer.text) == (failed, "")
    assert answer.refusal is not None


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    ("status", "body", "kind", "scope"),
    [
        (401, {"error": {"code": "invalid_api_key", "message": "m"}}, "not_authorised", "key"),
        (403, {"type": "error", "error": {"type": "permission_error", "message": "m"}}, "not_allowed", "key"),
        (404, {"error": {"code": "model_not_found", "message": "m"}}, "not_found", "model"),
        (402, {"error": {"message": "m"}}, "out_of_money", "key"),
        (429, {"error": {"type": "insufficient_quota", "code": "credit_balance_exhausted"}}, "out_of_money", "key"),
        (
            400,
            {"error": {"type": "invalid_request_error", "message": "Your credit balance is too low to access it."}},
            "out_of_money",
            "key",
        ),
    ],
)
def test_k50_what_every_further_call_would_meet_stops_the_run(
    shape: Shape, status: int, body: dict[str, Any], kind: str, scope: str
) -> None:
    error = loss(shape, json.dumps(body).encode(), status)
    assert isinstance(error, StopTheRun)
    assert (error.kind, error.scope, error.retryable) == (kind, scope, False)


def test_what_a_provider_says_is_shown_short_and_without_control_characters() -> None:
    body = json.dumps({"error": {"code": "x\x1b", "message": "\x1b[31m" + "y" * 5000}}).encode()
    said = str(loss("openai-chat", body, 500))
    assert len(said) < 400
    assert said.isprintable()
