"""Power, ceiling and the smallest visible effect."""

from __future__ import annotations

import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from stats.mcnemar import mcnemar_exact
from stats.power import least_flips, mcnemar_ceiling, mcnemar_mde, mcnemar_power, mean_mde


def power_by_sums(n: int, psi: float, effect: float) -> float:
    """Go through every table and ask the test itself."""
    share = (psi + effect) / (2 * psi)
    return sum(
        scipy.stats.binom.pmf(m, n, psi) * scipy.stats.binom.pmf(up, m, share)
        for m in range(n + 1)
        for up in range(m + 1)
        if 2 * up > m and mcnemar_exact(improved=up, regressed=m - up).p < 0.05
    )


@given(st.integers(1, 25), st.floats(0.05, 1.0), st.floats(0.0, 1.0))
@settings(max_examples=20)
def test_power_is_the_sum_over_all_tables(n: int, psi: float, part: float) -> None:
    got = mcnemar_power(n, discordance=psi, effect=part * psi)
    assert got == pytest.approx(power_by_sums(n, psi, part * psi), abs=1e-9)


def test_published_power() -> None:
    # R MESS power_mcnemar_test, exact, one-sided 0.025: n = 100, discordance 0.2, effect 0.1.
    assert mcnemar_power(100, discordance=0.2, effect=0.1) == pytest.approx(0.544441256903928, abs=1e-8)


def test_six_flips_are_the_fewest_that_can_be_significant() -> None:
    # By hand: 2 · 0.5⁶ = 0.03125, 2 · 0.5⁵ = 0.0625; at 1% it takes eight.
    assert least_flips() == 6
    assert least_flips(alpha=0.01) == 8


@given(st.integers(0, 60), st.floats(0.0, 1.0))
@settings(max_examples=40)
def test_the_ceiling_is_the_power_of_the_largest_effect(n: int, psi: float) -> None:
    ceiling = mcnemar_ceiling(n, discordance=psi)
    assert ceiling == pytest.approx(mcnemar_power(n, discordance=psi, effect=psi), abs=1e-9)
    assert ceiling == pytest.approx(float(scipy.stats.binom.sf(5, n, psi)), abs=1e-12)


def test_c31_a_small_run_says_that_it_has_no_power() -> None:
    small = mcnemar_mde(5, discordance=0.4)
    assert (small.ceiling, small.mde) == (0.0, None)
    assert small.reason == "no 80% power at this n (exact McNemar ceiling 0%)"
    # R: pbinom(5, 30, 0.2, lower.tail = FALSE) = 0.5725.
    assert mcnemar_mde(30, discordance=0.2).reason == "no 80% power at this n (exact McNemar ceiling 57%)"
    assert mcnemar_mde(200, discordance=0.0).ceiling == 0.0


def test_c31_a_larger_run_has_a_smallest_effect_with_the_power_asked_for() -> None:
    effect = mcnemar_mde(200, discordance=0.2)
    assert effect.mde == pytest.approx(0.0911637616538708, abs=1e-8)  # R uniroot on the power of MESS
    assert mcnemar_power(200, discordance=0.2, effect=effect.mde) == pytest.approx(0.8, abs=1e-9)


def test_c30_the_smallest_effect_is_never_below_the_flip_rate_of_the_config_itself() -> None:
    effect = mcnemar_mde(5_000, discordance=0.10, aa_flip_rate=0.12)
    assert (effect.mde, effect.at_aa_rate) == (0.12, True)
    # The A/A flip rate also raises the discordance: without a flip seen there still is one to expect.
    assert mcnemar_mde(100, discordance=0.0, aa_flip_rate=0.2).ceiling == mcnemar_ceiling(100, discordance=0.2)
    assert mean_mde(5_000, sd=0.1, aa_flip_rate=0.12).mde == 0.12


def test_a_mean_is_that_of_statsmodels() -> None:
    power = pytest.importorskip("statsmodels.stats.power")
    for n in (2, 10, 200):
        expected = power.TTestPower().solve_power(nobs=n, alpha=0.05, power=0.8) * 0.3
        assert mean_mde(n, sd=0.3).mde == pytest.approx(expected, rel=1e-4)


def test_a_mean_without_spread_or_cases_has_a_reason() -> None:
    assert mean_mde(1, sd=0.3).reason == "too few paired cases"
    assert mean_mde(20, sd=0.0).reason == "the differences have no spread"


def test_what_is_not_a_share_is_refused() -> None:
    with pytest.raises(ValueError, match="share"):
        mcnemar_ceiling(10, discordance=1.5)
    with pytest.raises(ValueError, match="effect"):
        mcnemar_power(10, discordance=0.1, effect=0.2)
