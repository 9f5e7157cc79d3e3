"""Regression to the mean: what to expect of cases that were picked because they failed.

They pass more often on any rerun, so a comparison on them is inconclusive whatever its figures say. The remedy is to
rerun A on the same cases.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from stats.decision import Hold


@dataclass(frozen=True, slots=True)
class ExpectedRerun:
    """The pass share to expect when failed cases are run again and nothing changed; None with a `reason`."""

    expected_pass: float | None
    reason: str | None


def expected_rerun_from_aa(*, improved: int, neither: int) -> ExpectedRerun:
    """Return the expected pass share from one config run twice.

    improved, neither   cases that failed the first time and passed, or failed again, the second time
    """
    if improved < 0 or neither < 0:
        raise ValueError(f"counts cannot be negative: improved={improved}, neither={neither}")
    failed = improved + neither
    if failed == 0:
        return ExpectedRerun(None, "no case failed")
    return ExpectedRerun(improved / failed, None)


def expected_rerun_from_trials(passes: Sequence[int], trials: Sequence[int]) -> ExpectedRerun:
    """Return the expected pass share from the trials of A itself.

    passes, trials   per case: c passes of k trials; cases with a single trial say nothing and are left out

    A case is picked with the share of its trials that failed, and passes again as often as another of its trials
    did: the sum of c(k − c)/(k(k − 1)) over the sum of (k − c)/k.
    """
    passed = failed = Fraction(0)
    usable = 0
    for c, k in zip(passes, trials, strict=True):
        if not 0 <= c <= k:
            raise ValueError(f"{c} passes of {k} trials")
        if k < 2:
            continue
        usable += 1
        passed += Fraction(int(c) * (int(k) - int(c)), int(k) * (int(k) - 1))
        failed += Fraction(int(k) - int(c), int(k))
    if failed == 0:
        return ExpectedRerun(None, "no case failed" if usable else "no case has two trials")
    return ExpectedRerun(float(passed / failed), None)


def failing_subset_hold(expected: ExpectedRerun | None = None) -> Hold:
    """Return the hold of a comparison whose B ran only the cases that A failed."""
    text = "regression to the mean: B ran only cases that A failed"
    if expected is not None and expected.expected_pass is not None:
        text += f"; about {expected.expected_pass:.1%} of them pass on a rerun when nothing changed"
    return Hold("failing-subset", text)
