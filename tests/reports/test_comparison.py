"""The report of a comparison: the lines a person reads, and the same figures as Markdown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fairtrial.records.verdict import NotComparableRecord, ReasonRecord, SettingRecord
from fairtrial.reports.comparison import (
    MOST_CASES,
    MOST_IDS,
    comparison_lines,
    comparison_markdown,
    difference_line,
    flips_line,
    losses_text,
    verdict_text,
)

GOLDEN = Path(__file__).parent / "golden"


def golden(name: str) -> str:
    return (GOLDEN / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["smoke2", "flip4"])
def test_c09_to_c14_a_comparison_reads_as_in_the_source(build: Any, name: str) -> None:
    body = getattr(build, name)()
    meta = build.meta(build.FIRST, build.SECOND)
    assert "\n".join(comparison_lines(body, meta)) + "\n" == golden(f"{name}.txt")
    assert comparison_markdown(body, meta) + "\n" == golden(f"{name}.md")


def test_everything_at_once_reads_in_the_order_of_need(build: Any) -> None:
    a = build.side("base", n=40, passed=18, errors=[("agent_failure", "exit_code", 3), ("infra_loss", "rate_limit", 2)])
    b = build.side(
        "cand",
        n=40,
        passed=20,
        done=35,
        ungraded=1,
        errors=[("infra_loss", "grader_error", 2), ("infra_loss", "network", 1)],
    )
    body = build.comparison(
        a,
        b,
        n_pairs=31,
        interval=(0.0645, -0.0968, 0.2258),
        flips=(6, 4, 0.7539),
        reasons=[("partial-run", "B is not complete"), ("interval-includes-zero", "CI includes 0")],
        regressions=[(f"case-{n}", 1.0, 0.0) for n in range(23)],
        improvements=[("two of three", 1 / 3, 2 / 3)],
        not_comparable=NotComparableRecord(
            input_changed=("i1",),
            label_changed=("l1", "l2"),
            only_a=1,
            only_b=2,
            without_value=tuple(f"w{n}" for n in range(12)),
        ),
        settings=(SettingRecord(path="limits.retries", a="3", b="not set"),),
        warnings=(ReasonRecord(code="uneven-loss", text="agent failures are uneven: A 3 of 40, B 0 of 35"),),
    )
    meta = build.meta(look=3)
    assert "\n".join(comparison_lines(body, meta)) + "\n" == golden("everything.txt")
    assert comparison_markdown(body, meta) + "\n" == golden("everything.md")


def test_c10_each_side_is_named_with_the_experiment_it_comes_from(build: Any) -> None:
    lines = comparison_lines(build.smoke2(), build.meta())
    assert build.FIRST in lines[0]
    assert build.SECOND in lines[1]
    both = comparison_lines(build.smoke2(), build.meta(build.FIRST))
    assert build.FIRST in both[0]
    assert build.FIRST in both[1]


@pytest.mark.parametrize(
    ("interval", "told"),
    [
        ((None, None, None), "B − A    not defined (1 paired case)"),
        ((0.5, None, None), "B − A    +50.0pp (one paired case: no interval; 1 paired case)"),
    ],
)
def test_what_cannot_be_computed_is_said_and_is_no_number(build: Any, interval: Any, told: str) -> None:
    assert difference_line(build.comparison(interval=interval, n_pairs=1)) == told


def test_c13_a_verdict_says_what_did_not_agree(build: Any) -> None:
    assert verdict_text(build.comparison(outcome="better").decision) == "B is better"
    assert verdict_text(build.comparison(outcome="worse").decision) == "B is worse"
    both = build.comparison(reasons=[("a", "first"), ("b", "second")]).decision
    assert verdict_text(both) == "inconclusive (first; second)"


@pytest.mark.parametrize(
    ("flips", "told"),
    [
        ((4, 0, 0.125), "mcnemar  p=0.125  0 regressed, 4 improved"),
        ((8, 0, 0.0078125), "mcnemar  p=0.008  0 regressed, 8 improved"),
        ((1500, 1200, 8.6e-9), "mcnemar  p=8.6e-9  1,200 regressed, 1,500 improved"),
    ],
)
def test_c12_the_exact_test_is_told_with_its_flips(build: Any, flips: Any, told: str) -> None:
    assert flips_line(build.comparison(flips=flips)) == told


def test_k27_a_family_shows_the_adjusted_p_beside_its_own(build: Any) -> None:
    body = build.comparison(flips=(8, 0, 0.0078125))
    family = body.model_copy(update={"flips": body.flips.model_copy(update={"adjusted_p": 0.0234375})})
    assert flips_line(family) == "mcnemar  p=0.008 (Holm 0.023)  0 regressed, 8 improved"


def test_k14_agent_failures_stand_beside_the_pass_rate(build: Any) -> None:
    a = build.side("a", n=10, passed=5, errors=[("agent_failure", "exit_code", 5)])
    b = build.side("b", n=10, passed=6)
    lines = comparison_lines(build.comparison(a, b, n_pairs=10), build.meta())
    # cases.md K14: 50% against 60%, graded only 5/5, failure rate 50%.
    assert lines[0].endswith("pass 50.0%")
    assert lines[1].endswith("pass 60.0%")
    assert lines[2] == "A 10 trials: 5 graded, 5 agent failures; graded only 5/5 = 100.0%; failure rate 50.0%"
    assert lines[3] == "  5 × exit_code (agent)"


def test_k15_losses_are_told_by_class_in_one_line(build: Any) -> None:
    side = build.side(n=8, passed=2, errors=[("infra_loss", "server_error", 1), ("infra_loss", "grader_error", 1)])
    assert losses_text(side) == "8 trials: 6 graded, 1 infra, 1 grader error"
    # A loss whose kind nobody noted is infra, not the grader's.
    unknown = side.model_copy(update={"errors": ()})
    assert losses_text(unknown) == "8 trials: 6 graded, 2 infra"
    assert losses_text(build.side(n=1, passed=0, done=0)) == "1 trial: 1 not run"
    lost = build.side(n=2000, passed=0, done=1500, errors=[("infra_loss", "grader_error", 1200)], ungraded=300)
    assert losses_text(lost) == "2,000 trials: 1,200 grader errors, 300 without a score, 500 not run"


def test_k61_a_side_that_owes_trials_says_so(build: Any) -> None:
    partial = build.side("cand", n=100, passed=30, done=55)
    lines = comparison_lines(build.comparison(b=partial), build.meta())
    assert lines[1].endswith("pass 54.5% (partial: 55 of 100 trials)")
    assert "partial" not in lines[0]
    markdown = comparison_markdown(build.comparison(b=partial), build.meta())
    assert "| B | cand | 54.5% (partial: 55 of 100 trials) |" in markdown


def test_c14_lists_are_cut_with_how_many_are_left(build: Any) -> None:
    body = build.comparison(regressions=[(f"k{n:04d}", 1.0, 0.0) for n in range(1000)])
    lines = comparison_lines(body, build.meta())
    assert sum("−100pp" in line for line in lines) == MOST_CASES
    assert "regressions 1,000" in lines
    assert f"… {1000 - MOST_CASES} more in verdict.json and --json" in lines
    assert f"… {1000 - MOST_CASES} more in verdict.json" in comparison_markdown(body, build.meta())


def test_what_is_not_comparable_is_counted_by_kind_and_named(build: Any) -> None:
    many = tuple(f"k{n}" for n in range(MOST_IDS + 1))
    body = build.comparison(
        not_comparable=NotComparableRecord(input_changed=many, label_changed=("one",), only_a=1, only_b=0)
    )
    lines = comparison_lines(body, build.meta())
    assert f"11 not comparable: the input changed: {', '.join(many[:MOST_IDS])} and 1 more" in lines
    assert "1 not comparable: the label changed (a regrade mends this): one" in lines
    assert "not in both: 1 case only in A, 0 cases only in B" in lines


@pytest.mark.parametrize(("look", "warned"), [(None, False), (1, False), (2, True), (7, True)])
def test_k28_from_the_second_look_on_the_report_says_which_it_is(build: Any, look: int | None, warned: bool) -> None:
    meta = build.meta(look=look)
    text = "\n".join(comparison_lines(build.smoke2(), meta))
    assert (f"this is look {look} at these two runs" in text) is warned
    assert (f"this is look {look} at these two runs" in comparison_markdown(build.smoke2(), meta)) is warned


def test_k33_settings_that_differ_stand_above_the_verdict(build: Any) -> None:
    body = build.comparison(settings=(SettingRecord(path="limits.trial_timeout_s", a="60", b="300"),))
    lines = comparison_lines(body, build.meta())
    assert lines[0] == "differs  limits.trial_timeout_s: 60 → 300"
    assert "- differs: limits\\.trial\\_timeout\\_s: 60 → 300" in comparison_markdown(body, build.meta())
