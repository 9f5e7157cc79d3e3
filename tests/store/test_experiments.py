"""Experiments as they are stored: back as they went in, found by the names a person gives, counted without a scan."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine, text

from fairtrial.errors import SpecError, StoreError
from fairtrial.ids import is_experiment_id
from fairtrial.records.experiment import ArmRecord, CaseRef, DatasetRef, GraderRecord
from fairtrial.store.experiments import (
    cases_of,
    get_experiment,
    list_experiments,
    newest_to_resume,
    resolve_id,
    resume_key,
    set_state,
    summaries_of,
)

# Half surrogates, NUL, line separators, two spellings of one letter: all of it can stand in a document.
ODD = "\ud835 \0 \u2028 é e\u0301 \U0001f600 \x1b[31m"


def test_an_experiment_comes_back_as_it_went_in(engine: Engine, make: Any) -> None:
    record = make(
        "naïve ✓",
        arms=("base", "cand", "aaa"),
        description=ODD,
        tags=(ODD, "b"),
        warnings=(ODD,),
        selection={"first_n": 3, "cases": [ODD], "big": 2**80, "small": 0.1, "none": None},
        graders=(GraderRecord("g", "regex", "a" * 64, {"pattern": ODD}, {"pattern": "b" * 64}),),
    )
    with engine.connect() as connection:
        # Arms keep their order, which is not that of their names.
        assert get_experiment(connection, record.id) == record


def test_k93_a_file_name_that_is_no_text_can_be_stored(engine: Engine, make: Any) -> None:
    # What Python makes of the bytes b"\xff.jsonl" in a folder.
    record = make("\udcff", dataset=DatasetRef(name="\udcff.jsonl", hash="d" * 64, source="?.jsonl", n_cases=4))
    with engine.connect() as connection:
        found = get_experiment(connection, record.id)
    assert (found.name, found.dataset.name) == ("\\udcff", "\\udcff.jsonl")


def test_cases_come_back_in_plan_order(engine: Engine, make: Any) -> None:
    cases = [CaseRef(n, name, f"{n}" * 64, "", "guard") for n, name in enumerate(["z", "é", "a b", "Ω", "10", "9"])]
    record = make(cases=cases, n_cases=6)
    with engine.connect() as connection:
        assert cases_of(connection, record.id) == cases


def test_an_experiment_is_stored_whole_or_not_at_all(engine: Engine, make: Any, ask: Any) -> None:
    twice = [CaseRef(0, "a", "", "", "ordinary"), CaseRef(0, "b", "", "", "ordinary")]
    with pytest.raises(StoreError):
        make(cases=twice)
    for table in ("experiment", "arm", "experiment_case", "summary"):
        assert ask(f"select count(*) from {table}") == [(0,)]


def test_c80_the_newest_comes_first_and_latest_counts_back(engine: Engine, make: Any) -> None:
    ids = [make(name).id for name in ("a", "b", "a", "c")]
    with engine.connect() as connection:
        assert [found.id for found in list_experiments(connection, limit=10)] == ids[::-1]
        assert [found.id for found in list_experiments(connection, limit=2)] == ids[:1:-1]
        assert [found.id for found in list_experiments(connection, limit=10, name="a")] == [ids[2], ids[0]]
        assert list_experiments(connection, limit=10**30, name="none") == []
        assert resolve_id(connection, "latest") == resolve_id(connection, "latest~0") == ids[3]
        assert resolve_id(connection, "latest~3") == ids[0]
        for text in ("latest~4", "latest~999999999"):
            with pytest.raises(SpecError) as refused:
                resolve_id(connection, text)
            assert (refused.value.code, refused.value.exit_status) == ("unknown_experiment", 64)


def test_a_start_of_an_id_finds_it_when_it_fits_one(engine: Engine, make: Any) -> None:
    first, second = make().id, make().id
    with engine.connect() as connection:
        assert resolve_id(connection, first) == first
        # Both of one moment: their ids differ somewhere behind the time.
        same = next(n for n in range(30) if first[n] != second[n])
        assert resolve_id(connection, second[: same + 1]) == second
        with pytest.raises(SpecError, match="fits several") as refused:
            resolve_id(connection, first[:same])
        assert first in refused.value.message
        assert second in refused.value.message


@pytest.mark.parametrize(
    "text",
    ["", "exp_", "exp_%", "exp__", "EXP_01", "latest~", "latest~-1", "latest~1.5", "latest~²", "latest~٣", "latest#-1"]
    + ["latest~" + "9" * n for n in (10, 30, 5000)]
    + ["exp_\0", "exp_" + "0" * 27, "exp_" + "%" * 60_000, ODD],
)
def test_r54_whatever_is_asked_for_the_answer_is_that_there_is_none(engine: Engine, make: Any, text: str) -> None:
    make()
    with engine.connect() as connection, pytest.raises(SpecError) as refused:
        resolve_id(connection, text)
    assert refused.value.code == "unknown_experiment"


@given(st.text(alphabet="exp_latest~0123456789%ABCZ\0\ud800é'\"\\;-", max_size=40))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=200)
def test_any_text_names_an_experiment_or_raises_a_plain_error(engine: Engine, text: str) -> None:
    with engine.connect() as connection, contextlib.suppress(SpecError):
        assert is_experiment_id(resolve_id(connection, text))


def test_an_unknown_id_is_a_plain_error(engine: Engine) -> None:
    with engine.connect() as connection, pytest.raises(SpecError, match="exp list") as refused:
        get_experiment(connection, "exp_01M6SAJYC5RM7A5TCT65R3SFSM")
    assert refused.value.code == "unknown_experiment"


def test_a_bare_resume_finds_the_newest_of_the_same_name_arms_and_selection(engine: Engine, make: Any) -> None:
    make("smoke", arms=("base", "cand"))
    wanted = make("smoke", arms=("base", "cand"))
    make("smoke", arms=("cand", "base"))
    make("smoke", arms=("base", "cand"), selection={"first_n": 3})
    make("other", arms=("base", "cand"))
    key = resume_key(name="smoke", arms=["base", "cand"], selection=wanted.selection)
    with engine.connect() as connection:
        assert newest_to_resume(connection, key) == wanted.id
        assert newest_to_resume(connection, "0" * 64) is None


def test_k05_finishing_again_does_not_move_the_time_it_finished(engine: Engine, make: Any) -> None:
    record = make()
    times = []
    for state in ("partial", "finished", "finished", "running", "finished"):
        set_state(engine, record.id, state)
        with engine.connect() as connection:
            found = get_experiment(connection, record.id)
        assert found.state == state
        times.append(found.finished_at)
        time.sleep(0.002)
    assert times[0] is times[3] is None
    assert times[1] == times[2] is not None
    # A run that went on after all finished later.
    assert times[4] is not None
    assert times[2] is not None
    assert times[4] > times[2]


def test_totals_start_at_zero_and_are_those_of_the_arms_in_their_order(engine: Engine, make: Any) -> None:
    record = make(arms=("z", "a"), n_cases=4, trials=3)
    with engine.connect() as connection:
        found = summaries_of(connection, [record.id, "exp_none"])
    assert found["exp_none"] == ()
    # 4 cases x 3 trials, by hand.
    assert [(summary.arm, summary.n_planned, summary.n_done) for summary in found[record.id]] == [
        ("z", 12, 0),
        ("a", 12, 0),
    ]
    assert found[record.id][0].pass_share is None


@pytest.mark.parametrize("backend", ["sqlite"])
def test_k80_lists_of_any_length_stay_within_the_variables_of_sqlite(engine: Engine, make: Any) -> None:
    ids = [make().id for _ in range(3)]
    with engine.connect() as connection:
        driver: Any = connection.connection.dbapi_connection
        # sqlite.org/limits.html: the default; some systems build it with more.
        driver.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, 32_766)
        found = summaries_of(connection, [*(f"exp_{n}" for n in range(40_000)), *ids])
    assert len(found) == 40_003
    assert all(found[each] for each in ids)


def test_a_damaged_document_is_a_plain_error(engine: Engine, make: Any) -> None:
    record = make()
    with engine.begin() as connection:
        connection.execute(text("update experiment set document = :damaged"), {"damaged": b'{"\xff'})
    with engine.connect() as connection, pytest.raises(StoreError) as refused:
        get_experiment(connection, record.id)
    assert refused.value.code == "damaged_record"


def test_an_arm_is_found_by_its_name(make: Any) -> None:
    record = make(arms=("base", "cand"))
    assert isinstance(record.arm("cand"), ArmRecord)
    with pytest.raises(KeyError):
        record.arm("other")
