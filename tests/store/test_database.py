"""Opening the store: made once, read by many, refused when newer, and never a traceback of the database's own."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, text
from sqlmodel import SQLModel

from fairtrial.errors import SpecError, StoreError
from fairtrial.store import database
from fairtrial.store.database import HEAD, in_parts, open_database, sqlite_url
from fairtrial.store.experiments import get_experiment, list_experiments, set_state

MIGRATIONS = Path(database.__file__).parent / "migrations"


@pytest.fixture
def backend() -> str:
    """These are about the file; Postgres has tests of its own."""
    return "sqlite"


OPENER = """
    import sys
    from pathlib import Path
    from fairtrial.store.database import open_database, sqlite_url
    from alembic import command
    print("ready", flush=True)
    for line in sys.stdin:
        engine = open_database(sqlite_url(Path(line.strip())))
        with engine.connect() as connection:
            print(connection.exec_driver_sql("select version_num from alembic_version").scalar(), flush=True)
        engine.dispose()
"""


def test_several_processes_open_a_new_store_at_once(child: Any, tmp_path: Path) -> None:
    openers = [child(OPENER, cwd=tmp_path) for _ in range(4)]
    assert [opener.line() for opener in openers] == ["ready"] * 4
    for number in range(4):
        for opener in openers:
            opener.tell(f"{number}.db")
        assert [opener.line() for opener in openers] == [HEAD] * 4


HOLDER = """
    import sqlite3, sys, time
    connection = sqlite3.connect(sys.argv[1], isolation_level=None)
    connection.execute("create table if not exists t (x)")
    connection.execute("begin immediate")
    print("locked", flush=True)
    time.sleep(float(sys.argv[2]))
    connection.execute("commit")
"""


def test_opening_waits_for_a_process_that_is_making_the_file(child: Any, db_path: Path) -> None:
    # SQLite answers "locked" at once here, whatever the busy timeout: the switch to WAL waits for nobody.
    assert child(HOLDER, db_path, 0.5).line() == "locked"
    open_database(sqlite_url(db_path)).dispose()


def test_a_newer_store_is_refused_by_name_and_left_alone(engine: Engine, db_path: Path) -> None:
    with engine.begin() as connection:
        connection.execute(text("update alembic_version set version_num = '9999'"))
    engine.dispose()
    before = db_path.read_bytes()
    with pytest.raises(StoreError) as refused:
        open_database(sqlite_url(db_path))
    assert refused.value.code == "store_newer"
    assert "9999" in refused.value.message
    assert HEAD in refused.value.message
    assert db_path.read_bytes() == before


def test_the_migrations_make_the_tables_of_the_models(engine: Engine) -> None:
    with engine.connect() as connection:
        found = compare_metadata(MigrationContext.configure(connection), SQLModel.metadata)
    assert found == []


def test_head_is_the_newest_migration_and_there_is_one_line_of_them() -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    scripts = ScriptDirectory.from_config(config)
    assert scripts.get_heads() == [HEAD]
    numbers = sorted(path.name[:4] for path in (MIGRATIONS / "versions").glob("[0-9]*.py"))
    assert numbers == [f"{n:04d}" for n in range(1, int(HEAD) + 1)]


def test_every_connection_is_in_wal_and_syncs_each_commit(engine: Engine) -> None:
    connections = [engine.connect() for _ in range(4)]
    for connection in connections:
        assert connection.exec_driver_sql("pragma journal_mode").scalar() == "wal"
        # sqlite.org/pragma.html: 2 is FULL.
        assert connection.exec_driver_sql("pragma synchronous").scalar() == 2
    for connection in connections:
        connection.close()


def test_without_migrate_an_empty_store_stays_empty(db_path: Path) -> None:
    engine = open_database(sqlite_url(db_path), migrate=False)
    with engine.connect() as connection:
        assert connection.exec_driver_sql("select count(*) from sqlite_master").scalar() == 0
    engine.dispose()


KILLED_IN_MIGRATION = """
    import os, signal, sys
    from pathlib import Path
    from sqlalchemy import Engine, event
    from fairtrial.store.database import open_database, sqlite_url

    made = 0
    @event.listens_for(Engine, "before_cursor_execute")
    def die(_connection, _cursor, statement, *_rest):
        global made
        made += "CREATE TABLE" in statement
        if made == int(sys.argv[2]):
            os.kill(os.getpid(), signal.SIGKILL)

    open_database(sqlite_url(Path(sys.argv[1])))
"""


@pytest.mark.fire
@pytest.mark.parametrize("at", [1, 5, 10])
def test_killed_in_the_middle_of_a_migration_the_next_open_makes_all_of_it(child: Any, db_path: Path, at: int) -> None:
    killed = child(KILLED_IN_MIGRATION, db_path, at)
    assert killed.process.wait(60) == -9
    engine = open_database(sqlite_url(db_path))
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), SQLModel.metadata) == []
    engine.dispose()


@pytest.mark.parametrize(
    "name", ["what?", "50%20off", "a#b", "with blank", "é", "c:", "new\nline", os.fsdecode(b"not-\xff-utf8")]
)
def test_k93_a_folder_of_any_name_holds_the_store_and_no_other_file(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    folder.mkdir()
    engine = open_database(sqlite_url(folder / "fairtrial.db"))
    engine.dispose()
    assert [path.name for path in folder.iterdir()] == ["fairtrial.db"]
    assert [path.name for path in tmp_path.iterdir()] == [name]


def read_all(path: Path) -> None:
    engine = open_database(sqlite_url(path))
    with engine.connect() as connection:
        for (table,) in connection.execute(text("select name from sqlite_master where type = 'table'")).all():
            connection.execute(text(f"select * from {table}")).all()


def write_once(path: Path) -> None:
    engine = open_database(sqlite_url(path))
    set_state(engine, "exp_none", "finished")
    engine.dispose()


def fill(disk: Path) -> Path:
    """Use up what is free on a disk and return the file that holds it."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"x" * 4096)
    return filler


