"""Every recorded answer reads to what the official SDKs read in the same bytes, whole and in any pieces."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from fairtrial.errors import InfraError
from fairtrial.providers.answer import STOPS, ModelAnswer
from fairtrial.providers.wire import AnswerStream, Head, read_answer
from tests.providers.traffic import Expected, Recorded, by_sdk, cassettes, event_texts


@pytest.fixture(scope="module")
def traffic(data_dir: Path) -> list[Recorded]:
    folders = [data_dir / "wire-openai", data_dir / "wire-anthropic"]
    if not all(folder.is_dir() for folder in folders):
        pytest.skip("needs wire-openai and wire-anthropic in the data folder")
    return [recorded for folder in folders for recorded in cassettes(folder)]


@pytest.fixture(scope="module")
def written(data_dir: Path) -> list[Recorded]:
    folder = data_dir / "wire-anthropic" / "anthropic-sdk-sse"
    if not folder.is_dir():
        pytest.skip("needs wire-anthropic in the data folder")
    return list(event_texts(folder))


def read(recorded: Recorded, *, chunk: int = 1 << 20) -> ModelAnswer:
    if not recorded.stream:
        return read_answer(recorded.shape, recorded.body, Head(status=recorded.status))
    stream = AnswerStream(recorded.shape)
    for start in range(0, len(recorded.body), chunk):
        stream.feed(recorded.body[start : start + chunk])
    return stream.finish()


def as_expected(recorded: Recorded, answer: ModelAnswer) -> Expected:
    """Return our answer in the terms of the wire: OpenAI counts cached tokens inside the input, Anthropic beside."""
    usage = answer.usage
    anthropic = recorded.shape == "anthropic-messages"
    calls: list[tuple[str, Any]] = [(call.name, call.arguments) for call in answer.tool_calls]
    return Expected(
        text=answer.text,
        model=answer.model or "",
        stop=answer.stop_word,
        tool_calls=[(name, json.loads(text)) for name, text in calls] if anthropic else calls,
        read=usage.fresh_input if anthropic else usage.input_total,
        written=usage.output_total,
        cached=usage.cached_read,
    )


def test_every_recorded_answer_reads_as_the_sdk_reads_it(traffic: list[Recorded]) -> None:
    # By hand, with a count of bodies by object: 68 chat, 49 responses and 7 messages whole; 32 + 4 chat, 85 responses
    # and 12 messages as streams.
    assert Counter((recorded.shape, recorded.stream) for recorded in traffic) == {
        ("openai-chat", False): 68,
        ("openai-responses", False): 49,
        ("anthropic-messages", False): 7,
        ("openai-chat", True): 36,
        ("openai-responses", True): 85,
        ("anthropic-messages", True): 12,
    }
    for recorded in traffic:
        assert as_expected(recorded, read(recorded)) == by_sdk(recorded), recorded.name


def test_every_stop_word_that_was_recorded_is_known(traffic: list[Recorded]) -> None:
    words = {read(recorded).stop_word for recorded in traffic}
    assert words <= set(STOPS)


def test_the_sdks_own_event_texts_read_as_the_sdk_reads_them(written: list[Recorded]) -> None:
    # One is cut in the middle of a call's arguments, two have arguments that are no JSON: the SDK raises.
    broken = {"incomplete_partial_json_response", "tool_use_invalid_json_response"}
    names = {recorded.name for recorded in written}
    assert broken < names
    for recorded in written:
        if recorded.name not in broken:
            assert as_expected(recorded, read(recorded)) == by_sdk(recorded), recorded.name


def test_arguments_that_are_no_json_are_kept_as_they_came(written: list[Recorded]) -> None:
    (recorded,) = [recorded for recorded in written if recorded.name == "tool_use_invalid_json_response"]
    (call,) = read(recorded).tool_calls
    with pytest.raises(ValueError, match=r".+"):
        json.loads(call.arguments)


def test_k71_a_recorded_refusal_is_the_agents_failure(written: list[Recorded]) -> None:
    answers = {recorded.name: read(recorded) for recorded in written if recorded.name == "refusal_response"}
    answer = answers["refusal_response"]
    assert (answer.failed, answer.stop, answer.refusal) == (
        "refused",
        "refused",
        "This request was refused due to policy.",
    )


def test_r25_a_recorded_stream_that_is_cut_anywhere_is_never_an_answer(traffic: list[Recorded]) -> None:
    streams = {recorded.shape: recorded for recorded in traffic if recorded.stream and len(recorded.body) < 20_000}
    assert len(streams) == 3
    for recorded in streams.values():
        whole = recorded.body.rstrip()
        for end in range(0, len(whole), 7):
            with pytest.raises(InfraError) as caught:
                read(Recorded("cut", recorded.shape, whole[:end], stream=True, status=200))
            assert (caught.value.kind, caught.value.retryable) == ("cut", True)


def test_a_stream_in_pieces_of_one_byte_reads_the_same(traffic: list[Recorded]) -> None:
    streams = {recorded.shape: recorded for recorded in traffic if recorded.stream and len(recorded.body) < 60_000}
    for recorded in streams.values():
        assert read(recorded, chunk=1) == read(recorded)
