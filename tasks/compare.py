"""Comparing two arms, and summing one up: pure functions from stored rows to verdict records.

No Prefect and no scipy.stats on this path: it answers while either would still be importing.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from sqlalchemy import Connection

from fairtrial.engine.seeds import derive
from fairtrial.records.experiment import ExperimentRecord
from fairtrial.records.verdict import (
    CaseChange,
    ComparisonBody,
    DecisionRecord,
    DifferenceRecord,
    ErrorRecord,
    FlipsRecord,
    NotComparableRecord,
    ReasonRecord,
    RunBody,
    ScoreRecord,
    SettingRecord,
    SideRecord,
)
from fairtrial.spec.arms import settings_that_differ
from fairtrial.store.experiments import cases_of
from fairtrial.store.trials import errors_of, scores_of
from stats.bootstrap import BootstrapDifference, bootstrap_difference
from stats.decision import decide
from stats.holm import holm
from stats.losses import loss_balance
from stats.mcnemar import ExactTest, mcnemar_exact
from stats.pairing import PairedCases, pair_cases
from stats.results import LEVEL, PASS_THRESHOLD
from stats.wilson import wilson
from tasks.arrays import Aligned, Side, align, load_side, value_table

N_RESAMPLES = 10_000


@dataclass(frozen=True, slots=True)
class _Measured:
    """One comparison before the rule is asked: a family's p-values are adjusted together."""

    aligned: Aligned
    pairs: PairedCases
    bootstrap: BootstrapDifference
    test: ExactTest
    seed: int


def compare_with_first(connection: Connection, sides: Sequence[Side]) -> tuple[ComparisonBody, ...]:
    """Return the comparison of each further side with the first; several are one family, corrected by Holm."""
    first, *others = sides
    measured = [_measure(first, side) for side in others]
    adjusted = holm([each.test.p for each in measured]) if len(others) > 1 else [None] * len(others)
    records = [sum_up(connection, side) for side in sides]
    return tuple(
        _comparison(first, side, each, records[0], record, adjusted_p=p)
        for side, each, record, p in zip(others, measured, records[1:], adjusted, strict=True)
    )


def sum_up(connection: Connection, side: Side) -> SideRecord:
    """Return the counts, pass share and mean scores of one arm over all its cases."""
    outcomes = Counter(outcome for _case, _repetition, outcome, _value in side.values)
    table = value_table(side, sorted(case.id for case in side.cases))
    valued = ~np.isnan(table)
    n_valued = valued.sum(axis=1)
    n_passed = (np.where(valued, table, 0.0) >= PASS_THRESHOLD).sum(axis=1)
    with_value = n_valued > 0
    n_cases = int(with_value.sum())
    interval = wilson(int((2 * n_passed >= n_valued)[with_value].sum()), n_cases) if n_cases else None
    return SideRecord(
        label=side.label,
        n_cases=len(side.cases),
        n_trials=len(side.cases) * side.experiment.trials,
        n_done=len(side.values),
        n_graded=outcomes["graded"],
        n_graded_passed=int(n_passed.sum()),
        n_agent_failures=outcomes["agent_failure"],
        n_infra_losses=outcomes["infra_loss"],
        n_ungraded=outcomes["ungraded"],
        n_valued_cases=n_cases,
        # fsum: the same digits in whatever order the cases come.
        pass_share=math.fsum(n_passed[with_value] / n_valued[with_value]) / n_cases if n_cases else None,
        pass_low=interval.low if interval else None,
        pass_high=interval.high if interval else None,
        errors=tuple(
            ErrorRecord(outcome=error.outcome, kind=error.error_kind, n=error.n)
            for error in errors_of(connection, side.experiment.id, side.arm.name)
        ),
        scores=tuple(
            ScoreRecord(
                grader=score.grader,
                mean=score.mean,
                n_scored=score.n_scored,
                n_no_score=score.n_no_score,
                n_errors=score.n_errors,
            )
            for score in scores_of(connection, side.experiment.id, side.arm.name)
        ),
    )


def sum_up_run(connection: Connection, experiment: ExperimentRecord) -> RunBody:
    """Return what a whole experiment came to: every arm, and each further arm against the first."""
    cases = cases_of(connection, experiment.id)
    sides = [load_side(connection, experiment, arm, label=arm.name, cases=cases) for arm in experiment.arms]
    comparisons = compare_with_first(connection, sides)
    arms = (comparisons[0].a, *(each.b for each in comparisons)) if comparisons else (sum_up(connection, sides[0]),)
    return RunBody(
        dataset_hash=experiment.dataset.hash,
        trials=experiment.trials,
        arms=arms,
        comparisons=comparisons,
        warnings=experiment.warnings,
    )


def comparison_seed(a: Side, b: Side) -> int:
    """Return the seed of a comparison's resamples: the same two runs always print the same digits."""
    return derive(a.experiment.seed, "compare", b.experiment.seed) % 2**32


