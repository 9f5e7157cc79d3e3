"""The cases of a stored run: equal to those that were loaded, read only when asked for, small while they are not."""

from __future__ import annotations

import dataclasses
import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairtrial.engine import cases as cases_module
from fairtrial.engine.cases import StoredCases, stored_cases
from fairtrial.engine.plan import Plan, plan_blocks, split_slices
from fairtrial.errors import StoreError
from fairtrial.hashing import parse_canonical
from fairtrial.records.experiment import DatasetRef, ExperimentRecord
from fairtrial.spec.case import Case
from fairtrial.spec.dataset import Dataset, load_dataset
from fairtrial.spec.selection import Selection, select

PLAIN = ExperimentRecord(
    id="exp_01M6SAJYC5RM7A5TCT65R3SFSM",
    name="lab",
    kind="run",
    state="partial",
    created_at=0.0,
    finished_at=None,
    seed=1,
    trials=1,
    dataset=DatasetRef("cases.jsonl", "0" * 64, "cases.jsonl", 1),
    graders=(),
    arms=(),
    selection=Selection().to_json(),
    tags=(),
    description=None,
    n_cases=1,
    n_blocks=1,
    slice_blocks=50,
    plan_hash="0" * 64,
)

# Everything a record can hold, and what makes lines hard to tell apart: ids inside inputs, equal inputs, odd line ends.
RECORDS: list[dict[str, Any]] = [
    {"input": "same"},
    {"id": "k1", "input": {"id": "k2", "q": '"id":"k3"'}, "expected": {"b": 1, "a": [1.0, -0.0, None]}},
    {"input": "same", "expected": None},
    {"id": "k2", "input": 'say "id":"k4"', "kind": "bad", "split": "test", "group": "g", "tags": ["t", "ü"]},
    {"id": 'quo"te\\', "input": "\ud800 half \u2028 \x85 \n", "note": {"id": "k1"}, "Topic": 10**30},
    {"id": "k3", "input": None, "expected": "naïve 🐍"},
    {"input": "same"},
    {"id": "ünï", "input": [1, 2.5e-7, True], "expected": ""},
    {"input": {"z": 1, "a": 2}, "tags": []},
]


EVERYTHING = Selection()


def load(folder: Path, records: list[dict[str, Any]]) -> Dataset:
    folder.mkdir(exist_ok=True)
    path = folder / "cases.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return load_dataset(path)


def without_lines(cases: tuple[Case, ...]) -> list[Case]:
    return [dataclasses.replace(case, line=None) for case in cases]


def of(n_cases: int, selection: Selection = EVERYTHING) -> ExperimentRecord:
    """Return the record of a run of a dataset of `n_cases`."""
    dataset = dataclasses.replace(PLAIN.dataset, n_cases=n_cases)
    return dataclasses.replace(PLAIN, dataset=dataset, selection=selection.to_json())


def stored(dataset: Dataset, selection: Selection) -> tuple[StoredCases, list[Case]]:
    """Return the cases as a resume gets them, and as the first part of the run had them."""
    chosen = select(dataset.cases, selection)
    record = of(len(dataset.cases), selection)
    return stored_cases(record, [case.id for case in chosen], dataset.content), without_lines(chosen)


SELECTIONS = {
    "all": EVERYTHING,
    "the first": Selection(first_n=4),
    "named": Selection(cases=("k2", "ünï", 'quo"te\\')),
    "the first of the named": Selection(first_n=1, cases=("k3", "k1")),
    # By coreutils: printf '"same"' | sha256sum begins so.
    "unnamed, met three times": Selection(cases=("c_106c4202d3d02a3f-3", "c_106c4202d3d02a3f", "k1")),
}


@pytest.mark.parametrize("named", SELECTIONS)
def test_k77_a_stored_case_equals_the_loaded_one_but_for_its_line(tmp_path: Path, named: str) -> None:
    cases, expected = stored(load(tmp_path, RECORDS), SELECTIONS[named])
    assert [case.id for case in expected] == cases.ids
    assert list(cases) == expected
    assert cases[-1] == expected[-1]
    assert cases[1:] == tuple(expected[1:])
    # repr tells 1 from 1.0 and True, and 0.0 from -0.0.
    assert [sorted(repr(item) for item in dataclasses.astuple(case)) for case in cases] == [
        sorted(repr(item) for item in dataclasses.astuple(case)) for case in map(_sorted_keys, expected)
    ]


def _sorted_keys(case: Case) -> Case:
    """The stored content is canonical, so its keys are sorted."""
    return dataclasses.replace(
        case,
        **{
            name: json.loads(json.dumps(getattr(case, name), sort_keys=True))
            for name in ("input", "expected", "fields")
        },
    )


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda each: st.lists(each, max_size=3) | st.dictionaries(st.text(max_size=4) | st.just("id"), each, max_size=3),
    max_leaves=8,
)


