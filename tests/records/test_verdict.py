"""verdict.json: one form, bodies that are equal when the trials are, and nothing in them that a resume would change."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from pydantic import ValidationError

from fairtrial.hashing import canonical_json, parse_canonical
from fairtrial.records.experiment import ArmSummary
from fairtrial.records.verdict import (
    CaseChange,
    ComparisonBody,
    ComparisonDocument,
    DecisionRecord,
    DifferenceRecord,
    ErrorRecord,
    FlipsRecord,
    Meta,
    NotComparableRecord,
    RunBody,
    RunDocument,
    SideRecord,
    body_bytes,
    to_json,
)


def side(**changes: Any) -> SideRecord:
    counts = dict.fromkeys(("n_graded", "n_graded_passed", "n_agent_failures", "n_infra_losses", "n_ungraded"), 0)
    values = {"label": "base", "n_cases": 2, "n_trials": 2, "n_done": 0, "n_valued_cases": 0, **counts}
    return SideRecord(**(values | {"pass_share": None, "pass_low": None, "pass_high": None} | changes))


def comparison(**changes: Any) -> ComparisonBody:
    values: dict[str, Any] = {
        "a": side(),
        "b": side(label="cand", errors=(ErrorRecord(outcome="infra_loss", kind="network", n=1),)),
        "n_pairs": 2,
        "n_distinct_inputs": 2,
        "difference": DifferenceRecord(
            estimate=0.1 + 0.2, low=-1.0, high=0.0, level=0.95, method="m", n_resamples=10_000, seed=2**32 - 1
        ),
        "flips": FlipsRecord(improved=0, regressed=1, p=1.0),
        "decision": DecisionRecord(outcome="inconclusive"),
        "regressions": (CaseChange(case="é\ud835\u2028", a=1.0, b=0.0),),
        "improvements": (),
        "not_comparable": NotComparableRecord(without_value=("x",)),
    }
    return ComparisonBody(**(values | changes))


def meta(**changes: Any) -> Meta:
    values: dict[str, Any] = {"experiments": ("e1", "e2"), "names": ("n", "n"), "dataset": "d", "created_at": "now"}
    return Meta(**(values | changes))


def test_a_document_comes_back_from_its_stored_bytes() -> None:
    compared = ComparisonDocument(body=comparison(), meta=meta(cost_usd="0.10", look=2))
    ran = RunDocument(
        body=RunBody(dataset_hash="d" * 64, trials=3, arms=(side(),), comparisons=(comparison(),), warnings=("w",)),
        meta=meta(),
    )
    for document in (compared, ran):
        stored: Any = parse_canonical(canonical_json(to_json(document)))
        assert list(stored) == ["body", "meta", "schema"]
        back = type(document).model_validate({"body": stored["body"], "meta": stored["meta"]})
        assert back == document
        assert canonical_json(to_json(back)) == canonical_json(to_json(document))


def test_the_form_is_named_in_the_document() -> None:
    assert to_json(ComparisonDocument(body=comparison(), meta=meta()))["schema"] == "fairtrial/comparison/1"
    run = RunBody(dataset_hash="d", trials=1, arms=(side(),))
    assert to_json(RunDocument(body=run, meta=meta()))["schema"] == "fairtrial/run/1"


def test_a3_a_body_has_no_place_for_what_differs_between_a_run_and_its_resumed_twin() -> None:
    def keys(value: object) -> set[str]:
        if isinstance(value, dict):
            return {*value, *(key for item in value.values() for key in keys(item))}
        return {key for item in value for key in keys(item)} if isinstance(value, list) else set()

    run = RunBody(dataset_hash="d", trials=1, arms=(side(),), comparisons=(comparison(),))
    found = keys(json.loads(body_bytes(run).decode("utf-8", "surrogatepass")))
    unwanted = (
        "experiment",
        "time",
        "_at",
        "duration",
        "cost",
        "usd",
        "repeat",
        "attempt",
        "look",
        "pid",
        "host",
        "id",
    )
    assert [key for key in found if any(word == key or key.endswith(word) for word in unwanted)] == []


def test_equal_bodies_have_equal_bytes_and_any_change_shows() -> None:
    assert body_bytes(comparison()) == body_bytes(comparison())
    changed = [comparison(n_pairs=3), comparison(a=side(n_done=1)), comparison(regressions=())]
    assert len({body_bytes(each) for each in [comparison(), *changed]}) == 4


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_k16_what_is_no_number_is_refused_where_it_would_come_in(value: float) -> None:
    with pytest.raises(ValidationError, match="finite number"):
        side(pass_share=value)
    with pytest.raises(ValidationError, match="finite number"):
        FlipsRecord(improved=0, regressed=0, p=value)


def test_a_key_that_a_record_does_not_have_is_refused() -> None:
    with pytest.raises(ValidationError, match="Extra inputs"):
        side(n_skipped=1)


def test_counts_add_up_as_their_names_say() -> None:
    some = side(n_trials=20, n_done=18, n_graded=10, n_agent_failures=3, n_infra_losses=4, n_ungraded=1)
    # By hand: values are graded and agent failures, losses are infra and ungraded; 18 of 20 are done.
    assert (some.n_valued, some.n_lost, some.complete) == (13, 5, False)
    assert side(n_trials=2, n_done=2).complete


def test_a_summary_shares_passes_among_trials_with_a_value() -> None:
    summary = ArmSummary("a", 10, n_done=9, n_graded=4, n_passed=3, n_agent_failures=2, n_infra_losses=2, n_ungraded=1)
    assert (summary.n_valued, summary.pass_share) == (6, 0.5)
    assert ArmSummary("a", 10).pass_share is None
