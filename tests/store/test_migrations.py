"""A store that an earlier version made is brought up to date and reads as it did."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import Engine, text

import fairtrial.store
from fairtrial.engine.journal import Journal
from fairtrial.records.trial import Answer, TrialKey
from fairtrial.store.database import HEAD, open_database, sqlite_url
from fairtrial.store.experiments import get_experiment, summaries_of
from fairtrial.store.history import earlier_attempts, take_back_errors
from fairtrial.store.lease import acquire, this_process
from fairtrial.store.objects import ObjectStore
from fairtrial.store.trials import cost_of, count_cut_off, page_of_trials, parts_of
from fairtrial.store.writer import Writer

MIGRATIONS = Path(fairtrial.store.__file__).parent / "migrations"

# Columns that a store of format 0001 did not have.
LATER = {
    "attempt": (
        "reserved_usd",
        "taken_back",
        "finished_at",
        "latency_s",
        "input_tokens",
        "output_tokens",
        "cost_usd",
        "output_sha256",
        "output",
        "error",
    ),
    "experiment": ("verdict_sha256",),
}


@pytest.fixture
def old_store(tmp_path: Path) -> Path:
    """A store of format 0001 with one experiment: two graded trials, one failure, one call that was cut off."""
    path = tmp_path / "old.db"
    modern = open_database(sqlite_url(tmp_path / "modern.db"))
    _fill(modern, ObjectStore(str(tmp_path / "objects")))
    modern.dispose()
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    # The engine of a store that is not migrated, so that Alembic can stop at the first format.
    engine = open_database(sqlite_url(path), migrate=False)
    with engine.connect().execution_options(writes=True) as connection, connection.begin():
        config.attributes["connection"] = connection
        command.upgrade(config, "0001")
    engine.dispose()
    copy = sqlite3.connect(path)
    copy.execute("attach database ? as modern", [str(tmp_path / "modern.db")])
    tables = copy.execute("select name from main.sqlite_master where type = 'table' and name != 'alembic_version'")
    for (table,) in tables.fetchall():
        names = [row[1] for row in copy.execute(f"pragma main.table_info({table})")]
        assert not set(names) & set(LATER.get(table, ()))
        columns = ", ".join(f'"{name}"' for name in names)
        copy.execute(f"insert into main.{table} ({columns}) select {columns} from modern.{table}")
    copy.commit()
    copy.close()
    return path


def _fill(engine: Engine, objects: ObjectStore) -> None:
    from fairtrial.ids import new_experiment_id
    from fairtrial.records.experiment import ArmRecord, CaseRef, DatasetRef, ExperimentRecord
    from fairtrial.store.experiments import save_experiment

    record = ExperimentRecord(
        id=new_experiment_id(),
        name="old",
        kind="run",
        state="running",
        created_at=1_700_000_000.0,
        finished_at=None,
        seed=1,
        trials=1,
        dataset=DatasetRef("cases.jsonl", "d" * 64, "cases.jsonl", 4),
        graders=(),
        arms=(ArmRecord("main", {"kind": "command", "command": ["true"]}, {"retries": 3}, "/spec", "c" * 64, {}),),
        selection={"first_n": None, "cases": []},
        tags=(),
        description=None,
        n_cases=4,
        n_blocks=4,
        slice_blocks=50,
        plan_hash="f" * 64,
    )
    save_experiment(engine, record, [CaseRef(n, f"k{n}", "", "", "ordinary") for n in range(4)])
    fence = acquire(engine, record.id, this_process()).fence
    writer = Writer(engine, record.id, fence)
    journal = Journal(engine, objects, writer, experiment=record.id, fence=fence)

    async def main() -> None:
        for n in range(4):
            key = TrialKey(record.id, "main", f"k{n}", 1)
            await journal.begin(key, attempt=1, started_at=10.0)
            if n == 3:
                continue
            failure = "exit_code" if n == 2 else None
            answer = Answer(b"half" if failure else b"yes", error_kind=failure)
            await journal.keep_answer(key, answer, attempt=1, started_at=10.0)
            await journal.finish(
                key,
                answer,
                outcome="agent_failure" if failure else "graded",
                value=0.0 if failure else 1.0,
                grades=(),
                attempt=1,
                started_at=10.0,
                finished_at=12.5,
            )

    asyncio.run(main())
    writer.close()


def test_a_store_of_the_first_format_reads_as_it_did(old_store: Path, tmp_path: Path) -> None:
    engine = open_database(sqlite_url(old_store))
    objects = ObjectStore(str(tmp_path / "objects"))
    with engine.connect() as connection:
        assert connection.execute(text("select version_num from alembic_version")).scalar() == HEAD
        (experiment,) = connection.execute(text("select id from experiment")).scalars()
        record = get_experiment(connection, experiment)
        assert (record.name, record.verdict_sha256) == ("old", None)
        (summary,) = summaries_of(connection, [experiment])[experiment]
        assert (summary.n_done, summary.n_graded, summary.n_agent_failures) == (3, 2, 1)
        trials: list[Any] = page_of_trials(connection, objects, experiment)
        assert [(trial.key.case, trial.answer.output) for trial in trials] == [
            ("k0", b"yes"),
            ("k1", b"yes"),
            ("k2", b"half"),
        ]
        assert count_cut_off(connection, experiment) == 1
        assert [part.finished_at - part.started_at for part in parts_of(connection, experiment)] == [2.5]
        assert cost_of(connection, experiment)[1] == 0
    engine.dispose()


def test_c83_errors_of_a_store_of_the_first_format_can_be_run_again(old_store: Path) -> None:
    engine = open_database(sqlite_url(old_store))
    with engine.connect() as connection:
        (experiment,) = connection.execute(text("select id from experiment")).scalars()
    fence = acquire(engine, experiment, this_process()).fence
    assert [each.case for each in take_back_errors(engine, experiment, fence)] == ["k2"]
    with engine.connect() as connection:
        assert [each.why for each in earlier_attempts(connection, experiment, ["k2"])["main", "k2", 1]] == ["retried"]
    engine.dispose()