@given(
    st.lists(
        st.fixed_dictionaries(
            {"input": JSON},
            optional={"expected": JSON, "note": JSON, "tags": st.lists(st.sampled_from("ab"), max_size=2)},
        ),
        min_size=1,
        max_size=8,
    ),
    st.data(),
)
def test_k77_any_choice_of_any_records_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, records: list[dict[str, Any]], data: st.DataObject
) -> None:
    for number, record in enumerate(records):
        if data.draw(st.booleans()):
            record["id"] = f"k{number}"
    dataset = load(tmp_path_factory.mktemp("any"), records)
    ids = data.draw(st.lists(st.sampled_from([case.id for case in dataset.cases]), unique=True))
    cases, expected = stored(dataset, Selection(cases=tuple(ids)))
    assert list(cases) == expected


class _Counting:
    def __init__(self) -> None:
        self.lines = 0

    def __call__(self, data: bytes) -> Any:
        self.lines += 1
        return parse_canonical(data)


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> _Counting:
    counting = _Counting()
    monkeypatch.setattr(cases_module, "parse_canonical", counting)
    return counting


def test_k77_opening_a_large_run_reads_no_case_and_running_it_only_those_it_owes(lab: Any, counting: _Counting) -> None:
    n = 1_000
    lab.cases([{"id": f"k{i:04d}", "input": f"q{i}", "expected": str(i)} for i in range(n)])
    record = lab.make({"main": lab.answers({f"k{i:04d}": str(i) for i in range(n)}, "a.jsonl")}, slice_blocks=50)
    lab.run(record.id)
    # A trial each, and its case is read once.
    assert counting.lines == n
    with lab.engine.connect().execution_options(writes=True) as connection, connection.begin():
        connection.exec_driver_sql("delete from trial where case_id in ('k0007', 'k0999')")
        connection.exec_driver_sql("update summary set n_done = n_done - 2, n_graded = n_graded - 2")
    counting.lines = 0
    run = lab.open(record.id)
    assert counting.lines == 0
    # Slices of 50: cases 7 and 999 stand in the first and the last of twenty.
    assert run.unfinished == (0, 19)
    assert run.finished == tuple(range(1, 19))
    run.writer.close()
    lab.run(record.id)
    assert counting.lines == 2
    assert lab.rows("select count(*) from trial where state = 'done'") == [(n,)]


def test_k77_of_a_choice_of_named_cases_only_their_own_lines_are_read(tmp_path: Path, counting: _Counting) -> None:
    records = [{"id": f"k{i:04d}", "input": f"q{i}"} for i in range(500)]
    cases, expected = stored(load(tmp_path, records), Selection(cases=("k0001", "k0123", "k0499")))
    assert counting.lines == 3
    assert list(cases) == expected


def test_k77_both_arms_and_every_repetition_are_needed_for_a_slice_to_be_finished() -> None:
    plan: Plan = plan_blocks(["a", "b", "c"], n_arms=2, trials=2, seed=3, slice_blocks=2)
    every = [(case, repetition, arm) for case in range(3) for repetition in (1, 2) for arm in (0, 1)]
    assert split_slices(plan, every).finished == (0, 1, 2)
    assert split_slices(plan, []).unfinished == (0, 1, 2)
    for missing in every:
        split = split_slices(plan, [key for key in every if key != missing])
        # Two repetitions a slice: the slice has its case's number.
        assert split.unfinished == (missing[0],)
        assert sorted(split.unfinished + split.finished) == [0, 1, 2]


def test_a_line_that_is_not_the_case_of_its_row_is_damage_and_never_another_question(tmp_path: Path) -> None:
    dataset = load(tmp_path, [{"id": "a", "input": 1}, {"input": 2}])
    ids = [case.id for case in dataset.cases]
    for wrong in (["b", ids[1]], ["a", "c_0000000000000000"]):
        cases = stored_cases(of(2), wrong, dataset.content)
        with pytest.raises(StoreError) as refused:
            list(cases)
        assert refused.value.code == "damaged_record"
    for broken, names in ((of(3), ids), (of(2), [*ids, "more"]), (of(2, Selection(cases=("gone",))), ["gone"])):
        with pytest.raises(StoreError) as refused:
            stored_cases(broken, names, dataset.content)
        assert refused.value.code == "damaged_record"


def held(n: int) -> int:
    """Return the bytes that the cases and the plan of a run of n cases hold, the content apart."""
    line = '{"expected":"%06d","id":"k%06d","input":"What is %06d and one? Say the number only, please."}\n'
    content = "".join(line % (number, number, number) for number in range(n)).encode()
    tracemalloc.start()
    try:
        ids = [f"k{number:06d}" for number in range(n)]
        cases = stored_cases(of(n), ids, content)
        plan = plan_blocks(ids, n_arms=2, trials=1, seed=1, slice_blocks=50)
        kept = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert (cases[n - 1].id, plan.blocks[n - 1].case) == (ids[-1], n - 1)
    return kept


def test_r73_a_case_that_waits_takes_a_hundred_bytes_beside_the_content() -> None:
    small, large = held(20_000), held(40_000)
    # By sys.getsizeof: 56 an id of seven letters, 8 its place in the list, 8 where it starts, 12 its block. Lists and
    # arrays grow by up to an eighth more than they hold.
    assert (large - small) / 20_000 < 100
    assert large < 2.2 * small
