"""Every promise that the documentation prints names tests, and those tests are there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "promises.md"
NAMED = re.compile(r"^- `(tests/[\w/]+\.py)::(\w+)`$", re.MULTILINE)


def promises(text: str) -> dict[str, str]:
    """Return what stands under each promise, by its id."""
    parts = re.split(r"^## (A\d+)\. .+$|^## .+$", text, flags=re.MULTILINE)
    return {name: body for name, body in zip(parts[1::2], parts[2::2], strict=True) if name}


def missing(text: str, root: Path) -> list[str]:
    """Return the tests that the page names and that are not there, and promises without one."""
    told = []
    for name, body in promises(text).items():
        found = NAMED.findall(body)
        if not found:
            told.append(f"{name}: no test")
        for path, test in found:
            if test not in names_in(root / path):
                told.append(f"{name}: {path}::{test}")
    return told


def names_in(path: Path) -> set[str]:
    if not path.exists():
        return set()
    return {node.name for node in ast.parse(path.read_text("utf-8")).body if isinstance(node, ast.FunctionDef)}


def test_a1_to_a5_are_printed_and_their_tests_exist() -> None:
    text = PAGE.read_text("utf-8")
    assert list(promises(text)) == ["A1", "A2", "A3", "A4", "A5"]
    assert missing(text, ROOT) == []


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("nothing", "A1: no test"),
        (
            "- `tests/docs/test_promises.py::test_that_nobody_wrote`",
            "A1: tests/docs/test_promises.py::test_that_nobody_wrote",
        ),
        ("- `tests/docs/no_such_file.py::test_x`", "A1: tests/docs/no_such_file.py::test_x"),
    ],
)
def test_a_promise_without_its_test_is_found(body: str, said: str) -> None:
    assert missing(f"## A1. Kept\n\n{body}\n", ROOT) == [said]