def _measure(a: Side, b: Side) -> _Measured:
    aligned = align(a, b)
    pairs = pair_cases(aligned.a, aligned.b)
    seed = comparison_seed(a, b)
    return _Measured(
        aligned=aligned,
        pairs=pairs,
        bootstrap=bootstrap_difference(
            pairs.differences, rng=np.random.default_rng(seed), n_resamples=N_RESAMPLES, level=LEVEL
        ),
        test=mcnemar_exact(improved=pairs.improved, regressed=pairs.regressed),
        seed=seed,
    )


def _comparison(
    a: Side, b: Side, found: _Measured, side_a: SideRecord, side_b: SideRecord, *, adjusted_p: float | None
) -> ComparisonBody:
    pairs, bootstrap = found.pairs, found.bootstrap
    decision = decide(
        estimate=pairs.estimate,
        interval=bootstrap.interval,
        exact_p=found.test.p,
        adjusted_p=adjusted_p,
        kind="pass_fail",
        exact_direction=pairs.improved - pairs.regressed,
    )
    return ComparisonBody(
        a=side_a,
        b=side_b,
        n_pairs=pairs.n,
        n_distinct_inputs=found.aligned.n_distinct_inputs,
        difference=DifferenceRecord(
            estimate=pairs.estimate,
            low=None if bootstrap.interval is None else bootstrap.interval.low,
            high=None if bootstrap.interval is None else bootstrap.interval.high,
            level=LEVEL,
            method=f"paired bootstrap, {bootstrap.method}",
            n_resamples=N_RESAMPLES,
            seed=found.seed,
            reason=bootstrap.reason,
        ),
        flips=FlipsRecord(improved=pairs.improved, regressed=pairs.regressed, p=found.test.p, adjusted_p=adjusted_p),
        decision=DecisionRecord(
            outcome=decision.outcome,
            reasons=tuple(ReasonRecord(code=reason.code, text=reason.text) for reason in decision.reasons),
        ),
        regressions=_changes(found.aligned, pairs, direction=-1),
        improvements=_changes(found.aligned, pairs, direction=1),
        not_comparable=_not_comparable(found.aligned, pairs),
        settings=_settings(a, b),
        warnings=_warnings(side_a, side_b, found.aligned),
    )


def _changes(aligned: Aligned, pairs: PairedCases, *, direction: int) -> tuple[CaseChange, ...]:
    chosen = np.flatnonzero(pairs.direction == direction)
    return tuple(
        CaseChange(
            case=aligned.case_ids[pairs.case_index[at]],
            a=float(pairs.passes_a[at] / pairs.compared[at]),
            b=float(pairs.passes_b[at] / pairs.compared[at]),
        )
        for at in chosen
    )


def _not_comparable(aligned: Aligned, pairs: PairedCases) -> NotComparableRecord:
    paired = set(pairs.case_index.tolist())
    return NotComparableRecord(
        input_changed=aligned.input_changed,
        label_changed=aligned.label_changed,
        only_a=aligned.only_a,
        only_b=aligned.only_b,
        without_value=tuple(case for row, case in enumerate(aligned.case_ids) if row not in paired),
    )


def _settings(a: Side, b: Side) -> tuple[SettingRecord, ...]:
    differences = settings_that_differ(_measured(a), _measured(b))
    return tuple(SettingRecord(path=found.path, a=found.a, b=found.b) for found in differences)


def _measured(side: Side) -> dict[str, object]:
    experiment = side.experiment
    return {
        "task": side.arm.task,
        "code": {part: digest[:12] for part, digest in side.arm.task_parts.items() if part.startswith("file ")},
        "limits": side.arm.limits,
        "trials": experiment.trials,
        "dataset": f"{experiment.dataset.name} ({experiment.dataset.hash[:12]})",
        "graders": {grader.name: grader.version for grader in experiment.graders},
    }


def _warnings(a: SideRecord, b: SideRecord, aligned: Aligned) -> tuple[ReasonRecord, ...]:
    warnings = []
    if aligned.n_distinct_inputs < len(aligned.case_ids):
        warnings.append(
            ReasonRecord(
                code="repeated-inputs",
                text=f"{aligned.n_distinct_inputs} distinct inputs among {len(aligned.case_ids)} shared cases: "
                "repeated cases are not independent, so the interval and p are too sure",
            )
        )
    for what, lost_a, lost_b in (
        ("infra losses", a.n_infra_losses, b.n_infra_losses),
        ("agent failures", a.n_agent_failures, b.n_agent_failures),
    ):
        if loss_balance(lost_a=lost_a, planned_a=a.n_done, lost_b=lost_b, planned_b=b.n_done).uneven:
            warnings.append(
                ReasonRecord(
                    code="uneven-loss", text=f"{what} are uneven: A {lost_a} of {a.n_done}, B {lost_b} of {b.n_done}"
                )
            )
    return tuple(warnings)
