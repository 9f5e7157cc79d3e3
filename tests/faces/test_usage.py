"""Asked something wrong: one clear error, status 64, no traceback, nothing run. No server is needed for any of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SPEC = {
    "name": "s",
    "dataset": "cases.jsonl",
    "task": {"kind": "command", "command": ["cat"]},
    "graders": [{"kind": "exact"}],
}


@pytest.fixture
def spec(project: Path) -> Path:
    (project / "cases.jsonl").write_text(
        '{"id": "alpha", "input": "x", "expected": "x"}\n{"id": "beta", "input": "y", "expected": "y"}\n'
    )
    (project / "s.json").write_text(json.dumps(SPEC))
    return project / "s.json"


def wrong(changes: dict[str, Any]) -> str:
    return json.dumps({**SPEC, **changes})


# Each: the arguments, and what the message must name.
WRONG_CALLS = {
    "unknown command": (["rum"], "run"),
    "unknown flag": (["run", "s.json", "--concurency", "2"], "--concurrency"),
    "no spec": (["run"], "no spec"),
    "spec and arms": (["run", "s.json", "--arm", "a=s.json", "--arm", "b=s.json"], "--arm"),
    "one arm": (["run", "--arm", "a=s.json"], "two or more"),
    "arm without a name": (["run", "--arm", "s.json", "--arm", "b=s.json"], "name=spec.json"),
    "arms of one name": (["run", "--arm", "a=s.json", "--arm", "A=s.json"], "case"),
    "not a number": (["run", "s.json", "--trials", "three"], "trials"),
    "no trials": (["run", "s.json", "--trials", "0"], "trials"),
    "missing spec": (["run", "nope.json"], "nope.json"),
    "an experiment as spec": (["run", "exp_01M6SAJYC5RM7A5TCT65R3SFSM"], "--resume"),
    "unknown experiment": (["run", "--resume", "exp_01M6SAJYC5RM7A5TCT65R3SFSM"], "no store"),
    "a word to resume that is no experiment": (["run", "s.json", "--resume", "foo"], "exp_"),
    "nothing to resume": (["run", "s.json", "--resume"], "exp list"),
    "unknown dataset": (["run", "s.json", "-d", "smoke"], "./smoke.jsonl"),
    "missing dataset": (["run", "s.json", "-d", "./smoke.jsonl"], "smoke.jsonl"),
    "k39 typo in a case": (["run", "s.json", "--case", "alpa"], "alpha"),
    "bad grader": (["run", "s.json", "-g", '{"kind": "exakt"}'], "exact"),
    "grader that is no JSON": (["run", "s.json", "-g", "exact"], '{"kind": "exact"}'),
    "output without a form": (["run", "s.json", "-o", "report.pdf"], ".md"),
    "output into no folder": (["run", "s.json", "-o", "no/such/report.md"], "no/such"),
    "compare with nothing": (["compare"], "a"),
    "compare of unknown": (["compare", "latest", "latest~1"], "exp run"),
    "show of unknown": (["show", "exp_0"], "exp run"),
    "unknown grader": (["graders", "exakt"], "exact"),
    "unknown schema": (["schema", "speck"], "spec"),
    "dataset name with a dot": (["dataset", "add", "a.b", "cases.jsonl"], "a.b"),
    "dataset that is not there": (["dataset", "show", "nope"], "nope"),
}


@pytest.mark.parametrize("call", WRONG_CALLS)
def test_k40_a_wrong_call_ends_with_64_and_names_what_and_what_to_do(exp: Any, spec: Path, call: str) -> None:
    arguments, named = WRONG_CALLS[call]
    run = exp(*arguments)
    assert run.code == 64, run.err
    assert named in run.err
    assert "Traceback" not in run.err + run.out
    assert run.out == ""


WRONG_SPECS = {
    "unknown key": (wrong({"graderz": []}), "graders"),
    "unknown kind": (wrong({"task": {"kind": "comand", "command": ["x"]}}), "command"),
    "no graders": (wrong({"graders": []}), "graders"),
    "program that is not there": (
        wrong({"task": {"kind": "command", "command": ["no-such-program"]}}),
        "no-such-program",
    ),
    "missing variable": (
        wrong({"task": {"kind": "command", "command": ["cat"], "env": {"KEY": {"from_env": "NO_SUCH_KEY"}}}}),
        "NO_SUCH_KEY",
    ),
    "template in a shell line": (wrong({"task": {"kind": "command", "command": "cat {{input}}"}}), "stdin"),
    "template variable that a case lacks": (
        wrong({"task": {"kind": "command", "command": ["echo", "{{fields.nope}}"]}}),
        "nope",
    ),
    "bad pattern": (wrong({"graders": [{"kind": "regex", "pattern": "("}]}), "pattern"),
    "doubled key": ('{"name": "a", "name": "b"}', "name"),
    "not JSON": ("{", "s.json:1"),
    "text for a number": (wrong({"trials": "3"}), "trials"),
    "grader that cannot be loaded": (wrong({"graders": [{"kind": "python", "path": "broken.py"}]}), "broken.py"),
    "recording that is not there": (wrong({"task": {"kind": "recorded", "path": "no.jsonl"}}), "no.jsonl"),
}


@pytest.mark.parametrize("fault", WRONG_SPECS)
def test_a_bad_spec_ends_with_64_before_anything_runs(exp: Any, spec: Path, fault: str) -> None:
    text, named = WRONG_SPECS[fault]
    (spec.parent / "broken.py").write_text("def grade(output, case:\n")
    spec.write_text(text)
    run = exp("run", "s.json", "--json")
    assert run.code == 64, run.err
    assert named in run.err
    error = run.json
    assert error["schema"] == "fairtrial/error/1"
    assert error["code"] in run.out
    assert "Traceback" not in run.err
    assert exp("list", "--json").json == []


def test_k39_a_dataset_of_nothing_is_an_error_and_never_a_rate(exp: Any, spec: Path) -> None:
    (spec.parent / "cases.jsonl").write_text("")
    run = exp("run", "s.json")
    assert run.code == 64
    assert "cases.jsonl" in run.err


def test_c61_like_refusals_make_no_call(exp: Any, spec: Path) -> None:
    spec.write_text(wrong({"task": {"kind": "command", "command": ["touch", "called"]}, "graders": []}))
    assert exp("run", "s.json").code == 64
    assert not (spec.parent / "called").exists()


def test_an_empty_list_is_json_and_status_0(exp: Any, project: Path) -> None:
    run = exp("list", "--json")
    assert (run.code, run.json) == (0, [])


def test_datasets_by_name_with_versions(exp: Any, spec: Path) -> None:
    first = exp("dataset", "add", "smoke", "cases.jsonl")
    assert first.code == 0
    assert first.out.startswith("smoke@1  2 cases")
    assert "the same content as before" in exp("dataset", "add", "smoke", "cases.jsonl").out
    with (spec.parent / "cases.jsonl").open("a") as file:
        file.write('{"id": "gamma", "input": "z", "kind": "guard", "split": "test"}\n')
    assert exp("dataset", "add", "smoke", "cases.jsonl").out.startswith("smoke@2  3 cases")
    assert [version["version"] for version in exp("dataset", "list", "--json").json] == [2]
    shown = exp("dataset", "show", "smoke", "--json").json
    assert shown["kinds"] == {"ordinary": 2, "guard": 1}
    assert (shown["splits"], shown["n_labelled"]) == ({"none": 2, "test": 1}, 2)
    assert exp("dataset", "show", "smoke@1", "--json").json["n_cases"] == 2


def test_c122_help_lists_every_flag_with_a_line_and_an_example(exp: Any, project: Path) -> None:
    shown = exp("run", "--help").out
    for flag in (
        *("--arm", "--dataset", "-d", "--grader", "-g", "--trials", "--seed", "--concurrency", "--slice", "--resume"),
        *("--trial-timeout", "--retries", "--first-n", "--case", "--output", "-o", "--json", "--name", "--quiet"),
    ):
        assert flag in shown
    assert "exp run --arm base=a.json --arm cand=b.json" in shown
    assert "Examples" in exp("compare", "--help").out


@pytest.mark.parametrize("command", [["--help"], ["list"], ["compare", "--help"], ["trials", "--help"], ["graders"]])
def test_reading_commands_import_neither_prefect_nor_scipy_stats(project: Path, command: list[str]) -> None:
    code = (
        "import sys\nfrom faces.cli.main import call\n"
        f"assert call({command!r}) == 0\n"
        "heavy = [name for name in ('prefect', 'scipy.stats') if name in sys.modules]\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=project, capture_output=True, env=dict(os.environ), check=False
    )
    assert done.returncode == 0, done.stderr.decode()


def test_a_closed_pipe_ends_quietly(project: Path) -> None:
    command = f"{sys.executable} -m faces.cli.main schema spec | head -1"
    done = subprocess.run(["/bin/sh", "-c", command], cwd=project, capture_output=True, check=False)
    assert done.stderr == b""


def test_k94_a_console_without_the_signs_gets_ascii_and_no_crash(exp: Any, spec: Path) -> None:
    run = exp("graders", "number", env={"PYTHONIOENCODING": "cp1252", "PYTHONUTF8": "0", "LANG": "C"})
    assert run.code == 0
    assert run.err == ""


def test_a_module_of_the_users_that_stands_in_front_of_ours_is_named(exp: Any, project: Path) -> None:
    (project / "tasks.py").write_text("print('loaded')\n")
    run = exp("list", env={"PYTHONPATH": str(project)})
    assert run.code == 64
    assert "tasks.py" in run.err
    assert "loaded" not in run.out
