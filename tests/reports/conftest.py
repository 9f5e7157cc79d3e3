"""Records of runs and comparisons, built by hand: what a report prints depends on nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from fairtrial.records.verdict import (
    CaseChange,
    ComparisonBody,
    DecisionRecord,
    DifferenceRecord,
    ErrorRecord,
    FlipsRecord,
    Meta,
    NotComparableRecord,
    ReasonRecord,
    RunBody,
    SideRecord,
)

# The two ids of the source's example.
FIRST = "exp_01M6SAJYC5RM7A5TCT65R3SFSM"
SECOND = "exp_01M6SAK893Z1DFH770KVNQC4BZ"


class Build:
    """Makes records with defaults: a comparison of two complete runs of four cases, nothing lost, nothing flipped."""

    FIRST, SECOND = FIRST, SECOND

    def side(
        self,
        label: str = "base",
        *,
        passed: int = 2,
        n: int = 4,
        agent: int = 0,
        errors: Sequence[tuple[str, str, int]] = (),
        ungraded: int = 0,
        done: int | None = None,
        **changes: Any,
    ) -> SideRecord:
        """Return a side of one trial a case: n planned, `passed` of the graded pass, errors by outcome and kind."""
        counts = {
            outcome: sum(k for out, _, k in errors if out == outcome) for outcome in ("agent_failure", "infra_loss")
        }
        agent += counts["agent_failure"]
        done = n if done is None else done
        valued = done - counts["infra_loss"] - ungraded
        values: dict[str, Any] = {
            "label": label,
            "n_cases": n,
            "n_trials": n,
            "n_done": done,
            "n_graded": valued - agent,
            "n_graded_passed": passed,
            "n_agent_failures": agent,
            "n_infra_losses": counts["infra_loss"],
            "n_ungraded": ungraded,
            "n_valued_cases": valued,
            "pass_share": passed / valued if valued else None,
            "pass_low": 0.25 if valued else None,
            "pass_high": 0.75 if valued else None,
            "errors": tuple(ErrorRecord(outcome=outcome, kind=kind, n=k) for outcome, kind, k in errors),
        }
        return SideRecord(**(values | changes))

    def comparison(
        self,
        a: SideRecord | None = None,
        b: SideRecord | None = None,
        *,
        interval: tuple[float | None, float | None, float | None] = (0.0, 0.0, 0.0),
        flips: tuple[int, int, float] = (0, 0, 1.0),
        outcome: str = "inconclusive",
        reasons: Sequence[tuple[str, str]] = (),
        regressions: Sequence[tuple[str, float, float]] = (),
        improvements: Sequence[tuple[str, float, float]] = (),
        **changes: Any,
    ) -> ComparisonBody:
        estimate, low, high = interval
        improved, regressed, p = flips
        values: dict[str, Any] = {
            "a": a or self.side("base"),
            "b": b or self.side("cand"),
            "n_pairs": 4,
            "n_distinct_inputs": 4,
            "difference": DifferenceRecord(
                estimate=estimate,
                low=low,
                high=high,
                level=0.95,
                method="paired bootstrap, expanded",
                n_resamples=10_000,
                seed=11,
                reason=None if low is not None else "one paired case: no interval",
            ),
            "flips": FlipsRecord(improved=improved, regressed=regressed, p=p),
            "decision": DecisionRecord.model_validate(
                {"outcome": outcome, "reasons": tuple(ReasonRecord(code=code, text=text) for code, text in reasons)}
            ),
            "regressions": tuple(CaseChange(case=case, a=one, b=two) for case, one, two in regressions),
            "improvements": tuple(CaseChange(case=case, a=one, b=two) for case, one, two in improvements),
            "not_comparable": NotComparableRecord(),
        }
        return ComparisonBody(**(values | changes))

    def run(self, *arms: SideRecord, comparisons: Sequence[ComparisonBody] = (), **changes: Any) -> RunBody:
        values: dict[str, Any] = {
            "dataset_hash": "d" * 64,
            "trials": 1,
            "arms": arms or (self.side("main"),),
            "comparisons": tuple(comparisons),
        }
        return RunBody(**(values | changes))

    def meta(self, *experiments: str, **changes: Any) -> Meta:
        ids = experiments or (FIRST, SECOND)
        values: dict[str, Any] = {
            "experiments": ids,
            "names": ("smoke",) * len(ids),
            "dataset": "smoke.jsonl",
            "created_at": "2026-01-02T03:04:05+00:00",
        }
        return Meta(**(values | changes))

    def smoke2(self) -> ComparisonBody:
        """The source's example: two cases, A passes both, B passes one."""
        return self.comparison(
            self.side("base", passed=2, n=2),
            self.side("cand", passed=1, n=2),
            n_pairs=2,
            n_distinct_inputs=2,
            interval=(-0.5, -1.0, 0.0),
            flips=(0, 1, 1.0),
            reasons=[("interval-includes-zero", "CI includes 0")],
            regressions=[("c_756966685591eb9b", 1.0, 0.0)],
        )

    def flip4(self) -> ComparisonBody:
        """Four cases, all four from fail to pass: the interval alone would call it a win."""
        return self.comparison(
            self.side("base", passed=0),
            self.side("cand", passed=4),
            interval=(1.0, 1.0, 1.0),
            flips=(4, 0, 0.125),
            reasons=[("exact-test-disagrees", "exact McNemar p = 0.125 does not agree")],
            improvements=[(f"c{n}", 0.0, 1.0) for n in range(1, 5)],
        )


@pytest.fixture
def build() -> Build:
    return Build()
