"""Building graders from a spec: their names, and when a version changes."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from fairtrial.errors import SpecError
from fairtrial.graders.build import build_graders, grader_names, grader_version
from fairtrial.graders.version import RULES, GraderVersion
from fairtrial.spec.models import GraderSpec
from fairtrial.subjects.reaper import Reaper

ADAPTER: TypeAdapter[Any] = TypeAdapter(GraderSpec)


def specs(*documents: dict[str, Any]) -> list[Any]:
    return [ADAPTER.validate_python(document) for document in documents]


def version_of(folder: Path, **document: Any) -> GraderVersion:
    return grader_version(ADAPTER.validate_python(document), folder)


def changed(before: GraderVersion, after: GraderVersion) -> set[str]:
    assert (before.hash == after.hash) == (before.parts == after.parts)
    return {name for name in before.parts | after.parts if before.parts.get(name) != after.parts.get(name)}


def sha256_of_json(value: Any) -> str:
    """By the standard library alone, as docs/graders.md states it; ASCII values only."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def test_the_hash_and_the_parts_are_the_documented_ones(tmp_path: Path) -> None:
    """A stored version must be found again by every later release that scores alike, or no grade could be reused."""
    version = version_of(tmp_path, kind="regex", pattern="^a$")
    assert version.parts == {
        "extract": sha256_of_json(None),
        "extract_from": sha256_of_json("last"),
        "strip": sha256_of_json(True),
        "pattern": sha256_of_json("^a$"),
        "ignore_case": sha256_of_json(False),
        "multiline": sha256_of_json(False),
        "dotall": sha256_of_json(False),
    }
    assert version.hash == sha256_of_json({"kind": "regex", "rules": RULES, "parts": version.parts})[:16]


