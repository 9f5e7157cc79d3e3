"""`exp compare`: two stored runs, or the arms of one, case by case. Imports no Prefect."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from faces.cli.files import check_outputs, write_outputs
from faces.cli.output import note, out, out_json
from faces.cli.settings import read_settings
from faces.cli.store import Store, find_arm, open_store
from fairtrial.errors import SpecError
from fairtrial.records.verdict import to_json
from fairtrial.reports.comparison import comparison_lines
from fairtrial.store.experiments import get_experiment, resolve_id
from tasks.publish import Named, publish_comparisons


def compare(
    a: str,
    b: str | None = None,
    /,
    *,
    output: Annotated[list[Path] | None, Parameter(name=["--output", "-o"])] = None,
    json: bool = False,
) -> int:
    """Compare two stored runs, or the arms of one, case by case.

    Prints B − A with its 95% paired bootstrap interval, the exact McNemar test
    on the cases that flipped, and the verdict: better or worse only when both
    agree.

    Examples:
      exp compare exp_01M6SAJYC5RM7A5TCT65R3SFSM exp_01M6SAK893Z1DFH770KVNQC4BZ
      exp compare latest~1 latest
      exp compare latest                     its arms, each with the first
      exp compare EXP/base EXP/cand --json

    Parameters
    ----------
    a
        The baseline: an experiment, or EXP/ARM of one with several arms.
    b
        The candidate. Left out, the further arms of A are each compared with its first.
    output
        Write the report there too: .md, .txt or .json; repeatable.
    json
        Print the comparison as JSON on stdout, and nothing else there; a list when there are several.
    """
    check_outputs(output or [])
    store = open_store(read_settings(), must_exist=True)
    arms, labels = _arms(store, a, b)
    found = publish_comparisons(store.engine, store.objects, arms, labels=labels)
    documents = [each.document for each in found]
    for each in found:
        if each.unstored is not None:
            note(f"warning: {each.unstored}")
    write_outputs(output or [], documents)
    if json:
        forms = [to_json(document) for document in documents]
        out_json(forms[0] if len(forms) == 1 else forms)
        return 0
    for index, document in enumerate(documents):
        out(*([""] if index else []), *comparison_lines(document.body, document.meta))
    return 0


def _arms(store: Store, a: str, b: str | None) -> tuple[list[Named], list[str]]:
    with store.engine.connect() as connection:
        if b is not None:
            first, second = find_arm(connection, a), find_arm(connection, b)
            if (first[0].id, first[1].name) == (second[0].id, second[1].name):
                raise SpecError(f"{a} and {b} are the same run.", code="not_comparable", hint="Name two.")
            return [first, second], list(_labels(first, second))
        experiment = get_experiment(connection, resolve_id(connection, a))
    if len(experiment.arms) < 2:
        raise SpecError(
            f"{experiment.id} has one arm, so there is nothing to compare it with.",
            code="bad_usage",
            hint=f"Name a second experiment: exp compare {experiment.id} EXP.",
        )
    return [(experiment, arm) for arm in experiment.arms], [arm.name for arm in experiment.arms]


def _labels(a: Named, b: Named) -> tuple[str, str]:
    if len(a[0].arms) == len(b[0].arms) == 1:
        return "base", "cand"
    return a[1].name, b[1].name
