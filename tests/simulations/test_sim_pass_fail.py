"""What pass/fail verdicts promise, worked out table by table.

Nothing is drawn but the product's own resamples: every table of improved and regressed cases that can happen is judged
once, and its probability under the truth is added up. The figures are exact, so the bounds get no allowance, except
where the table says otherwise.
"""

from __future__ import annotations

import functools

import numpy as np
import pytest
from scipy import special

from stats.adjusted import adjusted_difference
from stats.bootstrap import bootstrap_difference
from stats.decision import decide
from stats.mcnemar import mcnemar_exact
from stats.noninferiority import non_inferiority
from stats.posterior import p_b_better
from stats.results import Interval

pytestmark = pytest.mark.slow

Table = tuple[int, int]
NEGLIGIBLE = 1e-8


def likely_tables(n: int, *, discordance: float, effect: float) -> dict[Table, float]:
    """Return the probability of each (improved, regressed), leaving out tables below one in a hundred million."""
    up, down = (discordance + effect) / 2, (discordance - effect) / 2
    improved, regressed = np.meshgrid(np.arange(n + 1), np.arange(n + 1), indexing="ij")
    same = n - improved - regressed
    fits = same >= 0
    improved, regressed, same = improved[fits], regressed[fits], same[fits]
    ways = special.gammaln(n + 1) - sum(special.gammaln(part + 1) for part in (improved, regressed, same))
    logs = ways + sum(special.xlogy(*pair) for pair in ((improved, up), (regressed, down), (same, 1 - up - down)))
    chance = np.exp(logs)
    kept = chance > NEGLIGIBLE
    triples = zip(improved[kept].tolist(), regressed[kept].tolist(), chance[kept].tolist(), strict=True)
    return {(up_count, down_count): share for up_count, down_count, share in triples}


def differences(n: int, table: Table) -> np.ndarray:
    improved, regressed = table
    return np.repeat([1.0, -1.0, 0.0], [improved, regressed, n - improved - regressed])


@functools.cache
def expanded(n: int, table: Table) -> Interval:
    interval = bootstrap_difference(differences(n, table), rng=np.random.default_rng([n, *table])).interval
    assert interval is not None
    return interval


@functools.cache
def adjusted(n: int, table: Table) -> Interval:
    interval = adjusted_difference(differences(n, table)).interval
    assert interval is not None
    return interval


@pytest.mark.parametrize("n", [10, 15, 20, 30, 50, 100])
@pytest.mark.parametrize("discordance", [0.05, 0.1, 0.2, 0.4])
def test_the_expanded_bootstrap_covers_no_difference(n: int, discordance: float) -> None:
    tables = likely_tables(n, discordance=discordance, effect=0.0)
    coverage = sum(chance for table, chance in tables.items() if expanded(n, table).holds(0.0))
    assert coverage >= 0.949


@pytest.mark.parametrize("n", [10, 15, 20, 30, 50, 100, 200, 500])
@pytest.mark.parametrize("discordance", [0.05, 0.1, 0.2, 0.4])
@pytest.mark.parametrize("part", [0.0, 0.25, -0.5, 0.6, 0.9])
def test_the_adjusted_interval_covers_every_difference(n: int, discordance: float, part: float) -> None:
    effect = part * discordance
    tables = likely_tables(n, discordance=discordance, effect=effect)
    coverage = sum(chance for table, chance in tables.items() if adjusted(n, table).holds(effect))
    assert coverage >= 0.945


@pytest.mark.parametrize(("n", "discordance"), [(20, 0.2), (100, 0.1), (200, 0.2)])
def test_the_adjusted_interval_is_a_little_short_when_every_flip_goes_one_way(n: int, discordance: float) -> None:
    # The edge of the promise above: nothing can regress. The worst seen over n and discordance is 0.928.
    tables = likely_tables(n, discordance=discordance, effect=discordance)
    coverage = sum(chance for table, chance in tables.items() if adjusted(n, table).holds(discordance))
    assert 0.925 <= coverage < 0.945


