"""The one decision rule, the margin and the gate."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stats.bootstrap import bootstrap_difference
from stats.decision import REASONS, Decision, Hold, Kind, decide, format_p, gate, margin_decision
from stats.holm import holm
from stats.mcnemar import mcnemar_exact
from stats.paired_tests import sign_test
from stats.results import Interval

ROOT = Path(__file__).resolve().parents[2]


def codes(decision: Decision) -> list[str]:
    return [reason.code for reason in decision.reasons]


def compare(differences: list[float], adjusted_p: float | None = None) -> Decision:
    """Decide a pass/fail comparison from the differences of its cases."""
    result = bootstrap_difference(differences, rng=np.random.default_rng(1))
    test = sign_test(differences)
    return decide(
        estimate=result.estimate,
        interval=result.interval,
        exact_p=test.p,
        kind="pass_fail",
        adjusted_p=adjusted_p,
        exact_direction=test.improved - test.regressed,
    )


def test_two_cases_with_one_regression_are_inconclusive_because_the_interval_includes_zero() -> None:
    decision = compare([0.0, -1.0])
    assert decision.outcome == "inconclusive"
    assert decision.reasons[0].text == "CI includes 0"


def test_k20_four_equal_flips_are_inconclusive_and_the_line_says_why() -> None:
    decision = compare([1.0] * 4)
    assert decision.outcome == "inconclusive"
    assert codes(decision) == ["exact-test-disagrees"]
    assert decision.reasons[0].text == "exact McNemar p = 0.125 does not agree"


def test_eight_equal_flips_are_better_and_their_mirror_image_is_worse() -> None:
    assert compare([1.0] * 8) == Decision("better", ())
    assert compare([-1.0] * 8) == Decision("worse", ())


def test_a_matrix_of_three_cells_speaks_after_the_correction() -> None:
    # Eight of eight fixed, four of eight fixed, eight of eight fixed: 0.0234, 0.125, 0.0234.
    adjusted = holm([mcnemar_exact(improved=flips, regressed=0).p for flips in (8, 4, 8)])
    outcomes = [
        compare([1.0] * flips + [0.0] * (8 - flips), adjusted_p=p).outcome
        for flips, p in zip((8, 4, 8), adjusted, strict=True)
    ]
    assert outcomes == ["better", "inconclusive", "better"]


def test_a_win_that_does_not_survive_its_family_names_the_correction() -> None:
    decision = compare([1.0] * 6, adjusted_p=0.0625)
    assert codes(decision) == ["family-correction-disagrees"]
    assert "0.062" in decision.reasons[0].text


def test_k21_equal_score_differences_fall_back_to_the_sign_test() -> None:
    differences = [0.9 - 0.8, 0.8 - 0.7, 0.7 - 0.6, 0.3 - 0.2]
    result = bootstrap_difference(differences, rng=np.random.default_rng(1))
    assert result.interval is not None
    assert result.interval.low > 0.0
    decision = decide(
        estimate=result.estimate,
        interval=result.interval,
        exact_p=sign_test(differences).p,
        kind="scores",
        n_nonzero=4,
    )
    assert (decision.outcome, codes(decision)) == ("inconclusive", ["sign-test-disagrees"])
    assert decision.reasons[0].text == "exact sign test p = 0.125 does not agree"


def test_k21_no_difference_at_all_is_identical() -> None:
    decision = compare([0.0] * 12)
    assert (decision.outcome, codes(decision)) == ("inconclusive", ["identical"])


def test_k21_one_pair_is_too_few() -> None:
    decision = compare([1.0])
    assert codes(decision) == ["one-pair"]
    assert "too few" in decision.reasons[0].text


def test_no_pair_has_a_reason() -> None:
    assert codes(compare([])) == ["no-pairs"]


def test_ten_changed_scores_go_by_the_interval_alone() -> None:
    arguments = {"estimate": 0.1, "interval": Interval(0.01, 0.2), "exact_p": 0.3, "kind": "scores"}
    assert decide(n_nonzero=9, **arguments).outcome == "inconclusive"
    assert decide(n_nonzero=10, **arguments).outcome == "better"
    assert codes(decide(n_nonzero=10, adjusted_p=0.06, **arguments)) == ["family-correction-disagrees"]


def test_scores_without_the_number_of_changes_are_refused() -> None:
    with pytest.raises(ValueError, match="n_nonzero"):
        decide(estimate=0.1, interval=Interval(0.01, 0.2), exact_p=0.3, kind="scores")
    with pytest.raises(ValueError, match="without an estimate"):
        decide(estimate=None, interval=Interval(0.01, 0.2), exact_p=0.3, kind="pass_fail")


def test_groups_go_by_the_cr2_test() -> None:
    agrees = decide(estimate=0.2, interval=Interval(0.1, 0.3), exact_p=0.01, kind="clusters")
    differs = decide(estimate=0.2, interval=Interval(0.1, 0.3), exact_p=0.2, kind="clusters")
    assert agrees.outcome == "better"
    assert codes(differs) == ["cluster-test-disagrees"]
    one_group = decide(estimate=0.2, interval=None, exact_p=None, kind="clusters")
    assert one_group.reasons[0].text == "one group, no interval"
    no_spread = decide(estimate=0.2, interval=Interval(0.2, 0.2), exact_p=None, kind="clusters")
    assert codes(no_spread) == ["test-undefined"]


def test_a_test_that_points_the_other_way_does_not_agree() -> None:
    arguments = {"estimate": 0.1, "interval": Interval(0.01, 0.2), "exact_p": 0.01, "kind": "pass_fail"}
    assert codes(decide(exact_direction=-3, **arguments)) == ["opposite-directions"]
    assert decide(exact_direction=3, **arguments).outcome == "better"


@pytest.mark.parametrize("low", [0.0, 1e-17, -0.0, 4e-13])
def test_an_end_at_zero_includes_zero(low: float) -> None:
    decision = decide(estimate=0.1, interval=Interval(low, 0.2), exact_p=0.001, kind="pass_fail")
    assert codes(decision) == ["interval-includes-zero"]


def test_p_of_exactly_alpha_does_not_agree() -> None:
    arguments = {"estimate": 0.1, "interval": Interval(0.1, 0.2), "kind": "pass_fail"}
    assert decide(exact_p=0.05, **arguments).outcome == "inconclusive"
    assert decide(exact_p=math.nextafter(0.05, 0), **arguments).outcome == "better"


def test_c37_a_hold_makes_a_clear_win_inconclusive_and_comes_first() -> None:
    hold = Hold("failing-subset", "regression to the mean")
    win = decide(estimate=0.5, interval=Interval(0.4, 0.6), exact_p=1e-9, kind="pass_fail", holds=[hold])
    assert (win.outcome, codes(win)) == ("inconclusive", ["failing-subset"])
    both = decide(estimate=0.5, interval=Interval(0.0, 0.6), exact_p=1e-9, kind="pass_fail", holds=[hold])
    assert codes(both) == ["failing-subset", "interval-includes-zero"]
    assert not gate(win).ship


def test_a_hold_without_a_documented_code_is_refused() -> None:
    with pytest.raises(ValueError, match="REASONS"):
        Hold("because", "so")


def test_c15_the_gate_ships_a_clear_win_and_nothing_else() -> None:
    better, worse = Decision("better", ()), Decision("worse", ())
    assert gate(better).ship
    assert gate(better).reasons == ()
    assert [reason.code for reason in gate(worse).reasons] == ["worse"]
    assert not gate(worse).ship
    smoke = gate(compare([0.0, -1.0]))
    assert (smoke.ship, smoke.outcome, smoke.reasons[0].text) == (False, "inconclusive", "CI includes 0")


def test_a_hold_of_the_gate_leaves_the_verdict_standing() -> None:
    held = gate(Decision("better", ()), holds=[Hold("uneven-loss", "uneven loss")])
    assert (held.ship, held.outcome, held.reasons[0].code) == (False, "better", "uneven-loss")


@pytest.mark.parametrize(
    ("low", "outcome"),
    [(-0.029, "passed"), (-0.03, "missed"), (-0.030000000000000002, "missed"), (-0.031, "missed"), (0.1, "passed")],
)
def test_c16_the_margin_is_met_strictly(low: float, outcome: str) -> None:
    assert margin_decision(low=low, margin=0.03).outcome == outcome


def test_c16_floating_error_does_not_decide_a_margin() -> None:
    # 0.1 + 0.2 is 0.30000000000000004: a lower end that misses the margin by rounding alone still misses it.
    assert margin_decision(low=-0.3, margin=0.1 + 0.2).outcome == "missed"


def test_a_margin_without_an_interval_is_undecided() -> None:
    assert margin_decision(low=None, margin=0.03).outcome == "undecided"
    held = margin_decision(low=0.2, margin=0.03, holds=[Hold("partial-run", "not complete")])
    assert (held.outcome, held.reasons[0].code) == ("undecided", "partial-run")
    with pytest.raises(ValueError, match="margin"):
        margin_decision(low=0.1, margin=-0.01)


def test_the_line_of_a_missed_margin_names_both_numbers() -> None:
    assert margin_decision(low=-0.0417, margin=0.03).reasons[0].text == "lower end −4.2pp is not above −3.0pp"
    assert margin_decision(low=0.0, margin=0.0).reasons[0].text == "lower end 0.0pp is not above 0.0pp"


def test_a_p_just_above_its_level_does_not_print_as_the_level() -> None:
    assert format_p(0.125) == "0.125"
    assert format_p(0.05003) == "0.05003"
    assert format_p(0.05) == "0.050"
    assert format_p(0.05 + 1e-12) == repr(0.05 + 1e-12)


@pytest.mark.parametrize("code", sorted(REASONS))
def test_every_reason_has_its_page(code: str) -> None:
    page = ROOT / "docs" / "reasons" / f"{code}.md"
    assert page.is_file(), f"docs/reasons/{code}.md is missing"
    assert code in page.read_text(encoding="utf-8")


def test_there_is_no_page_without_a_reason() -> None:
    pages = {page.stem for page in (ROOT / "docs" / "reasons").glob("*.md")}
    assert pages - {"README"} == set(REASONS)


end = st.floats(-1, 1)
kinds = st.sampled_from(["pass_fail", "scores", "clusters"])


@given(end, end, st.one_of(st.none(), st.floats(0, 1)), kinds, st.integers(0, 20))
def test_better_needs_an_interval_above_zero_and_swapping_a_and_b_mirrors_it(
    one: float, other: float, p: float | None, kind: Kind, n_nonzero: int
) -> None:
    low, high = sorted((one, other))
    middle = (low + high) / 2
    decision = decide(estimate=middle, interval=Interval(low, high), exact_p=p, kind=kind, n_nonzero=n_nonzero)
    mirror = decide(estimate=-middle, interval=Interval(-high, -low), exact_p=p, kind=kind, n_nonzero=n_nonzero)
    opposite = {"better": "worse", "worse": "better", "inconclusive": "inconclusive"}
    assert mirror.outcome == opposite[decision.outcome]
    assert (decision.reasons == ()) == (decision.outcome != "inconclusive")
    if decision.outcome == "better":
        assert low > 0.0
