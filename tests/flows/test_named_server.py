"""A run against a server that the user names, and what a program under test sees of either server."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from flows.local_server import Server, find
from flows.server_settings import client_settings


@pytest.fixture
def spec(project: Path) -> Path:
    """One case; its task answers with the names and values of the environment that are Prefect's."""
    (project / "cases.jsonl").write_text('{"id": "k1", "input": "a"}\n', encoding="utf-8")
    (project / "told.py").write_text(
        "import json, os\n"
        "print(json.dumps({name: value for name, value in os.environ.items() if name.startswith('PREFECT_')}))\n",
        encoding="utf-8",
    )
    path = project / "spec.json"
    document = {
        "name": "told",
        "dataset": "cases.jsonl",
        "task": {"kind": "command", "command": [sys.executable, "-S", "-E", "told.py"], "files": ["told.py"]},
        "graders": [{"kind": "contains", "value": "PREFECT_HOME"}],
        "seed": 1,
    }
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def answer(exp: Any) -> dict[str, str]:
    (trial,) = exp("trials", "latest", "--json").json["trials"]
    told: dict[str, str] = json.loads(trial["output"])
    return told


@pytest.mark.prefect
def test_the_login_of_the_local_server_does_not_reach_the_program_under_test(
    exp: Any, spec: Path, prefect_server: Server
) -> None:
    run = exp("run", spec, server=True)
    assert run.code == 0, run.err
    told = answer(exp)
    # Of the settings that point a process at the server none; the home is the one that the tests themselves set.
    ours = client_settings(url=prefect_server.url, auth=prefect_server.auth, home=prefect_server.home)
    assert set(told) & set(ours) == {"PREFECT_HOME"}
    assert prefect_server.auth.partition(":")[2] not in json.dumps(told)


@pytest.mark.prefect
def test_a_named_server_is_used_and_no_other_is_started(
    exp: Any, spec: Path, prefect_server: Server, tmp_path: Path
) -> None:
    run = exp("run", spec, server="named", env={"FAIRTRIAL_STATE_DIR": str(tmp_path / "own")})
    assert run.code == 0, run.err
    assert "Started" not in run.err
    assert find(tmp_path / "own") is None
    # What the user exported is the program's to see, as with any other variable.
    assert answer(exp)["PREFECT_API_URL"] == prefect_server.url


def test_a_server_named_in_a_file_that_does_not_answer_is_said_with_that_file(
    exp: Any, spec: Path, tmp_path: Path
) -> None:
    # Port 9 (discard) is below the range that the system hands out, so nobody of these tests listens there.
    (spec.parent / ".env").write_text("PREFECT_API_URL=http://127.0.0.1:9/api\n", encoding="utf-8")
    run = exp("run", spec)
    assert run.code == 4
    assert "PREFECT_API_URL in .env (http://127.0.0.1:9/api)" in run.err
    assert find(tmp_path / "state") is None
