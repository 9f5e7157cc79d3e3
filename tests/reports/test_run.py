"""The report of a run: its arms by class of outcome, what it cost, and for an A/B what follows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fairtrial.records.verdict import ScoreRecord
from fairtrial.reports.run import cost_text, headline, run_lines, run_markdown

GOLDEN = Path(__file__).parent / "golden"


def golden(name: str) -> str:
    return (GOLDEN / name).read_text(encoding="utf-8")


def test_k15_a_run_with_losses_by_class(build: Any) -> None:
    side = build.side(
        "main",
        n=8,
        passed=2,
        errors=[("infra_loss", "grader_error", 1), ("infra_loss", "server_error", 1)],
        # By R's binom.wilson(2, 6): 0.0967714 to 0.7000067.
        pass_low=0.0967714,
        pass_high=0.7000067,
        scores=(ScoreRecord(grader="exact", mean=1 / 3, n_scored=6, n_no_score=0, n_errors=1),),
    )
    body = build.run(side, warnings=("6 distinct of 8 inputs (lines 1 and 2, for one).",))
    meta = build.meta(build.FIRST, duration_s=61.2, cost_usd="0.0300", n_with_cost=6, repeated_calls=1)
    assert "\n".join(run_lines(body, meta)) + "\n" == golden("k15.txt")
    assert run_markdown(body, meta) == golden("k15.md")


def test_c47_an_ab_run_shows_its_arms_and_then_the_comparison(build: Any) -> None:
    comparison = build.flip4()
    body = build.run(comparison.a, comparison.b, comparisons=[comparison])
    meta = build.meta(build.FIRST, duration_s=0.4)
    assert "\n".join(run_lines(body, meta)) + "\n" == golden("ab.txt")
    assert run_markdown(body, meta) == golden("ab.md")


def test_k12_a_run_that_was_stopped_is_marked_wherever_its_pass_rate_stands(build: Any) -> None:
    side = build.side("main", n=8, passed=3, done=5)
    body, meta = build.run(side), build.meta(build.FIRST, state="partial")
    mark = "(partial: 5 of 8 trials)"
    assert "\n".join(run_lines(body, meta)) + "\n" == golden("partial.txt")
    assert headline(body) == f"pass 60.0% over 5 cases {mark}"
    assert run_markdown(body, meta).count(mark) == 2


def test_a_run_of_which_nothing_was_done_has_no_figures(build: Any) -> None:
    body = build.run(build.side("main", n=3, passed=0, done=0))
    text = "\n".join(run_lines(body, build.meta(build.FIRST)))
    assert "pass not reported no interval (0 cases, 95% Wilson) (partial: 0 of 3 trials)" in text
    assert "3 trials: 3 not run" in text
    assert "0.0%" not in text


@pytest.mark.parametrize(
    ("cost", "n_with_cost", "told"),
    [
        (None, 0, "not reported"),
        ("0", 0, "not reported"),
        ("0", 4, "$0"),
        ("0.10", 4, "$0.10"),
        ("1E-7", 4, "$0.0000001"),
        ("1E+2", 4, "$100"),
        ("0.25", 3, "at least $0.25 (3 of 4 trials reported one)"),
    ],
)
def test_k58_what_nobody_reported_is_never_zero(build: Any, cost: str | None, n_with_cost: int, told: str) -> None:
    assert cost_text(build.run(), build.meta(build.FIRST, cost_usd=cost, n_with_cost=n_with_cost)) == told


def test_c52_several_arms_give_one_headline_with_each_verdict(build: Any) -> None:
    arms = [build.side(name) for name in ("base", "b", "c")]
    comparisons = [
        build.comparison(arms[0], arms[1], outcome="better"),
        build.comparison(arms[0], arms[2], reasons=[("x", "CI includes 0")]),
    ]
    body = build.run(*arms, comparisons=comparisons)
    assert headline(body) == "base → b: B is better; base → c: inconclusive (CI includes 0)"


def test_a_mean_score_is_told_with_what_it_leaves_out(build: Any) -> None:
    scores = (
        ScoreRecord(grader="a", mean=0.12345, n_scored=1, n_no_score=0, n_errors=0),
        ScoreRecord(grader="b", mean=None, n_scored=0, n_no_score=1200, n_errors=2),
    )
    lines = run_lines(build.run(build.side(scores=scores)), build.meta(build.FIRST))
    assert "grader   a: mean 0.123 over 1 trial" in lines
    assert "grader   b: mean not reported over 0 trials, 1,200 without a score, 2 errors" in lines
