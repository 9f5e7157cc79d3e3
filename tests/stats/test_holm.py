"""Holm's correction."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stats.holm import holm


def test_three_cells_of_a_matrix() -> None:
    # By hand: 3 · 0.0078125 for the first two (the second would be 2 ·, but may not fall), 0.125 as it is.
    assert holm([0.0078125, 0.125, 0.0078125]) == [0.0234375, 0.125, 0.0234375]


def test_a_comparison_without_p_is_not_counted() -> None:
    assert holm([0.01, None, 0.04]) == [0.02, None, 0.04]
    assert holm([None, None]) == [None, None]
    assert holm([]) == []


def test_adjusted_values_stop_at_one() -> None:
    assert holm([0.4, 0.5, 0.6]) == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("p", [[-0.1], [1.1], [float("nan")]])
def test_what_is_not_a_p_is_refused(p: list[float]) -> None:
    with pytest.raises(ValueError, match="p-values"):
        holm(p)


p_values = st.lists(st.floats(0, 1), min_size=1, max_size=12)


@given(p_values)
def test_agrees_with_statsmodels(p: list[float]) -> None:
    multitest = pytest.importorskip("statsmodels.stats.multitest")
    assert holm(p) == pytest.approx(multitest.multipletests(p, method="holm")[1].tolist())


@given(p_values)
def test_never_smaller_than_p_and_in_the_same_order(p: list[float]) -> None:
    adjusted = holm(p)
    assert all(new is not None and new >= old for new, old in zip(adjusted, p, strict=True))
    ordered = [new for _, new in sorted(zip(p, adjusted, strict=True))]
    assert ordered == sorted(ordered)
