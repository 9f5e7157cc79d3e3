"""Figures as they are written: rounded, but never to what would say something else than the verdict does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairtrial.reports.figures import count, duration, p_value, percent, points, short_percent, short_points

SHARES = st.floats(0.0, 1.0)


@pytest.mark.parametrize(
    ("share", "told"),
    [
        (None, "not reported"),
        (0.0, "0.0%"),
        (1.0, "100.0%"),
        (0.5, "50.0%"),
        (1 / 3, "33.3%"),
        (2 / 3, "66.7%"),
        (0.9994, "99.9%"),
        (0.9996, ">99.9%"),
        (1 - 1e-12, ">99.9%"),
        (0.0006, "0.1%"),
        (0.0004, "<0.1%"),
        (5e-324, "<0.1%"),
    ],
)
def test_a_share_is_a_percentage_that_is_all_or_nothing_only_when_it_is(share: float | None, told: str) -> None:
    assert percent(share) == told


# cases.md K34: 5/5, 0/5, 100/100, 0/200 and 1/1. At the edge Wilson's other end is n / (n + z²) from it, z² = 3.841459.
@pytest.mark.parametrize(
    ("low", "high", "told"),
    [
        (5 / 8.841459, 1.0, ("56.6%", "100.0%")),
        (0.0, 3.841459 / 8.841459, ("0.0%", "43.4%")),
        (100 / 103.841459, 1.0, ("96.3%", "100.0%")),
        (0.0, 3.841459 / 203.841459, ("0.0%", "1.9%")),
        (1 / 4.841459, 1.0, ("20.7%", "100.0%")),
    ],
)
def test_k34_an_end_at_the_edge_is_shown_as_the_edge(low: float, high: float, told: tuple[str, str]) -> None:
    assert (percent(low), percent(high)) == told


@pytest.mark.parametrize(
    ("share", "told"),
    [
        (None, "not reported"),
        (0.0, "0.0pp"),
        (-0.0, "0.0pp"),
        (-0.5, "−50.0pp"),
        (1.0, "+100.0pp"),
        (0.0123, "+1.2pp"),
        # An end that is not 0 keeps its sign: whether the interval includes 0 decides the verdict.
        (0.0004, "+0.04pp"),
        (-0.0004, "−0.04pp"),
        (0.000049, "+0.005pp"),
        (-1e-9, "−1e-07pp"),
        # Rounding noise is 0, to the 12 decimals of the verdict's own rule.
        (1e-13, "0.0pp"),
        (-1e-13, "0.0pp"),
    ],
)
def test_points_have_a_true_minus_and_keep_the_sign_of_what_is_not_zero(share: float | None, told: str) -> None:
    assert points(share) == told


def test_points_without_a_sign_show_only_a_minus() -> None:
    assert (points(0.5, sign=False), points(-0.5, sign=False)) == ("50.0pp", "−50.0pp")


@given(st.floats(-1.0, 1.0))
def test_the_sign_that_is_printed_is_the_one_the_verdict_goes_by(share: float) -> None:
    # stats.decision: an end that is 0 to 12 decimals includes 0.
    told = points(share)
    sign = {"+": 1, "−": -1}.get(told[0], 0)
    assert sign == (round(share, 12) > 0) - (round(share, 12) < 0)


@pytest.mark.parametrize(
    ("p", "told"),
    [
        (1.0, "1.000"),
        (0.125, "0.125"),
        (0.0078125, "0.008"),
        (0.03125, "0.031"),
        # As close to the level as it may come: never shown as 0.05 unless it is.
        (0.05, "0.050"),
        (0.0499, "0.0499"),
        (0.04999, "0.04999"),
        (0.0500001, "0.0500001"),
        (0.049999999999, "0.049999999999"),
        (0.0504, "0.0504"),
        (0.0505, "0.051"),
        (0.001, "0.001"),
        (0.00099999, "1.0e-3"),
        (0.000996, "1.0e-3"),
        (0.0004, "4.0e-4"),
        (1e-12, "1.0e-12"),
        (5e-324, "4.9e-324"),
        (0.0, "<1e-300"),
    ],
)
def test_p_is_told_with_enough_digits_to_be_on_its_side_of_the_level(p: float, told: str) -> None:
    assert p_value(p) == told


@given(st.floats(0.0, 1.0))
def test_a_printed_p_is_on_the_same_side_of_the_level(p: float) -> None:
    shown = float(p_value(p).removeprefix("<"))
    assert (shown < 0.05) == (p < 0.05)
    assert abs(shown - p) <= max(0.0006, p * 0.06)


@pytest.mark.parametrize(
    ("a", "b", "told"),
    [
        (1.0, 0.0, ("100%", "0%", "−100pp")),
        (1 / 3, 2 / 3, ("33%", "67%", "+33pp")),
        (0.0, 1.0, ("0%", "100%", "+100pp")),
        # 1,000 trials a case, of which one changed: the row may not say that nothing did.
        (1.0, 0.999, ("100%", "99.9%", "−0.1pp")),
        (0.001, 0.0, ("0.1%", "0%", "−0.1pp")),
        (0.9999, 1.0, (">99.9%", "100%", "+0.01pp")),
    ],
)
def test_c14_the_row_of_a_case_shows_what_changed(a: float, b: float, told: tuple[str, str, str]) -> None:
    assert (short_percent(a), short_percent(b), short_points(b - a)) == told


@given(SHARES, SHARES)
def test_a_row_of_two_different_shares_never_says_zero(a: float, b: float) -> None:
    told = short_points(b - a)
    if abs(b - a) >= 1e-12:
        assert told[0] == ("+" if b > a else "−")
    assert (short_percent(a) == "100%") == (a == 1.0)
    assert (short_percent(a) == "0%") == (a == 0.0)


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (None, "not reported"),
        (0.0, "0.0 s"),
        (0.04, "0.0 s"),
        (59.94, "59.9 s"),
        (60.0, "1 min 00 s"),
        (61.6, "1 min 02 s"),
        (3599.7, "1 h 00 min"),
        (3600.0, "1 h 00 min"),
        (90061.0, "25 h 01 min"),
    ],
)
def test_a_duration_reads_as_a_person_would_say_it(seconds: float | None, told: str) -> None:
    assert duration(seconds) == told


def test_a_count_has_its_noun() -> None:
    assert (count(1, "case"), count(0, "case"), count(2000, "case")) == ("1 case", "0 cases", "2,000 cases")
    assert count(2, "loss", "losses") == "2 losses"
