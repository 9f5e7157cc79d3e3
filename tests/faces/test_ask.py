"""Flags become part of the spec before anything is compared or checked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from faces.cli.ask import RunFlags, ask
from faces.cli.store import Store
from fairtrial.errors import FairtrialError
from fairtrial.store.database import open_database, sqlite_url
from fairtrial.store.objects import ObjectStore


@pytest.fixture
def asked(project: Path) -> Any:
    """Ask with two arms whose specs lie in folders of their own."""
    for folder in ("one", "two"):
        (project / folder).mkdir()
        spec = {
            "dataset": "cases.jsonl",
            "task": {"kind": "command", "command": ["cat"]},
            "graders": [{"kind": "exact"}],
        }
        (project / folder / "s.json").write_text(json.dumps(spec))
    (project / "cases.jsonl").write_text('{"id": "a", "input": "x", "expected": "x"}\n')
    (project / ".fairtrial").mkdir()
    store = Store(
        open_database(sqlite_url(project / ".fairtrial" / "fairtrial.db")), ObjectStore(str(project / "objects"))
    )

    def call(**flags: Any) -> Any:
        nothing = dict.fromkeys(RunFlags.__slots__)
        given = {**nothing, "arms": ("a=one/s.json", "b=two/s.json"), "graders": (), "cases": (), **flags}
        return ask(RunFlags(**given), store)

    return call


def test_d_replaces_the_dataset_of_every_arm_before_they_are_compared(asked: Any) -> None:
    assert [case.id for case in asked(dataset="cases.jsonl").dataset.cases] == ["a"]
    with pytest.raises(FairtrialError, match="dataset"):
        asked()


def test_a_grader_from_the_command_line_starts_here_for_every_arm(asked: Any, project: Path) -> None:
    (project / "g.py").write_text("def grade(output, case):\n    return 1\n")
    graders = ('{"kind": "python", "path": "g.py"}', '{"kind": "command", "command": ["cat"]}')
    specs = [arm.loaded.spec for arm in asked(dataset="cases.jsonl", graders=graders).arms]
    assert specs[0].graders == specs[1].graders
    assert (specs[0].graders[0].path, specs[0].graders[1].cwd) == (str(project / "g.py"), str(project))


@pytest.mark.parametrize(
    "flags",
    [
        {"trials": 0},
        {"graders": ('{"kind": "exact", "name": "g"}', '{"kind": "iexact", "name": "g"}')},
        {"graders": ('{"kind": "regex", "pattern": "x", "secret": "sk-12345"}',)},
    ],
)
def test_what_flags_get_wrong_is_one_error_of_ours_without_the_values(asked: Any, flags: Any) -> None:
    with pytest.raises(FairtrialError) as caught:
        asked(dataset="cases.jsonl", **flags)
    assert caught.value.exit_status == 64
    assert "sk-12345" not in str(caught.value)
