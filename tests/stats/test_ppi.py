"""Human labels on some cases, a judge on all."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

from stats.ppi import ppi_difference

HUMAN = [1.0, 0, 0, -1, 1, 0, 1, 0, 0, 0, 1, 0, 0, 1, 0, -1, 0, 0, 1, 0]


def test_a_small_case_worked_out_by_hand() -> None:
    # By hand: cov_n = 1/4, all judge figures 1,0,1,0,1,1,0,0 have variance 2/7; λ = (1/4) / ((1 + 4/4)·2/7) = 7/16.
    result = ppi_difference([1.0, 0, 1, 0], [1.0, 0, 1, 0], [1.0, 1, 0, 0])
    assert result.weight == pytest.approx(7 / 16)
    assert result.estimate == pytest.approx(0.5)
    # SE² = (7/16)²·(1/3)/4 + ((9/16)²·(1/3))/4, t with 3 degrees of freedom.
    half = special.stdtrit(3, 0.975) * np.sqrt(((7 / 16) ** 2 + (9 / 16) ** 2) / 12)
    assert result.interval is not None
    assert (result.interval.low, result.interval.high) == pytest.approx((0.5 - half, 0.5 + half))
    assert result.few_labels


def test_a_judge_without_spread_leaves_the_plain_mean_of_the_labels() -> None:
    # R 4.2.2: t.test(human)$conf.int.
    result = ppi_difference(HUMAN, [0.0] * 20, [0.0] * 40)
    assert (result.weight, result.estimate) == (0.0, pytest.approx(0.2))
    assert result.interval is not None
    assert (result.interval.low, result.interval.high) == pytest.approx((-0.0881035897, 0.4881035897), abs=1e-9)
    assert not result.few_labels


def test_z_instead_of_t_is_what_ppi_python_prints() -> None:
    # ppi-python 0.2.3, ppi_mean_ci on the same data.
    result = ppi_difference(HUMAN, [0.0] * 20, [0.0] * 40, quantile="z")
    assert result.interval is not None
    assert (result.interval.low, result.interval.high) == pytest.approx((-0.0629567622, 0.4629567622), abs=1e-9)


def test_a_judge_that_goes_the_wrong_way_is_not_used() -> None:
    result = ppi_difference(HUMAN, [-value for value in HUMAN], [1.0, -1.0, 0.0] * 10)
    assert (result.weight, result.estimate) == (0.0, pytest.approx(0.2))


@pytest.mark.parametrize("other", [[], [0.5]])
def test_without_other_cases_the_labels_stand_alone(other: list[float]) -> None:
    result = ppi_difference(HUMAN, HUMAN, other)
    assert (result.weight, result.estimate) == (0.0, pytest.approx(0.2))


@pytest.mark.parametrize(("human", "mean"), [([], None), ([1.0], 1.0)])
def test_fewer_than_two_labels_say_nothing(human: list[float], mean: float | None) -> None:
    result = ppi_difference(human, human, [0.0, 1.0])
    assert (result.estimate, result.interval, result.human_only) == (None, None, mean)
    assert result.reason == "fewer than two labelled cases"
    assert ppi_difference([], [], []).judge_only is None


def test_labels_without_spread_have_an_estimate_and_no_interval() -> None:
    result = ppi_difference([0.3] * 25, [0.1, 0.4] * 12 + [0.1], [0.1, 0.4] * 30)
    assert (result.estimate, result.interval) == (pytest.approx(0.3), None)
    assert result.reason == "no spread among the labels"


def test_19_labels_are_few_and_20_are_not() -> None:
    assert ppi_difference(HUMAN[:19], HUMAN[:19], HUMAN).few_labels
    assert not ppi_difference(HUMAN, HUMAN, HUMAN).few_labels


def test_labels_and_judge_must_be_of_the_same_cases() -> None:
    with pytest.raises(ValueError, match="2 labels with 1 figures"):
        ppi_difference([1.0, 0.0], [1.0], [0.0])
    with pytest.raises(ValueError, match="finite"):
        ppi_difference([np.nan, 0.0], [1.0, 0.0], [0.0])


@given(st.integers(0, 10_000))
def test_swapping_a_and_b_turns_the_sign_and_the_weight_stays(seed: int) -> None:
    rng = np.random.default_rng(seed)
    human, labelled, other = (rng.integers(-1, 2, size=size).astype(float) for size in (25, 25, 60))
    one, turned = ppi_difference(human, labelled, other), ppi_difference(-human, -labelled, -other)
    assert one.weight == pytest.approx(turned.weight)
    assert 0.0 <= one.weight <= 1.0
    assert one.estimate == pytest.approx(-(turned.estimate or 0.0))
    # A judge is used only as far as it makes the interval shorter than the labels alone, up to the degrees of freedom.
    alone = ppi_difference(human, labelled, [])
    assert one.interval is not None
    assert alone.interval is not None
    assert one.interval.high - one.interval.low <= 1.1 * (alone.interval.high - alone.interval.low)
