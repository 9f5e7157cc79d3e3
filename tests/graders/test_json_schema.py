"""The json_schema grader.

The small schemas follow examples of the drafts and of the JSON Schema test suite, with values of our own; what each
allows is read off the specification (2020-12 unless named).
"""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from fairtrial.errors import SpecError
from fairtrial.spec.arms import ArmSpec, check_arms
from fairtrial.spec.case import Case
from fairtrial.spec.loader import parse_grader, parse_spec
from fairtrial.subjects.reaper import Reaper

CASE = Case(id="c", input="")
DRAFT_4 = "http://json-schema.org/draft-04/schema#"
DRAFT_7 = "http://json-schema.org/draft-07/schema#"
TREE = {"type": "object", "properties": {"next": {"$ref": "#"}}, "additionalProperties": False}
POSITIVE = {"$defs": {"positive": {"$anchor": "p", "exclusiveMinimum": 0}}}


def graded(build: Any, schema: Any, answers: list[str], **settings: Any) -> list[Any]:
    """Return the grades of several answers by one grader."""
    grader = build(kind="json_schema", schema=schema, **settings)

    async def in_turn() -> list[Any]:
        try:
            await grader.prepare()
            return [await grader.grade(answer.encode(), case=CASE, mark={}) for answer in answers]
        finally:
            await grader.close()

    return asyncio.run(in_turn())


@pytest.mark.parametrize(
    ("schema", "allowed", "refused"),
    [
        # Validation 6.1.1: a number with a zero fraction is an integer, in draft 4 it is not.
        ({"type": "integer"}, ["1", "1.0", "-3"], ["1.1", '"1"', "true", "null"]),
        ({"$schema": DRAFT_4, "type": "integer"}, ["1"], ["1.0"]),
        # 6.1.2 and core 4.2.2: numbers are equal by value, and never equal to true.
        ({"enum": [1, "a", None, [0]]}, ["1.0", '"a"', "null", "[0.0]"], ["true", "[false]", "2", '"A"']),
        ({"const": False}, ["false"], ["0", "null"]),
        ({"multipleOf": 0.01}, ["0.0075e2"], ["0.00751"]),
        # 6.3: patterns are searched for, lengths are of code points.
        ({"pattern": "a+"}, ['"baab"', "1"], ['"b"']),
        ({"maxLength": 2}, ['"\\ud83d\\udca9\\ud83d\\udca9"'], ['"abc"']),
        ({"uniqueItems": True}, ["[1, true]", "[[1], [true]]"], ["[1, 1.0]", '[{"a": 1}, {"a": 1}]']),
        # Core 10.3.1: prefixItems changed what a list of schemas in items meant up to 2019-09.
        ({"prefixItems": [{"type": "number"}], "items": False}, ["[1]", "[]"], ["[1, 2]", '["a"]']),
        ({"$schema": DRAFT_7, "items": [{"type": "number"}], "additionalItems": False}, ["[1]"], ["[1, 2]"]),
        ({"required": ["a"], "properties": {"a": {"type": "string"}}}, ['{"a": "x"}', "[]"], ["{}", '{"a": 1}']),
        (
            {"patternProperties": {"^f.*o$": {"type": "integer"}}, "unevaluatedProperties": False},
            ['{"foo": 1, "fooo": 2}'],
            ['{"foo": "x"}', '{"bar": 1}'],
        ),
        ({"oneOf": [{"type": "integer"}, {"minimum": 2}]}, ["1", "2.5"], ["3", "1.5"]),
        ({"if": {"exclusiveMaximum": 0}, "then": {"minimum": -10}}, ["-1", "5"], ["-100"]),
        ({"contains": {"minimum": 5}, "minContains": 2}, ["[5, 6]"], ["[5]", "[]"]),
        # 8.2: references, to the whole, to a part, to an anchor; in draft 7 nothing stands beside $ref.
        (TREE, ['{"next": {"next": {}}}'], ['{"next": {"nxt": {}}}']),
        ({**POSITIVE, "items": {"$ref": "#/$defs/positive"}}, ["[1, 2]"], ["[1, 0]"]),
        ({**POSITIVE, "items": {"$ref": "#p"}}, ["[1, 2]"], ["[1, 0]"]),
        ({"$ref": "https://json-schema.org/draft/2020-12/schema"}, ['{"minLength": 1}'], ['{"minLength": -1}']),
        ({"$schema": DRAFT_7, "definitions": {"a": {}}, "$ref": "#/definitions/a", "type": "null"}, ["1"], []),
        # Validation 7.2.1: format is a remark.
        ({"format": "ipv4"}, ['"no address"'], []),
        (True, ["1", "{}"], []),
        (False, [], ["1", "null"]),
    ],
)
def test_a_schema_allows_and_refuses_what_its_dialect_says(
    build: Any, schema: Any, allowed: list[str], refused: list[str]
) -> None:
    found = graded(build, schema, [*allowed, *refused])
    assert [each.score for each in found] == [1.0] * len(allowed) + [0.0] * len(refused)
    assert all(bool(each.reason) == (each.score == 0) for each in found)


