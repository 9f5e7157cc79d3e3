"""Templates: filled once, from one case, with text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairtrial.errors import SpecError
from fairtrial.spec.case import Case
from fairtrial.spec.template import MissingVariable, parse_template

CASE = Case(
    id="c1",
    input={"question": "why?", "n": 3, "deep": {"list": ["a", {"b": True}]}},
    expected="secret label",
    has_expected=True,
    fields={"lang": "de", "empty": None},
)


def render(text: str, case: Case = CASE) -> str:
    return parse_template(text, place="task.command[1]").render(case)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("{{id}}", "c1"),
        ("{{ id }}-{{id}}", "c1-c1"),
        ("{{input.question}}", "why?"),
        ("{{input.n}}", "3"),
        ("{{input.deep.list.0}}{{input.deep.list.1.b}}", "atrue"),
        ("{{input.deep}}", '{"list":["a",{"b":true}]}'),
        ("--lang={{fields.lang}}", "--lang=de"),
        ("{{fields.empty}}", "null"),
        ("a {{ b", "a {{ b"),
        ("{id} %s $HOME ${id} {%id%}", "{id} %s $HOME ${id} {%id%}"),
    ],
)
def test_a_place_is_filled_with_text_and_other_values_with_canonical_json(text: str, expected: str) -> None:
    assert render(text) == expected


@pytest.mark.parametrize(
    "text", ["{{}}", "{{expected}}", "{{fields}}", "{{id.x}}", "{{7*7}}", "{{input..a}}", "{{.N}}"]
)
def test_a_variable_no_case_can_have_is_refused_when_read(text: str) -> None:
    with pytest.raises(SpecError, match=r"task\.command\[1\]: .*is not a variable of a case"):
        parse_template(text, place="task.command[1]")


def test_a_refused_variable_is_shown_without_escape_codes_and_cut() -> None:
    with pytest.raises(SpecError) as caught:
        parse_template("{{\x1b[31m" + "x" * 500 + "}}", place="task.command[1]")
    message = str(caught.value)
    assert message.startswith(r"task.command[1]: {{\x1b[31mxxx")
    assert message.isprintable()
    assert len(message) < 250


@pytest.mark.parametrize("text", ["{{input.nope}}", "{{fields.nope}}", "{{input.n.x}}", "{{input.deep.list.7}}"])
def test_a_missing_variable_names_case_and_variable(text: str) -> None:
    with pytest.raises(MissingVariable) as caught:
        render(text)
    assert 'case "c1"' in str(caught.value)
    assert text in str(caught.value)


@given(st.text())
def test_r50_what_a_case_holds_is_never_read_as_a_template_again(text: str) -> None:
    for payload in (text, "{{id}}" + text, "{{7*7}}", "{{input}}{{fields.lang}}"):
        assert render("<{{input}}>", Case(id="c", input=payload)) == f"<{payload}>"
