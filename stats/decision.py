"""The one rule that turns an interval and an exact test into better, worse or inconclusive.

Both must agree. The interval alone calls four flips out of four a win (p = 0.125), and a test alone says nothing about
size. Every surface asks here, so no two of them can answer differently.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from stats.results import Interval

Outcome: TypeAlias = Literal["better", "worse", "inconclusive"]
Kind: TypeAlias = Literal["pass_fail", "scores", "clusters"]

ALPHA = 0.05
"""Two-sided level of the exact tests."""

SIGN_TEST_BELOW = 10
"""With fewer non-zero score differences than this the exact sign test has to agree too."""

DECIMALS = 12
"""Ends are rounded to this before they are compared with 0 or with a margin."""

REASONS: dict[str, str] = {
    "no-pairs": "No case has a score on both sides, so there is nothing to compare.",
    "one-pair": "A single paired case has no interval.",
    "one-cluster": "All cases belong to one group, so the spread between groups is unknown.",
    "identical": "Every paired difference is 0.",
    "interval-includes-zero": "The interval of B − A includes 0; an end exactly at 0 counts.",
    "exact-test-disagrees": "The exact McNemar test on the flipped cases does not agree with the interval.",
    "sign-test-disagrees": "Few scores changed, and the exact sign test on them does not agree with the interval.",
    "cluster-test-disagrees": "The small-sample test over groups (CR2) does not agree with the interval.",
    "test-undefined": "The test that has to agree with the interval is not defined on this data.",
    "opposite-directions": "The interval and the exact test point in opposite directions.",
    "family-correction-disagrees": "The test agrees on its own but not after Holm's correction for its family.",
    "failing-subset": "B ran only the cases A failed; such cases pass more often on any rerun.",
    "partial-run": "The run is not complete.",
    "over-loss-limit": "More trials were lost than the limit allows.",
    "uneven-loss": "One side lost clearly more trials than the other.",
    "repeated-inputs": "Several cases have the same input, so they are not independent.",
    "worse": "B is worse than A.",
    "margin-missed": "The lower end of the interval is not above minus the margin.",
}
"""Every code a verdict or a gate can name, and what it means; docs/reasons has a page for each."""


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a verdict is not what the figures might suggest: a code of REASONS and one plain line for people."""

    code: str
    text: str


@dataclass(frozen=True, slots=True)
class Hold:
    """Something about the runs, not the figures, that forbids a verdict; `code` is one of REASONS."""

    code: str
    text: str

    def __post_init__(self) -> None:
        if self.code not in REASONS:
            raise ValueError(f"{self.code!r} is not a code of REASONS: add it there, with its page in docs/reasons")


@dataclass(frozen=True, slots=True)
class Decision:
    """The outcome of B against A; `reasons` is empty exactly when the outcome is better or worse.

    Holds come first in the order given, then the one thing in the figures that did not agree.
    """

    outcome: Outcome
    reasons: tuple[Reason, ...]


@dataclass(frozen=True, slots=True)
class Gate:
    """Whether to ship B, and if not, why; `outcome` is the verdict it rests on."""

    ship: bool
    outcome: Outcome
    reasons: tuple[Reason, ...]


@dataclass(frozen=True, slots=True)
class MarginDecision:
    """Whether B loses less than a margin; undecided without a lower end or under a hold.

    low      lower end of B − A, None when there is none
    margin   largest loss that is still fine, a share of at least 0
    """

    outcome: Literal["passed", "missed", "undecided"]
    low: float | None
    margin: float
    reasons: tuple[Reason, ...]


def decide(
    *,
    estimate: float | None,
    interval: Interval | None,
    exact_p: float | None,
    kind: Kind,
    n_nonzero: int | None = None,
    adjusted_p: float | None = None,
    exact_direction: int | None = None,
    alpha: float = ALPHA,
    holds: Sequence[Hold] = (),
) -> Decision:
    """Return better or worse when interval and exact test both say so, else inconclusive with what did not agree.

    estimate, interval  B − A and its interval; None where they are not defined
    exact_p             pass_fail: exact McNemar; scores: exact sign test, asked when n_nonzero is below 10;
                        clusters: CR2
    n_nonzero           scores only, and needed there: how many differences are not 0
    adjusted_p          Holm-adjusted p when the comparison is one of a family; it must then agree too, for every kind
    exact_direction     improved minus regressed, or its sign; when given, the test must not point the other way
    holds               any of them makes the outcome inconclusive, whatever the figures say

    An end that is 0 to 12 decimals includes 0. Raises ValueError for scores without n_nonzero and for an interval
    without an estimate.
    """
    if kind == "scores" and n_nonzero is None:
        raise ValueError("scores need n_nonzero: it decides whether the sign test is asked")
    if interval is not None and estimate is None:
        raise ValueError("an interval without an estimate")
    held = _as_reasons(holds)
    evidence = _undefined(estimate, interval, kind) or _no_effect(estimate, interval)
    if evidence is None and (kind != "scores" or (n_nonzero or 0) < SIGN_TEST_BELOW):
        evidence = _test_disagrees(exact_p, kind=kind, alpha=alpha)
    if evidence is None and adjusted_p is not None and not adjusted_p < alpha:
        text = f"Holm-adjusted p = {format_p(adjusted_p, alpha=alpha)} does not agree"
        evidence = Reason("family-correction-disagrees", text)
    if evidence is None and interval is not None and _sign(interval) * (exact_direction or 0) < 0:
        evidence = Reason("opposite-directions", f"{TEST_NAMES[kind]} points the other way")
    if held or evidence is not None or interval is None:
        return Decision("inconclusive", held + ((evidence,) if evidence else ()))
    return Decision("better" if _sign(interval) > 0 else "worse", ())