@pytest.mark.parametrize(
    ("discordance", "effect", "n", "by_bootstrap", "by_adjusted"),
    [
        # Exact enumeration with the ideal bootstrap (numpy, FFT convolution), independent of the product's code.
        (0.2, 0.0, 20, 0.956, 0.983),
        (0.2, 0.0, 50, 0.958, 0.961),
        (0.2, 0.0, 100, 0.958, 0.958),
        (0.2, 0.1, 20, 0.948, 0.981),
        (0.2, 0.1, 50, 0.963, 0.963),
        (0.2, 0.1, 100, 0.960, 0.957),
        (0.07, 0.05, 20, 0.709, 1.000),
        (0.07, 0.05, 50, 0.935, 0.979),
        (0.07, 0.05, 100, 0.964, 0.968),
        (0.05, -0.03, 20, 0.552, 1.000),
        (0.05, -0.03, 50, 0.860, 0.997),
        (0.05, -0.03, 100, 0.955, 0.974),
    ],
)
def test_coverage_is_the_one_of_the_ideal_bootstrap(
    discordance: float, effect: float, n: int, by_bootstrap: float, by_adjusted: float
) -> None:
    tables = likely_tables(n, discordance=discordance, effect=effect)
    # Ends carry twelve decimals; an effect such as 0.1 must not fall outside by its own last bit.
    seen = sum(chance for table, chance in tables.items() if expanded(n, table).holds(round(effect, 12)))
    closed = sum(chance for table, chance in tables.items() if adjusted(n, table).holds(effect))
    # 10,000 resamples against infinitely many: an end moves by one step of the lattice now and then.
    assert seen == pytest.approx(by_bootstrap, abs=0.012)
    assert closed == pytest.approx(by_adjusted, abs=0.0006)


@functools.cache
def says_something(n: int, table: Table) -> bool:
    interval = expanded(n, table)
    p = mcnemar_exact(improved=table[0], regressed=table[1]).p
    estimate = (table[0] - table[1]) / n
    return decide(estimate=estimate, interval=interval, exact_p=p, kind="pass_fail").outcome != "inconclusive"


@pytest.mark.parametrize("n", [4, 5, 6, 8, 10, 14, 20, 30, 50])
def test_a_comparison_speaks_in_at_most_five_percent_when_nothing_changed(n: int) -> None:
    worst = 0.0
    for discordance in np.linspace(0.025, 1.0, 40):
        tables = likely_tables(n, discordance=float(discordance), effect=0.0)
        worst = max(worst, sum(chance for table, chance in tables.items() if says_something(n, table)))
    assert worst <= 0.05


@pytest.mark.parametrize("discordance", [0.02, 0.05, 0.1])
def test_a_comparison_of_two_hundred_cases_speaks_in_at_most_five_percent(discordance: float) -> None:
    tables = likely_tables(200, discordance=discordance, effect=0.0)
    assert sum(chance for table, chance in tables.items() if says_something(200, table)) <= 0.05


def test_the_interval_alone_would_not_keep_its_promise() -> None:
    # Why the exact test has to agree: with four cases that all flip, 2 of 16 tables are four flips one way.
    tables = likely_tables(4, discordance=1.0, effect=0.0)
    alone = sum(chance for table, chance in tables.items() if not expanded(4, table).holds(0.0))
    assert alone == pytest.approx(0.125)


@pytest.mark.parametrize("n", [20, 30, 50, 100, 200, 500])
def test_a_margin_is_seldom_met_by_a_loss_of_the_margin(n: int) -> None:
    passed = 0.0
    for table, chance in likely_tables(n, discordance=0.05, effect=-0.03).items():
        judged = non_inferiority(
            differences(n, table), bootstrap=expanded(n, table), kind="pass_fail", margin=0.03
        ).decision
        passed += chance if judged.outcome == "passed" else 0.0
    assert passed <= 0.035


def test_the_exact_test_never_exceeds_its_level() -> None:
    # Given the number of flips the table is binomial; a bound for each number of flips is a bound for every truth.
    for flips in range(301):
        chance = special.binom(flips, np.arange(flips + 1)) * 0.5**flips
        rejected = [mcnemar_exact(improved=up, regressed=flips - up).p < 0.05 for up in range(flips + 1)]
        assert float(chance[np.array(rejected)].sum()) <= 0.05


def test_a_posterior_of_ninety_seven_percent_is_rare_when_nothing_changed() -> None:
    for flips in range(5, 51):
        chance = special.binom(flips, np.arange(flips + 1)) * 0.5**flips
        sure = [p_b_better(improved=up, regressed=flips - up) >= 0.975 for up in range(flips + 1)]
        assert float(chance[np.array(sure)].sum()) <= 0.04
