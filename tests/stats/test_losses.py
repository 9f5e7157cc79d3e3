"""Lost trials."""

from __future__ import annotations

import subprocess
import sys

import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from stats.losses import fisher_exact, loss_balance, over_limit_hold, uneven_loss_hold


def test_lady_tasting_tea() -> None:
    # Fisher 1935: three of four cups right, two-sided 34/70.
    assert fisher_exact(3, 1, 1, 3) == pytest.approx(34 / 70)


cell = st.integers(0, 60)


@given(cell, cell, cell, cell)
def test_fisher_agrees_with_scipy(a: int, b: int, c: int, d: int) -> None:
    assert fisher_exact(a, b, c, d) == pytest.approx(scipy.stats.fisher_exact([[a, b], [c, d]]).pvalue, rel=1e-6)


def test_c28_ten_percent_against_none_is_uneven() -> None:
    balance = loss_balance(lost_a=10, planned_a=100, lost_b=0, planned_b=100)
    assert balance.uneven
    assert balance.p == pytest.approx(0.00155, abs=1e-5)  # scipy 1.17.1 fisher_exact([[10, 90], [0, 100]])
    hold = uneven_loss_hold(balance)
    assert hold is not None
    assert hold.text == "uneven loss: A lost 10 of 100 trials, B 0 of 100 (Fisher p = 0.002)"


def test_five_points_apart_warns_from_ten_lost_trials_on() -> None:
    # By hand: 8/100 against 3/100 is 5 points with 11 lost; 6/100 against 1/100 is 5 points with 7 lost.
    many = loss_balance(lost_a=8, planned_a=100, lost_b=3, planned_b=100)
    few = loss_balance(lost_a=6, planned_a=100, lost_b=1, planned_b=100)
    assert many.p is not None
    assert few.p is not None
    assert min(many.p, few.p) > 0.05
    assert (many.uneven, few.uneven) == (True, False)
    assert uneven_loss_hold(few) is None


def test_a_side_without_trials_has_no_test() -> None:
    balance = loss_balance(lost_a=0, planned_a=0, lost_b=1, planned_b=4)
    assert (balance.share_a, balance.share_b, balance.p, balance.uneven) == (None, 0.25, None, False)
    assert loss_balance(lost_a=1, planned_a=4, lost_b=0, planned_b=0).share_a == 0.25
    with pytest.raises(ValueError, match="lost of"):
        loss_balance(lost_a=2, planned_a=1, lost_b=0, planned_b=1)


def test_exactly_the_limit_is_not_over_it() -> None:
    # By hand: 5 of 100 is the limit of 5%, 6 is over; 3 of 60 is the limit too, though 0.05 has no exact float.
    assert over_limit_hold(loss_balance(lost_a=5, planned_a=100, lost_b=3, planned_b=60)) is None
    hold = over_limit_hold(loss_balance(lost_a=0, planned_a=100, lost_b=6, planned_b=100))
    assert hold is not None
    assert (hold.code, hold.text) == ("over-loss-limit", "B lost 6 of 100 trials, over the limit of 5.0%")
    assert over_limit_hold(loss_balance(lost_a=0, planned_a=0, lost_b=0, planned_b=0)) is None


def test_comparing_does_not_import_scipy_stats() -> None:
    modules = "adjusted bootstrap clusters decision holm losses mcnemar means noninferiority paired_tests pairing"
    modules += " posterior power regression trials wilson"
    imports = ";".join(f"import stats.{name}" for name in modules.split())
    code = f"{imports};import sys;sys.exit('scipy.stats' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
