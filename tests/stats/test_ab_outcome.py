"""The outcome of a workflow A/B and the bar, at their edges."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stats.ab_outcome import AbOutcome, Number, ab_outcome, cost_ratio
from stats.results import Interval


def outcome(
    *,
    items: int = 40,
    low: float = -0.01,
    high: float = 0.05,
    failed_a: Number = 0.0,
    failed_b: Number = 0.0,
    ratio: Number | None = Fraction(1, 2),
) -> AbOutcome:
    return ab_outcome(items=items, interval=Interval(low, high), failed_a=failed_a, failed_b=failed_b, cost_ratio=ratio)


@pytest.mark.parametrize(
    ("a", "b", "ratio"),
    [
        (Decimal(0), Decimal("0.01"), None),
        (None, Decimal("0.01"), None),
        (Decimal("0.01"), None, None),
        (Decimal(0), Decimal(0), None),
        (Decimal("0.01"), Decimal(0), Fraction(0)),
        (Decimal("0.03"), Decimal("0.01"), Fraction(1, 3)),
    ],
)
def test_k103_cost_ratio_is_none_for_a_free_or_unknown_a(
    a: Decimal | None, b: Decimal | None, ratio: Fraction | None
) -> None:
    assert cost_ratio(cost_a=a, cost_b=b) == ratio


@pytest.mark.parametrize(("items", "name"), [(0, "too_few"), (9, "too_few"), (10, "better"), (19, "better")])
def test_k103_nine_items_are_too_few_and_ten_are_not(items: int, name: str) -> None:
    result = outcome(items=items, low=0.1, high=0.2)
    assert result.outcome == name
    assert not result.qualifies
    assert "items" in result.missed


def test_k103_nineteen_items_do_not_qualify_and_twenty_may() -> None:
    assert outcome(items=19, low=0.1).missed == ("items",)
    assert outcome(items=20, low=0.1).qualifies


@pytest.mark.parametrize(("low", "high"), [(0.0, 0.2), (-0.2, 0.0), (1e-17, 0.2), (-0.2, -1e-17), (0.0, 0.0)])
def test_k103_an_end_exactly_at_0_counts_as_same(low: float, high: float) -> None:
    assert outcome(low=low, high=high).outcome == "same"


@pytest.mark.parametrize(
    ("low", "qualifies"), [(-0.05, True), (-0.05 - 1e-17, True), (0.1 - 0.15, True), (-0.0501, False)]
)
def test_k103_a_low_end_of_exactly_minus_5_points_qualifies(low: float, qualifies: bool) -> None:
    result = outcome(low=low)
    assert result.qualifies is qualifies
    assert ("interval" in result.missed) is not qualifies


@given(st.integers(0, 200), st.integers(1, 200))
def test_k103_exactly_5_points_more_failures_qualify(failed: int, twenties: int) -> None:
    started = 20 * twenties
    a = Fraction(min(failed, started - twenties), started)
    assert outcome(failed_a=a, failed_b=a + Fraction(1, 20)).qualifies
    assert outcome(failed_a=a, failed_b=a + Fraction(1, 20) + Fraction(1, 10**9)).missed == ("failures",)


@pytest.mark.parametrize("hundredths", range(96))
def test_k103_shares_written_as_decimals_meet_the_edge_too(hundredths: int) -> None:
    # As floats 0.07 + 0.05 is more than 0.12, and 0.58 + 0.05 is less than 0.63.
    assert outcome(failed_a=hundredths / 100, failed_b=(hundredths + 5) / 100).qualifies


@pytest.mark.parametrize(
    ("ratio", "low", "missed"),
    [
        (Fraction(1), -0.01, ("cost",)),
        (Fraction(999, 1000), -0.01, ()),
        (Decimal("0.999"), -0.01, ()),
        (None, -0.01, ("cost",)),
        (None, 0.001, ()),
        (Fraction(3), 0.001, ()),
    ],
)
def test_l49_b_must_be_cheaper_or_better(ratio: Number | None, low: float, missed: tuple[str, ...]) -> None:
    result = outcome(ratio=ratio, low=low)
    assert result.missed == missed
    assert result.qualifies is not missed or not missed


def test_l49_every_missed_part_is_named() -> None:
    result = outcome(items=19, low=-0.3, high=-0.1, failed_b=0.5, ratio=2.0)
    assert result.outcome == "worse"
    assert result.missed == ("items", "interval", "failures", "cost")


def test_l48_below_ten_items_there_may_be_no_interval() -> None:
    result = ab_outcome(items=1, interval=None, failed_a=0, failed_b=0, cost_ratio=None)
    assert (result.outcome, result.qualifies) == ("too_few", False)
    with pytest.raises(ValueError, match="10 items without an interval"):
        ab_outcome(items=10, interval=None, failed_a=0, failed_b=0, cost_ratio=None)


def test_a_negative_cost_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 0"):
        cost_ratio(cost_a=Decimal(-1), cost_b=Decimal(1))
