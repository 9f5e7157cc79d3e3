"""Two numeric commands in interleaved pairs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stats.metrics import compare_metric, compare_metrics, hodges_lehmann, median_interval_rank, pairs_to_speak
from stats.results import Interval

NAN = math.nan
SLOWER = [100.0 + i for i in range(11)]
FASTER = [99.0 + i for i in range(11)]


def test_c104_medians_difference_interval_and_verdict() -> None:
    # R 4.2.2: median, binom.test, ordered differences 2 and 10 of 11 (1 − 2·pbinom(1, 11, 1/2) = 0.98828125).
    base = [228.1, 210.2, 184.1, 234.8, 204.5, 180.9, 211.9, 181.3, 214.5, 247.5, 189.0]
    cand = [230.0, 218.7, 193.2, 247.8, 221.6, 201.2, 231.1, 206.6, 223.7, 262.4, 190.6]
    metric = compare_metric(base, cand)
    assert (metric.median_base, metric.median_cand) == (210.2, 221.6)
    assert metric.difference == pytest.approx(13.0)
    assert metric.interval is not None
    assert (metric.interval.low, metric.interval.high) == pytest.approx((1.9, 20.3))
    assert metric.coverage == pytest.approx(0.98828125)
    assert metric.sign_p == pytest.approx(2 * 0.5**11)
    assert metric.verdict == "worse"


def test_k30_a_metric_equal_in_all_runs_is_kept_as_no_change() -> None:
    metric = compare_metrics({"bytes": ([1234.0] * 11, [1234.0] * 11), "ms": (SLOWER, FASTER)})["bytes"]
    assert (metric.median_base, metric.median_cand, metric.difference) == (1234.0, 1234.0, 0.0)
    assert metric.interval == Interval(0.0, 0.0)
    assert (metric.sign_p, metric.zeros, metric.verdict) == (1.0, 11, "no-change")


@pytest.mark.parametrize("unit", [1e-15, 1.0, 1e15])
def test_k30_equal_is_equal_in_any_unit(unit: float) -> None:
    same = compare_metric([0.3 * unit] * 11, [0.3 * unit] * 11)
    assert (same.difference, same.verdict) == (0.0, "no-change")
    assert compare_metric(np.multiply(SLOWER, unit), np.multiply(FASTER, unit)).verdict == "better"


def test_k31_one_run_50_times_slower_is_no_verdict() -> None:
    base = [10.0, 10.1, 9.9, 10.05, 9.95, 10.02, 9.98, 10.03, 9.97, 10.01, 9.99]
    cand = [10.02, 10.0, 10.0, 9.95, 10.05, 10.0, 10.01, 9.9, 500.0, 10.0, 9.98]
    metric = compare_metric(base, cand)
    assert metric.verdict == "no-change"
    assert metric.median_cand == 10.0


def test_k31_ten_of_eleven_pairs_speak_alone_and_keep_quiet_among_five() -> None:
    base = [10.0] * 11
    cand = [10.1] * 10 + [9.9]
    alone = compare_metric(base, cand)
    # By hand: 2 · (1 + 11) / 2**11 = 0.01171875, times five 0.05859375.
    assert alone.sign_p == pytest.approx(0.01171875)
    assert alone.verdict == "worse"
    five = compare_metrics({f"m{i}": (base, cand) for i in range(5)})
    assert [metric.sign_p_holm for metric in five.values()] == pytest.approx([0.05859375] * 5)
    assert {metric.verdict for metric in five.values()} == {"no-change"}


def test_c105_higher_turns_better_into_worse() -> None:
    assert compare_metric(SLOWER, FASTER).verdict == "better"
    assert compare_metric(SLOWER, FASTER, higher_is_better=True).verdict == "worse"
    assert compare_metric(FASTER, SLOWER, higher_is_better=True).verdict == "better"


def test_an_interval_that_excludes_0_needs_the_sign_test_too() -> None:
    # By hand: five up and six at 0: the interval ends at 0; with a corrected p above 5% there is no verdict either way.
    assert compare_metric([1.0] * 11, [2.0] * 5 + [1.0] * 6).verdict == "no-change"
    many = compare_metrics({f"m{i}": (SLOWER, FASTER) for i in range(52)})
    assert many["m0"].interval is not None
    assert many["m0"].interval.high < 0.0
    assert {metric.verdict for metric in many.values()} == {"no-change"}


@pytest.mark.parametrize(("n", "sign_p"), [(5, 0.0625), (1, 1.0)])
def test_fewer_than_six_pairs_are_too_few(n: int, sign_p: float) -> None:
    metric = compare_metric(SLOWER[:n], FASTER[:n])
    assert (metric.verdict, metric.interval, metric.coverage) == ("too-few", None, None)
    assert metric.sign_p == sign_p


def test_without_a_pair_everything_is_none() -> None:
    metrics = compare_metrics({"none": ([NAN, 1.0], [1.0, NAN]), "ms": (SLOWER, FASTER)})
    none = metrics["none"]
    assert (none.pairs, none.dropped, none.median_base, none.difference, none.sign_p) == (0, 2, None, None, None)
    assert (none.sign_p_holm, none.verdict) == (None, "too-few")
    # A metric without a p is no test: it does not make the others stricter.
    assert metrics["ms"].sign_p_holm == metrics["ms"].sign_p


def test_a_pair_with_a_missing_side_is_dropped_for_this_metric_only() -> None:
    metrics = compare_metrics({"ms": ([NAN, *SLOWER[1:]], FASTER), "mb": (SLOWER, FASTER)})
    assert (metrics["ms"].pairs, metrics["ms"].dropped) == (10, 1)
    assert metrics["mb"].pairs == 11


def test_zero_differences_leave_the_sign_test_and_stay_in_the_interval() -> None:
    metric = compare_metric([3.0, 3, 4, 5, 3, 4, 4, 3, 5, 4, 3], [3.0, 2, 4, 4, 3, 4, 3, 3, 4, 4, 2])
    # By hand: five down, six equal: 2 · (1/2)**5, and the second smallest and largest of the differences.
    assert (metric.sign_p, metric.interval) == (0.0625, Interval(-1.0, 0.0))


def test_the_rank_of_the_interval_is_the_one_of_the_tables() -> None:
    # By hand from Bin(n, 1/2): n = 6 covers 1 − 2/64, n = 11 at the second 1 − 24/2048, n = 21 at the sixth 0.973.
    assert [median_interval_rank(n) for n in (0, 5, 6, 8, 9, 11, 21)] == [None, None, 1, 1, 2, 2, 6]


@given(st.integers(6, 80))
def test_the_rank_is_the_largest_that_covers_enough(n: int) -> None:
    rank = median_interval_rank(n)
    assert rank is not None

    def coverage(k: int) -> float:
        return 1.0 - 2.0 * sum(math.comb(n, i) for i in range(k)) / 2**n

    assert coverage(rank) >= 0.95 > coverage(rank + 1)


def test_11_pairs_fall_silent_above_51_metrics() -> None:
    # By hand: 2 · (1/2)**11 · 51 = 0.0498, and 52 of them are 0.0508.
    assert pairs_to_speak(51) == 11
    assert pairs_to_speak(52) == 12
    assert pairs_to_speak(1) == pairs_to_speak(0) == 6


def test_hodges_lehmann_is_rs_signed_rank_interval() -> None:
    # R 4.2.2: wilcox.test(d, exact=TRUE, conf.int=TRUE).
    base = np.array([228.1, 210.2, 184.1, 234.8, 204.5, 180.9, 211.9, 181.3, 214.5, 247.5, 189.0])
    cand = np.array([230.0, 218.7, 193.2, 247.8, 221.6, 201.2, 231.1, 206.6, 223.7, 262.4, 190.6])
    shift = hodges_lehmann(cand - base)
    assert shift is not None
    assert shift.estimate == pytest.approx(13.05)
    assert (shift.interval.low, shift.interval.high) == pytest.approx((7.45, 18.15))


@pytest.mark.parametrize("differences", [[1.0, 2, 3, 4, 5], [1.0, 2, 3, 4, 5, -5], [0.0, 1, 2, 3, 4, 5], []])
def test_hodges_lehmann_says_nothing_where_it_is_not_exact(differences: list[float]) -> None:
    assert hodges_lehmann(differences) is None


def test_what_is_no_pair_of_numbers_is_refused() -> None:
    with pytest.raises(ValueError, match="ms: 2 runs of base and 1 of cand"):
        compare_metrics({"ms": ([1.0, 2.0], [1.0])})
    with pytest.raises(ValueError, match="ms: one finite number"):
        compare_metrics({"ms": ([math.inf], [1.0])})
    with pytest.raises(ValueError, match=r"no such metric: \['fps'\]"):
        compare_metrics({"ms": ([1.0], [1.0])}, higher_is_better={"fps"})


@given(st.lists(st.tuples(st.integers(-9, 9), st.integers(-9, 9)), min_size=6, max_size=30))
def test_swapping_the_arms_mirrors_the_row(pairs: list[tuple[int, int]]) -> None:
    base, cand = [float(a) for a, _ in pairs], [float(b) for _, b in pairs]
    one, other = compare_metric(base, cand), compare_metric(cand, base)
    assert one.interval is not None
    assert other.interval is not None
    assert (one.interval.low, one.interval.high) == (-other.interval.high, -other.interval.low)
    assert (one.difference, one.sign_p) == (-(other.difference or 0.0), other.sign_p)
    assert {"better": "worse", "worse": "better"}.get(one.verdict, one.verdict) == other.verdict
