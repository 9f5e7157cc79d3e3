"""Which files count as code, and when their version changes."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path

import pytest

from fairtrial.errors import InputError, SpecError
from fairtrial.spec.models import CommandTask, RecordedTask
from fairtrial.subjects.build import TaskVersion, task_version
from fairtrial.subjects.code_files import MAX_FILES, CodeVersion, code_version


def write(folder: Path, *names: str, text: str = "x") -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def names(version: CodeVersion) -> list[str]:
    return [name for name, _ in version.files]


def default(folder: Path, *words: str, cwd: Path | None = None) -> CodeVersion:
    return code_version(None, folder=folder, named=words, cwd=cwd)


def test_the_default_is_named_files_and_those_of_their_suffix_below(tmp_path: Path) -> None:
    write(
        tmp_path, "agent.py", "lib/helper.py", "lib/deep/more.py", "notes.md", "prompts/plain.md", "data.txt", "top.md"
    )
    assert names(default(tmp_path, "python", "agent.py")) == ["agent.py", "lib/deep/more.py", "lib/helper.py"]
    assert names(default(tmp_path, "python", "lib/helper.py")) == ["lib/deep/more.py", "lib/helper.py"]
    assert names(default(tmp_path, "x", "--prompt=prompts/plain.md")) == ["prompts/plain.md"]
    assert names(default(tmp_path, "agent", "--verbose", "not a file", "")) == []
    assert dict(default(tmp_path, "data.txt").files) == {"data.txt": hashlib.sha256(b"x").hexdigest()}


def test_foreign_folders_are_skipped_whatever_the_pattern(tmp_path: Path) -> None:
    skipped = [".git/a.py", ".venv/a.py", "node_modules/a.py", ".fairtrial/a.py", "__pycache__/a.py", "env/lib/a.py"]
    write(tmp_path, "a.py", "sub/.venv/a.py", "sub/b.py", *skipped)
    write(tmp_path, "env/pyvenv.cfg")
    assert names(default(tmp_path, "a.py")) == ["a.py", "sub/b.py"]
    assert names(code_version(["**/*.py"], folder=tmp_path, named=[])) == ["a.py", "sub/b.py"]
    assert names(code_version(["**"], folder=tmp_path, named=[])) == ["a.py", "sub/b.py"]


def test_a_skipped_name_above_the_project_does_not_hide_it(tmp_path: Path) -> None:
    project = tmp_path / "node_modules" / "project"
    write(project, "a.js", "lib/b.js")
    assert names(default(project, "a.js")) == ["a.js", "lib/b.js"]


def test_a_program_of_an_environment_is_not_code(tmp_path: Path) -> None:
    write(tmp_path, ".venv/bin/python", "myenv/bin/python", "myenv/pyvenv.cfg", "agent.py")
    assert names(default(tmp_path, ".venv/bin/python", "myenv/bin/python", "agent.py")) == ["agent.py"]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("*.py", ["a.py", "b.py"]),
        ("?.py", ["a.py", "b.py"]),
        ("[ac]*", ["a.py", "c.txt"]),
        ("[!a].*", ["b.py", "c.txt"]),
        ("sub/*", ["sub/d.py"]),
        ("**/*.py", ["a.py", "b.py", "sub/d.py", "sub/deep/e.py"]),
        ("sub/**", ["sub/d.py", "sub/deep/e.py"]),
        ("sub/**/e.py", ["sub/deep/e.py"]),
        ("**/deep/*", ["sub/deep/e.py"]),
        ("./a.py", ["a.py"]),
        ("sub/../a.py", ["a.py"]),
        (".hid*", [".hidden.py"]),
        ("x(1)+.md", ["x(1)+.md"]),
    ],
)
def test_globs(tmp_path: Path, pattern: str, expected: list[str]) -> None:
    write(tmp_path, "a.py", "b.py", "c.txt", "sub/d.py", "sub/deep/e.py", ".hidden.py", "x(1)+.md")
    assert names(code_version([pattern], folder=tmp_path, named=["ignored.py"])) == expected


def test_a_glob_that_matches_nothing_is_refused(tmp_path: Path) -> None:
    write(tmp_path, "a.py")
    for pattern in ("*.js", "gone.py", "**/x/*"):
        with pytest.raises(SpecError, match="matches no file"):
            code_version([pattern], folder=tmp_path, named=[])


def test_files_outside_the_folder_are_seen_from_it(tmp_path: Path) -> None:
    write(tmp_path, "shared/lib.py", "project/a.py")
    project = tmp_path / "project"
    assert names(code_version(["../shared/*.py", "a.py"], folder=project, named=[])) == ["../shared/lib.py", "a.py"]
    absolute = code_version([str(tmp_path / "shared" / "*.py"), "a.py"], folder=project, named=[])
    assert absolute == code_version(["../shared/*.py", "a.py"], folder=project, named=[])


def test_k93_every_spelling_of_a_path_gives_the_same_version(tmp_path: Path) -> None:
    folder = tmp_path / "ein ördner 🦊"
    write(folder, "g.py", "sub/h.py")
    (tmp_path / "link").symlink_to(folder)
    spellings = ["g.py", "./g.py", "sub/../g.py", str(folder / "g.py"), str(tmp_path / "link" / "g.py")]
    versions = {default(folder, spelling) for spelling in spellings}
    versions |= {default(tmp_path / "link", "g.py"), default(folder, "../g.py", cwd=folder / "sub")}
    assert len(versions) == 1


def test_the_project_in_another_place_is_the_same_code(tmp_path: Path) -> None:
    for place in ("one", "two/three"):
        write(tmp_path / place, "agent.py", "lib/helper.py")
    assert default(tmp_path / "one", "agent.py") == default(tmp_path / "two/three", "agent.py")


def test_links_are_read_through_for_files_and_not_entered_for_folders(tmp_path: Path) -> None:
    project = tmp_path / "project"
    write(tmp_path, "outside/real.py", text="one")
    write(project, "a.py")
    (project / "linked.py").symlink_to(tmp_path / "outside" / "real.py")
    (project / "loop").symlink_to(project)
    (project / "away").symlink_to(tmp_path / "outside")
    (project / "broken.py").symlink_to(project / "gone")
    before = default(project, "a.py")
    assert names(before) == ["a.py", "linked.py"]
    write(tmp_path, "outside/real.py", text="two")
    assert default(project, "a.py").hash != before.hash


def test_what_is_no_regular_file_never_holds_the_reader(tmp_path: Path) -> None:
    write(tmp_path, "a.py")
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "zero.py").symlink_to("/dev/zero")
    assert names(default(tmp_path, "a.py", "pipe.py", "zero.py")) == ["a.py"]


def test_an_unreadable_file_counts_by_its_name_and_is_refused_in_a_glob(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "a.py", "secret.py")
    if os.getuid() == 0:
        # Root reads everything; /proc/self/mem is a regular file that no one can read at its beginning.
        (tmp_path / "secret.py").unlink()
        (tmp_path / "secret.py").symlink_to("/proc/self/mem")
    else:
        (tmp_path / "secret.py").chmod(0)
    version = default(tmp_path, "a.py")
    assert dict(version.files)["secret.py"] == "unreadable"
    with pytest.raises(SpecError, match=r'"secret\.py" cannot be read'):
        code_version(["*.py"], folder=tmp_path, named=[])


def test_more_files_than_the_limit_are_refused_with_what_to_do(tmp_path: Path) -> None:
    write(tmp_path, "a.py", *(f"many/{n}.py" for n in range(MAX_FILES)))
    with pytest.raises(SpecError, match=r'more than 2,000 files .* Name the ones that matter in "files"'):
        default(tmp_path, "a.py")
    assert len(code_version(["many/*.py"], folder=tmp_path, named=[]).files) == MAX_FILES
    began = time.monotonic()
    code_version(["many/*.py"], folder=tmp_path, named=[])
    assert time.monotonic() - began < 2


def version_of(folder: Path, **task: object) -> TaskVersion:
    return task_version(CommandTask.model_validate({"kind": "command", **task}), folder=folder)


def changed(before: TaskVersion, after: TaskVersion) -> set[str]:
    assert (before.hash == after.hash) == (before.parts == after.parts)
    return {name for name in before.parts | after.parts if before.parts.get(name) != after.parts.get(name)}


def test_k06_a_changed_helper_is_named(tmp_path: Path) -> None:
    write(tmp_path, "agent.py", "helper.py")
    before = version_of(tmp_path, command=["python", "agent.py"])
    write(tmp_path, "helper.py", text="edited")
    write(tmp_path, "new.py")
    assert changed(before, version_of(tmp_path, command=["python", "agent.py"])) == {"file helper.py", "file new.py"}


def test_k06_a_shell_line_names_its_files_too(tmp_path: Path) -> None:
    write(tmp_path, "agent.mjs", "lib.mjs")
    before = version_of(tmp_path, command="node 'agent.mjs' --x | tee \"log")
    write(tmp_path, "lib.mjs", text="edited")
    assert changed(before, version_of(tmp_path, command="node 'agent.mjs' --x | tee \"log")) == set()
    before = version_of(tmp_path, command="node 'agent.mjs' | cat")
    write(tmp_path, "lib.mjs", text="edited again")
    assert changed(before, version_of(tmp_path, command="node 'agent.mjs' | cat")) == {"file lib.mjs"}


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"env": {"MODEL": "big", "KEY": {"from_env": "KEY"}}}, {"env MODEL"}),
        ({"env": {"MODEL": "small", "KEY": {"from_env": "OTHER"}}}, {"env KEY"}),
        ({"env": {"MODEL": "small"}}, {"env KEY"}),
        ({"stdin": "json"}, {"stdin"}),
        # The word agent.py now names another file.
        ({"cwd": "sub"}, {"cwd", "command"}),
        ({"command": ["python", "agent.py", "-v"]}, {"command"}),
    ],
)
def test_k06_each_change_is_named(tmp_path: Path, changes: dict[str, object], parts: set[str]) -> None:
    (tmp_path / "sub").mkdir()
    write(tmp_path, "sub/agent.py", "agent.py")
    task = {"command": ["python", "agent.py"], "env": {"MODEL": "small", "KEY": {"from_env": "KEY"}}}
    found = changed(version_of(tmp_path, **task), version_of(tmp_path, **{**task, **changes}))
    files = {"file sub/agent.py", "file agent.py"}
    assert found - files == parts


def test_k07_written_defaults_order_and_spelling_change_nothing(tmp_path: Path) -> None:
    write(tmp_path, "agent.py")
    plain = version_of(tmp_path, command=["python", "agent.py", "--conf=agent.py"], env={"A": "1", "B": "2"})
    spelled = version_of(
        tmp_path,
        cwd=".",
        stdin="text",
        files=None,
        env={"B": "2", "A": "1"},
        command=["python", str(tmp_path / "agent.py"), "--conf=./agent.py"],
    )
    assert spelled == plain
    assert version_of(tmp_path, command=["python", "./agent.py", "--conf=agent.py"], files=["*.py"]).hash != plain.hash


def test_an_interpreter_by_its_path_brings_no_files(tmp_path: Path) -> None:
    write(tmp_path / "elsewhere", "tool.py", "other.py")
    write(tmp_path / "project", "agent.py", "run.sh")
    version = version_of(tmp_path / "project", command=[str(tmp_path / "elsewhere" / "tool.py"), "agent.py"])
    assert {name for name in version.parts if name.startswith("file")} == {"file agent.py"}
    own = version_of(tmp_path / "project", command=["./run.sh"])
    assert "file run.sh" in own.parts


def test_the_value_of_a_secret_is_in_no_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    versions = set()
    for value in ("one", "two"):
        monkeypatch.setenv("THE_KEY", value)
        versions.add(version_of(tmp_path, command="true", env={"KEY": {"from_env": "THE_KEY"}}).hash)
    assert len(versions) == 1


def test_k06_a_recorded_file_is_known_by_its_content(tmp_path: Path) -> None:
    write(tmp_path, "a.jsonl", "b.jsonl", text='{"id": "a", "output": "x"}\n')

    def version(path: str = "a.jsonl", **task: object) -> TaskVersion:
        return task_version(RecordedTask.model_validate({"kind": "recorded", "path": path, **task}), folder=tmp_path)

    before = version()
    assert version("b.jsonl") == version(id="id") == before
    assert changed(before, version(output="text")) == {"field output"}
    write(tmp_path, "a.jsonl", text='{"id": "a", "output": "y"}\n')
    assert changed(before, version()) == {"recording"}
    with pytest.raises(InputError, match="cannot be read"):
        version("gone.jsonl")