@pytest.mark.parametrize("damage", ["text", "cut"])
def test_r13_a_file_that_is_no_store_is_named(engine: Engine, db_path: Path, damage: str) -> None:
    engine.dispose()
    db_path.write_bytes(b"not a database at all\n" * 400 if damage == "text" else db_path.read_bytes()[:9000])
    with pytest.raises(StoreError) as refused:
        read_all(db_path)
    assert refused.value.code == "damaged_record"
    assert str(db_path) in refused.value.message


def test_a_folder_that_is_not_there_is_a_plain_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="unable to open database file") as refused:
        open_database(sqlite_url(tmp_path / "no" / "such" / "fairtrial.db"))
    assert refused.value.exit_status == 4


@pytest.mark.parametrize(
    "url", ["", "nonsense", "mysql://root:hunter2@host/x", "postgres://u:hunter2@host/x", "postgresql://u:hunter2@h:x/"]
)
def test_a_url_of_no_database_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(SpecError) as refused:
        open_database(url)
    assert refused.value.code == "bad_usage"
    assert refused.value.place == "FAIRTRIAL_DATABASE_URL"
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("url", ["sqlite:///:memory:", "sqlite:///"])
def test_a_database_that_would_forget_is_refused_by_name(url: str) -> None:
    with pytest.raises(SpecError, match="in memory forgets") as refused:
        open_database(url)
    assert (refused.value.code, refused.value.place) == ("bad_usage", "FAIRTRIAL_DATABASE_URL")


WITHOUT_DRIVERS = """
    import sys
    sys.modules["psycopg"] = sys.modules["s3fs"] = None
    from fairtrial.errors import SpecError
    from fairtrial.store.database import open_database
    from fairtrial.store.objects import ObjectStore
    for open_it, url in ((open_database, "postgresql+psycopg://me@127.0.0.1:1/none"), (ObjectStore, "s3://bucket/x")):
        try:
            open_it(url)
        except SpecError as error:
            print(error.code, error, flush=True)
"""


def test_a_missing_driver_is_named_with_its_remedy(child: Any) -> None:
    told = child(WITHOUT_DRIVERS)
    assert 'pip install "psycopg[binary]"' in (first := told.line())
    assert "pip install s3fs" in (second := told.line())
    assert first.startswith("bad_usage FAIRTRIAL_DATABASE_URL")
    assert second.startswith("bad_usage FAIRTRIAL_STORAGE_URL")


def test_a_read_that_fails_says_so_without_its_sql(engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(text("drop table experiment"))
    with engine.connect() as connection, pytest.raises(StoreError) as refused:
        list_experiments(connection, limit=10)
    assert "no such table: experiment" in refused.value.message
    assert "SELECT" not in str(refused.value).upper()


def test_r10_a_store_on_a_read_only_disk_is_read_and_refuses_writes(small_disk: Callable[..., Path]) -> None:
    disk = small_disk(mb=2)
    engine = open_database(sqlite_url(disk / "fairtrial.db"))
    engine.dispose()
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    engine = open_database(sqlite_url(disk / "fairtrial.db"))
    with engine.connect() as connection:
        assert list_experiments(connection, limit=10) == []
    with pytest.raises(StoreError, match="read-only"):
        set_state(engine, "exp_none", "finished")
    engine.dispose()


def test_r10_a_full_disk_is_called_that(small_disk: Callable[..., Path]) -> None:
    disk = small_disk(mb=2)
    engine = open_database(sqlite_url(disk / "fairtrial.db"))
    engine.dispose()
    filler = fill(disk)
    with pytest.raises(StoreError) as refused:
        write_once(disk / "fairtrial.db")
    assert (refused.value.code, refused.value.exit_status) == ("no_space", 4)
    filler.unlink()
    write_once(disk / "fairtrial.db")


def test_r19_a_lock_that_is_never_given_back_ends_in_one_plain_line(
    child: Any, make: Any, db_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = make()
    monkeypatch.setattr(database, "BUSY_TIMEOUT_MS", 300)
    impatient = open_database(sqlite_url(db_path))
    assert child(HOLDER, db_path, 60).line() == "locked"
    with impatient.connect() as connection:
        # Readers never wait for a writer.
        assert get_experiment(connection, record.id) == record
    with pytest.raises(StoreError, match="has held the write lock") as refused:
        set_state(impatient, record.id, "finished")
    assert refused.value.exit_status == 4
    impatient.dispose()


def test_a_list_of_any_length_fits_into_queries() -> None:
    # sqlite.org/limits.html: 32,766 parameters a statement, and some are needed besides the list.
    parts = list(in_parts(range(100_001)))
    assert [len(part) for part in parts] == [10_000] * 10 + [1]
    assert [n for part in parts for n in part] == list(range(100_001))
    assert list(in_parts([])) == []
    with sqlite3.connect(":memory:") as connection:
        connection.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, 32_766)
        marks = ",".join("?" * len(parts[0]))
        assert connection.execute(f"select 1 where 5 in ({marks})", list(parts[0])).fetchall() == [(1,)]
