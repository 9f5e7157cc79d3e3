"""What opening a large run reads comes whole, whatever the size of the pieces it comes in, on every database."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Engine

from fairtrial.records.experiment import CaseRef
from fairtrial.store.done import case_ids_of, iter_done
from fairtrial.store.tables import TrialRow, table_of

# More than two pieces, and no whole number of them.
N = 4_321


def test_k77_ids_come_in_plan_order_and_of_the_trials_only_finished_ones(engine: Engine, make: Any) -> None:
    # Neither the order of the ids nor that of their digits is the plan's.
    ids = [f"é{n * 7919 % N}" for n in range(N)]
    record = make(
        arms=("base", "cand"), n_cases=N, cases=[CaseRef(n, one, "", "", "guard") for n, one in enumerate(ids)]
    )
    make("other", arms=("base",), n_cases=1)
    rows = [
        {
            "experiment": record.id,
            "arm": arm,
            "case_id": one,
            "repetition": 1,
            "attempt": 1,
            "fence": 1,
            "started_at": 1.0,
        }
        for arm in ("base", "cand")
        for one in ids
    ]
    states = ["done" if number % 3 else "answered" for number in range(len(rows))]
    with engine.connect().execution_options(writes=True) as connection, connection.begin():
        connection.execute(
            table_of(TrialRow).insert(), [{**row, "state": state} for row, state in zip(rows, states, strict=True)]
        )
    with engine.connect() as connection:
        assert case_ids_of(connection, record.id) == ids
        found = list(iter_done(connection, record.id))
        assert case_ids_of(connection, "exp_none") == []
    expected = [(row["arm"], row["case_id"], 1) for row, state in zip(rows, states, strict=True) if state == "done"]
    assert len(found) == len(expected)
    assert set(found) == set(expected)
