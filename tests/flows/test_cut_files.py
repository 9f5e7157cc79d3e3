"""The end of any one file of the store is gone: every command works, or names that file in one clear error."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.prefect, pytest.mark.fire]

CUTS = (1, 7, None)
"""Bytes cut off the end; 7 is the cut of case K02, None is all of them."""

# One process for all the commands: they are the same calls that `exp` makes, without an interpreter for each.
READER = """
import contextlib, io, json, os, sys
from faces.cli.main import call
for line in sys.stdin:
    home, arguments = json.loads(line)
    os.environ["FAIRTRIAL_HOME"] = home
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = call(arguments)
    print(json.dumps([code, out.getvalue(), err.getvalue()]), flush=True)
"""


@pytest.fixture(scope="module")
def finished(make_fire: Any) -> Any:
    """A store with two finished runs that share no answer; `one` has its longer outputs in the object store."""
    fire = make_fire()
    fire.write(4, pause_s=0.0, size=9_000, graders=({"kind": "regex", "pattern": "^yes"},))
    first = fire.start("run", *fire.arms, "--json")
    assert first.wait() == 0, first.err
    fire.one = first.json["meta"]["experiments"][0]
    (fire.folder / "size").write_text("0")
    second = fire.start("run", "cand.json", "--json")
    assert second.wait() == 0, second.err
    fire.other = second.json["meta"]["experiments"][0]
    return fire


def test_r04_k02_whatever_object_is_cut_commands_work_or_name_it_and_nothing_else_is_lost(
    finished: Any, tmp_path: Path
) -> None:
    files = [path for path in files_of(finished.home) if not path.name.startswith("fairtrial.db")]
    # By hand: .gitignore, the dataset, eight outputs, and of two runs the plan, the verdict and the report.
    assert len(files) >= 16
    complaints = complaints_of(finished, files, tmp_path)
    assert not complaints, "\n".join(complaints)


def test_r04_a_database_that_was_cut_is_named(finished: Any, tmp_path: Path) -> None:
    files = [path for path in files_of(finished.home) if path.name.startswith("fairtrial.db")]
    complaints = complaints_of(finished, files, tmp_path)
    assert not complaints, "\n".join(complaints)


def files_of(home: Path) -> list[Path]:
    return sorted(path.relative_to(home) for path in home.rglob("*") if path.is_file())


def complaints_of(finished: Any, files: list[Path], tmp_path: Path) -> list[str]:
    """Return what the reading commands do wrong, in words, with each of these files cut in each way."""
    one, other = finished.one, finished.other
    commands = [["list", "--json"], ["show", one], ["compare", one, "--json"], ["trials", one, "--json"]]
    commands += [["show", other]]
    cuts = [(path, cut) for path in files for cut in CUTS]
    asked = [(str(finished.home), command) for command in commands]
    for number, (path, cut) in enumerate(cuts):
        home = tmp_path / f"cut-{number}"
        shutil.copytree(finished.home, home)
        size = (home / path).stat().st_size
        os.truncate(home / path, 0 if cut is None else max(size - cut, 0))
        asked += [(str(home), command) for command in commands]
    answers = read_all(asked, finished)
    whole, answers = answers[: len(commands)], answers[len(commands) :]
    assert [code for code, _, _ in whole] == [0] * len(commands), whole
    complaints = []
    for index, (code, out, err) in enumerate(answers):
        (path, cut), command = cuts[index // len(commands)], commands[index % len(commands)]
        what = f"{path} cut by {cut or 'all'}: exp {' '.join(command)}: {code} {err.strip()[:300]}"
        # A comparison is made anew each time, with another date.
        if code == 0 and command[0] != "compare" and not same(out, whole[index % len(commands)][1]):
            complaints.append(f"{what} … says something else without a word")
        if code and ("Traceback" in err or "fault of ours" in err or err.count("error:") != 1 or path.name not in err):
            complaints.append(what)
        if code and command == ["show", other] and other not in str(path) and path.name != "fairtrial.db":
            complaints.append(f"{what} … and it is not its own")
    return complaints


def read_all(asked: list[tuple[str, list[str]]], finished: Any) -> list[tuple[int, str, str]]:
    done = subprocess.run(
        [sys.executable, "-c", READER],
        input="".join(json.dumps(each) + "\n" for each in asked).encode(),
        cwd=finished.folder,
        env=dict(os.environ),
        capture_output=True,
        timeout=240,
        check=True,
    )
    assert done.stderr == b""
    return [tuple(json.loads(line)) for line in done.stdout.splitlines()]


def same(now: str, before: str) -> bool:
    """Compare two outputs but for the folder they were read from."""
    return re.sub(r"/\S+/objects/", "", now) == re.sub(r"/\S+/objects/", "", before)
