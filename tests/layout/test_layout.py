"""House rules about files: their size, their names, what they mention, and who links to whom.

Each rule is a function from (name, content) to complaints; the forged cases show that it complains.
"""

from __future__ import annotations

import ast
import importlib.metadata
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("fairtrial", "stats", "tasks", "flows", "faces", "deployments")
LONGEST = 500

# Where a machine's own folders would show. Spelled apart, so that this file does not name one.
MACHINE_PATH = re.compile(r"(?<![\w.~<{$/-])/(?:home|Users|root|work|mnt|workspace|builds)/" + r"[\w.-]+")
DOWNLOAD = re.compile(
    r"""(?:files\.python"""
    + r"""hosted\.org|(?:extra-)?index-"""
    + r"""url|"resolved":\s*"https?:|registry\.npmjs"""
    + r"""\.org)"""
)
LINK = re.compile(r"\]\(\s*<?([^)\s>#]+)")


def tracked() -> dict[str, bytes]:
    """Return every file that belongs to the project, by its path; what git ignores does not."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("needs git and a clone: the rule is about the files that git knows")
    listed = subprocess.run(
        ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
        timeout=60,
    ).stdout.decode("utf-8")
    paths = [ROOT / name for name in listed.split("\0") if name]
    return {str(path.relative_to(ROOT)): path.read_bytes() for path in paths if path.is_file()}


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    found = tracked()
    # The walk itself must not come back empty: then every rule below would hold.
    assert {"pyproject.toml", "Makefile", "fairtrial/errors.py"} <= set(found)
    return found


def python_in(files: Mapping[str, bytes]) -> dict[str, str]:
    return {name: content.decode("utf-8") for name, content in files.items() if name.endswith(".py")}


def texts_in(files: Mapping[str, bytes]) -> dict[str, str]:
    """Return what can be read as text; recorded data under tests/ comes from outside and may mention anything."""
    found = {}
    for name, content in files.items():
        if b"\0" in content[:8000] or not name.endswith(
            (
                ".py",
                ".md",
                ".toml",
                ".txt",
                ".yaml",
                ".yml",
                ".json",
                ".sh",
                ".cfg",
                ".ini",
                ".ts",
                ".js",
                "Makefile",
                "run",
            )
        ):
            continue
        found[name] = content.decode("utf-8", "replace")
    return found


# --- rules ------------------------------------------------------------------------------------------------------------


def too_long(sources: Mapping[str, str]) -> list[str]:
    """Past 500 lines there are two subjects in a file."""
    return [f"{name}: {lines} lines" for name, text in sources.items() if (lines := len(text.splitlines())) > LONGEST]


def top_level_names() -> set[str]:
    """Return every module name an import could mean: standard library, what is installed, ours."""
    return {*sys.stdlib_module_names, *importlib.metadata.packages_distributions(), *PACKAGES}


def shadowing(names: Iterable[str], taken: set[str]) -> list[str]:
    """Prefect puts a flow's own folder first on the path: `flows/json.py` would be everybody's json."""
    paths = [PurePosixPath(name) for name in names]
    return [
        f"{path}: shadows the module {path.stem}"
        for path in paths
        if path.parts[0] in ("flows", "deployments") and path.suffix == ".py" and path.stem in taken
    ]


def undocumented_packages(sources: Mapping[str, str]) -> list[str]:
    """A package says in its first line what it is for."""
    return [
        name
        for name, text in sources.items()
        if name.endswith("/__init__.py") and name.split("/")[0] in PACKAGES and not ast.get_docstring(ast.parse(text))
    ]


def unlinked_pages(texts: Mapping[str, str]) -> list[str]:
    """A page that nobody links to is not found, and not kept."""
    pages = {name: text for name, text in texts.items() if name.endswith(".md")}
    linked = set()
    for name, text in pages.items():
        targets = [
            _resolved(PurePosixPath(name).parent / target) for target in LINK.findall(text) if "://" not in target
        ]
        linked.update(target for target in targets if target != name)
    return [name for name in pages if name.startswith("docs/") and name not in linked]


def broken_links(texts: Mapping[str, str], names: Iterable[str]) -> list[str]:
    """A relative link leads to a file or folder of the project."""
    known = set(names)
    known |= {str(parent) for name in names for parent in PurePosixPath(name).parents}
    return [
        f"{name}: {target}"
        for name, text in texts.items()
        if name.endswith(".md")
        for target in LINK.findall(_without_code(text))
        if "://" not in target
        and not target.startswith("mailto:")
        and _resolved(PurePosixPath(name).parent / target) not in known
    ]


def of_one_machine(texts: Mapping[str, str]) -> list[str]:
    """A path of somebody's machine or the address of a download is right in one place only."""
    return [
        f"{name}:{number}: {match.group()}"
        for name, text in texts.items()
        for number, line in enumerate(text.splitlines(), 1)
        for match in [MACHINE_PATH.search(line) or DOWNLOAD.search(line)]
        if match
    ]


