"""Which cases run, and what is said when none does."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairtrial.errors import SpecError
from fairtrial.spec.case import Case
from fairtrial.spec.selection import Selection, select

TEN = tuple(Case(id=f"c{n:02}", input=n, position=n - 1) for n in range(1, 11))


def ids(selection: Selection) -> list[str]:
    return [case.id for case in select(TEN, selection)]


def refused(selection: Selection, cases: tuple[Case, ...] = TEN) -> SpecError:
    with pytest.raises(SpecError) as caught:
        select(cases, selection)
    assert caught.value.exit_status == 64
    return caught.value


def test_c88_without_a_filter_everything_runs_in_dataset_order():
    assert select(TEN, Selection()) == TEN


@given(st.permutations([case.id for case in TEN]).flatmap(lambda order: st.integers(1, 10).map(lambda n: order[:n])))
def test_c88_order_is_dataset_order_whatever_was_asked(wanted: list[str]):
    assert ids(Selection(cases=tuple(wanted))) == sorted(wanted)


def test_c88_first_n_takes_the_first_and_of_named_cases_the_first_named():
    assert ids(Selection(first_n=3)) == ["c01", "c02", "c03"]
    assert ids(Selection(first_n=99)) == [case.id for case in TEN]
    assert ids(Selection(first_n=2, cases=("c09", "c05", "c07", "c05"))) == ["c05", "c07"]


def test_k39_an_unknown_id_names_the_nearest_real_ones():
    error = refused(Selection(cases=("c03", "c99", "zz")))
    assert error.code == "bad_usage"
    assert str(error).startswith('--case: the dataset has no case "c99" (and 1 more). The nearest are "c09"')
    error = refused(Selection(cases=("typo_id",)))
    assert str(error) == '--case: the dataset has no case "typo_id". Its cases begin "c01", "c02", "c03".'


def test_k39_nothing_selected_is_an_error_and_never_an_empty_run():
    error = refused(Selection(), cases=())
    assert error.code == "nothing_selected"
    assert refused(Selection(first_n=0)).code == "bad_usage"
    assert refused(Selection(first_n=-1)).code == "bad_usage"


@pytest.mark.parametrize(
    "selection", [Selection(), Selection(first_n=3), Selection(cases=("b", " a")), Selection(1, ("é",))]
)
def test_a_selection_survives_json(selection: Selection):
    assert Selection.from_json(json.loads(json.dumps(selection.to_json()))) == selection


@pytest.mark.parametrize(
    "document",
    [{"first_n": "3"}, {"first_n": True}, {"first_n": 1.0}, {"cases": "a"}, {"cases": [1]}, {"first": 1}],
)
def test_what_is_no_selection_is_refused(document: dict[str, object]):
    with pytest.raises(SpecError):
        Selection.from_json(document)  # type: ignore[arg-type]