def test_the_reason_holds_the_path_and_the_rule(build: Any) -> None:
    schema = {"properties": {"a/b": {"items": {"type": "string"}}}, "required": ["a/b"]}
    answers = ['{"a/b": ["x", 5]}', "{}", '{"a/b": ["x"]}', json.dumps({"a/b": ["x", ["y" * 5_000]]})]
    wrong, missing, right, long = graded(build, schema, answers)
    assert wrong.reason == b"/a~1b/1: 5 is not of type 'string'"
    assert missing.reason == b"the value: 'a/b' is a required property"
    assert (right.score, right.reason) == (1.0, b"")
    assert long.reason.startswith(b"/a~1b/1: ['yyy")
    assert len(long.reason) < 500


def test_the_answer_is_read_as_by_json(build: Any) -> None:
    fenced, beside, part, nothing = graded(
        build, {"type": "integer"}, ['```json\n{"a": 1}\n```', 'Yes: {"a": 1}', '{"a": "x"}', '{"b": 1}'], pointer="/a"
    )
    assert [each.score for each in (fenced, beside, part, nothing)] == [1.0, 0.0, 0.0, 0.0]
    assert beside.reason.startswith(b"the answer is not one JSON value")
    assert nothing.reason == b"/a is not in the answer"


def test_a_file_is_read_from_the_specs_folder(build: Any, tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text('{"type": "object"}')
    assert [each.score for each in graded(build, None, ["{}", "[]"], path="s.json")] == [1.0, 0.0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"type": "objct"}', "this is not a valid JSON Schema: /type: 'objct' is not valid under any"),
        ('{"type": "object", "type": "array"}', 'the key "type" stands twice'),
        ('{"pattern": "("}', "/pattern: '(' is not a 'regex'"),
        ("[1]", "a JSON Schema is an object, true or false"),
        ("{", "not valid JSON"),
        ('{"a":' * 101 + "1" + "}" * 101, "100"),
        ('{"$schema": "http://127.0.0.1:9/x"}', "is no published dialect"),
        ('{"$schema": 7}', "is no published dialect"),
        ('{"$ref": "http://127.0.0.1:9/x.json"}', 'refers to "http://127.0.0.1:9/x.json", which is not in it'),
        ('{"items": {"$ref": "other.json#/a"}}', 'refers to "other.json#/a", which is not in it'),
        ('{"$ref": "file:///etc/passwd"}', 'refers to "file:///etc/passwd"'),
        ('{"$ref": "#/$defs/lost"}', 'refers to "#/$defs/lost"'),
        ('{"$dynamicRef": "#lost"}', 'refers to "#lost"'),
        ('{"$ref": "http://["}', 'refers to "http://["'),
        ('{"title": "t", "$ref": "#/title/0"}', 'refers to "#/title/0"'),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused_before_a_run(
    build: Any, tmp_path: Path, text: str, message: str
) -> None:
    (tmp_path / "s.json").write_text(text)
    with pytest.raises(SpecError) as caught:
        build(kind="json_schema", path="s.json")
    assert message in str(caught.value)
    assert caught.value.place == "graders[0].path"


def test_a_missing_file_is_refused_by_name(build: Any) -> None:
    with pytest.raises(SpecError, match=r'"lost\.json" cannot be read'):
        build(kind="json_schema", path="lost.json")


@pytest.mark.parametrize("spec", [{}, {"schema": {}, "path": "s.json"}])
def test_a_schema_is_given_once(build: Any, spec: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match='give the schema as "schema", or a "path" to it'):
        build(kind="json_schema", **spec)


def test_k51_an_edited_schema_file_is_a_new_version_and_building_starts_nothing(build: Any, tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    found = []
    for text in ('{"type": "object"}', '{"type": "array"}', '{"type": "object"}'):
        path.write_text(text)
        found.append(build(kind="json_schema", path="s.json").version)
    assert found[0] == found[2] != found[1]


@pytest.mark.parametrize(
    ("schema", "answer"),
    [
        # 2^40 ways to cut the text, each tried by `re` before it gives up.
        ({"pattern": "^(a+)+$"}, json.dumps("a" * 40 + "b")),
        ({"patternProperties": {"^(a+)+$": False}, "unevaluatedProperties": False}, json.dumps({"a" * 40 + "b": 1})),
        # Objects cannot be sorted, so each is compared with each: 100,000² / 2.
        ({"uniqueItems": True}, json.dumps([{"n": n} for n in range(100_000)])),
    ],
)
def test_r41_a_check_that_takes_too_long_is_an_error_and_the_next_answer_is_checked(
    build: Any, schema: Any, answer: str
) -> None:
    slow, after = graded(build, schema, [answer, "1"], timeout_s=1.0)
    assert (slow.state, slow.reason) == ("error", b"checking the answer took longer than 1 s")
    assert after.score == 1


def test_r41_a_check_without_end_is_an_error(build: Any) -> None:
    ended, after = graded(build, {"anyOf": [{"type": "null"}, {"$ref": "#"}]}, ["1", "null"])
    assert ended.state == "error"
    assert b"RecursionError" in ended.reason
    assert after.score == 1


def test_r41_a_deep_or_huge_answer_is_graded(build: Any) -> None:
    deep, deeper, wide, huge_number = graded(
        build,
        {"type": ["array", "integer"], "maxItems": 3},
        ["[" * 100 + "]" * 100, "[" * 100_000, json.dumps(list(range(300_000))), "9" * 4_300],
    )
    assert [each.score for each in (deep, deeper, wide, huge_number)] == [1.0, 0.0, 0.0, 1.0]
    assert len(wide.reason) < 500


def test_the_process_is_gone_after_close(tmp_path: Path) -> None:
    from pydantic import TypeAdapter

    from fairtrial.graders.json_schema import SchemaGrader
    from fairtrial.spec.models import JsonSchemaGrader

    reaper = Reaper()
    spec = TypeAdapter(JsonSchemaGrader).validate_python({"kind": "json_schema", "schema": {}})
    environ = {**os.environ}
    grader = SchemaGrader(spec, name="n", version="v", place="p", folder=tmp_path, environ=environ, reaper=reaper)
    (name, value) = next(iter(reaper.mark.items()))
    wanted = f"{name}={value}".encode()

    def marked() -> set[int]:
        found = set()
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and wanted in (entry / "environ").read_bytes().split(b"\0"):
                    found.add(int(entry.name))
            except OSError:
                continue
        return found - {reaper.pid}

    async def run() -> set[int]:
        await grader.prepare()
        during = marked()
        await grader.close()
        await grader.close()
        return during

    assert len(asyncio.run(run())) == 1
    assert marked() == set()
    reaper.close()


def test_the_spec_as_stored_is_the_spec(build: Any) -> None:
    from pydantic import TypeAdapter

    from fairtrial.spec.models import GraderSpec

    adapter: TypeAdapter[Any] = TypeAdapter(GraderSpec)
    spec = adapter.validate_python({"kind": "json_schema", "schema": {"const": 1.0}})
    stored = spec.model_dump(mode="json")
    assert stored["schema"] == {"const": 1.0}
    assert adapter.validate_python(stored) == spec


def test_a_misspelt_schema_is_told_its_name() -> None:
    with pytest.raises(SpecError) as caught:
        parse_grader('{"kind": "json_schema", "shcema": {}}', place="-g")
    assert 'unknown key. Did you mean "schema"?' in str(caught.value) + str(caught.value.hint)


@pytest.mark.parametrize(
    ("one", "other", "told"),
    [
        (
            {"schema": {"type": "object"}},
            {"schema": {"type": "array"}},
            "graders[0].schema.type: object in a, array in b",
        ),
        ({"path": "s.json"}, {"path": "t.json"}, "graders[0].path: "),
        ({"schema": {}}, {"schema": {"not": {}}}, "graders[0]: "),
        ({"schema": {"const": [1]}}, {"schema": {"const": [True]}}, "graders[0]: "),
    ],
)
def test_arms_with_other_schemas_are_refused_by_name(
    tmp_path: Path, one: dict[str, Any], other: dict[str, Any], told: str
) -> None:
    def arm(name: str, schema: dict[str, Any]) -> ArmSpec:
        graders = [{"kind": "json_schema", **schema}]
        document: dict[str, Any] = {"dataset": "q", "task": {"kind": "command", "command": "true"}, "graders": graders}
        return ArmSpec(name, parse_spec(document, place=name, folder=tmp_path))

    check_arms([arm("a", one), arm("b", one)])
    with pytest.raises(SpecError) as caught:
        check_arms([arm("a", one), arm("b", other)])
    assert told in caught.value.message
