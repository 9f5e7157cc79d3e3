"""The version of a task: what is in it, what is not, and that it is the documented hash."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairtrial.errors import SpecError
from fairtrial.spec.models import CommandTask, RecordedTask
from fairtrial.subjects.build import TaskVersion, task_version


def version_of(folder: Path, **task: object) -> TaskVersion:
    return task_version(CommandTask.model_validate({"kind": "command", **task}), folder=folder)


def sha256_of_json(value: Any) -> str:
    """By the standard library alone, as docs/subjects.md states it; ASCII values only."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def test_the_hash_and_the_parts_are_the_documented_ones(tmp_path: Path) -> None:
    """A stored version must be found again by every later release, or no resume would be accepted."""
    (tmp_path / "agent.py").write_text("print(1)\n")
    version = version_of(tmp_path, command=["python3", "agent.py"], env={"MODEL": "m", "KEY": {"from_env": "K"}})
    assert version.parts == {
        "command": sha256_of_json(["python3", "agent.py"]),
        "cwd": sha256_of_json("."),
        "stdin": sha256_of_json("text"),
        "env MODEL": sha256_of_json("m"),
        "env KEY": sha256_of_json({"from_env": "K"}),
        "file agent.py": hashlib.sha256(b"print(1)\n").hexdigest(),
    }
    assert version.hash == sha256_of_json({"kind": "command", "parts": version.parts})


def test_a_line_for_the_shell_and_the_same_words_as_a_list_are_two_tasks(tmp_path: Path) -> None:
    # The shell would expand what a list passes on as it is.
    assert version_of(tmp_path, command="echo a").hash != version_of(tmp_path, command=["echo", "a"]).hash


def test_a_variable_and_a_secret_of_the_same_text_are_two_tasks(tmp_path: Path) -> None:
    plain = version_of(tmp_path, command="true", env={"A": "B"})
    secret = version_of(tmp_path, command="true", env={"A": {"from_env": "B"}})
    assert plain.hash != secret.hash


def test_a_variable_named_like_another_part_does_not_replace_it(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x")
    version = version_of(tmp_path, command=["python", "a.py"], env={"command": "1", "cwd": "2", "file a.py": "3"})
    assert set(version.parts) == {"command", "cwd", "stdin", "env command", "env cwd", "env file a.py", "file a.py"}


@pytest.mark.parametrize(
    "name",
    ["eval data/q.py", "ördner/é.py", "e\u0301.py", "🦊/a.py", "C:\\eval data\\q.py", "-rf.py", "a=b.py", "$x.py"],
)
def test_k93_odd_names_are_hashed_under_their_own_name_however_they_are_spelled(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("x")
    versions = {
        version_of(tmp_path, command=["python3", spelled]).hash
        for spelled in (name, f"./{name}", str(path), f"{tmp_path}/./{name}")
    }
    assert len(versions) == 1
    assert f"file {name}" in version_of(tmp_path, command=["python3", name]).parts


def test_k93_a_path_of_300_characters(tmp_path: Path) -> None:
    name = "/".join(["f" * 59] * 5) + ".py"
    path = tmp_path / name
    path.parent.mkdir(parents=True)
    path.write_text("x")
    assert len(name) == 302
    version = version_of(tmp_path, command=["python3", str(path)])
    assert version == version_of(tmp_path, command=["python3", name])
    assert f"file {name}" in version.parts


def test_an_interpreter_of_another_place_is_told_apart_by_its_path(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    for name in ("one", "two"):
        (tmp_path / name).write_text("same bytes")
    one, two = (version_of(tmp_path / "project", command=[str(tmp_path / name)]) for name in ("one", "two"))
    assert {name for name in one.parts if one.parts[name] != two.parts[name]} == {"command"}


def test_a_folder_in_the_command_is_a_word_and_no_code(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").write_text("x")
    assert set(version_of(tmp_path, command=["python3", "src"]).parts) == {"command", "cwd", "stdin"}


def test_files_left_out_of_the_globs_do_not_count_even_when_named(tmp_path: Path) -> None:
    for name in ("agent.py", "log.py"):
        (tmp_path / name).write_text("x")
    task: dict[str, object] = {"command": ["python3", "agent.py", "log.py"], "files": ["agent.py"]}
    before = version_of(tmp_path, **task)
    (tmp_path / "log.py").write_text("written by the task")
    assert version_of(tmp_path, **task) == before


def test_a_glob_without_a_match_is_refused_with_its_key(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r'files: "\*\.js" matches no file'):
        version_of(tmp_path, command="true", files=["*.js"])


def test_recorded_answers_name_every_field_that_is_read(tmp_path: Path) -> None:
    data = b'{"id": "a", "output": "x"}\n'
    (tmp_path / "a.jsonl").write_bytes(data)
    task = RecordedTask(kind="recorded", path="a.jsonl", cost_usd="price")
    version = task_version(task, folder=tmp_path)
    expected = {f"field {name}": sha256_of_json(None) for name in RecordedTask.model_fields} | {
        "recording": hashlib.sha256(data).hexdigest(),
        "field id": sha256_of_json("id"),
        "field output": sha256_of_json("output"),
        "field cost_usd": sha256_of_json("price"),
    }
    del expected["field kind"], expected["field path"]
    assert version.parts == expected
    assert version.hash == sha256_of_json({"kind": "recorded", "parts": expected})


# No NUL and no half pair: a spec refuses them in a command (tests of the spec).
WORDS = st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8), max_size=4)


@given(WORDS, WORDS)
def test_other_words_are_another_version_and_the_same_words_the_same(
    tmp_path_factory: pytest.TempPathFactory, a: list[str], b: list[str]
) -> None:
    folder = tmp_path_factory.getbasetemp()
    one, other, again = (version_of(folder, command=["prog", *words]) for words in (a, b, [*a]))
    assert (one.hash == other.hash) == (a == b)
    assert one == again
