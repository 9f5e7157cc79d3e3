"""Each token is counted once, whatever the wire counts inside or beside; what was not reported is None."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairtrial.providers.prices import cost_of, read_prices
from fairtrial.providers.usage import MAX_COUNT, NOT_REPORTED, TokenUsage, from_anthropic, from_openai


def test_k56_cached_tokens_inside_and_beside_come_out_equal() -> None:
    chat = from_openai(
        {
            "prompt_tokens": 1000,
            "completion_tokens": 100,
            "total_tokens": 1100,
            "prompt_tokens_details": {"cached_tokens": 800, "cache_write_tokens": 0},
        }
    )
    responses = from_openai(
        {
            "input_tokens": 1000,
            "output_tokens": 100,
            "total_tokens": 1100,
            "input_tokens_details": {"cached_tokens": 800, "cache_write_tokens": 0},
        }
    )
    messages = from_anthropic(
        {
            "input_tokens": 200,
            "cache_read_input_tokens": 800,
            "cache_creation_input_tokens": 0,
            "output_tokens": 100,
        }
    )
    assert chat == responses == messages
    assert chat == TokenUsage(fresh_input=200, cached_read=800, cached_write=0, output=100)
    prices = read_prices({"m": {"input": "1.25", "cached_read": "0.125", "output": "10"}})["m"]
    # By hand: (200 × 1.25 + 800 × 0.125 + 100 × 10) / 1,000,000 = (250 + 100 + 1,000) / 1,000,000.
    assert {cost_of(usage, prices).usd for usage in (chat, responses, messages)} == {Decimal("0.00135")}


def test_reasoning_inside_the_output_is_counted_once() -> None:
    usage = from_openai(
        {
            "input_tokens": 10,
            "output_tokens": 50,
            "total_tokens": 60,
            "output_tokens_details": {"reasoning_tokens": 30},
        }
    )
    assert (usage.output, usage.reasoning, usage.output_total) == (20, 30, 50)
    anthropic = from_anthropic(
        {"input_tokens": 10, "output_tokens": 50, "output_tokens_details": {"thinking_tokens": 30}}
    )
    assert (anthropic.output, anthropic.reasoning, anthropic.output_total) == (20, 30, 50)


def test_reasoning_beside_the_output_is_seen_by_the_total() -> None:
    # As xAI reports it: 32 + 9 + 233 = 274.
    usage = from_openai(
        {
            "prompt_tokens": 32,
            "completion_tokens": 9,
            "total_tokens": 274,
            "completion_tokens_details": {"reasoning_tokens": 233},
        }
    )
    assert (usage.output, usage.reasoning, usage.output_total) == (9, 233, 242)


def test_what_was_not_reported_is_none_and_not_nothing() -> None:
    assert from_openai(None) == from_anthropic(None) == from_openai({}) == from_anthropic("?") == NOT_REPORTED
    assert from_openai({"prompt_tokens": 7, "completion_tokens": 0}) == TokenUsage(fresh_input=7, output=0)
    assert (NOT_REPORTED.input_total, NOT_REPORTED.output_total) == (None, None)
    assert from_openai({"prompt_tokens": 7}).output_total is None


def test_a_write_to_the_cache_is_told_apart_from_what_was_read_anew() -> None:
    inside = from_openai(
        {
            "input_tokens": 100,
            "output_tokens": 1,
            "input_tokens_details": {"cached_tokens": 20, "cache_write_tokens": 30},
        }
    )
    assert (inside.fresh_input, inside.cached_read, inside.cached_write, inside.input_total) == (50, 20, 30, 100)
    beside = from_anthropic(
        {
            "input_tokens": 50,
            "cache_read_input_tokens": 20,
            "cache_creation_input_tokens": 30,
            "cache_creation": {"ephemeral_5m_input_tokens": 18, "ephemeral_1h_input_tokens": 12},
            "output_tokens": 1,
        }
    )
    assert (beside.input_total, beside.cached_write, beside.cached_write_1h) == (100, 30, 12)


@pytest.mark.parametrize(
    "usage",
    [
        {"prompt_tokens": 10, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 11}},
        {"prompt_tokens": 10, "completion_tokens": 5, "completion_tokens_details": {"reasoning_tokens": 6}},
    ],
)
def test_parts_larger_than_their_total_are_not_believed(usage: dict[str, Any]) -> None:
    assert from_openai(usage) == TokenUsage(fresh_input=10, output=5)


@pytest.mark.parametrize("count", [-1, True, "12", 1.5, None, MAX_COUNT, [], {}])
def test_what_is_no_count_is_not_reported(count: Any) -> None:
    assert from_openai({"prompt_tokens": count, "completion_tokens": count}) == NOT_REPORTED
    assert from_anthropic({"input_tokens": count, "output_tokens": count}) == NOT_REPORTED


def test_what_is_billed_apart_from_tokens_is_named() -> None:
    hosted = {
        "input_tokens": 1,
        "output_tokens": 1,
        "server_tool_use": {"web_search_requests": 2, "web_fetch_requests": 0},
    }
    assert from_anthropic(hosted).billed_apart == ("web_search",)
    assert from_openai({"prompt_tokens_details": {"audio_tokens": 3}}).billed_apart == ("audio",)
    assert from_openai({}, hosted_tools=["web_search", "web_search"]).billed_apart == ("web_search",)


counts = st.none() | st.integers(-2, 30)


@given(counts, counts, counts, counts, counts, counts)
def test_no_token_is_lost_or_counted_twice(
    read: int | None,
    written: int | None,
    cached: int | None,
    stored: int | None,
    thought: int | None,
    total: int | None,
) -> None:
    usage = from_openai(
        {
            "prompt_tokens": read,
            "completion_tokens": written,
            "total_tokens": total,
            "prompt_tokens_details": {"cached_tokens": cached, "cache_write_tokens": stored},
            "completion_tokens_details": {"reasoning_tokens": thought},
        }
    )
    assert usage.input_total == (read if read is not None and read >= 0 else None)
    beside = thought if usage.reasoning and usage.output == written else 0
    assert usage.output_total == (written + (beside or 0) if written is not None and written >= 0 else None)
    known = [usage.fresh_input, usage.cached_read, usage.cached_write, usage.output, usage.reasoning]
    assert all(count is None or count >= 0 for count in known)
