"""Every vector of every reference file, through one adapter per method.

A new vector needs no new code; a new method without an adapter fails here instead of being skipped.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
ADAPTERS = Path(__file__).resolve().parent / "adapters"

Adapter = Callable[[dict[str, Any]], dict[str, Any]]


def vector_folder() -> Path:
    given = os.environ.get("FAIRTRIAL_REFERENCE")
    return (Path(given) if given else ROOT.parent / "shared" / "reference") / "stats"


def vectors() -> list[Any]:
    """Return one parameter per vector, or a single skipped one where the folder is absent."""
    files = sorted(vector_folder().glob("*.json"))
    if not files:
        absent = pytest.mark.skip(reason="no reference vectors here: set FAIRTRIAL_REFERENCE to their folder")
        return [pytest.param("absent", {}, marks=absent, id="absent")]
    read = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    return [
        pytest.param(method["method"], vector, id=f"{method['method']}-{vector['id']}")
        for method in read
        for vector in method["vectors"]
    ]


@functools.cache
def load_adapter(method: str) -> Adapter:
    """Return `adapter` of adapters/<method>.py, loaded by its path: tests are no package under importlib mode."""
    path = ADAPTERS / f"{method}.py"
    if not path.is_file():
        pytest.fail(f"no adapter for {method!r}: add tests/reference/adapters/{method}.py")
    spec = importlib.util.spec_from_file_location(f"reference_adapter_{method}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    adapter: Adapter = module.adapter
    return adapter


def mismatches(got: Any, expected: Any, *, tolerance: dict[str, float], where: str) -> list[str]:
    """Return what does not match, leaf by leaf; numbers pass within abs + rel · |expected|."""
    if expected is None:
        return [] if got is None else [f"{where}: {got!r}, expected null"]
    if isinstance(expected, dict):
        if not isinstance(got, dict):
            return [f"{where}: {got!r}, expected an object"]
        return [
            line
            for key, value in expected.items()
            for line in (
                mismatches(got[key], value, tolerance=tolerance, where=f"{where}.{key}")
                if key in got
                else [f"{where}.{key}: missing"]
            )
        ]
    if isinstance(expected, list):
        if not isinstance(got, list | tuple) or len(got) != len(expected):
            return [f"{where}: {got!r}, expected {expected!r}"]
        pairs = enumerate(zip(got, expected, strict=True))
        return [
            line
            for position, (one, other) in pairs
            for line in mismatches(one, other, tolerance=tolerance, where=f"{where}[{position}]")
        ]
    if isinstance(expected, bool | str):
        same = type(got) is type(expected) and got == expected
    else:
        number = isinstance(got, int | float) and not isinstance(got, bool) and math.isfinite(got)
        same = number and abs(got - expected) <= tolerance["abs"] + tolerance["rel"] * abs(expected)
    return [] if same else [f"{where}: {got!r}, expected {expected!r} within {tolerance}"]


@pytest.mark.parametrize(("method", "vector"), vectors())
def test_the_product_gives_the_reference_value(method: str, vector: dict[str, Any]) -> None:
    got = load_adapter(method)(vector["input"])
    tolerances = vector["tolerance"]
    wrong: list[str] = []
    for field, expected in vector["expected"].items():
        if field not in got:
            wrong.append(f"{field}: missing")
            continue
        tolerance = tolerances.get(field, tolerances.get("*", {"abs": 0.0, "rel": 0.0}))
        wrong += mismatches(got[field], expected, tolerance=tolerance, where=field)
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("got", "expected"),
    [
        (float("nan"), None),
        (0.0, None),
        (None, 0.0),
        (float("nan"), 0.5),
        (True, 1),
        (1, True),
        ([0.1], [0.1, 0.2]),
        ({"a": 1}, {"a": 1, "b": 2}),
        (0.5 + 2e-9, 0.5),
    ],
)
def test_the_comparison_itself_refuses_what_only_looks_alike(got: Any, expected: Any) -> None:
    assert mismatches(got, expected, tolerance={"abs": 1e-9, "rel": 0.0}, where="x")


def test_the_comparison_itself_accepts_a_value_within_its_tolerance() -> None:
    expected = {"a": [1, None, "x", True], "b": 100.0}
    got = {"a": (1.0, None, "x", True), "b": 100.0 + 5e-8, "more": 1}
    assert not mismatches(got, expected, tolerance={"abs": 0.0, "rel": 1e-9}, where="x")
