"""YAML 1.2's core schema, and nothing that surprises or grows."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairtrial.errors import InputError
from fairtrial.spec.strict import parse_json, parse_yaml
from fairtrial.spec.strict_yaml import yaml_positions

# The bar for any bad input is 2 s, and an idle machine holds it. Under tracing or load it takes several times as long;
# a walk that is quadratic takes minutes.
ENDS_WITHIN_S = 20


def refused(text: str | bytes) -> str:
    with pytest.raises(InputError) as caught:
        parse_yaml(text, place="f.yaml")
    return str(caught.value)


# Expected values: the tag resolution table of YAML 1.2.2, section 10.3.2, read by hand.
@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("no", "no"),
        ("on", "on"),
        ("Yes", "Yes"),
        ("y", "y"),
        ("1:30", "1:30"),
        ("190:20:30", "190:20:30"),
        ("1_000", "1_000"),
        ("2024-01-01", "2024-01-01"),
        ("2024-01-01 10:00:00", "2024-01-01 10:00:00"),
        ("010", 10),
        ("007", 7),
        ("0o17", 15),
        ("0x10", 16),
        ("0b1", "0b1"),
        ("+5", 5),
        ("-0", 0),
        ("1e5", 100000.0),
        ("1.", 1.0),
        (".5", 0.5),
        ("-1.5E-3", -0.0015),
        ("1e", "1e"),
        ("12345678901234567890123", 12345678901234567890123),
        ("null", None),
        ("~", None),
        ("", None),
        ("nULL", "nULL"),
        ("true", True),
        ("False", False),
        ("tRue", "tRue"),
        ("=", "="),
        ("<<", "<<"),
        ("inf", "inf"),
        ("'  padded  '", "  padded  "),
        ("  padded  ", "padded"),
        ('"no"', "no"),
        ("'007'", "007"),
        ('"1e400"', "1e400"),
    ],
)
def test_k88_m06_values_have_the_types_of_the_core_schema(written: str, value: object):
    parsed = parse_yaml(f"a: {written}\n", place="f")
    assert repr(parsed) == repr({"a": value})


def test_k86_an_integer_has_as_many_digits_as_can_be_written_again():
    for digits in ("9" * 4300, "-" + "9" * 4300, "0x" + "f" * 3438):
        document = parse_yaml(f"a: {digits}", place="f")
        assert document == {"a": int(digits, 0)}
        assert json.dumps(document)


def test_k88_keys_are_text_as_written():
    assert parse_yaml("no: 1\n010: 2\nnull: 3\n1.5: 4\n<<: 5\n", place="f") == {
        "no": 1,
        "010": 2,
        "null": 3,
        "1.5": 4,
        "<<": 5,
    }


def alias_bomb() -> str:
    levels = ["a: &a [x, x, x, x, x, x, x, x, x]"]
    for name, before in zip("bcdefg", "abcdef", strict=True):
        levels.append(f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]")
    return "\n".join(levels)


def test_r42_m06_an_alias_bomb_is_refused_within_100_ms_and_10_mb():
    code = (
        "import re, sys, time, yaml\n"
        "from fairtrial.errors import InputError\n"
        "from fairtrial.spec.strict import parse_yaml\n"
        "bomb = sys.stdin.read()\n"
        "def peak(): return int(re.search(r'VmHWM:\\s+(\\d+) kB', open('/proc/self/status').read())[1])\n"
        "before, start = peak(), time.perf_counter()\n"
        "try: parse_yaml(bomb, place='f')\n"
        "except InputError as error: print(error)\n"
        "print(time.perf_counter() - start, (peak() - before) / 1024)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], input=alias_bomb(), capture_output=True, text=True, check=True)
    message, figures = done.stdout.splitlines()
    seconds, megabytes = map(float, figures.split())
    assert message == "f:1:4: anchors are refused. Write the value out where it is needed."
    assert seconds < 0.1
    assert megabytes < 10


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: &x 1", "f.yaml:1:4: anchors are refused"),
        ("a: *x", "f.yaml:1:4: aliases are refused"),
        ("a: !!str 1", "f.yaml:1:4: tags are refused"),
        ("a: ! 1", "f.yaml:1:4: tags are refused"),
        ("a: !!python/object/apply:os.system [x]", "f.yaml:1:4: tags are refused"),
        ("!!map {a: 1}", "f.yaml:1:1: tags are refused"),
        ("%YAML 1.1\n---\na: no", "f.yaml:1:1: directives are refused"),
        ("%TAG !e! tag:x,2000:\n---\na: 1", "f.yaml:1:1: directives are refused"),
        ("a: 1\n---\nb: 2", "f.yaml:2:1: a second document"),
        ("a: 1\nb:\n  c: 1\n  'c': 2", 'f.yaml:4:3: the key "c" stands twice (first on line 3)'),
        ("? [a, b]\n: 1", "f.yaml:1:3: a key must be one text"),
        ("? {a: b}\n: 1", "f.yaml:1:3: a key must be one text"),
        ("a: .nan", "f.yaml:1:4: NaN and the infinities"),
        ("a: -.Inf", "f.yaml:1:4: NaN and the infinities"),
        ("a: 1e400", "f.yaml:1:4: the number is too large"),
        ("a: " + "9" * 5000, "f.yaml:1:4: an integer has more than 4,300 digits"),
        ("a: -" + "9" * 4301, "f.yaml:1:4: an integer has more than 4,300 digits"),
        ("a: 0x" + "f" * 5000, "f.yaml:1:4: an integer is too long"),
        ("a: [1, 2", "f.yaml:1:9: not valid YAML"),
        ("a:\n\tb: 1", "f.yaml:2:1: not valid YAML"),
        ("a: b: c", "f.yaml:1:5: not valid YAML"),
        ("a: \x01", "f.yaml:1:4: the character U+0001"),
        ('a: 1\nb: "x\\UFFFFFFFF"', "f.yaml:2:8: not valid YAML: an escape"),
        ("a: x\x85y", "f.yaml:1:5: U+0085 stands"),
        ("a: 'x\u2028y'", "f.yaml:1:6: U+2028 stands"),
        ("", "f.yaml: the file is empty"),
        ("# only a note\n", "f.yaml: the file is empty"),
        ("[" * 100_000, "f.yaml:1:101: keys and lists are nested deeper than 100"),
        ("- " * 10_000, "f.yaml:1:201: keys and lists are nested deeper than 100"),
        ("x" * 1_048_577, "f.yaml: the text is longer than 1,048,576 bytes"),
        ("- a\n" * 20_001, "f.yaml:20000:3: the document has more than 20,000 nodes"),
    ],
)
def test_m06_r41_r46_r47_what_is_refused_is_named_with_its_place(text: str, message: str):
    assert refused(text).startswith(message)


def test_k82_yaml_is_utf_8():
    assert parse_yaml(b"\xef\xbb\xbfa: \xc3\xa9\n", place="f") == {"a": "é"}
    assert "UTF-16" in refused("a: é\n".encode("utf-16"))


def test_k84_escaped_separators_stay_in_the_text():
    assert parse_yaml('a: "x\\u2028\\N\\Ly\\x0b"', place="f") == {"a": "x\u2028\x85\u2028y\x0b"}


def test_comments_blocks_and_flow_read_as_one_would_think():
    text = "# note\na: [1, {b: 'it''s'}]  # note\nc: |\n  two\n  lines\nd: >-\n  one\n  line\ne:\n- x\n-\n"
    assert parse_yaml(text, place="f") == {
        "a": [1, {"b": "it's"}],
        "c": "two\nlines\n",
        "d": "one line",
        "e": ["x", None],
    }
    assert parse_yaml("%YAML 1.2\n---\na: 1\n...\n", place="f") == {"a": 1}


TEXTS = st.text(st.characters(blacklist_characters="\x7f"), max_size=20)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=15,
)


@given(VALUES)
def test_json_is_yaml_and_gives_the_same_value(value: object):
    text = json.dumps(value)
    assert parse_yaml(text, place="f") == parse_json(text, place="f")


@given(st.text(max_size=40) | st.text(alphabet="ab:-?[]{},#&*!|>'\"%@` \n\t~.0\\", max_size=60))
def test_any_text_gives_a_value_or_our_error(text: str):
    try:
        parse_yaml(text, place="f")
    except InputError as error:
        place = error.place
    else:
        return
    assert place


@pytest.mark.parametrize(
    "text",
    [
        "a: " + "x " * 500_000,
        "#" * 1_000_000,
        "\n" * 1_000_000,
        "'" + "''" * 500_000,
        '"' + "\\n" * 500_000,
        ": " * 500_000,
    ],
    ids=["plain", "comment", "newlines", "quotes", "escapes", "colons"],
)
def test_g05_a_document_of_one_megabyte_is_answered_in_seconds(text: str):
    start = time.process_time()
    try:
        parse_yaml(text, place="f")
    except InputError as error:
        print(error)
    assert time.process_time() - start < ENDS_WITHIN_S


def test_positions_are_those_of_keys_and_elements():
    found = yaml_positions("a:\n  - x\n  - b: 1\nc: {d: 2}\n")
    assert {path: (at.line, at.column) for path, at in found.items()} == {
        ("a",): (1, 1),
        ("a", 0): (2, 5),
        ("a", 1): (3, 5),
        ("a", 1, "b"): (3, 5),
        ("c",): (4, 1),
        ("c", "d"): (4, 5),
    }
