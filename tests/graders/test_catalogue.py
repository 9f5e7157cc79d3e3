"""The list of graders, and that docs/graders.md says what it says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import TypeAdapter

from fairtrial.graders.catalogue import GraderEntry, Parameter, catalogue
from fairtrial.spec.models import GraderSpec

PAGE = (Path(__file__).parents[2] / "docs" / "graders.md").read_text(encoding="utf-8")
KINDS = [entry.kind for entry in catalogue()]
SHARED = {"name": "Settings of every grader"} | dict.fromkeys(
    ["extract", "extract_from", "strip"], "Reading the answer"
)


def section(title: str) -> str:
    """Return the text under the heading of that title, or under the one that lists that kind."""
    for part in re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]:
        heading, _, text = part.partition("\n")
        if heading == title or title in heading.split(", "):
            return text
    pytest.fail(f"docs/graders.md has no section {title!r}")


def rows(text: str) -> dict[str, str]:
    """Return the settings of a section's table with their defaults."""
    return dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|", text, flags=re.MULTILINE))


def test_every_kind_that_a_spec_takes_is_listed_once() -> None:
    kinds = [
        kind for model in get_args(get_args(GraderSpec)[0]) for kind in get_args(model.model_fields["kind"].annotation)
    ]
    assert sorted(KINDS) == sorted(kinds)
    assert all(entry.about.endswith(".") for entry in catalogue())
    assert all(parameter.about for entry in catalogue() for parameter in entry.parameters)


@pytest.mark.parametrize("entry", catalogue(), ids=lambda entry: entry.kind)
def test_the_page_names_every_kind_with_every_setting_and_its_default(entry: GraderEntry) -> None:
    own = {parameter.name: parameter for parameter in entry.parameters if parameter.name not in SHARED}
    assert rows(section(entry.kind)).keys() == own.keys()
    for parameter in entry.parameters:
        documented = rows(section(SHARED.get(parameter.name, entry.kind)))[parameter.name]
        assert documented == ("required" if parameter.default is None else f"`{parameter.default}`"), parameter.name


def test_the_page_names_nothing_that_does_not_exist() -> None:
    shared = {name for title in set(SHARED.values()) for name in rows(section(title))}
    assert shared == set(SHARED)


