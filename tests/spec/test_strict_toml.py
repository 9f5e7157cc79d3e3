"""TOML with the values of JSON."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairtrial.errors import InputError
from fairtrial.spec.strict import parse_toml
from fairtrial.spec.strict_toml import toml_positions

# The bar for any bad input is 2 s, and an idle machine holds it. Under tracing or load it takes several times as long;
# a walk that is quadratic takes minutes.
ENDS_WITHIN_S = 20


def refused(text: str | bytes) -> str:
    with pytest.raises(InputError) as caught:
        parse_toml(text, place="f.toml")
    return str(caught.value)


def test_a_document_reads_as_toml_says():
    text = 'a = 1\nb = 12345678901234567890123\nc = -0.0\nd = "no"\n[e.f]\ng = [1, 2.5, true]\n[[h]]\ni = {j = "k"}\n'
    assert parse_toml(text, place="f") == {
        "a": 1,
        "b": 12345678901234567890123,
        "c": -0.0,
        "d": "no",
        "e": {"f": {"g": [1, 2.5, True]}},
        "h": [{"i": {"j": "k"}}],
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a = 1\nb = 2024-01-01\n", 'f.toml:2:1: "b" is a date or time. Put it in quotes'),
        ("[t]\nx = 10:00:00\n", 'f.toml:2:1: "t.x" is a date or time.'),
        ("a = 1\nb = [1979-05-27T07:32:00Z]", 'f.toml:2:1: "b.0" is a date or time.'),
        ('[t]\n"x y" = 1979-05-27', 'f.toml:2:1: "t.x y" is a date or time.'),
        ("a = nan", "f.toml:1:5: nan is not a finite number."),
        ('# inf\nb = "= inf"\ninf = 1\na = [1, -inf]', "f.toml:4:9: -inf is not a finite number."),
        ("a = 1\nb = 1e400", "f.toml:2:5: the number is too large"),
        ("a = 1\na = 2", "f.toml:2:6: not valid TOML: cannot overwrite"),
        ("[a]\n[a]", "f.toml:2:3: not valid TOML"),
        ("a = 1 2", "f.toml:1:7: not valid TOML"),
        ('a = """x', "f.toml:1:9: not valid TOML"),
        ("a = 1\nb = [1, " + "9" * 5000, "f.toml:2:9: an integer has more than 4,300 digits."),
        ("a = 1\nb = 0x" + "f" * 5000, "f.toml:2:1: an integer has more than 4,300 digits."),
        ("a = " + "[" * 100_000, "f.toml:1:105: tables and lists are nested deeper than 100"),
        ("a = " + "{b=" * 100_000, "f.toml:1:305: tables and lists are nested deeper than 100"),
        (".".join("a" * 500) + " = 1", "f.toml:1:200: tables and lists are nested deeper than 100"),
        ("[" + ".".join("a" * 90) + "]\n" + ".".join("b" * 90) + " = 1", "f.toml:1:2: keys are nested deeper than 100"),
        ("x" * 1_048_577, "f.toml: the text is longer than"),
        ("", "f.toml: the file is empty"),
    ],
)
def test_k86_k88_r41_r46_r47_what_is_refused_is_named_with_its_place(text: str, message: str):
    assert refused(text).startswith(message)


def test_k86_an_integer_has_as_many_digits_as_can_be_written_again():
    for digits in ("9" * 4300, "-" + "9" * 4300, "0x" + "f" * 3570):
        document = parse_toml(f"a = {digits}", place="f")
        assert document == {"a": int(digits, 0)}
        assert json.dumps(document)


def test_r41_brackets_in_strings_and_comments_are_no_depth():
    text = (
        "# "
        + "[" * 500
        + "\na = '"
        + "[" * 500
        + "'\nb = '''\n"
        + "[" * 500
        + '\'\'\'\nc = """\\"'
        + "{" * 500
        + '"""\n'
    )
    assert set(parse_toml(text, place="f")) == {"a", "b", "c"}


def test_k82_toml_is_utf_8():
    assert parse_toml(b"\xef\xbb\xbfa = '\xc3\xa9'\r\n", place="f") == {"a": "é"}
    assert refused(b"a = '\xe9'").startswith("f.toml:1: byte 0xe9")


@given(st.text(max_size=40) | st.text(alphabet="ab=.[]{},#\"' \n1e+-:T\\u", max_size=60))
def test_any_text_gives_a_value_or_our_error(text: str):
    try:
        parse_toml(text, place="f")
    except InputError as error:
        place = error.place
    else:
        return
    assert place


@pytest.mark.parametrize(
    "text",
    [".".join("a" * 400_000) + "=1", "a=[" + "1," * 300_000 + "]", "a='" + "x" * 1_000_000 + "'", '"' * 1_000_000],
    ids=["dots", "list", "string", "quotes"],
)
def test_g05_a_document_of_one_megabyte_is_answered_in_seconds(text: str):
    start = time.process_time()
    try:
        parse_toml(text, place="f")
    except InputError as error:
        print(error)
    assert time.process_time() - start < ENDS_WITHIN_S


def test_positions_are_those_of_tables_and_keys():
    text = (
        "a = 1\n[b.c]\n d = 2\n[[e]]\nf = 3\n[[e]]\nf = 4\n[e.g]\nh = 5\n[[e.i]]\n'j k'.\"l\" = 6\n"
        'm = """\n[n]\no = 7\n"""\n'
    )
    assert {path: text[at : at + 1] + str(text[:at].count("\n") + 1) for path, at in toml_positions(text).items()} == {
        ("a",): "a1",
        ("b", "c"): "b2",
        ("b", "c", "d"): "d3",
        ("e", 0): "e4",
        ("e", 0, "f"): "f5",
        ("e", 1): "e6",
        ("e", 1, "f"): "f7",
        ("e", 1, "g"): "e8",
        ("e", 1, "g", "h"): "h9",
        ("e", 1, "i", 0): "e10",
        ("e", 1, "i", 0, "j k", "l"): "'11",
        ("e", 1, "i", 0, "m"): "m12",
    }
