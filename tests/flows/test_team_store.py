"""A team's store, Postgres and an S3 bucket, under the whole command: the same answers, and no secret anywhere."""

from __future__ import annotations

import base64
import json
import os
import sqlite3
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, inspect, make_url, text

from fairtrial.hashing import parse_canonical
from flows.slice_results import block_name
from tests.flows.test_run_flow import ask, calls, start, wait_for, write_ab
from tests.servers import S3Server
from tests.store.s3_standin import stand_in

pytestmark = pytest.mark.prefect


@pytest.fixture
def team(prefect_server: Any, postgres_url: str, s3_url: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The environment of somebody whose store is the team's; the Prefect server was started without it."""
    urls = {"FAIRTRIAL_DATABASE_URL": postgres_url, "FAIRTRIAL_STORAGE_URL": s3_url}
    for name, value in urls.items():
        monkeypatch.setenv(name, value)
    return urls


def bucket(server: S3Server, url: str) -> dict[str, bytes]:
    """Every object below `url`, by its key there."""
    from s3fs import S3FileSystem

    system = S3FileSystem(skip_instance_cache=True, use_listings_cache=False)
    prefix = url.removeprefix("s3://")
    return {path.removeprefix(prefix + "/"): system.cat_file(path) for path in system.find(prefix)}


def rows(database: str) -> str:
    """Everything in a database as one text."""
    engine = create_engine(database)
    with engine.connect() as connection:
        tables = inspect(connection).get_table_names()
        found = [[tuple(row) for row in connection.execute(text(f"select * from {table}"))] for table in tables]
    engine.dispose()
    return repr(found)


@pytest.mark.fire
def test_c79_killed_and_resumed_on_postgres_and_s3_to_the_verdict_of_a_folder(
    exp: Any, project: Path, prefect_server: Any, team: dict[str, str], s3_server: S3Server
) -> None:
    arguments = [*write_ab(project, 20, pause_s=0.05), "--slice", "4", "--concurrency", "2"]
    alone = exp("run", *arguments, "--json", server=True, env=dict.fromkeys(team))
    assert alone.code == 0, alone.err
    (project / "ledger").unlink()

    process = start(arguments, project, dict(os.environ))
    while calls(project) < 22:
        time.sleep(0.01)
        assert process.poll() is None
    process.kill()
    process.wait()
    experiment = exp("list", "--json").json[0]["id"]
    run = exp("run", *arguments, "--resume", "--json", server=True)
    assert run.code == 0, run.err
    assert run.json["meta"]["experiments"] == [experiment]
    assert run.json["body"] == alone.json["body"]
    # 40 trials, and the two in flight at the kill.
    assert 40 <= calls(project) <= 42
    # Of this run nothing is in the project's folder.
    assert experiment not in exp("list", env=dict.fromkeys(team)).out

    objects = bucket(s3_server, team["FAIRTRIAL_STORAGE_URL"])
    assert parse_canonical(objects[f"experiments/{experiment}/verdict.json"])
    # 20 blocks in slices of 4: one result a slice.
    assert len([key for key in objects if key.startswith("prefect/")]) == 5
    tasks = {"task_runs": {"state": {"name": {"any_": ["Cached"]}}}, "flow_runs": {"tags": {"all_": [experiment]}}}
    assert wait_for(lambda: ask(prefect_server, "/task_runs/filter", tasks))
    name = block_name(team["FAIRTRIAL_STORAGE_URL"])
    blocks = ask(prefect_server, "/block_documents/filter", {"block_documents": {"name": {"any_": [name]}}})
    assert [found["data"]["basepath"] for found in blocks] == [f"{team['FAIRTRIAL_STORAGE_URL']}/prefect"]

    compared = exp("compare", experiment, "--json")
    shown = [exp(*words) for words in (("show", experiment), ("trials", experiment), ("list",))]
    outputs = "".join(each.out + each.err for each in (run, compared, *shown))
    everywhere = [outputs, rows(team["FAIRTRIAL_DATABASE_URL"]), *(repr(data) for data in objects.values())]
    everywhere += [path.read_bytes().decode("latin-1") for path in project.rglob("*") if path.is_file()]
    state = Path(os.environ["FAIRTRIAL_STATE_DIR"])
    everywhere += [path.read_bytes().decode("latin-1") for path in state.rglob("*") if path.is_file()]
    everywhere += ["".join(_dump(path)) for path in state.rglob("prefect.db")]
    assert len(everywhere) > 10
    # That the search finds what is there.
    assert any(experiment in place for place in everywhere[-2:])
    for secret in (s3_server.secret, str(make_url(team["FAIRTRIAL_DATABASE_URL"]).password)):
        spelled = [secret, base64.b64encode(secret.encode()).decode(), secret.encode().hex()]
        assert not [place[:80] for place in everywhere if any(word in place for word in spelled)]


def _dump(path: Path) -> list[str]:
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        return list(connection.iterdump())
    finally:
        connection.close()


@pytest.mark.fire
def test_p02_a_stored_result_that_names_another_decoder_is_not_shown_to_prefect(
    exp: Any, project: Path, team: dict[str, str], s3_server: S3Server
) -> None:
    from s3fs import S3FileSystem

    arguments = [*write_ab(project, 8), "--slice", "4", "--concurrency", "4"]
    assert exp("run", *arguments, server=True).code == 0
    # What a crash leaves: one trial less, and the other slice whole.
    engine = create_engine(team["FAIRTRIAL_DATABASE_URL"])
    with engine.begin() as connection:
        plan = [data for key, data in bucket(s3_server, team["FAIRTRIAL_STORAGE_URL"]).items() if "plan" in key]
        assert plan
        connection.execute(text("delete from trial where case_id = 'k003' and arm = 'base'"))
        connection.execute(text("update summary set n_done = n_done - 1 where arm = 'base'"))
        connection.execute(text("update experiment set state = 'partial'"))
    engine.dispose()
    canary = project / "canary"
    # A pickle that makes a file when it is read (faults.md, P02), under the key of every slice.
    program = f"cos\nsystem\n(S'touch {canary}'\ntR."
    record = {
        "metadata": {"storage_key": "x", "expiration": None, "serializer": {"type": "pickle"}, "prefect_version": "3"},
        "result": base64.b64encode(program.encode()).decode(),
    }
    system = S3FileSystem(skip_instance_cache=True, use_listings_cache=False)
    prefix = team["FAIRTRIAL_STORAGE_URL"].removeprefix("s3://")
    for path in system.find(f"{prefix}/prefect"):
        system.pipe_file(path, json.dumps(record).encode())
    resumed = exp("run", *arguments, "--resume", server=True)
    assert resumed.code == 0, resumed.err
    assert not canary.exists()
    # Both were written anew: what Prefect keeps is ours again.
    assert not [path for path in system.find(f"{prefix}/prefect") if b"pickle" in system.cat_file(path)]


@pytest.mark.parametrize(
    ("variables", "code", "named"),
    [
        ({"FAIRTRIAL_STORAGE_URL": "memory://team/x"}, 64, "FAIRTRIAL_STORAGE_URL: "),
        ({"FAIRTRIAL_STORAGE_URL": "s3://no-such-bucket/x"}, 4, "there is no bucket no-such-bucket"),
        ({"AWS_SECRET_ACCESS_KEY": "another-secret-0000"}, 4, "refused access"),
        ({"AWS_ENDPOINT_URL": "http://127.0.0.1:1"}, 4, "AWS_ENDPOINT_URL"),
    ],
)
def test_a_storage_url_that_cannot_be_used_is_refused_before_the_experiment_is_stored(
    exp: Any, project: Path, team: dict[str, str], variables: dict[str, str], code: int, named: str
) -> None:
    refused = exp("run", *write_ab(project, 4), env=variables)
    assert refused.code == code, refused.err
    assert named in refused.err
    assert "Traceback" not in refused.err
    assert calls(project) == 0
    assert exp("list", "--json").json == []


@pytest.mark.fire
def test_r12_a_bucket_that_fails_in_the_middle_stops_the_run_and_the_resume_repeats_only_what_was_in_flight(
    exp: Any, project: Path, prefect_server: Any, postgres_url: str
) -> None:
    with stand_in() as faulty:
        env = {"FAIRTRIAL_DATABASE_URL": postgres_url, "FAIRTRIAL_STORAGE_URL": "s3://exp/team", **faulty.environ}
        arguments = write_long(project, 12)
        # The dataset and the plan go in, then three answers; from then on the store asks everybody to slow down.
        faulty.fail("PUT", "", 5)
        faulty.fail("PUT", "503")
        stopped = exp("run", *arguments, server=True, env=env)
        assert stopped.code == 4, stopped.err
        assert "s3://exp/team did not answer" in stopped.err
        assert "go on with: exp run --resume" in stopped.err
        assert "Traceback" not in stopped.err
        made = calls(project)
        stored = rows(postgres_url)
        assert stored
        for fault in ("503", "reset"):
            faulty.heal()
            faulty.fail("GET", fault)
            refused = exp("run", "--resume", "latest", server=True, env=env)
            assert (refused.code, calls(project)) == (4, made), refused.err
        faulty.heal()
        resumed = exp("run", "--resume", "latest", server=True, env=env)
        assert resumed.code == 0, resumed.err
        # One in flight at the stop, whose answer found no place.
        assert calls(project) == 12


def write_long(project: Path, n: int) -> list[str]:
    """A command over n cases whose answers are too long for a row, so that each is an object."""
    (project / "cases.jsonl").write_text(
        "".join(json.dumps({"id": f"k{i:03d}", "input": f"{i}"}) + "\n" for i in range(n))
    )
    (project / "long.py").write_text("import sys\nopen('ledger', 'a').write('x\\n')\nprint(sys.stdin.read() * 9000)\n")
    spec = {
        "name": "long answers",
        "dataset": "cases.jsonl",
        "task": {"kind": "command", "command": [sys.executable, "-S", "-E", "long.py"], "files": ["long.py"]},
        "graders": [{"kind": "regex", "pattern": "[0-9]"}],
        "seed": 5,
    }
    (project / "long.json").write_text(json.dumps(spec))
    return ["long.json", "--slice", "4"]