ALL: list[dict[str, Any]] = [
    {"kind": "exact"},
    {"kind": "iexact"},
    {"kind": "contains"},
    {"kind": "icontains"},
    {"kind": "regex", "pattern": "a"},
    {"kind": "number"},
    {"kind": "json"},
    {"kind": "json_schema", "path": "s.json"},
    {"kind": "similarity"},
    {"kind": "bleu"},
    {"kind": "chrf"},
    {"kind": "length", "max": 1},
    {"kind": "latency", "max_s": 1.0},
    {"kind": "cost", "max_usd": 1},
    {"kind": "values"},
    {"kind": "python", "path": "g.py"},
    {"kind": "command", "command": ["python3", "g.py"]},
]
CODE = ALL[-2:]
TIMED = [spec for spec in ALL if spec["kind"] in ("regex", "json_schema", "python", "command")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A spec's folder with a grader and its helper in a folder of their own."""
    project = tmp_path / "project"
    (project / "lib").mkdir(parents=True)
    (project / "g.py").write_text("import lib.helper\n")
    (project / "lib" / "helper.py").write_text("ONE = 1\n")
    (project / "s.json").write_text('{"type": "object"}')
    return project


@pytest.mark.parametrize("spec", ALL, ids=lambda spec: spec["kind"])
def test_k51_another_name_is_the_same_version(folder: Path, spec: dict[str, Any]) -> None:
    assert version_of(folder, **spec) == version_of(folder, **spec, name="renamed")


def test_more_time_is_the_same_version(folder: Path) -> None:
    for spec in TIMED:
        assert version_of(folder, **spec) == version_of(folder, **spec, timeout_s=7.0)


def test_each_kind_has_a_version_of_its_own(folder: Path) -> None:
    assert len({version_of(folder, **spec).hash for spec in ALL}) == len(ALL)


@pytest.mark.parametrize(
    ("spec", "change", "parts"),
    [
        ({"kind": "exact"}, {"value": "x"}, {"value"}),
        ({"kind": "exact"}, {"strip": False}, {"strip"}),
        ({"kind": "exact"}, {"extract": "a", "extract_from": "first"}, {"extract", "extract_from"}),
        ({"kind": "contains", "value": ["a", "b"]}, {"value": ["b", "a"]}, {"value"}),
        ({"kind": "contains"}, {"match": "all"}, {"match"}),
        ({"kind": "regex", "pattern": "a"}, {"pattern": "b"}, {"pattern"}),
        ({"kind": "regex", "pattern": "a"}, {"ignore_case": True}, {"ignore_case"}),
        ({"kind": "number"}, {"tolerance": 0.1}, {"tolerance"}),
        ({"kind": "number"}, {"where": "only", "value": 0}, {"where", "value"}),
        ({"kind": "json"}, {"match": "subset", "unordered": True}, {"match", "unordered"}),
        ({"kind": "json"}, {"pointer": "/a", "value": {"a": [1]}}, {"pointer", "value"}),
        ({"kind": "json", "value": [1]}, {"value": [2]}, {"value"}),
        ({"kind": "json_schema", "schema": {"type": "object"}}, {"schema": {"type": "array"}}, {"schema"}),
        ({"kind": "json_schema", "schema": {}}, {"schema": None, "path": "s.json"}, {"schema", "path", "file s.json"}),
        ({"kind": "similarity"}, {"method": "token_set"}, {"method"}),
        ({"kind": "similarity"}, {"threshold": 0.5}, {"threshold"}),
        ({"kind": "bleu"}, {"tokenize": "char"}, {"tokenize", "signature"}),
        ({"kind": "chrf"}, {"word_order": 2}, {"word_order", "signature"}),
        ({"kind": "length", "max": 3}, {"unit": "words"}, {"unit"}),
        ({"kind": "latency", "max_s": 1.0}, {"max_s": 2.0}, {"max_s"}),
        ({"kind": "cost", "max_usd": "0.1"}, {"max_usd": "0.2"}, {"max_usd"}),
        ({"kind": "values"}, {"ignore": ["case"], "no_value": ["n/a"]}, {"ignore", "no_value"}),
        ({"kind": "python", "path": "g.py"}, {"function": "other"}, {"function"}),
        ({"kind": "python", "path": "g.py"}, {"interpreter": "python3"}, {"interpreter"}),
        ({"kind": "python", "path": "g.py"}, {"files": ["g.py"]}, {"file lib/helper.py"}),
        ({"kind": "command", "command": "./g"}, {"command": "./g -v"}, {"command"}),
        ({"kind": "command", "command": "./g"}, {"env": {"MODEL": "big"}}, {"env MODEL"}),
        ({"kind": "command", "command": "./g"}, {"cwd": "lib"}, {"cwd"}),
    ],
)
def test_k51_a_changed_setting_is_a_new_version_and_named(
    folder: Path, spec: dict[str, Any], change: dict[str, Any], parts: set[str]
) -> None:
    assert changed(version_of(folder, **spec), version_of(folder, **{**spec, **change})) == parts


@pytest.mark.parametrize("spec", CODE, ids=lambda spec: spec["kind"])
def test_k51_c05_an_edited_grader_or_helper_is_a_new_version_and_named(folder: Path, spec: dict[str, Any]) -> None:
    first = version_of(folder, **spec)
    (folder / "lib" / "helper.py").write_text("ONE = 2\n")
    second = version_of(folder, **spec)
    assert changed(first, second) == {"file lib/helper.py"}
    (folder / "g.py").write_text("import lib.helper  # edited\n")
    assert changed(second, version_of(folder, **spec)) == {"file g.py"}
    # The same bytes again are the same version again: a touched file is not an edited one.
    (folder / "g.py").write_text("import lib.helper\n")
    (folder / "lib" / "helper.py").write_text("ONE = 1\n")
    assert version_of(folder, **spec) == first


def test_k51_an_edited_schema_is_a_new_version_and_named(folder: Path) -> None:
    first = version_of(folder, kind="json_schema", path="s.json")
    for path in ("./s.json", "lib/../s.json", str(folder / "s.json")):
        assert version_of(folder, kind="json_schema", path=path) == first
    (folder / "s.json").write_text('{"type": "array"}')
    assert changed(first, version_of(folder, kind="json_schema", path="s.json")) == {"file s.json"}


def test_k93_every_spelling_of_a_graders_file_is_the_same_version(folder: Path) -> None:
    (folder.parent / "link").symlink_to(folder)
    spelled = ["g.py", "./g.py", "lib/../g.py", str(folder / "g.py"), str(folder.parent / "link" / "g.py")]
    assert len({version_of(folder, kind="python", path=path).hash for path in spelled}) == 1
    assert len({version_of(folder, kind="command", command=["python3", path]).hash for path in spelled}) == 1
    found = [version_of(folder, kind="python", path="g.py", interpreter=i).hash for i in ("./bin/py", "bin/py")]
    assert found[0] == found[1]


@pytest.mark.parametrize("name", ["C:\\eval data\\g.py", "ein ördner/é 🦊.py", "f" * 60 + "/" + "g" * 230 + ".py"])
def test_k93_odd_names_of_files_have_a_version(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("def grade(output, case): return 1")
    version = version_of(tmp_path, kind="python", path=name)
    assert version == version_of(tmp_path, kind="python", path=str(path))
    assert f"file {name}" in version.parts


def test_written_defaults_and_the_two_spellings_of_a_number_change_nothing(folder: Path) -> None:
    plain = version_of(folder, kind="number")
    spelled = version_of(folder, kind="number", where="last", tolerance=0, relative_tolerance=0.0, value=None)
    assert spelled == plain
    assert version_of(folder, kind="number", value=3) == version_of(folder, kind="number", value=3.0)
    assert version_of(folder, kind="number", value=2**60) != version_of(folder, kind="number", value=2**60 + 1)
    assert version_of(folder, kind="cost", max_usd="0.10") == version_of(folder, kind="cost", max_usd=0.1)
    assert version_of(folder, kind="python", path="g.py", function="grade", files=None) == version_of(
        folder, kind="python", path="g.py"
    )


def test_the_value_of_a_secret_is_in_no_version(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = set()
    for value in ("one", "two"):
        monkeypatch.setenv("THE_KEY", value)
        found.add(version_of(folder, kind="command", command="true", env={"K": {"from_env": "THE_KEY"}}).hash)
    assert len(found) == 1


def test_graders_are_built_in_the_order_of_the_spec_with_name_and_version(folder: Path) -> None:
    graders = build_graders(specs(*ALL), folder=folder, environ=dict(os.environ), reaper=Reaper())
    assert [grader.name for grader in graders] == [spec["kind"] for spec in ALL]
    assert [grader.version for grader in graders] == [version_of(folder, **spec).hash for spec in ALL]


def test_building_starts_nothing(folder: Path) -> None:
    reaper = Reaper()
    (folder / "g.py").write_text("open('ran', 'w')\n")
    build_graders(
        specs(*CODE, {"kind": "json_schema", "path": "s.json"}), folder=folder, environ=dict(os.environ), reaper=reaper
    )
    assert reaper.pid is None
    assert not (folder / "ran").exists()


def test_an_error_names_the_grader_by_its_place(folder: Path) -> None:
    bad = specs({"kind": "exact"}, {"kind": "regex", "pattern": "("})
    with pytest.raises(SpecError, match=r"^graders\[1\]\.pattern: "):
        build_graders(bad, folder=folder, environ={}, reaper=Reaper())


def test_graders_without_a_name_are_told_apart_by_a_number() -> None:
    found = grader_names(
        specs({"kind": "exact"}, {"kind": "exact"}, {"kind": "number"}, {"kind": "exact", "name": "exact#2"})
    )
    assert found == ("exact", "exact#3", "number", "exact#2")


def test_a_name_given_twice_is_refused() -> None:
    with pytest.raises(SpecError, match=r'graders\[0\]\.name: two graders are named "a"'):
        grader_names(specs({"kind": "exact", "name": "a"}, {"kind": "number", "name": "a"}))


@given(st.lists(st.sampled_from([None, "exact", "exact#2", "number"]), max_size=6))
def test_every_grader_has_a_name_of_its_own_and_keeps_the_one_it_was_given(names: list[str | None]) -> None:
    given_names = [name for name in names if name is not None]
    graders = specs(*({"kind": "exact", "name": name} for name in names))
    if len(set(given_names)) < len(given_names):
        with pytest.raises(SpecError):
            grader_names(graders)
        return
    found = grader_names(graders)
    assert len(set(found)) == len(names)
    assert all(name in (None, got) for name, got in zip(names, found, strict=True))
