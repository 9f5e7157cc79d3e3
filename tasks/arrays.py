"""Rows become arrays here and nowhere else.

Cases are aligned by identity and sorted by id, so no figure depends on the order of rows, files or completion. A trial
without a value is NaN in these arrays, and only stats.pairing reads them.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from sqlalchemy import Connection

from fairtrial.records.experiment import ArmRecord, CaseRef, ExperimentRecord
from fairtrial.store.experiments import cases_of
from fairtrial.store.trials import values_of

Floats: TypeAlias = npt.NDArray[np.float64]
Value: TypeAlias = tuple[str, int, str | None, float | None]


@dataclass(frozen=True, slots=True)
class Side:
    """One arm of one experiment, its cases and the values of its finished trials. label is for people."""

    label: str
    experiment: ExperimentRecord
    arm: ArmRecord
    cases: list[CaseRef]
    values: list[Value]


@dataclass(frozen=True, slots=True)
class Aligned:
    """Two sides over the cases they share with the same input and label, sorted by id.

    a, b        (cases, trials) values, NaN where a trial has none
    only_a, _b  how many cases only one side has
    """

    case_ids: list[str]
    a: Floats
    b: Floats
    input_changed: tuple[str, ...]
    label_changed: tuple[str, ...]
    only_a: int
    only_b: int
    n_distinct_inputs: int


def load_side(
    connection: Connection,
    experiment: ExperimentRecord,
    arm: ArmRecord,
    *,
    label: str,
    cases: list[CaseRef] | None = None,
) -> Side:
    """Return one arm's cases and values; `cases` are the experiment's, where the caller has them already."""
    return Side(
        label=label,
        experiment=experiment,
        arm=arm,
        cases=cases_of(connection, experiment.id) if cases is None else cases,
        values=values_of(connection, experiment.id, arm.name),
    )


def value_table(side: Side, case_ids: list[str]) -> Floats:
    """Return the (cases, trials) values of a side for these cases; NaN where a trial has no value."""
    trials = side.experiment.trials
    row_of = {case: row for row, case in enumerate(case_ids)}
    # Arrays of numbers, not lists: this is when a large run takes most memory.
    places, values = array("q"), array("d")
    for case, repetition, _outcome, value in side.values:
        if value is not None and case in row_of:
            places.append(row_of[case] * trials + repetition - 1)
            values.append(value)
    table = np.full(len(case_ids) * trials, np.nan)
    table[np.asarray(places)] = np.asarray(values)
    return table.reshape(len(case_ids), trials)


def align(a: Side, b: Side) -> Aligned:
    """Return both sides over the cases that can be compared, and what cannot."""
    of_b = {case.id: case for case in b.cases}
    ids_a = {case.id for case in a.cases}
    shared, input_changed, label_changed = [], [], []
    for case in a.cases:
        other = of_b.get(case.id)
        if other is None:
            continue
        if case.input_hash != other.input_hash:
            input_changed.append(case.id)
        elif case.label_hash != other.label_hash:
            label_changed.append(case.id)
        else:
            shared.append(case)
    shared.sort(key=lambda case: case.id)
    case_ids = [case.id for case in shared]
    return Aligned(
        case_ids=case_ids,
        a=value_table(a, case_ids),
        b=value_table(b, case_ids),
        input_changed=tuple(sorted(input_changed)),
        label_changed=tuple(sorted(label_changed)),
        only_a=sum(case.id not in of_b for case in a.cases),
        only_b=sum(case.id not in ids_a for case in b.cases),
        n_distinct_inputs=len({case.input_hash for case in shared}),
    )
