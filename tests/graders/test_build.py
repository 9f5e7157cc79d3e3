"""Names, versions and the catalogue of graders."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import TypeAdapter

from fairtrial.errors import SpecError
from fairtrial.graders.build import build_graders, grader_names, grader_version
from fairtrial.graders.catalogue import catalogue
from fairtrial.spec.models import GraderSpec
from fairtrial.subjects.reaper import Reaper

ADAPTER: TypeAdapter[Any] = TypeAdapter(GraderSpec)


def specs(*documents: dict[str, Any]) -> list[Any]:
    return [ADAPTER.validate_python(document) for document in documents]


def version(folder: Path, **document: Any) -> Any:
    return grader_version(ADAPTER.validate_python(document), folder)


def changed(before: Any, after: Any) -> set[str]:
    assert (before.hash == after.hash) == (before.parts == after.parts)
    return {name for name in before.parts | after.parts if before.parts.get(name) != after.parts.get(name)}


def test_graders_without_a_name_have_their_kind_and_doubles_a_number() -> None:
    exact, regex = {"kind": "exact"}, {"kind": "regex", "pattern": "x"}
    assert grader_names(specs(exact, regex, exact, exact)) == ("exact", "regex", "exact#2", "exact#3")
    assert grader_names(specs(exact, {**regex, "name": "exact"}, exact)) == ("exact#2", "exact", "exact#3")
    assert grader_names(specs({**exact, "name": "exact#2"}, exact, exact)) == ("exact#2", "exact", "exact#3")
    assert grader_names([]) == ()


def test_two_graders_of_one_name_are_refused() -> None:
    with pytest.raises(SpecError, match=r'graders\[0\]\.name: two graders are named "same"'):
        grader_names(specs({"kind": "exact", "name": "same"}, {"kind": "iexact", "name": "same"}))


def test_every_kind_can_be_built_and_a_fault_names_its_place(tmp_path: Path) -> None:
    (tmp_path / "g.py").write_text("")
    documents = [{"kind": entry.kind} for entry in catalogue()]
    for document in documents:
        document |= {"regex": {"pattern": "x"}, "python": {"path": "g.py"}, "command": {"command": "true"}}.get(
            document["kind"], {}
        )
    built = build_graders(specs(*documents), folder=tmp_path, environ=dict(os.environ), reaper=Reaper())
    assert [grader.name for grader in built] == [document["kind"] for document in documents]
    assert len({grader.version for grader in built}) == len(built)
    assert [grader.version for grader in built] == [grader_version(s, tmp_path).hash for s in specs(*documents)]
    with pytest.raises(SpecError, match=r"graders\[1\]\.pattern"):
        build_graders(
            specs({"kind": "exact"}, {"kind": "regex", "pattern": "("}),
            folder=tmp_path,
            environ={},
            reaper=Reaper(),
        )


PLAIN: list[dict[str, Any]] = [
    {"kind": "exact"},
    {"kind": "regex", "pattern": "x"},
    {"kind": "python", "path": "g.py"},
    {"kind": "command", "command": ["python", "g.py"]},
]


@pytest.mark.parametrize("document", PLAIN, ids=lambda document: document["kind"])
def test_k51_a_new_name_or_time_limit_is_the_same_version(tmp_path: Path, document: dict[str, Any]) -> None:
    (tmp_path / "g.py").write_text("x")
    before = version(tmp_path, **document)
    assert version(tmp_path, **document, name="renamed") == before
    if document["kind"] != "exact":
        assert version(tmp_path, **document, timeout_s=7.0) == before


@pytest.mark.parametrize(
    ("document", "change", "parts"),
    [
        ({"kind": "exact"}, {"value": "x"}, {"value"}),
        ({"kind": "exact"}, {"strip": False}, {"strip"}),
        ({"kind": "exact"}, {"extract": "x"}, {"extract"}),
        ({"kind": "contains"}, {"match": "all"}, {"match"}),
        ({"kind": "regex", "pattern": "x"}, {"pattern": "y"}, {"pattern"}),
        ({"kind": "regex", "pattern": "x"}, {"dotall": True}, {"dotall"}),
        ({"kind": "number"}, {"tolerance": 0.1}, {"tolerance"}),
        ({"kind": "python", "path": "g.py"}, {"function": "other"}, {"function"}),
        ({"kind": "python", "path": "g.py"}, {"interpreter": "python3"}, {"interpreter"}),
        ({"kind": "command", "command": "true"}, {"env": {"A": "1"}}, {"env A"}),
    ],
)
def test_k51_a_changed_argument_is_a_new_version_and_is_named(
    tmp_path: Path, document: dict[str, Any], change: dict[str, Any], parts: set[str]
) -> None:
    (tmp_path / "g.py").write_text("x")
    assert changed(version(tmp_path, **document), version(tmp_path, **{**document, **change})) == parts


def test_kinds_with_the_same_arguments_differ(tmp_path: Path) -> None:
    kinds = ("exact", "iexact", "contains", "icontains")
    assert len({version(tmp_path, kind=kind).hash for kind in kinds}) == 4


@pytest.mark.parametrize(
    "document",
    [{"kind": "python", "path": "g.py"}, {"kind": "command", "command": "python g.py"}],
    ids=lambda document: document["kind"],
)
def test_c05_k51_an_edited_grader_or_helper_is_a_new_version(tmp_path: Path, document: dict[str, Any]) -> None:
    (tmp_path / "g.py").write_text("import helper")
    (tmp_path / "helper.py").write_text("one")
    first = version(tmp_path, **document)
    assert version(tmp_path, **document) == first
    (tmp_path / "helper.py").write_text("two")
    assert changed(first, version(tmp_path, **document)) == {"file helper.py"}
    second = version(tmp_path, **document)
    (tmp_path / "g.py").write_text("import helper  # edited")
    assert changed(second, version(tmp_path, **document)) == {"file g.py"}


def test_k93_both_spellings_of_a_grader_give_the_same_version(tmp_path: Path) -> None:
    (tmp_path / "g.py").write_text("x")
    paths = ("g.py", "./g.py", str(tmp_path / "g.py"))
    assert len({version(tmp_path, kind="python", path=path).hash for path in paths}) == 1
    assert len({version(tmp_path, kind="command", command=["python", path]).hash for path in paths}) == 1


def test_k07_written_defaults_change_nothing(tmp_path: Path) -> None:
    written = version(tmp_path, kind="number", tolerance=0, where="last", strip=True, value=None, extract=None)
    assert written == version(tmp_path, kind="number")
    assert version(tmp_path, kind="number", value=18) == version(tmp_path, kind="number", value=18.0)


def test_the_files_of_a_grader_can_be_chosen(tmp_path: Path) -> None:
    (tmp_path / "g.py").write_text("x")
    (tmp_path / "words.txt").write_text("x")
    found = version(tmp_path, kind="python", path="g.py", files=["*.txt"])
    assert {name for name in found.parts if name.startswith("file")} == {"file words.txt"}


def test_the_catalogue_lists_every_kind_with_every_key_of_its_spec() -> None:
    union = get_args(get_args(GraderSpec)[0])
    kinds = [kind for model in union for kind in get_args(model.model_fields["kind"].annotation)]
    assert [entry.kind for entry in catalogue()] == kinds
    for entry in catalogue():
        model = next(m for m in union if entry.kind in get_args(m.model_fields["kind"].annotation))
        assert {parameter.name for parameter in entry.parameters} == set(model.model_fields) - {"kind"}
        assert entry.about.endswith(".")
        for parameter in entry.parameters:
            assert parameter.about, f"{entry.kind}.{parameter.name} has no description"
            assert (parameter.default is None) == model.model_fields[parameter.name].is_required()


def test_the_catalogue_shows_defaults_as_json_and_types_in_words() -> None:
    by_kind = {entry.kind: {p.name: (p.type, p.default) for p in entry.parameters} for entry in catalogue()}
    assert by_kind["regex"]["pattern"] == ("text", None)
    assert by_kind["regex"]["timeout_s"] == ("number", "1.0")
    assert by_kind["number"]["where"] == ('"first" | "last" | "only"', '"last"')
    assert by_kind["number"]["value"] == ("number", "null")
    assert by_kind["contains"]["value"] == ("text | list of text", "null")
    assert by_kind["exact"]["name"] == ("text", "null")
    assert by_kind["command"]["env"] == ('object of text | {"from_env": text}', "{}")
