"""What a task is, as one hash and as named parts: a resume that is refused says which part changed.

Only what is measured is in it: defaults written out, key order and the spelling of a path change nothing, and the
value of a `from_env` is never looked at.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fairtrial.errors import InputError
from fairtrial.hashing import JsonValue, content_hash
from fairtrial.spec.models import CommandTask, FromEnv, RecordedTask
from fairtrial.subjects.code_files import UNREADABLE, code_version, named_files, relative_name, sha256_of_file


@dataclass(frozen=True, slots=True)
class TaskVersion:
    """hash changes exactly when a part does; parts maps a name for people (`file agent.py`) to a digest."""

    hash: str
    parts: dict[str, str] = field(default_factory=dict)


def task_version(task: CommandTask | RecordedTask, *, folder: Path) -> TaskVersion:
    """Return the version of a task whose spec stands in `folder`. Raises SpecError as code_version does."""
    if isinstance(task, RecordedTask):
        parts = _recorded_parts(task, folder)
    else:
        parts = command_parts(task.command, env=task.env, cwd=task.cwd, files=task.files, folder=folder)
        parts["stdin"] = content_hash(task.stdin)
    return TaskVersion(content_hash({"kind": task.kind, "parts": dict(parts)}), parts)


def command_parts(
    command: Sequence[str] | str,
    *,
    env: Mapping[str, str | FromEnv],
    cwd: str | None,
    files: Sequence[str] | None,
    folder: Path,
) -> dict[str, str]:
    """Return the parts of a command: its words, its folder, its variables, and each of its code files."""
    start = folder / cwd if cwd is not None else folder
    words = _words(command)
    # A program given by an absolute path is an interpreter, like one found in PATH, unless it is in the spec's folder.
    own = words[1:] if words and not _is_own_program(words[0], start, folder) else words
    spelled = command if isinstance(command, str) else [_spelled(word, own, start, folder) for word in command]
    parts = {
        "command": content_hash(spelled if isinstance(spelled, str) else list(spelled)),
        "cwd": content_hash(relative_name(start, folder)),
    }
    for name, value in env.items():
        meant: JsonValue = value if isinstance(value, str) else {"from_env": value.from_env}
        parts[f"env {name}"] = content_hash(meant)
    code = code_version(files, folder=folder, named=own, cwd=start)
    return parts | file_parts(code.files)


def file_parts(files: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Return code files as parts of a version."""
    return {f"file {name}": digest for name, digest in files}


def _recorded_parts(task: RecordedTask, folder: Path) -> dict[str, str]:
    recording = sha256_of_file(folder / task.path)
    if recording == UNREADABLE:
        raise InputError("the file with the recordings cannot be read.", place=task.path)
    fields = task.model_dump(exclude={"kind", "path"})
    return {"recording": recording} | {f"field {name}": content_hash(value) for name, value in fields.items()}


def _words(command: Sequence[str] | str) -> list[str]:
    if not isinstance(command, str):
        return list(command)
    try:
        return shlex.split(command)
    except ValueError:
        # The shell will say what is wrong with its quotes; the names in it still count.
        return command.split()


def _is_own_program(program: str, cwd: Path, folder: Path) -> bool:
    return "/" in program and not relative_name(cwd / program, folder).startswith("../")


def _spelled(word: str, own: Sequence[str], cwd: Path, folder: Path) -> str:
    """Return a word of a command, a file name in it written in the one way."""
    found = named_files([word], cwd=cwd) if word in own else []
    if not found:
        return word
    key, sign, _ = word.partition("=")
    name = relative_name(found[0], folder)
    return name if found[0] == cwd / word else f"{key}{sign}{name}"