def test_settings_are_described_in_words_of_json() -> None:
    settings = {(entry.kind, each.name): each for entry in catalogue() for each in entry.parameters}
    assert settings["number", "where"] == Parameter(
        "where", '"first" | "last" | "only"', '"last"', "Which number of the text counts."
    )
    assert {
        key: settings[key].type
        for key in [
            ("contains", "value"),
            ("number", "value"),
            ("exact", "strip"),
            ("command", "command"),
            ("command", "env"),
            ("python", "files"),
            ("json", "value"),
            ("json_schema", "schema"),
            ("cost", "max_usd"),
            ("values", "ignore"),
        ]
    } == {
        ("contains", "value"): "text | list of text",
        ("number", "value"): "number",
        ("exact", "strip"): "true | false",
        ("command", "command"): "list of text | text",
        ("command", "env"): 'object of text | {"from_env": text}',
        ("python", "files"): "list of text",
        ("json", "value"): "any JSON value",
        ("json_schema", "schema"): "object of any JSON value | true | false",
        ("cost", "max_usd"): "number | text",
        ("values", "ignore"): 'list of "case" | "space" | "unicode" | "number"',
    }
    assert settings["regex", "pattern"].default is None
    # No annotation of Python's shows through.
    assert not [each.type for each in settings.values() if re.search(r"typing|class|\[|None", each.type)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_default_is_the_json_that_a_spec_would_say(kind: str) -> None:
    (entry,) = (entry for entry in catalogue() if entry.kind == kind)
    needed: dict[str, Any] = {"pattern": "a", "path": "g.py", "command": "true", "max_s": 1.0, "max_usd": 1}
    # One of several is needed, which no single default can say.
    any_of: dict[str, dict[str, Any]] = {"json_schema": {"schema": {}}, "length": {"max": 1}}
    one_of = any_of.get(kind, {})
    spec: dict[str, Any] = {"kind": kind} | {
        each.name: needed[each.name] if each.default is None else json.loads(each.default) for each in entry.parameters
    }
    spec |= one_of
    adapter: TypeAdapter[Any] = TypeAdapter(GraderSpec)
    short: dict[str, Any] = {"kind": kind} | {
        each.name: needed[each.name] for each in entry.parameters if each.default is None
    }
    short |= one_of
    assert adapter.validate_python(spec) == adapter.validate_python(short)


def test_the_json_on_the_page_is_a_spec() -> None:
    adapter: TypeAdapter[Any] = TypeAdapter(GraderSpec)
    found = [json.loads(text) for text in re.findall(r"-g '(\{.*?\})'", PAGE)]
    assert len(found) == 2
    assert [adapter.validate_python(spec).kind for spec in found] == ["number", "regex"]


def test_the_programs_on_the_page_grade(grade: Any, tmp_path: Path) -> None:
    function, program = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    (tmp_path / "function.py").write_text(function)
    (tmp_path / "program.py").write_text(program)
    by_function = grade(b"It is Paris.", expected="paris", kind="python", path="function.py")
    assert (by_function.score, by_function.reason) == (1.0, b"3 words")
    by_program = grade(b"word " * 21, kind="command", command=["python3", "program.py"])
    assert (by_program.score, by_program.reason) == (0.0, b"21 words")


def test_the_numbers_on_the_page_are_read_as_it_says() -> None:
    from fairtrial.graders.number_text import find_numbers

    by_text = dict(re.findall(r"^\| (`.*`) \| (.*) \|$", section("number"), flags=re.MULTILINE))
    # The second column is for people; what it says of each text stands here once more, row by row.
    expected = {
        "`3,14` and `1,2,3`": [["3", "14"], ["1", "2", "3"]],
        "`$1,000`, `-$5`, `$-5`, `5 €`, `50%`": [["1000"], ["-5"], ["-5"], ["5"], ["50"]],
        "`-5`, `−5`, `+5`, `(-5)`": [["-5"], ["-5"], ["5"], ["-5"]],
        "`12-15`, `2023-01-05`, `- 5`": [["12", "15"], ["2023", "1", "5"], ["5"]],
        "`.5`, `5.`, `...42`": [["0.5"], ["5"], ["42"]],
        "`1e-3`, `1.5 × 10^3`, `2*10^{-2}`, `1.5×10⁻³`": [["0.001"], ["1.5E+3"], ["0.02"], ["0.0015"]],
        r"`5km`, `10th`, `\boxed{42}`, `**7**`, `9*2=18`": [["5"], ["10"], ["42"], ["7"], ["9", "2", "18"]],
        "`GPT4`, `v1.2.3`, `0x1F`, `1_000`, `9f86d081`": [[]] * 5,
        "`3/4`, `ten`, `NaN`": [["3", "4"], [], []],
    }
    assert expected.keys() <= by_text.keys()
    for row, numbers in expected.items():
        texts = re.findall(r"`([^`]+)`", row)
        assert [[str(n.value) for n in find_numbers(text, limit_s=5)] for text in texts] == numbers, row


def test_the_words_of_similarity_and_values_on_the_page_are_those_of_the_spec() -> None:
    for kind, name in (("similarity", "method"), ("values", "ignore")):
        (setting,) = (
            each for entry in catalogue() if entry.kind == kind for each in entry.parameters if each.name == name
        )
        explained = re.findall(r'^\| `"(\w+)"` \| ', section(kind), flags=re.MULTILINE)
        assert explained == re.findall(r'"(\w+)"', setting.type)


def test_the_reason_of_values_on_the_page_is_the_one_given(grade: Any) -> None:
    found = grade('{"A": 1, "B": 2, "Size": 4}', expected={"A": 1, "B": 2, "Size": 3}, kind="values")
    assert f"`{found.reason.decode()}`" in section("values")
