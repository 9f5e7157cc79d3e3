"""The files that count as the code of a task or grader: which they are, and one hash of what stands in them.

Names are relative to the spec's folder, so another spelling of a path, or the project in another place, is the same
code. A file that running the task writes must not be among them, or no resume would ever be accepted.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fairtrial.errors import SpecError
from fairtrial.hashing import content_hash

MAX_FILES: Final = 2_000
SKIPPED: Final = frozenset({".git", ".venv", "node_modules", ".fairtrial", "__pycache__"})
"""Folders never entered: other people's code, our own state, and what Python writes while the task runs."""

# A folder this large is not one task's code; walking on would only delay the message.
_MAX_FOLDERS: Final = 20_000
_VENV: Final = "pyvenv.cfg"
UNREADABLE: Final = "unreadable"
_WILD: Final = re.compile(r"[*?\[]")


@dataclass(frozen=True, slots=True)
class CodeVersion:
    """hash is over `files`: pairs of path relative to the spec's folder, with slashes, and sha256 hex, in path order.

    A file that cannot be read has the text `unreadable` for its sha256.
    """

    hash: str
    files: tuple[tuple[str, str], ...]


def code_version(
    patterns: Sequence[str] | None, *, folder: Path, named: Sequence[str], cwd: Path | None = None
) -> CodeVersion:
    """Return the version of the code in `folder`.

    patterns  globs relative to `folder`; None for the default: the files that `named` names, and the files of the
              same suffix in and below the folder of each
    named     words of a command, or paths; a word that names no file is left out
    cwd       where relative names start, `folder` when None
    Raises SpecError for a glob that matches no file, for a file of a glob that cannot be read, and above MAX_FILES.
    """
    if patterns is None:
        paths = _default_files(named_files(named, cwd=cwd or folder), folder)
    else:
        paths = {path for pattern in patterns for path in _matches(pattern, folder)}
    hashed = [(relative_name(path, folder), sha256_of_file(path)) for path in _at_most_max(paths)]
    unreadable = [name for name, digest in hashed if digest == UNREADABLE]
    if patterns is not None and unreadable:
        raise SpecError(f'the code file "{sorted(unreadable)[0]}" cannot be read.', hint='Leave it out of "files".')
    files = tuple(sorted(hashed))
    return CodeVersion(content_hash([list(pair) for pair in files]), files)


def named_files(words: Iterable[str], *, cwd: Path) -> list[Path]:
    """Return the regular files that words of a command name; of `--key=path` the part behind the sign."""
    found = []
    for word in words:
        for name in (word, word.partition("=")[2]):
            if name and "\0" not in name and _is_regular(cwd / name):
                found.append(cwd / name)
                break
    return found


def relative_name(path: Path, folder: Path) -> str:
    """Return `path` seen from `folder`, with slashes: the same for every spelling of the path.

    Links in the folders above are followed, the last part of the path is not: it may be a link that was renamed.
    """
    inside = _real_parent(path)
    return Path(os.path.relpath(inside, folder.resolve())).as_posix()


def sha256_of_file(path: Path) -> str:
    """Return the sha256 hex of a file's bytes, UNREADABLE when it cannot be read."""
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError:
        return UNREADABLE


def _default_files(named: Sequence[Path], folder: Path) -> set[Path]:
    paths = set()
    for path in named:
        real = _real_parent(path)
        if (
            any(part in SKIPPED for part in relative_name(path, folder).split("/"))
            or (real.parent.parent / _VENV).exists()
        ):
            # A program of an installed environment, not code of the project.
            continue
        paths.add(real)
        if real.suffix:
            paths |= {found for found in _walk(real.parent) if found.suffix == real.suffix}
        _at_most_max(paths)
    return paths


def _matches(pattern: str, folder: Path) -> set[Path]:
    """Return the files that a glob names: `*` stays inside a name, `**` crosses folders, neither takes a dot first."""
    parts = Path(pattern).parts
    n_fixed = next((index for index, part in enumerate(parts) if _WILD.search(part)), len(parts))
    base = folder.joinpath(*parts[:n_fixed])
    if n_fixed == len(parts):
        found = {_real_parent(base)} if _is_regular(base) else set()
    else:
        wanted = re.compile(_glob_regex(parts[n_fixed:]))
        real = base.resolve()
        found = {path for path in _walk(real) if wanted.fullmatch(path.relative_to(real).as_posix())}
    if not found:
        raise SpecError(f'"{pattern}" matches no file.', hint=f"Globs start from {folder}.", place="files")
    return found


def _glob_regex(parts: Sequence[str]) -> str:
    pieces = []
    for part in parts[:-1]:
        pieces.append(r"(?:[^/.][^/]*/)*" if part == "**" else _name_regex(part) + "/")
    last = parts[-1]
    # A last "**" means every file below.
    pieces.append(r"(?:[^/.][^/]*/)*[^/.][^/]*" if last == "**" else _name_regex(last))
    return "".join(pieces)


def _name_regex(part: str) -> str:
    pieces = re.split(r"(\*+|\?|\[!?[^\]]+\])", part)
    regex = "" if part.startswith(".") else r"(?!\.)"
    for index, piece in enumerate(pieces):
        if index % 2 == 0:
            regex += re.escape(piece)
        elif piece.startswith("["):
            inside = piece[1:-1].replace("\\", r"\\").replace("[", r"\[")
            regex += "[" + ("^/" + inside[1:] if inside.startswith("!") else inside.replace("^", r"\^")) + "]"
        else:
            regex += "[^/]" if piece == "?" else "[^/]*"
    return regex


def _walk(top: Path) -> Iterator[Path]:
    """Yield the regular files below `top`. Links to files are read through, links to folders are not entered."""
    waiting, n_folders = [str(top)], 0
    while waiting:
        n_folders += 1
        if n_folders > _MAX_FOLDERS:
            raise SpecError(
                f"there are more than {_MAX_FOLDERS:,} folders below {top}.",
                hint='Name the files that are the code in "files", or put the task into a folder of its own.',
            )
        try:
            entries = list(os.scandir(waiting.pop()))
        except OSError:
            continue
        if any(entry.name == _VENV for entry in entries):
            continue
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in SKIPPED:
                    waiting.append(entry.path)
            elif _is_regular(Path(entry.path)):
                yield Path(entry.path)


def _at_most_max(paths: set[Path]) -> set[Path]:
    if len(paths) > MAX_FILES:
        raise SpecError(
            f"more than {MAX_FILES:,} files would count as code, among them {min(paths)}.",
            hint='Name the ones that matter in "files".',
        )
    return paths


def _real_parent(path: Path) -> Path:
    return path.parent.resolve() / path.name


def _is_regular(path: Path) -> bool:
    # A pipe or device would hold the reader for ever.
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except (OSError, ValueError):
        return False
