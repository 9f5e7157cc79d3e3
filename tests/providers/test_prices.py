"""A cost is exact or unknown with its reason, never 0 for want of a price; a reservation is never too small."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairtrial.errors import SpecError
from fairtrial.providers.bounds import ADDED_FOR_TOOLS, ADDED_TOKENS, can_write_cache, input_bound, output_bound
from fairtrial.providers.prices import PriceList, Prices, Rate, cost_of, highest_cost, read_prices
from fairtrial.providers.request import Message, ModelRequest, OutputSchema, encode_body, request_body
from fairtrial.providers.usage import TokenUsage

AT = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
OPENAI = "https://api.openai.com/v1/chat/completions"
ANTHROPIC = "https://api.anthropic.com/v1/messages"
USAGE = TokenUsage(fresh_input=1000, cached_read=0, output=500)


def known(prices: Prices | str) -> Prices:
    assert isinstance(prices, Prices), prices
    return prices


# --- which price ------------------------------------------------------------------------------------------------------


def test_k58_a_model_that_no_table_knows_has_no_cost_and_says_why() -> None:
    cost = cost_of(USAGE, PriceList().find("acme-new-1", url=OPENAI, at=AT))
    assert cost.usd is None
    assert cost.reason == 'no price table knows the model "acme-new-1" of OpenAI'


def test_k58_a_known_model_at_an_unknown_address_has_no_price() -> None:
    found = PriceList().find("gpt-4o-mini", url="http://127.0.0.1:11434/v1/chat/completions", at=AT)
    assert found == "no price table knows this address"


def test_a_table_price_is_exact_and_says_whose_it_is() -> None:
    prices = known(PriceList().find("gpt-4o-mini-2024-07-18", url=OPENAI, at=AT))
    cost = cost_of(TokenUsage(fresh_input=200, cached_read=800, output=10), prices)
    # By hand, with OpenAI's prices of gpt-4o-mini, $0.15 / $0.075 / $0.60: (30 + 60 + 6) / 1,000,000.
    assert cost.usd == Decimal("0.000096")
    assert prices.source.startswith("genai-prices ")
    assert prices.source.endswith(" gpt-4o-mini 2026-11-30")


def test_the_service_tier_and_the_day_decide_the_price() -> None:
    def input_price(model: str, at: datetime, tier: str | None) -> Decimal:
        rate = known(PriceList().find(model, url=OPENAI, at=at, service_tier=tier)).rate("input")
        assert rate is not None
        return rate.base

    # OpenAI's price list as genai-prices 0.2.3 has it: o3 went from $10 to $2 on 10 June 2025; flex is half of that.
    assert input_price("o3", datetime(2025, 6, 9, tzinfo=UTC), None) == 10
    assert input_price("o3", AT, None) == input_price("o3", AT, "default") == 2
    assert input_price("o3", AT, "flex") == 1


def test_every_model_of_the_table_costs_what_the_table_itself_says() -> None:
    from genai_prices import Usage
    from genai_prices.data_snapshot import get_snapshot

    urls = {"openai": OPENAI, "anthropic": ANTHROPIC}
    models = [(model, urls[one.id]) for one in get_snapshot().providers if one.id in urls for model in one.models]
    n_compared = 0
    for model, url in models:
        price = model.get_prices(AT)
        found = PriceList().find(model.id, url=url, at=AT)
        # An id may match an earlier entry, and some entries are not billed by tokens of text.
        if isinstance(found, str) or f" {model.id} " not in found.source or "audio" in str(price):
            continue
        for scale in (1, 300):
            ours = cost_of(TokenUsage(200 * scale, 800 * scale, 100 * scale, None, 50 * scale), found)
            usage = Usage(
                input_tokens=1100 * scale,
                cache_read_tokens=800 * scale,
                cache_write_tokens=100 * scale,
                output_tokens=50 * scale,
            )
            if ours.usd is not None:
                assert ours.usd == price.calc_price(usage)["total_price"], model.id
                n_compared += 1
    # 27 models of Anthropic and 113 of OpenAI, each twice, less those that are passed over.
    assert n_compared > 150


# --- the user's prices ------------------------------------------------------------------------------------------------


def test_the_users_price_goes_before_the_tables() -> None:
    own = PriceList(read_prices({"gpt-4o-mini": {"input": 1, "output": 0.3}}))
    cost = cost_of(USAGE, own.find("gpt-4o-mini", url=OPENAI, at=AT))
    # By hand: (1,000 × 1 + 500 × 0.3) / 1,000,000.
    assert (cost.usd, cost.source) == (Decimal("0.00115"), "yours")


def test_a_price_of_nothing_is_nothing_and_not_unknown() -> None:
    cost = cost_of(USAGE, read_prices({"m": {"input": 0, "output": "0"}})["m"])
    assert (cost.usd, cost.reason) == (Decimal(0), None)


@pytest.mark.parametrize(
    ("prices", "words"),
    [
        ({"m": {"input": 1, "output": 1, "cached": 1}}, 'no kind of price "cached"'),
        ({"m": {"input": 1}}, 'have no "output"'),
        ({"m": 3}, "no table of kinds"),
        *[
            ({"m": {"input": bad, "output": 1}}, "a price is a number")
            for bad in (-1, "NaN", "inf", "1e9", 1e300, True, None, "one", "1" * 50, "1e-20", [])
        ],
    ],
)
def test_a_price_that_cannot_be_used_is_refused(prices: Any, words: str) -> None:
    with pytest.raises(SpecError, match=words):
        read_prices(prices)


def test_a_kind_without_a_price_costs_what_it_is_a_part_of() -> None:
    usage = TokenUsage(fresh_input=1, cached_read=2, cached_write=4, cached_write_1h=3, output=8, reasoning=16)
    only_two = read_prices({"m": {"input": 100, "output": 1000}})["m"]
    # By hand: 7 tokens read at 100 and 24 written at 1,000.
    assert cost_of(usage, only_two).usd == Decimal("0.0247")
    every = {"input": 1, "cached_read": 10, "cached_write": 100, "cached_write_1h": 1000, "output": 10_000}
    all_kinds = read_prices({"m": {**every, "reasoning": 100_000, "call": 1}})["m"]
    # By hand: 1×1 + 2×10 + 1×100 + 3×1,000 + 8×10,000 + 16×100,000 = 1,683,121, and a thousandth of a dollar a call.
    assert cost_of(usage, all_kinds).usd == Decimal("1.684121")


def test_the_price_of_a_long_input_counts_for_all_its_tokens() -> None:
    prices = Prices({"input": Rate(Decimal(3), ((200_000, Decimal(6)),)), "output": Rate(Decimal(15))}, source="test")
    # By hand: the step begins above 200,000.
    assert cost_of(TokenUsage(fresh_input=200_000, output=0), prices).usd == Decimal("0.6")
    assert cost_of(TokenUsage(fresh_input=150_000, cached_read=50_001, output=0), prices).usd == Decimal("1.200006")


@pytest.mark.parametrize(
    ("usage", "reason"),
    [
        (TokenUsage(output=1), "the provider reported no input tokens"),
        (TokenUsage(fresh_input=1), "the provider reported no output tokens"),
        (TokenUsage(1, output=1, billed_apart=("web_search",)), "billed apart from tokens: web_search"),
    ],
)
def test_a_cost_that_is_not_known_says_why(usage: TokenUsage, reason: str) -> None:
    cost = cost_of(usage, read_prices({"m": {"input": 1, "output": 1}})["m"])
    assert (cost.usd, cost.reason) == (None, reason)


# --- the most it can cost ---------------------------------------------------------------------------------------------

tokens = st.integers(0, 500_000)


@given(tokens, tokens, tokens, st.integers(0, 100_000), st.integers(0, 100_000), tokens)
def test_r64_no_call_costs_more_than_was_reserved(
    fresh: int, cached: int, stored: int, output: int, reasoning: int, more: int
) -> None:
    usage = TokenUsage(fresh, cached, stored, stored // 2, output, reasoning)
    prices = Prices(
        {
            "input": Rate(Decimal("3"), ((200_000, Decimal("6")),)),
            "cached_read": Rate(Decimal("0.3")),
            "cached_write": Rate(Decimal("3.75"), ((200_000, Decimal("7.5")),)),
            "cached_write_1h": Rate(Decimal("6")),
            "output": Rate(Decimal("15"), ((200_000, Decimal("12")),)),
            "call": Rate(Decimal("5")),
        },
        source="test",
    )
    read = usage.input_total
    assert read is not None
    most = highest_cost(prices, input_tokens=read + more, output_tokens=output + reasoning)
    cost = cost_of(usage, prices)
    assert most.usd is not None
    assert cost.usd is not None
    assert cost.usd <= most.usd


def test_without_a_bound_or_a_price_nothing_can_be_reserved_and_it_says_why() -> None:
    prices = read_prices({"m": {"input": 1, "output": 1}})["m"]
    assert highest_cost(prices, input_tokens=None, output_tokens=1).reason == "the input cannot be bounded"
    no_limit = highest_cost(prices, input_tokens=1, output_tokens=None)
    assert (no_limit.usd, no_limit.reason) == (None, "the answer has no limit in the parameters")
    assert highest_cost("no table", input_tokens=1, output_tokens=1).reason == "no table"


def test_a_request_that_asks_for_no_cache_reserves_no_write_to_it() -> None:
    prices = read_prices({"m": {"input": 1, "cached_write": 2, "output": 1}})["m"]
    # By hand: 1,000 tokens at 1, or at 2.
    assert highest_cost(prices, input_tokens=1000, output_tokens=0, writes_cache=False).usd == Decimal("0.001")
    assert highest_cost(prices, input_tokens=1000, output_tokens=0).usd == Decimal("0.002")


def body_of(**changes: Any) -> dict[str, Any]:
    request = ModelRequest("m", [Message("user", "What is 2+2? \u2211")], system="Be short.", **changes)
    return request_body("openai-chat", request)


def test_the_input_is_bounded_by_the_bytes_of_the_request() -> None:
    body = body_of()
    assert input_bound("openai-chat", body) == len(encode_body(body)) + ADDED_TOKENS
    with_schema = body_of(output=OutputSchema({"type": "object"}))
    assert input_bound("openai-chat", with_schema) == len(encode_body(with_schema)) + ADDED_TOKENS + ADDED_FOR_TOOLS


@pytest.mark.parametrize(
    "parameters",
    [
        {"tools": [{"type": "web_search"}]},
        {"tools": "all"},
        {"previous_response_id": "resp_1"},
        {"prompt": {"id": "p"}},
        {"mcp_servers": [{"url": "u"}]},
    ],
)
def test_what_the_provider_adds_itself_has_no_bound(parameters: dict[str, Any]) -> None:
    assert input_bound("openai-chat", body_of(parameters=parameters)) is None


def test_a_picture_has_no_bound_and_a_text_part_has() -> None:
    for parts, bounded in (
        ([{"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}], False),
        ([{"type": "text", "text": "a"}, {"type": "input_file", "file_id": "f"}], False),
        ([{"type": "text", "text": "a"}], True),
    ):
        body = request_body("openai-chat", ModelRequest("m", [Message("user", parts)]))  # type: ignore[arg-type]
        assert (input_bound("openai-chat", body) is not None) is bounded


def test_the_answer_is_bounded_by_the_parameters_alone() -> None:
    assert output_bound("openai-chat", body_of()) is None
    assert output_bound("openai-chat", body_of(parameters={"max_tokens": 5, "max_completion_tokens": 9})) == 9
    assert output_bound("openai-responses", {"max_output_tokens": 7}) == 7
    assert output_bound("openai-responses", {"max_tokens": 7}) is None
    messages = request_body("anthropic-messages", ModelRequest("m", [Message("user", "x")]))
    assert output_bound("anthropic-messages", messages) == 4096
    assert output_bound("openai-chat", body_of(parameters={"max_tokens": True})) is None


def test_anthropic_writes_to_its_cache_only_when_asked() -> None:
    plain = request_body("anthropic-messages", ModelRequest("m", [Message("user", "x")]))
    asked = plain | {"cache_control": {"type": "ephemeral"}}
    assert [can_write_cache("anthropic-messages", body) for body in (plain, asked)] == [False, True]
    assert can_write_cache("openai-chat", plain)
