"""K28: a look is counted once for each state of the two runs, however often it is shown."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Engine

from fairtrial.errors import StoreError
from fairtrial.store.looks import take_look


def test_k28_the_same_data_is_the_same_look_and_new_data_the_next(engine: Engine, ask: Any) -> None:
    looks = [
        take_look(engine, "c" * 64, data_hash=data * 64, n_pairs=n) for data, n in zip("aabcb", range(5), strict=True)
    ]
    assert looks == [1, 1, 2, 3, 2]
    assert take_look(engine, "d" * 64, data_hash="a" * 64, n_pairs=9) == 1
    # What was seen first stays.
    assert ask("select number, n_pairs from look where comparison = :c order by number", c="c" * 64) == [
        (1, 0),
        (2, 2),
        (3, 3),
    ]


def test_a_look_that_cannot_be_stored_is_told(engine: Engine) -> None:
    with engine.begin() as connection:
        connection.exec_driver_sql("drop table look")
    with pytest.raises(StoreError):
        take_look(engine, "c" * 64, data_hash="a" * 64, n_pairs=1)


LOOKER = """
    import sys
    from fairtrial.store.database import open_database
    from fairtrial.store.looks import take_look

    engine = open_database(sys.argv[1])
    print("ready", flush=True)
    sys.stdin.readline()
    print(*(take_look(engine, "c" * 64, data_hash=f"{sys.argv[2]}{n:063d}", n_pairs=n) for n in range(25)), flush=True)
"""


def test_two_processes_that_look_at_once_get_numbers_of_their_own(
    child: Any, database_url: str, engine: Engine
) -> None:
    pair = [child(LOOKER, database_url, side) for side in "ab"]
    assert [each.line() for each in pair] == ["ready", "ready"]
    for each in pair:
        each.tell("go")
    numbers = [int(number) for each in pair for number in each.line().split()]
    assert sorted(numbers) == list(range(1, 51))
