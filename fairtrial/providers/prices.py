"""What a call costs, exactly, and the most it can cost before it is made.

An unknown price is None with the reason, never 0. Prices come from the user first, then from the table of genai-prices
for the address that is really called: the same model costs something else elsewhere, and nothing is known of a server
of one's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Final

from fairtrial.errors import SpecError
from fairtrial.providers.usage import TokenUsage
from fairtrial.spec.text import did_you_mean, shown

KINDS: Final = ("input", "cached_read", "cached_write", "cached_write_1h", "output", "reasoning", "call")
"""What has a price: tokens by kind in US dollars per million, and `call` in US dollars per thousand calls."""

_MILLION: Final = 1_000_000
_THOUSAND: Final = 1_000
# A kind without a price of its own costs what the kind costs that it is a part of.
_PART_OF: Final = {
    "cached_read": "input",
    "cached_write": "input",
    "cached_write_1h": "cached_write",
    "reasoning": "output",
}
_IN_TABLE: Final = {
    "input": "input_mtok",
    "cached_read": "cache_read_mtok",
    "cached_write": "cache_write_mtok",
    "cached_write_1h": "cache_write_1h_mtok",
    "output": "output_mtok",
    "reasoning": "output_reasoning_mtok",
    "call": "requests_kcount",
}
# A user's price is written by hand; nothing costs as much as this.
_TOO_MUCH: Final = Decimal(1_000_000)


@dataclass(frozen=True, slots=True)
class Rate:
    """A price that may rise with the length of the input: the last step whose start is below it counts, for all tokens.

    base, steps   US dollars; steps are (tokens of input, price), starts rising
    """

    base: Decimal
    steps: tuple[tuple[int, Decimal], ...] = ()

    def at(self, input_tokens: int) -> Decimal:
        """Return the price for an input of so many tokens."""
        return next((price for start, price in reversed(self.steps) if input_tokens > start), self.base)

    def highest(self, input_tokens: int) -> Decimal:
        """Return the highest price for an input of at most so many tokens."""
        return max([self.base, *(price for start, price in self.steps if input_tokens > start)])


@dataclass(frozen=True, slots=True)
class Prices:
    """The prices of one model at one address. rates has the kinds that have a price; source says whose they are."""

    rates: Mapping[str, Rate]
    source: str

    def rate(self, kind: str) -> Rate | None:
        """Return the price of a kind, or of the kind it is a part of; None when there is none."""
        while kind not in self.rates:
            if kind not in _PART_OF:
                return None
            kind = _PART_OF[kind]
        return self.rates[kind]


@dataclass(frozen=True, slots=True)
class Cost:
    """US dollars, exactly; or None and why it is not known. source says whose prices they are."""

    usd: Decimal | None
    reason: str | None = None
    source: str | None = None


@dataclass(frozen=True, slots=True)
class PriceList:
    """Where prices are looked for. own are the user's, by model."""

    own: Mapping[str, Prices] = field(default_factory=dict)

    def find(self, model: str, *, url: str, at: datetime, service_tier: str | None = None) -> Prices | str:
        """Return the prices of a model, or why they are not known.

        url            the address that is called
        at             aware; prices change with time, some by the hour
        service_tier   the provider's word for how it served the call, where that decides the price
        """
        found = self.own.get(model)
        return found if found is not None else _from_table(model, url=url, at=at, service_tier=service_tier)


def read_prices(table: Mapping[str, object]) -> dict[str, Prices]:
    """Return a user's prices: per model, US dollars per million tokens by kind.

    `{"acme-1": {"input": "0.5", "output": 2}}`; a kind that is left out costs what the kind costs that it is a part of.
    Raises SpecError for a kind that is not known, for what is not an exact number of at least 0, and without input or
    output.
    """
    found = {}
    for model, rates in table.items():
        place = f"prices.{model}"
        if not isinstance(rates, Mapping):
            raise SpecError(f"the prices of {shown(model)} are no table of kinds.", place=place)
        for kind in rates:
            if kind not in KINDS:
                hint = did_you_mean(str(kind), KINDS, what="kinds")
                raise SpecError(f"there is no kind of price {shown(str(kind))}.", hint=hint, place=place)
        for kind in ("input", "output"):
            if kind not in rates:
                raise SpecError(f"the prices of {shown(model)} have no {shown(kind)}.", place=place)
        own = {str(kind): Rate(_own_price(value, place=f"{place}.{kind}")) for kind, value in rates.items()}
        found[model] = Prices(own, source="yours")
    return found


