"""A resume of something that has changed: refused by the name of what changed, before anything is called or written."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from faces.cli.main import call

AGENT = """
import os, sys
import helper
with open("ledger", "a") as ledger:
    ledger.write(os.environ["FAIRTRIAL_CASE_ID"] + "\\n")
print(helper.answer(sys.stdin.read()))
"""

SPEC: dict[str, Any] = {
    "name": "six of ten",
    "dataset": "ten.jsonl",
    "task": {"kind": "command", "command": [sys.executable, "-E", "agent.py"], "env": {"MODEL": "small-1"}},
    "graders": [{"kind": "exact"}, {"kind": "regex", "pattern": "^yes"}, {"kind": "python", "path": "grading/fair.py"}],
    "seed": 1,
}


def write(project: Path, spec: dict[str, Any]) -> None:
    (project / "spec.json").write_text(json.dumps(spec))


def edit(name: str, old: str, new: str) -> Callable[[Path], None]:
    def change(project: Path) -> None:
        path = project / name
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new, 1))

    return change


def spec_with(**changes: Any) -> Callable[[Path], None]:
    return lambda project: write(project, SPEC | changes)


def task_with(**changes: Any) -> Callable[[Path], None]:
    return spec_with(task=SPEC["task"] | changes)


REFUSED: dict[str, Callable[[Path], None]] = {
    "dataset: case c03 (expected)": edit(
        "ten.jsonl", '"c03", "input": "3", "expected": "yes"', '"c03", "input": "3", "expected": "yez"'
    ),
    "dataset: case c03 (input)": edit("ten.jsonl", '"c03", "input": "3"', '"c03", "input": "three"'),
    "dataset: case c10 (gone)": edit("ten.jsonl", '{"id": "c10", "input": "10", "expected": "yes"}\n', ""),
    "dataset: case c11 (new)": edit(
        "ten.jsonl", '{"id": "c10"', '{"id": "c11", "input": "11", "expected": "yes"}\n{"id": "c10"'
    ),
    "grader 2 (pattern)": spec_with(
        graders=[SPEC["graders"][0], {"kind": "regex", "pattern": "^ye"}, SPEC["graders"][2]]
    ),
    "grader 3 (file grading/rules.py)": edit("grading/rules.py", "1.0", "0.9"),
    "graders (3 → 2)": spec_with(graders=SPEC["graders"][:2]),
    "file helper.py": edit("helper.py", "yes", "Yes"),
    "file agent.py": edit("agent.py", "import os, sys", "import sys, os"),
    "env MODEL": task_with(env={"MODEL": "large-2"}),
    "command": task_with(command=[sys.executable, "-E", "-s", "agent.py"]),
    "stdin": task_with(stdin="json"),
    "limits.trial_timeout_s": spec_with(limits={"trial_timeout_s": 30}),
    "trials (1 → 2)": spec_with(trials=2),
    "seed (1 → 2)": spec_with(seed=2),
}

ACCEPTED: dict[str, Callable[[Path], None]] = {
    "a default written out": spec_with(trials=1, limits={"retries": 3}),
    "other retries": spec_with(limits={"retries": 9}),
    "keys in another order": lambda project: write(project, dict(reversed(SPEC.items()))),
    "another description": spec_with(description="the same"),
    "rows spelt otherwise": edit(
        "ten.jsonl", '{"id": "c03", "input": "3", "expected": "yes"}', '{"expected":"yes","input":"3","id":"c03"}'
    ),
}


def lay_out(project: Path) -> None:
    rows = [{"id": f"c{n:02d}", "input": f"{n}", "expected": "yes"} for n in range(1, 11)]
    (project / "ten.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (project / "agent.py").write_text(AGENT)
    (project / "helper.py").write_text("def answer(text):\n    return 'yes'\n")
    grading = project / "grading"
    grading.mkdir(exist_ok=True)
    (grading / "fair.py").write_text("import rules\n\ndef grade(output, case):\n    return rules.score(output)\n")
    (grading / "rules.py").write_text("def score(output):\n    return 1.0 if output.strip() else 0.0\n")
    write(project, SPEC)


def tree(folder: Path) -> dict[str, str]:
    """Return the content of every file of the store; an index or an empty log is a helper of SQLite's."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        and not path.name.endswith("-shm")
        and not (path.name.endswith("-wal") and not path.stat().st_size)
    }


@pytest.fixture
def six_of_ten(exp: Any, project: Path) -> Any:
    """A run of which six of ten cases are done: what a kill leaves, without the kill. Returns its whole verdict."""
    lay_out(project)
    first = exp("run", "spec.json", "--json", "-q", server=True)
    assert first.code == 0, first.err
    _forget(project, "c07", "c08", "c09", "c10")
    (project / "ledger").unlink()
    return first.json["body"]


@pytest.mark.prefect
def test_k06_k09_what_changed_is_named_nothing_is_called_and_the_store_is_byte_identical(
    six_of_ten: Any, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = tree(project / ".fairtrial")
    for named, change in REFUSED.items():
        change(project)
        # In this process: a refusal needs no Prefect, and a start of Python each would take most of a minute.
        assert call(["run", "spec.json", "--resume"]) == 64, named
        said = capsys.readouterr().err
        assert "cannot be resumed" in said, named
        assert named in said
        assert tree(project / ".fairtrial") == before, named
        assert not (project / "ledger").exists(), named
        lay_out(project)


@pytest.mark.prefect
@pytest.mark.parametrize("harmless", ACCEPTED)
def test_k07_what_is_not_measured_may_change_also_the_folder_of_the_project(
    exp: Any, project: Path, six_of_ten: Any, harmless: str
) -> None:
    moved = project.parent / "moved"
    project.rename(moved)
    ACCEPTED[harmless](moved)
    home = {"FAIRTRIAL_HOME": str(moved / ".fairtrial")}
    run = exp("run", "spec.json", "--resume", "--concurrency", "3", "--json", "-q", server=True, cwd=moved, env=home)
    assert run.code == 0, run.err
    assert run.json["body"] == six_of_ten
    assert sorted((moved / "ledger").read_text().split()) == ["c07", "c08", "c09", "c10"]
    moved.rename(project)


def _forget(project: Path, *cases: str) -> None:
    import sqlite3

    connection = sqlite3.connect(project / ".fairtrial" / "fairtrial.db")
    for table in ("trial", "trial_output", "grade", "attempt"):
        connection.executemany(f"delete from {table} where case_id = ?", [(case,) for case in cases])
    connection.execute("update summary set n_done = 6, n_graded = 6, n_passed = 6")
    connection.execute("update experiment set state = 'running', finished_at = null")
    connection.commit()
    connection.execute("pragma wal_checkpoint(truncate)")
    connection.close()
