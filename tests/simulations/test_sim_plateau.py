"""What a series promises: false alarms come late on average, and a plateau is found where it began.

Seeded. Runs are cut after a number of rounds, which only lowers the mean time to an alarm.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from stats.restart_detector import Betting, RoundResult, detect_plateau, round_of_flips

pytestmark = pytest.mark.slow

EPS = DELTA = 0.05


def rounds(gains: Sequence[float], *, n: int, discordance: float, rng: np.random.Generator) -> list[RoundResult]:
    """Return pass/fail rounds whose candidates truly gain `gains`."""
    drawn = []
    for gain in gains:
        psi = max(discordance, abs(gain))
        fixed, broken, _ = rng.multinomial(n, [(psi + gain) / 2, (psi - gain) / 2, 1.0 - psi])
        drawn.append(round_of_flips(fixed=int(fixed), broken=int(broken), n=n))
    return drawn


def alarm(series: Sequence[RoundResult], *, betting: Betting = "adaptive", min_rounds: int = 5) -> int:
    """Return the round of the alarm, or of the cut."""
    found = detect_plateau(series, eps=EPS, delta=DELTA, betting=betting, min_rounds=min_rounds).alarm_round
    return found or len(series)


@pytest.mark.parametrize("min_rounds", [1, 5])
@pytest.mark.parametrize("betting", ["adaptive", "mixture"])
@pytest.mark.parametrize(("n", "discordance"), [(20, 0.1), (20, 0.3), (50, 0.1), (200, 0.1), (200, 0.3)])
def test_c77_steady_gains_of_eps_raise_no_alarm_for_20_rounds_on_average(
    n: int, discordance: float, betting: Betting, min_rounds: int
) -> None:
    rng = np.random.default_rng(n)
    times = [
        alarm(rounds([EPS] * 45, n=n, discordance=discordance, rng=rng), betting=betting, min_rounds=min_rounds)
        for _ in range(100)
    ]
    assert np.mean(times) >= 1 / DELTA


@pytest.mark.parametrize("discordance", [0.15, 0.3])
@pytest.mark.parametrize(
    ("betting", "least"),
    # Measured with 400 runs of 250 rounds, discordance 15% to 40%: adaptive 19 to 30 rounds, mixture 12 to 17. The
    # mixture keeps the promise about steady gains, but it is the weaker one against a lottery.
    [("adaptive", 15.0), ("mixture", 10.0)],
)
def test_a_lottery_of_good_and_bad_candidates_around_eps_is_no_plateau_at_once(
    betting: Betting, least: float, discordance: float
) -> None:
    rng = np.random.default_rng(15)
    times, unprotected = [], []
    for _ in range(400):
        gains = rng.choice([EPS + 0.1, EPS - 0.1], size=100)
        series = rounds(gains, n=200, discordance=discordance, rng=rng)
        times.append(alarm(series, betting=betting))
        unprotected.append(alarm(series, betting=betting, min_rounds=1))
    assert np.mean(times) >= least
    # Why five rounds are the default: without them one unlucky draw reads as a plateau.
    assert np.mean(unprotected) < np.mean(times) / 2.5


@pytest.mark.parametrize(("n", "latest", "change"), [(20, 30, (6, 16)), (50, 18, (6, 9)), (200, 11, (6, 6))])
def test_a_plateau_after_five_good_rounds_is_called_and_dated(n: int, latest: int, change: tuple[int, int]) -> None:
    # methods.md, section 11: median alarm by round 28, 18 and 10; one round more for waiting five rounds.
    rng = np.random.default_rng(n + 1)
    found = [
        detect_plateau(rounds([0.1] * 5 + [0.0] * 75, n=n, discordance=0.2, rng=rng), eps=EPS, delta=DELTA)
        for _ in range(300)
    ]
    assert np.median([result.alarm_round or 80 for result in found]) <= latest
    assert change[0] <= np.median([result.change_point or 80 for result in found]) <= change[1]
