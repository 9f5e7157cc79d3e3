"""`exp run` through the real Prefect server: what it leaves there, and that nothing of ours hangs on it."""

from __future__ import annotations

import base64
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.prefect


def write_ab(project: Path, n: int = 12, *, pause_s: float = 0.0) -> list[str]:
    """Two command arms over n cases; the candidate is right everywhere, the base on every third case."""
    rows = [{"id": f"k{i:03d}", "input": f"{i}", "expected": "yes"} for i in range(n)]
    (project / "cases.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for arm, right in (("base", "i % 3 == 0"), ("cand", "True")):
        (project / f"{arm}.py").write_text(
            f"import sys, time\ntime.sleep({pause_s})\nopen('ledger', 'a').write('{arm}\\n')\n"
            f"i = int(sys.stdin.read())\nprint('yes' if {right} else 'no')\n"
        )
        spec = {
            "name": "flow test",
            "dataset": "cases.jsonl",
            "task": {"kind": "command", "command": [sys.executable, "-S", "-E", f"{arm}.py"], "files": [f"{arm}.py"]},
            "graders": [{"kind": "exact"}],
            "seed": 5,
            "tags": ["nightly"],
        }
        (project / f"{arm}.json").write_text(json.dumps(spec))
    return ["--arm", "base=base.json", "--arm", "cand=cand.json"]


def ask(server: Any, path: str, body: dict[str, Any]) -> Any:
    token = base64.b64encode(server.auth.encode()).decode()
    headers = {"Authorization": f"Basic {token}", "Content-Type": "application/json"}
    with urllib.request.urlopen(
        urllib.request.Request(f"{server.url}/csrf-token?client=test", headers=headers), timeout=30
    ) as answer:
        headers |= {"Prefect-Csrf-Token": json.load(answer)["token"], "Prefect-Csrf-Client": "test"}
    request = urllib.request.Request(f"{server.url}{path}", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def wait_for(what: Any, *, seconds: float = 60.0) -> Any:
    """Return the first true answer; the server records task runs and events some seconds after they happened."""
    deadline = time.monotonic() + seconds
    while not (found := what()) and time.monotonic() < deadline:
        time.sleep(0.5)
    return found


def test_c43_an_ab_run_leaves_a_named_flow_run_with_slices_artifacts_tags_and_event(
    exp: Any, project: Path, prefect_server: Any
) -> None:
    run = exp("run", *write_ab(project), "--slice", "5", "--json", "--concurrency", "4", server=True)
    assert run.code == 0, run.err
    document = run.json
    experiment = document["meta"]["experiments"][0]
    (comparison,) = document["body"]["comparisons"]
    # By hand: 12 cases, base right on 0, 3, 6, 9; eight flips one way, p = 2 * 0.5**8.
    assert comparison["decision"]["outcome"] == "better"
    assert comparison["flips"]["p"] == pytest.approx(2 * 0.5**8)
    by_id = {"flow_runs": {"tags": {"all_": [experiment]}}}
    (flow_run,) = ask(prefect_server, "/flow_runs/filter", by_id)
    assert flow_run["name"] == f"ab · flow test · base vs cand · {experiment}"
    assert {"fairtrial", "ab", "nightly", experiment} <= set(flow_run["tags"])
    assert (flow_run["state_type"], flow_run["state"]["message"]) == ("COMPLETED", "better")
    in_run = {"flow_runs": {"id": {"any_": [flow_run["id"]]}}}
    names = wait_for(
        lambda: [
            found
            for found in [sorted(task["name"] for task in ask(prefect_server, "/task_runs/filter", in_run))]
            if len(found) == 4
        ]
    )
    # 12 blocks in slices of 5: three slices and the verdict.
    assert names == [["slice 1/3", "slice 2/3", "slice 3/3", f"verdict {experiment}"]]
    artifacts = ask(prefect_server, "/artifacts/filter", in_run)
    kinds = {artifact["type"]: artifact for artifact in artifacts}
    assert set(kinds) == {"progress", "markdown", "table"}
    assert "B is better" in kinds["markdown"]["data"]
    assert kinds["progress"]["data"] == 100.0
    resource = {"resource": {"id": [f"fairtrial.experiment.{experiment}"]}}
    events = wait_for(lambda: ask(prefect_server, "/events/filter", {"filter": resource})["events"])
    assert [event["event"] for event in events] == ["fairtrial.verdict"]
    assert events[0]["payload"]["comparisons"][0]["outcome"] == "better"


def test_prefect_stores_one_short_string_a_slice_under_a_hex_key_and_nothing_is_pickled(
    exp: Any, project: Path
) -> None:
    run = exp("run", *write_ab(project), "--slice", "6", "--json", server=True)
    assert run.code == 0, run.err
    stored = sorted((project / ".fairtrial" / "objects" / "prefect").iterdir())
    assert len(stored) == 2
    for path in stored:
        assert len(path.name) == 64
        assert set(path.name) <= set("0123456789abcdef")
        record = json.loads(path.read_text())
        assert record["metadata"]["serializer"]["type"] == "json"
        assert record["metadata"]["serializer"]["object_decoder"] is None
        assert json.loads(json.loads(record["result"]))["counts"] == {"graded": 12}


def start(arguments: list[str], project: Path, environ: dict[str, str]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "faces.cli.main", "run", *arguments]
    return subprocess.Popen(command, cwd=project, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def calls(project: Path) -> int:
    ledger = project / "ledger"
    return len(ledger.read_text().splitlines()) if ledger.exists() else 0


@pytest.mark.fire
def test_c79_killed_twice_and_resumed_to_the_verdict_of_a_run_never_killed(
    exp: Any, project: Path, prefect_server: Any
) -> None:
    arguments = [*write_ab(project, 30, pause_s=0.05), "--slice", "4", "--concurrency", "2"]
    whole = exp("run", *arguments, "--json", server=True)
    (project / "ledger").unlink()
    resumed: list[str] = []
    for done in (8, 25):
        process = start([*arguments, *resumed], project, dict(os.environ))
        while calls(project) < done:
            time.sleep(0.01)
            assert process.poll() is None
        process.kill()
        process.wait()
        resumed = ["--resume"]
    listed = exp("list", "--json").json
    assert listed[0]["state"] == "partial"
    assert "(partial)" in exp("list").out
    experiment = listed[0]["id"]
    # K28: a look at the unfinished run, and another once it has grown.
    assert exp("compare", experiment, "--json").json["meta"]["look"] == 1
    run = exp("run", "--resume", experiment, "--json", "--concurrency", "2", server=True)
    assert run.code == 0, run.err
    assert run.json["body"] == whole.json["body"]
    # 60 trials; each kill can repeat the two in flight.
    assert 60 <= calls(project) <= 64
    assert exp("list", "--json").json[0]["state"] == "finished"
    assert "this is look 2 at these two runs while they grow" in exp("compare", experiment).out
    tasks = {"task_runs": {"state": {"name": {"any_": ["Cached"]}}}, "flow_runs": {"tags": {"all_": [experiment]}}}
    assert wait_for(lambda: ask(prefect_server, "/task_runs/filter", tasks))


def test_k05_resume_of_a_finished_run_calls_nothing_and_writes_nothing(exp: Any, project: Path) -> None:
    arguments = write_ab(project)
    first = exp("run", *arguments, "--json", server=True)
    before = tree(project / ".fairtrial")
    made = calls(project)
    again = exp("run", *arguments, "--resume", "--json", server=True)
    assert (again.code, again.json) == (first.code, first.json)
    assert "nothing left to run" in again.err
    assert calls(project) == made
    assert tree(project / ".fairtrial") == before


def test_k09_a_refused_resume_changes_nothing(exp: Any, project: Path) -> None:
    arguments = write_ab(project)
    assert exp("run", *arguments, server=True).code == 0
    before = tree(project / ".fairtrial")
    cases = project / "cases.jsonl"
    cases.write_text(cases.read_text().replace('"4"', '"44"'))
    refused = exp("run", *arguments, "--resume", server=True)
    assert refused.code == 64
    assert "dataset: case k004 (input)" in refused.err
    assert tree(project / ".fairtrial") == before


def test_r15_deleting_prefects_whole_database_changes_no_answer(exp: Any, project: Path, tmp_path: Path) -> None:
    """A server of its own, because its database is deleted."""
    state = tmp_path / "own-state"
    env = {"FAIRTRIAL_STATE_DIR": str(state)}
    assert exp("run", *write_ab(project), "--seed", "5", env=env, timeout_s=240).code == 0
    before = [
        exp(*command, env=env).out for command in (("list",), ("show", "latest"), ("compare", "latest", "--json"))
    ]
    exp("down", env=env)
    databases = list(state.rglob("prefect.db*"))
    assert databases
    for path in databases:
        path.unlink()
    after = [exp(*command, env=env).out for command in (("list",), ("show", "latest"), ("compare", "latest", "--json"))]
    assert _without_time(after) == _without_time(before)
    resumed = exp("run", "--resume", "latest", env=env, timeout_s=240)
    assert resumed.code == 0
    assert "nothing left to run" in resumed.err
    exp("down", env=env)


def test_an_unreachable_named_server_is_an_error_within_ten_seconds_and_nothing_is_run(exp: Any, project: Path) -> None:
    run = exp("run", *write_ab(project), env={"PREFECT_API_URL": "http://127.0.0.1:9/api"})
    assert run.code == 4
    assert "PREFECT_API_URL" in run.err
    assert "go on with: exp run --resume exp_" in run.err
    assert run.seconds < 15
    assert calls(project) == 0


@pytest.mark.fire
def test_ctrl_c_keeps_what_is_done_and_says_how_to_go_on(exp: Any, project: Path, prefect_server: Any) -> None:
    arguments = [*write_ab(project, 40, pause_s=0.1), "--slice", "4"]
    process = subprocess.Popen(
        [sys.executable, "-m", "faces.cli.main", "run", *arguments],
        cwd=project,
        env=dict(os.environ),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    while calls(project) < 6:
        time.sleep(0.02)
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err.decode()
    assert b"go on with: exp run --resume exp_" in err
    assert b"partial" in out
    stored = sqlite3.connect(project / ".fairtrial" / "fairtrial.db")
    assert stored.execute("select count(*) from trial where state = 'done'").fetchone() == (calls(project),)
    stored.close()
    assert exp("run", *arguments, "--resume", "--concurrency", "4", server=True).code == 0
    assert calls(project) == 80


def tree(folder: Path) -> dict[str, bytes]:
    """Every file below a folder; SQLite's shared memory is not part of what is stored."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.endswith(("-shm", "-wal"))
    }


def _without_time(outputs: list[str]) -> list[Any]:
    document = json.loads(outputs[2])
    document["meta"].pop("created_at")
    return [*outputs[:2], document]
