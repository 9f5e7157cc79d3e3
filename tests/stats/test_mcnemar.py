"""The exact McNemar test."""

from __future__ import annotations

import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from stats.mcnemar import mcnemar_exact


@pytest.mark.parametrize(
    ("improved", "regressed", "p"),
    [
        # By hand: twice the smaller tail of Bin(flips, 1/2), at most 1.
        (0, 0, 1.0),
        (1, 0, 1.0),
        (4, 0, 2 / 16),
        (5, 0, 2 / 32),
        (6, 0, 2 / 64),
        (8, 0, 2 / 256),
        (9, 1, 2 * 11 / 1024),
        (10, 2, 2 * (1 + 12 + 66) / 4096),
        (3, 3, 1.0),
    ],
)
def test_k19_exact_p_of_small_tables(improved: int, regressed: int, p: float) -> None:
    assert mcnemar_exact(improved=improved, regressed=regressed).p == pytest.approx(p, rel=1e-12)
    assert mcnemar_exact(improved=regressed, regressed=improved).p == pytest.approx(p, rel=1e-12)


def test_k19_swapping_a_and_b_changes_the_counts_and_not_p() -> None:
    one, other = mcnemar_exact(improved=1, regressed=5), mcnemar_exact(improved=5, regressed=1)
    assert (one.p, one.mid_p) == (other.p, other.mid_p)
    assert (one.improved, one.regressed) == (other.regressed, other.improved) == (1, 5)


def test_published_table_of_bentur() -> None:
    # Fagerland, Lydersen and Laake 2013, airway data of Bentur et al. 2009 (7 against 1): 0.0703 and 0.0391.
    test = mcnemar_exact(improved=7, regressed=1)
    assert test.p == pytest.approx(0.0703125)
    assert test.mid_p == pytest.approx(0.0390625)


def test_mid_p_of_equal_counts() -> None:
    # By hand: 1 − P(X = 1)/2 for X ~ Bin(2, 1/2).
    assert mcnemar_exact(improved=1, regressed=1).mid_p == pytest.approx(0.75)
    assert mcnemar_exact(improved=0, regressed=0).mid_p == 1.0


def test_a_large_table_keeps_its_digits() -> None:
    # R 4.2.2: binom.test(1200, 2200)$p.value.
    assert mcnemar_exact(improved=1200, regressed=1000).p == pytest.approx(2.18170264079146e-05, rel=1e-9)


def test_negative_counts_are_refused() -> None:
    with pytest.raises(ValueError, match="negative"):
        mcnemar_exact(improved=-1, regressed=0)


counts = st.integers(0, 400)


@given(counts, counts)
def test_p_is_that_of_the_binomial_test_and_never_above_one(improved: int, regressed: int) -> None:
    test = mcnemar_exact(improved=improved, regressed=regressed)
    assert 0.0 <= test.mid_p <= test.p <= 1.0
    if test.flips:
        assert test.p == pytest.approx(scipy.stats.binomtest(improved, test.flips, 0.5).pvalue, rel=1e-9)


@given(counts, counts)
def test_mid_p_takes_away_half_the_weight_of_the_table(improved: int, regressed: int) -> None:
    test = mcnemar_exact(improved=improved, regressed=regressed)
    weight = float(scipy.stats.binom.pmf(min(improved, regressed), test.flips, 0.5))
    expected = 1.0 - weight / 2 if improved == regressed else test.p - weight
    assert test.mid_p == pytest.approx(expected if test.flips else 1.0, abs=1e-12)