def _resolved(path: PurePosixPath) -> str:
    parts: list[str] = []
    for part in path.parts:
        if part == "..":
            del parts[-1:]
        elif part != ".":
            parts.append(part)
    return "/".join(parts)


def _without_code(text: str) -> str:
    return re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.DOTALL)


# --- the project keeps them -------------------------------------------------------------------------------------------


def test_no_file_is_longer_than_500_lines(files: dict[str, bytes]) -> None:
    assert too_long(python_in(files)) == []


def test_no_flow_or_deployment_file_shadows_a_module(files: dict[str, bytes]) -> None:
    assert shadowing(files, top_level_names()) == []


def test_every_package_says_what_it_is_for(files: dict[str, bytes]) -> None:
    assert undocumented_packages(python_in(files)) == []


def test_every_page_of_the_documentation_is_linked_from_another(files: dict[str, bytes]) -> None:
    assert unlinked_pages(texts_in(files)) == []


def test_every_relative_link_leads_somewhere(files: dict[str, bytes]) -> None:
    assert broken_links(texts_in(files), files) == []


def test_nothing_names_a_folder_of_one_machine_or_a_download_address(files: dict[str, bytes]) -> None:
    assert of_one_machine(texts_in(files)) == []


# --- the rules complain -----------------------------------------------------------------------------------------------


def test_a_long_file_is_seen() -> None:
    assert too_long({"a.py": "x\n" * 501, "b.py": "x\n" * 500}) == ["a.py: 501 lines"]


def test_a_shadowing_file_is_seen() -> None:
    names = ["flows/json.py", "flows/prefect.py", "deployments/stats.py", "flows/nightly.py", "faces/cli/json.py"]
    assert [told.split(":")[0] for told in shadowing(names, top_level_names())] == names[:3]


def test_a_package_without_a_word_is_seen() -> None:
    sources = {"flows/a/__init__.py": "", "flows/__init__.py": '"""Flows."""', "stats/__init__.py": "x = 1"}
    assert undocumented_packages(sources) == ["flows/a/__init__.py", "stats/__init__.py"]


def test_an_unlinked_page_is_seen() -> None:
    pages = {
        "README.md": "[start](docs/start.md) and [far](https://example.org/docs/lost.md)",
        "docs/start.md": "[next](./deep/next.md#part) [up](../README.md)",
        "docs/deep/next.md": "",
        "docs/lost.md": "[myself](lost.md)",
    }
    assert unlinked_pages(pages) == ["docs/lost.md"]


def test_a_broken_link_is_seen() -> None:
    pages = {
        "README.md": "[a](docs/a.md) [b](docs/b.md) [folder](docs) `[no](link)`",
        "docs/a.md": "[up](../README.md)",
    }
    assert broken_links(pages, pages) == ["README.md: docs/b.md"]


@pytest.mark.parametrize(
    "line",
    [
        "see /home/" + "ann/project/x.py",
        'path = "/Users/' + 'ann/x"',
        "/workspace/" + "project is here",
        "--index-" + "url=https://mirror.example/simple",
        '"resolved": ' + '"https://mirror.example/a.tgz"',
        "https://files.python" + "hosted.org/packages/a.whl",
    ],
)
def test_a_machine_path_or_a_download_address_is_seen(line: str) -> None:
    assert len(of_one_machine({"a.md": "first\n" + line})) == 1


@pytest.mark.parametrize(
    "line", ["~/.local/state", "https://example.org/home/page", "$HOME/x", "GET /home", "/proc/self/environ"]
)
def test_a_path_of_every_machine_is_not(line: str) -> None:
    assert of_one_machine({"a.md": line}) == []
