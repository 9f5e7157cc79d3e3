"""What exp aa promises of a coin and of an echo. Seeded."""

from __future__ import annotations

import numpy as np
import pytest

from stats.pairing import pair_cases
from stats.power import mcnemar_mde
from stats.trials import flip_rate

pytestmark = pytest.mark.slow


def test_k29_a_coin_flips_half_its_cases_and_nothing_smaller_is_called_detectable() -> None:
    rng, rates = np.random.default_rng(29), []
    for _ in range(500):
        runs = rng.integers(0, 2, size=(2, 100, 1)).astype(float)
        pairs = pair_cases(runs[0], runs[1])
        rate = flip_rate(pairs.improved + pairs.regressed, pairs.n)
        assert rate.share is not None
        effect = mcnemar_mde(100, discordance=0.1, aa_flip_rate=rate.share)
        assert effect.mde is not None
        assert effect.mde >= rate.share
        rates.append(rate.interval.holds(0.5))
    # By hand: 500 runs at 95%, three standard errors of 0.97%.
    assert abs(np.mean(rates) - 0.95) <= 0.03


def test_k29_an_echo_has_a_flip_rate_of_0_with_an_upper_limit() -> None:
    pairs = pair_cases(np.ones((100, 1)), np.ones((100, 1)))
    rate = flip_rate(pairs.improved + pairs.regressed, pairs.n)
    # By hand: Wilson's upper end without a pass, z²/(n + z²) = 3.8415 / 103.8415.
    assert (rate.share, rate.interval.low) == (0.0, 0.0)
    assert rate.interval.high == pytest.approx(0.036994, abs=1e-6)