def margin_decision(*, low: float | None, margin: float, holds: Sequence[Hold] = ()) -> MarginDecision:
    """Return whether the lower end of B − A lies strictly above −margin.

    low      the lower end that non-inferiority goes by (stats/noninferiority.py), a share; None when undefined
    margin   at least 0, a share; exactly −margin misses it, to 12 decimals
    """
    if not margin >= 0.0:
        raise ValueError(f"a margin is a loss that is still fine, at least 0: {margin}")
    held = _as_reasons(holds)
    if low is None:
        no_end = Reason("no-pairs", "no interval: too few paired cases")
        return MarginDecision("undecided", None, margin, (*held, no_end))
    missed = round(low + margin, DECIMALS) <= 0.0
    reasons = (Reason("margin-missed", f"lower end {_pp(low)} is not above {_pp(-margin)}"),) if missed else ()
    if held:
        return MarginDecision("undecided", low, margin, held + reasons)
    return MarginDecision("missed" if missed else "passed", low, margin, reasons)


def gate(decision: Decision, *, holds: Sequence[Hold] = ()) -> Gate:
    """Return whether to ship: only a verdict of better, with nothing that holds it.

    holds   what leaves the verdict standing but forbids to ship on it (an uneven loss, a loss over the limit);
            what makes the comparison itself meaningless (a failing subset) belongs into `decide`
    """
    worse = (Reason("worse", "B is worse than A"),) if decision.outcome == "worse" else ()
    reasons = decision.reasons + worse + _as_reasons(holds)
    return Gate(ship=decision.outcome == "better" and not reasons, outcome=decision.outcome, reasons=reasons)


def format_p(p: float, *, alpha: float = ALPHA) -> str:
    """Return p with three decimals, or with as many as it takes not to look like the level it is compared with."""
    for decimals in range(3, 9):
        text = f"{p:.{decimals}f}"
        if float(text) != alpha or p == alpha:
            return text
    return repr(p)


TEST_NAMES: dict[Kind, str] = {
    "pass_fail": "exact McNemar",
    "scores": "exact sign test",
    "clusters": "CR2 test over groups",
}

_DISAGREES: dict[Kind, str] = {
    "pass_fail": "exact-test-disagrees",
    "scores": "sign-test-disagrees",
    "clusters": "cluster-test-disagrees",
}


def _as_reasons(holds: Sequence[Hold]) -> tuple[Reason, ...]:
    return tuple(Reason(hold.code, hold.text) for hold in holds)


def _undefined(estimate: float | None, interval: Interval | None, kind: Kind) -> Reason | None:
    if estimate is None:
        return Reason("no-pairs", "no paired cases")
    if interval is None:
        if kind == "clusters":
            return Reason("one-cluster", "one group, no interval")
        return Reason("one-pair", "too few: one paired case")
    return None


def _no_effect(estimate: float | None, interval: Interval | None) -> Reason | None:
    if interval is None or _sign(interval) != 0:
        return None
    if estimate == 0.0 and interval.low == interval.high == 0.0:
        return Reason("identical", "identical: every paired difference is 0")
    return Reason("interval-includes-zero", "CI includes 0")


def _test_disagrees(p: float | None, *, kind: Kind, alpha: float) -> Reason | None:
    if p is None:
        return Reason("test-undefined", f"no p from the {TEST_NAMES[kind]}")
    if p < alpha:
        return None
    return Reason(_DISAGREES[kind], f"{TEST_NAMES[kind]} p = {format_p(p, alpha=alpha)} does not agree")


def _sign(interval: Interval) -> int:
    """Return on which side of 0 the whole interval lies, 0 when it includes 0."""
    return int(round(interval.low, DECIMALS) > 0.0) - int(round(interval.high, DECIMALS) < 0.0)


def _pp(share: float) -> str:
    points = f"{abs(share) * 100:.1f}"
    sign = "" if float(points) == 0.0 else "−" if share < 0 else "+"
    return f"{sign}{points}pp"