def cost_of(usage: TokenUsage, prices: Prices | str) -> Cost:
    """Return what a call cost. Not known without both totals, without prices, and with parts that are billed apart."""
    if isinstance(prices, str):
        return Cost(None, prices)
    read, written = usage.input_total, usage.output_total
    if read is None or written is None:
        missing = "input" if read is None else "output"
        return Cost(None, f"the provider reported no {missing} tokens", prices.source)
    if usage.billed_apart:
        return Cost(None, f"billed apart from tokens: {', '.join(usage.billed_apart)}", prices.source)
    for_an_hour = usage.cached_write_1h or 0
    counts = {
        "input": usage.fresh_input or 0,
        "cached_read": usage.cached_read or 0,
        "cached_write": (usage.cached_write or 0) - for_an_hour,
        "cached_write_1h": for_an_hour,
        "output": usage.output or 0,
        "reasoning": usage.reasoning or 0,
    }
    total = Decimal(0)
    for kind, count in counts.items():
        rate = prices.rate(kind)
        if count and rate is None:
            return Cost(None, f"there is no price for {kind} tokens", prices.source)
        if rate is not None:
            total += count * rate.at(read) / _MILLION
    call = prices.rate("call")
    return Cost(total if call is None else total + call.at(read) / _THOUSAND, source=prices.source)


def highest_cost(
    prices: Prices | str, *, input_tokens: int | None, output_tokens: int | None, writes_cache: bool = True
) -> Cost:
    """Return the most that a call can cost, to be reserved before it is made.

    input_tokens, output_tokens   the most it can read and write; None when that cannot be bounded
    writes_cache                  False when the request cannot make the provider write to its cache
    """
    if isinstance(prices, str):
        return Cost(None, prices)
    if input_tokens is None or output_tokens is None:
        what = "input cannot be bounded" if input_tokens is None else "answer has no limit in the parameters"
        return Cost(None, f"the {what}", prices.source)
    read_kinds = ["input", "cached_read"] + (["cached_write", "cached_write_1h"] if writes_cache else [])
    read = [rate.highest(input_tokens) for kind in read_kinds if (rate := prices.rate(kind))]
    written = [rate.highest(input_tokens) for kind in ("output", "reasoning") if (rate := prices.rate(kind))]
    if not (read and written):
        return Cost(None, f"there is no price for {'output' if read else 'input'} tokens", prices.source)
    total = (input_tokens * max(read) + output_tokens * max(written)) / _MILLION
    call = prices.rate("call")
    return Cost(total if call is None else total + call.highest(input_tokens) / _THOUSAND, source=prices.source)


def _own_price(value: object, *, place: str) -> Decimal:
    fits = isinstance(value, int | float | str | Decimal) and not isinstance(value, bool)
    try:
        # The shortest text of a float is what stood in the file.
        price = Decimal(str(value)) if fits and len(str(value)) <= 40 else Decimal("NaN")
    except InvalidOperation:
        price = Decimal("NaN")
    if not price.is_finite() or not 0 <= price < _TOO_MUCH or price.as_tuple().exponent not in range(-12, 7):
        raise SpecError(
            "a price is a number of US dollars per million tokens, at least 0, with 12 decimals at most.", place=place
        )
    return price


@lru_cache(maxsize=512)
def _model(model: str, url: str) -> object | str:
    """Return the entry of the price table, or why there is none. Its import takes half a second, so it comes late."""
    from genai_prices.data_snapshot import get_snapshot

    snapshot = get_snapshot()
    try:
        provider = snapshot.find_provider(None, None, url)
    except LookupError:
        return "no price table knows this address"
    try:
        return snapshot.find_provider_model(model, provider, None, None)[1]
    except LookupError:
        return f"no price table knows the model {shown(model)} of {provider.name}"


def _from_table(model: str, *, url: str, at: datetime, service_tier: str | None) -> Prices | str:
    from importlib.metadata import version

    from genai_prices.types import ModelInfo

    entry = _model(model, url)
    if not isinstance(entry, ModelInfo):
        return str(entry)
    context = {"service_tier": service_tier} if service_tier else None
    table = entry.get_prices(at, context)
    rates = {kind: _rate(value) for kind, name in _IN_TABLE.items() if (value := getattr(table, name)) is not None}
    if not {"input", "output"} & set(rates):
        return f"the price table has no price per token for {shown(model)}"
    return Prices(rates, source=f"genai-prices {version('genai-prices')} {entry.id} {at:%Y-%m-%d}")


def _rate(value: object) -> Rate:
    from genai_prices.types import TieredPrices

    if isinstance(value, TieredPrices):
        return Rate(value.base, tuple((step.start, step.price) for step in value.tiers))
    return Rate(Decimal(str(value)))
