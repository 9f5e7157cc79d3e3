"""Always-valid evidence."""

from __future__ import annotations

import math
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stats.anytime import SequenceMethod, confidence_sequence, flips_e_value


@given(st.integers(0, 300), st.integers(0, 300))
def test_the_e_value_is_the_closed_form_in_exact_fractions(improved: int, regressed: int) -> None:
    m = improved + regressed
    exact = Fraction(2**m, (m + 1) * math.comb(m, improved))
    evidence = flips_e_value(improved=improved, regressed=regressed)
    assert evidence.e_value == pytest.approx(float(exact), rel=1e-9)
    assert evidence.significant == (exact >= 20)
    assert evidence == flips_e_value(improved=regressed, regressed=improved)


def test_seven_flips_one_way_are_not_yet_enough_and_eight_are() -> None:
    # By hand: 2**7 / 8 = 16 and 2**8 / 9 = 28.4.
    assert flips_e_value(improved=7, regressed=0).e_value == pytest.approx(16.0)
    assert not flips_e_value(improved=7, regressed=0).significant
    assert flips_e_value(improved=8, regressed=0).significant


def test_exactly_1_over_alpha_is_significant() -> None:
    assert flips_e_value(improved=7, regressed=0, alpha=1 / 16).significant
    assert not flips_e_value(improved=7, regressed=0, alpha=1 / 17).significant


def test_without_flips_there_is_no_evidence() -> None:
    evidence = flips_e_value(improved=0, regressed=0)
    assert (evidence.e_value, evidence.log_e, evidence.significant) == (1.0, 0.0, False)


def test_evidence_beyond_floats_stays_finite_and_its_log_exact() -> None:
    evidence = flips_e_value(improved=2000, regressed=0)
    assert evidence.e_value == sys.float_info.max
    assert evidence.log_e == pytest.approx(2000 * math.log(2) - math.log(2001))


def test_negative_counts_are_refused() -> None:
    with pytest.raises(ValueError, match="negative"):
        flips_e_value(improved=-1, regressed=0)


def test_under_no_difference_the_e_value_has_mean_1_at_every_number_of_flips() -> None:
    # By hand: Σ C(m, k) 2**−m · 2**m / ((m+1) C(m, k)) = 1, the reason why reading it any time is safe.
    for m in (1, 5, 40):
        mean = sum(math.comb(m, k) / 2**m * flips_e_value(improved=k, regressed=m - k).e_value for k in range(m + 1))
        assert mean == pytest.approx(1.0)


def test_sequences_on_50_equal_cases_are_the_reference_ones() -> None:
    # confseq 0.0.11: predmix_empbern_cs(truncation=0.5), betting_cs(breaks=2000), running intersection.
    bernstein = confidence_sequence([0.0] * 50, method="empirical-bernstein")
    assert bernstein.after(50).high == pytest.approx(0.2989733, abs=1e-7)
    assert bernstein.after(20).low == pytest.approx(-0.74743325, abs=1e-7)
    betting = confidence_sequence([0.0] * 50)
    assert (betting.after(50).low, betting.after(50).high) == pytest.approx((-0.133, 0.133), abs=0.004)


@given(
    st.lists(st.sampled_from([-1.0, 0.0, 1.0]), min_size=1, max_size=60),
    st.sampled_from(["betting", "empirical-bernstein"]),
)
def test_intervals_only_narrow_and_turn_with_the_sides(differences: list[float], method: SequenceMethod) -> None:
    one = confidence_sequence(differences, method=method)
    other = confidence_sequence([-value for value in differences], method=method)
    assert (np.diff(one.low) >= 0).all()
    assert (np.diff(one.high) <= 0).all()
    assert (one.low <= one.high).all()
    assert (one.low >= -1.0).all()
    assert (one.high <= 1.0).all()
    assert one.low == pytest.approx(-other.high, abs=1e-9)


def test_a_drift_that_no_mean_fits_is_reported_and_keeps_the_last_interval() -> None:
    sequence = confidence_sequence([-1.0] * 60 + [1.0] * 200)
    assert sequence.empty_from is not None
    assert 60 < sequence.empty_from < 260
    last = sequence.after(sequence.empty_from - 1)
    assert sequence.after(260) == last
    assert last.low <= last.high
    assert confidence_sequence([0.0, 1.0, -1.0]).empty_from is None


def test_no_case_is_no_interval() -> None:
    sequence = confidence_sequence([])
    assert sequence.low.size == 0
    with pytest.raises(ValueError, match="1 of 0 cases"):
        sequence.after(1)


@pytest.mark.parametrize("differences", [[1.2], [math.nan], [[0.1]]])
def test_what_is_no_difference_is_refused(differences: list[float]) -> None:
    with pytest.raises(ValueError, match="finite, in"):
        confidence_sequence(differences)
