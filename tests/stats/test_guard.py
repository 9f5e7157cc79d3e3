"""The guard of a sweep."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stats.guard import guard

NAN = math.nan


@pytest.mark.parametrize("tau", [0.1, "0.1", "0.10", Decimal("0.10"), Fraction(1, 10)])
def test_exactly_tau_holds_however_it_is_written(tau: float | str | Decimal | Fraction) -> None:
    result = guard([1.0] * 30, [0.0] * 3 + [1.0] * 27, tau=tau)
    assert (result.solved, result.broken, result.holds) == (30, 3, True)
    assert not guard([1.0] * 30, [0.0] * 4 + [1.0] * 26, tau=tau).holds


@given(st.integers(1, 400), st.integers(0, 400))
def test_a_share_given_as_a_decimal_holds_exactly_at_itself(solved: int, hundredths: int) -> None:
    broken = min(hundredths, solved)
    result = guard([1.0] * solved, [0.0] * broken + [1.0] * (solved - broken), tau=Fraction(broken, solved))
    assert result.holds
    if broken:
        assert not guard(
            [1.0] * solved, [0.0] * broken + [1.0] * (solved - broken), tau=Fraction(broken - 1, solved)
        ).holds


def test_only_cases_the_start_solves_can_break() -> None:
    result = guard([1.0, 0.0, 0.6, 0.5], [0.0, 0.0, 0.4, 0.5])
    assert (result.solved, result.broken, result.broken_index) == (3, 2, (0, 2))
    # By hand: Wilson's 95% interval of 2 of 3, as in the usual tables.
    assert (result.interval.low, result.interval.high) == pytest.approx((0.2077, 0.9385), abs=1e-4)


def test_a_case_one_side_lacks_is_left_out_and_counted() -> None:
    result = guard([1.0, NAN, 1.0, 1.0], [NAN, 1.0, 0.0, 1.0], tau="0.5")
    assert (result.solved, result.broken, result.left_out, result.holds) == (2, 1, 2, True)


@pytest.mark.parametrize(("start", "winner"), [([0.0, 0.0], [1.0, 1.0]), ([], [])])
def test_a_guard_without_a_solved_case_holds_with_a_warning(start: list[float], winner: list[float]) -> None:
    result = guard(start, winner)
    assert result.holds
    assert result.share is None
    assert result.reason is not None


def test_tau_of_0_forgives_nothing() -> None:
    assert guard([1.0] * 4, [1.0] * 4, tau=0).holds
    assert not guard([1.0] * 4, [1.0, 1.0, 1.0, 0.0], tau=0).holds


@pytest.mark.parametrize("tau", [-0.1, 1.1, math.nan, math.inf, "ten"])
def test_tau_must_be_a_share(tau: float | str) -> None:
    with pytest.raises(ValueError, match=r"share in \[0, 1\]|not a finite number"):
        guard([1.0], [1.0], tau=tau)


def test_sides_must_be_the_same_cases() -> None:
    with pytest.raises(ValueError, match="same cases"):
        guard([1.0, 1.0], [1.0])
    with pytest.raises(ValueError, match="start must hold one verdict"):
        guard([math.inf], [1.0])
