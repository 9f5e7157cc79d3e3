"""`exp status`, `exp finish` and --retry-errors at the command line, on runs that hang, were killed, or are over."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.prefect

# Does not answer for a case while it is in the file `hangs`, fails for those in `fails`.
TASK = """
import os, pathlib, sys, time
case = os.environ["FAIRTRIAL_CASE_ID"]
with open("ledger", "a") as ledger:
    ledger.write(case + "\\n")
end = time.monotonic() + 600
while case in pathlib.Path("hangs").read_text().split() and time.monotonic() < end:
    time.sleep(0.05)
if case in pathlib.Path("fails").read_text().split():
    sys.exit("boom")
print("yes")
"""


def write_ten(project: Path, *, hangs: str = "", fails: str = "", **limits: Any) -> str:
    rows = [{"id": f"c{n:02d}", "input": n, "expected": "yes"} for n in range(1, 11)]
    (project / "ten.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (project / "task.py").write_text(TASK)
    (project / "hangs").write_text(hangs)
    (project / "fails").write_text(fails)
    spec = {
        "name": "ten",
        "dataset": "ten.jsonl",
        "task": {"kind": "command", "command": [sys.executable, "-S", "-E", "task.py"], "files": ["task.py"]},
        "graders": [{"kind": "exact"}],
        "seed": 1,
        "limits": limits,
    }
    (project / "ten.json").write_text(json.dumps(spec))
    return "ten.json"


def calls(project: Path) -> list[str]:
    ledger = project / "ledger"
    return ledger.read_text().split() if ledger.exists() else []


def wait_for(what: Callable[[], Any], *, seconds: float = 60.0) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.05)
    return found


@contextlib.contextmanager
def running(project: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "faces.cli.main", "run", *arguments, "-q"]
    process = subprocess.Popen(
        command, cwd=project, env=dict(os.environ), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_k13_a_hanging_case_is_named_and_the_run_can_be_closed_with_the_other_nine(
    exp: Any, project: Path, prefect_server: Any
) -> None:
    with running(project, write_ten(project, hangs="c10")) as process:
        wait_for(lambda: "c10" in calls(project))
        (seen,) = wait_for(
            lambda: [
                each
                for each in exp("status", "--json").json["experiments"]
                if each["n_done"] == 9 and each["waiting"] and each["waiting"][0]["open_s"] > 0.5
            ]
        )
        assert seen["state"] == "running"
        assert (seen["n_planned"], seen["cost_usd"]) == (10, None)
        assert [(call["case"], call["attempt"]) for call in seen["waiting"]] == [("c10", 1)]
        assert seen["owner"]["pid"] == process.pid
        assert seen["owner"]["alive"]
        assert seen["eta_s"] > 0
        refused = exp("finish", "latest")
        assert refused.code == 64
        assert f"is being run by process {process.pid}" in refused.err
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
    experiment = seen["experiment"]
    (left,) = exp("status", "--json").json["experiments"]
    assert (left["state"], left["n_done"], left["waiting"]) == ("partial", 9, [])
    text = exp("status").out
    assert "9 of 10 trials (90.0%)" in text
    assert "cost so far not reported" in text
    assert f"exp run --resume {experiment}, or exp finish {experiment}" in text
    done = exp("finish", "latest", "--json")
    assert done.code == 0, done.err
    assert done.json["meta"]["state"] == "closed"
    assert done.json["body"]["arms"][0]["n_done"] == 9
    assert f"{experiment}: closed with 9 of 10 trials" in done.err
    assert "closed" in exp("list").out
    assert exp("list", "--json").json[0]["state"] == "closed"
    assert exp("status").err == "no run is under way or waits for a resume; `exp list` shows those that ended\n"
    assert "(partial: 9 of 10 trials)" in exp("show", experiment).out
    again = exp("finish", experiment)
    assert (again.code, f"{experiment} is closed already" in again.err) == (0, True)
    # A closed run is opened again by its name only.
    bare = exp("run", "ten.json", "--resume")
    assert bare.code == 64
    assert f"{experiment} was closed with 9 of 10 trials" in bare.err
    (project / "hangs").write_text("")
    opened = exp("run", "--resume", experiment, "--json", server=True)
    assert opened.code == 0, opened.err
    assert opened.json["body"]["arms"][0]["n_done"] == 10


def test_k13_with_a_time_limit_the_hanging_case_is_a_timeout_and_the_run_is_whole(exp: Any, project: Path) -> None:
    run = exp("run", write_ten(project, hangs="c10"), "--trial-timeout", "2", "--json", "-q", server=True)
    assert run.code == 0, run.err
    (side,) = run.json["body"]["arms"]
    assert (side["n_done"], side["n_graded"], side["n_agent_failures"]) == (10, 9, 1)
    assert [(error["kind"], error["n"]) for error in side["errors"]] == [("timeout", 1)]


def test_k12_r16_a_killed_run_is_lost_with_when_it_was_last_seen_and_resumes_at_once(
    exp: Any, project: Path, prefect_server: Any
) -> None:
    with running(project, write_ten(project, hangs="c04")) as process:
        wait_for(lambda: "c04" in calls(project))
        process.kill()
        process.wait()
    (seen,) = exp("status", "--json").json["experiments"]
    assert (seen["state"], seen["owner"]["alive"], seen["n_done"]) == ("partial", False, 3)
    assert seen["owner"]["last_seen_s"] >= 0
    assert "is gone, last seen" in exp("status").out
    assert "(partial), last seen" in exp("list").out
    (project / "hangs").write_text("")
    resumed = exp("run", "--resume", seen["experiment"], "--json", server=True)
    assert resumed.code == 0, resumed.err
    assert "taken over from process" in resumed.err
    meta = resumed.json["meta"]
    # K04: two stretches of work, and what lies between them is not counted.
    assert meta["parts"] == 2
    assert meta["repeated_calls"] == 1
    assert sorted(calls(project)) == sorted([*(f"c{n:02d}" for n in range(1, 11)), "c04"])
    assert "(working time in 2 parts)" in exp("show", seen["experiment"]).out


def test_k12_the_flow_run_of_a_dead_process_is_set_to_crashed_by_the_resume(
    exp: Any, project: Path, prefect_server: Any
) -> None:
    import base64
    import urllib.request

    with running(project, write_ten(project, hangs="c04")) as process:
        wait_for(lambda: "c04" in calls(project))
        process.kill()
        process.wait()
    experiment = exp("list", "--json").json[0]["id"]
    (project / "hangs").write_text("")
    assert exp("run", "--resume", experiment, server=True).code == 0

    token = base64.b64encode(prefect_server.auth.encode()).decode()
    headers = {"Authorization": f"Basic {token}", "Content-Type": "application/json"}
    url = f"{prefect_server.url}/csrf-token?client=test"
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=30) as answer:
        headers |= {"Prefect-Csrf-Token": json.load(answer)["token"], "Prefect-Csrf-Client": "test"}
    body = json.dumps({"flow_runs": {"tags": {"all_": [experiment]}}, "sort": "START_TIME_ASC"}).encode()
    request = urllib.request.Request(f"{prefect_server.url}/flow_runs/filter", body, headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        states = [(run["state_type"], run["state"]["message"]) for run in json.load(answer)]
    assert [state for state, _ in states] == ["CRASHED", "COMPLETED"]
    assert "gone, and a resume has taken over" in states[0][1]


def test_c83_retry_errors_at_the_command_line(exp: Any, project: Path) -> None:
    first = exp("run", write_ten(project, fails="c02 c05 c09"), "--json", "-q", server=True)
    assert first.code == 0, first.err
    experiment = first.json["meta"]["experiments"][0]
    (project / "fails").write_text("")
    (project / "ledger").unlink()
    run = exp("run", "--resume", experiment, "--retry-errors", "--json", server=True)
    assert run.code == 0, run.err
    assert sorted(calls(project)) == ["c02", "c05", "c09"]
    assert "--retry-errors: 3 trials that ended in an error, to be run again" in run.err
    assert run.json["body"]["arms"][0]["n_graded"] == 10
    assert run.json["meta"]["taken_back"] == [{"why": "retried", "outcome": "agent_failure", "n": 3}]
    trials = exp("trials", experiment, "--case", "c05", "--json").json["trials"]
    assert [each["outcome"] for each in trials[0]["earlier"]] == ["agent_failure"]
    assert "boom" in trials[0]["earlier"][0]["error"]
    text = exp("trials", experiment, "--case", "c05").out
    assert "earlier attempt 1: agent_failure (exit_code), run again by --retry-errors" in text
    nothing = exp("run", "--resume", experiment, "--retry-errors")
    assert (nothing.code, "nothing left to run" in nothing.err) == (0, True)


def test_retry_errors_without_a_run_to_resume_is_refused(exp: Any, project: Path) -> None:
    run = exp("run", write_ten(project), "--retry-errors")
    assert run.code == 64
    assert "--retry-errors runs errors of a stored run again" in run.err


def test_c88_a_named_resume_takes_the_stored_selection(exp: Any, project: Path, prefect_server: Any) -> None:
    spec = write_ten(project, hangs="c03")
    with running(project, spec, "--first-n", "5") as process:
        wait_for(lambda: "c03" in calls(project))
        process.kill()
        process.wait()
    experiment = exp("list", "--json").json[0]["id"]
    (project / "hangs").write_text("")
    run = exp("run", spec, "--resume", experiment, "--json", server=True)
    assert run.code == 0, run.err
    assert run.json["body"]["arms"][0]["n_cases"] == 5
    assert set(calls(project)) == {"c01", "c02", "c03", "c04", "c05"}


def test_k02_a_damaged_answer_of_a_finished_run_is_mended_by_a_resume(exp: Any, project: Path) -> None:
    spec = write_ten(project)
    (project / "task.py").write_text(TASK.replace('print("yes")', 'print("yes" * 4000)'))
    first = exp("run", spec, "--json", "-q", server=True)
    assert first.code == 0, first.err
    experiment = first.json["meta"]["experiments"][0]
    blobs = project / ".fairtrial" / "objects" / "blobs"
    (output,) = [path for path in blobs.iterdir() if path.read_bytes().startswith(b"yesyes")]
    os.truncate(output, output.stat().st_size - 7)
    shown = exp("trials", experiment)
    assert shown.code == 70
    assert "does not match its checksum" in shown.err
    (project / "ledger").unlink()
    run = exp("run", "--resume", experiment, "--json", server=True)
    assert run.code == 0, run.err
    # All ten gave the same answer, so one object was all of theirs.
    assert sorted(calls(project)) == [f"c{n:02d}" for n in range(1, 11)]
    assert run.err.count("damaged: the answer to case") == 10
    assert run.json["body"] == first.json["body"]
    assert exp("trials", experiment).code == 0


def test_status_of_a_store_that_is_not_there_makes_none(exp: Any, project: Path) -> None:
    run = exp("status")
    assert run.code == 64
    assert not (project / ".fairtrial").exists()


def test_status_watch_ends_with_the_run_and_prints_one_json_line_a_look(
    exp: Any, project: Path, prefect_server: Any
) -> None:
    command = [sys.executable, "-m", "faces.cli.main", "status", "--watch", "--every", "0.3", "--json"]
    with running(project, write_ten(project, hangs="c10")):
        wait_for(lambda: "c10" in calls(project))
        watch = subprocess.Popen(command, cwd=project, env=dict(os.environ), stdout=subprocess.PIPE)
        try:
            assert watch.stdout is not None
            lines = [watch.stdout.readline()]
            (project / "hangs").write_text("")
            rest, _ = watch.communicate(timeout=60)
        finally:
            watch.kill()
            watch.wait()
    assert watch.returncode == 0
    looks = [json.loads(line)["experiments"][0] for line in [*lines, *rest.splitlines()]]
    done = [look["n_done"] for look in looks]
    assert done == sorted(done)
    assert (looks[0]["state"], looks[0]["n_done"]) == ("running", 9)
    assert (looks[-1]["state"], looks[-1]["n_done"]) == ("finished", 10)
