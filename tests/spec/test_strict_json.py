"""JSON as RFC 8259 has it, and nothing decided silently."""

from __future__ import annotations

import gzip
import io
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairtrial.errors import InputError
from fairtrial.spec.strict import iter_json_lines, iter_json_list, parse_json
from fairtrial.spec.strict_json import JsonLines, json_positions

LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4), max_leaves=20
)


def refused(text: str | bytes, **options: int) -> str:
    with pytest.raises(InputError) as caught:
        parse_json(text, place="f.json", **options)
    assert caught.value.code == "bad_input"
    return str(caught.value)


@given(VALUES)
def test_what_the_standard_library_wrote_reads_back_equal(value: object):
    for ascii_only in (True, False):
        text = json.dumps(value, ensure_ascii=ascii_only, indent=1)
        assert parse_json(text, place="f") == json.loads(text)


def place_of_error(data: str | bytes) -> str | None:
    try:
        parse_json(data, place="f")
    except InputError as error:
        return error.place or "no place"
    return None


@given(st.text(max_size=40) | st.text(alphabet='{}[]",:0123456789.eE+-truefalsn\\ \n', max_size=60))
def test_r47_any_text_gives_a_value_or_our_error_with_line_and_column(text: str):
    place = place_of_error(text)
    is_empty = not text.removeprefix("\ufeff").strip()
    assert place is None or (place == "f" if is_empty else re.fullmatch(r"f:\d+:\d+", place))


@given(st.binary(max_size=60))
def test_any_bytes_give_a_value_or_our_error(data: bytes):
    place = place_of_error(data)
    assert place is None or re.fullmatch(r"f(:\d+(:\d+)?)?", place)


def test_m04_r46_a_doubled_key_is_refused_with_both_lines():
    assert refused('{"a": 1,\n "b": {"c": 1,\n  "c": 2}}') == (
        'f.json:3:3: the key "c" stands twice in one object (first on line 2).'
    )


def test_m04_equal_keys_in_two_objects_are_fine():
    assert parse_json('[{"a": 1}, {"a": {"a": 2}}]', place="f") == [{"a": 1}, {"a": {"a": 2}}]


def test_m04_keys_that_are_equal_after_escapes_are_one_key():
    assert "stands twice" in refused('{"a": 1, "\\u0061": 2}')


@pytest.mark.parametrize("constant", ["NaN", "Infinity", "-Infinity"])
def test_k86_constants_are_refused_with_their_place(constant: str):
    assert refused(f'{{"x": "NaN",\n "expected": {constant}}}') == f"f.json:2:14: {constant} is not a JSON value."


@pytest.mark.parametrize("number", ["1e400", "-1e400", "1E+999", "9" * 400 + ".0"])
def test_k86_a_number_too_large_for_a_float_is_refused(number: str):
    assert refused(f"[1,\n{number}]") == "f.json:2:1: the number is too large for a float."


def test_k86_integers_and_minus_zero_are_exact():
    text = "[12345678901234567890123, 9007199254740993, -0.0, 1e308, 5e-324]"
    assert repr(parse_json(text, place="f")) == "[12345678901234567890123, 9007199254740993, -0.0, 1e+308, 5e-324]"


def test_k86_m04_a_very_long_integer_is_a_named_error():
    assert parse_json("9" * 4300, place="f") == int("9" * 4300)
    assert parse_json("-" + "9" * 4300, place="f") == -int("9" * 4300)
    assert refused("-" + "9" * 4301).endswith("an integer has more than 4,300 digits.")
    assert refused("9" * 5000) == "f.json:1:1: an integer has more than 4,300 digits."


def test_k86_a_lowered_limit_of_python_is_the_same_named_error():
    code = (
        "from fairtrial.spec.strict import parse_json\n"
        "from fairtrial.errors import InputError\n"
        "try: parse_json('[' + '9' * 700 + ']', place='f')\n"
        "except InputError as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-X", "int_max_str_digits=640", "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout == "f:1:2: an integer has more than 640 digits.\n"


def test_k85_half_a_surrogate_pair_is_accepted():
    assert parse_json('"\\ud835"', place="f") == "\ud835"


@pytest.mark.parametrize("opening", ["[", '{"a":', "[{" + '"a":'])
def test_r41_m04_depth_is_a_named_error_and_no_recursion_error(opening: str):
    assert "nested deeper than 100 levels" in refused(opening * 100_000)


def test_r41_depth_counts_no_bracket_in_a_string():
    value = ["[" * 1000, '\\"[[[' * 50, "{" * 1000]
    assert parse_json(json.dumps(value), place="f") == value
    assert parse_json("[" * 100 + "]" * 100, place="f") is not None
    assert refused("[" * 101 + "]" * 101).startswith("f.json:1:101:")
    assert "nested deeper" in refused("[[[1]]]", max_depth=2)


def test_r41_an_open_string_of_quotes_is_refused_in_time():
    # A scan that searched again at every quote would need some 10**11 steps here.
    assert "unterminated string" in refused('{"a": "' + '\\"[' * 300_000)


def test_r43_a_document_over_its_limit_is_refused():
    assert refused("[1, 2, 3]", max_bytes=8) == "f.json: the text is longer than 8 bytes."


@pytest.mark.parametrize(
    ("text", "line", "column", "hint"),
    [
        ('{"a": 1,\n}', 2, 1, "comma"),
        ('{"a": [1,\n 2,]}', 2, 4, "comma"),
        ("{'a': 1}", 1, 2, "double quotes"),
        ("{a: 1}", 1, 2, "shell"),
        ('{"a": 1}\n{"a": 2}', 2, 1, ".jsonl"),
        ("// note\n{}", 1, 1, "comments"),
        ('{"a": 1', 1, 8, "ends too early"),
        ('{"a": tru}', 1, 7, ""),
        ('{"a": "x\ty"}', 1, 9, ""),
        ('{\r\n"a": 1,\r"b" 2}', 3, 5, ""),
    ],
)
def test_r47_syntax_errors_name_physical_line_column_and_remedy(text: str, line: int, column: int, hint: str):
    message = refused(text)
    assert message.startswith(f"f.json:{line}:{column}: not valid JSON: ")
    assert hint in message


def test_r47_no_message_shows_a_value():
    for text in (
        '{"key": "sk-secret" x}',
        '{"key": "sk-secret", "key": 1}',
        '["sk-secret", NaN]',
        '{"key": sk-secret}',
    ):
        assert "sk-secret" not in refused(text)


@pytest.mark.parametrize("text", ["", "   \n", "\ufeff"])
def test_k89_an_empty_text_is_said_to_be_empty(text: str):
    assert "empty" in refused(text)


def test_positions_lead_to_every_key_and_element():
    text = '{"a": [1, {"b": "]"}],\n "c": {"d": null}}'
    found = json_positions(text)
    assert {path: text[at] for path, at in found.items()} == {
        ("a",): '"',
        ("a", 0): "1",
        ("a", 1): "{",
        ("a", 1, "b"): '"',
        ("c",): '"',
        ("c", "d"): '"',
    }


# --- one record a line


def lines(data: bytes, **options: int) -> list[tuple[int, object]]:
    return [tuple(line) for line in iter_json_lines(io.BytesIO(data), place="f.jsonl", **options)]


def lines_refused(data: bytes, **options: int) -> str:
    with pytest.raises(InputError) as caught:
        lines(data, **options)
    return str(caught.value)


CLEAN = b'{"a": 1}\n{"a": 2}\n'


@pytest.mark.parametrize(
    "data",
    [
        CLEAN,
        b"\xef\xbb\xbf" + CLEAN,
        CLEAN.replace(b"\n", b"\r\n"),
        CLEAN.rstrip(b"\n"),
        CLEAN.replace(b"\n", b"\r\n").rstrip(b"\n").rstrip(b"\r"),
        CLEAN + b"\n\n  \n",
        b"\xef\xbb\xbf" + CLEAN.replace(b"\n", b"\r\n") + b"\r\n\t\r\n",
    ],
)
def test_k89_r37_marks_line_ends_and_trailing_blanks_do_not_matter(data: bytes):
    reader = iter_json_lines(io.BytesIO(data), place="f")
    assert [tuple(line) for line in reader] == [(1, {"a": 1}), (2, {"a": 2})]
    assert reader.blank_lines == 0


def test_k89_blank_lines_between_records_are_counted_and_line_numbers_stay():
    reader = iter_json_lines(io.BytesIO(b'\n{"a": 1}\n\n \t\n{"a": 2}\n\n'), place="f")
    assert [line.number for line in reader] == [2, 5]
    assert reader.blank_lines == 3


@pytest.mark.parametrize("data", [CLEAN.replace(b"\n", b"\r"), b'{"a": 1}\r', b'{"a": 1}\r\r\n', b'{"a":\r1}\n'])
def test_k89_r37_a_lone_carriage_return_is_refused_by_name(data: bytes):
    assert lines_refused(data).startswith("f.jsonl:1: a carriage return stands alone")


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x85"])
def test_k84_separators_written_raw_stay_in_the_text(separator: str):
    records = [{"input": f"a{separator}b"}, {"input": separator}]
    data = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records).encode()
    assert separator.encode() in data
    assert lines(data) == list(enumerate(records, start=1))


@pytest.mark.parametrize("separator", ["\x0b", "\x0c", "\x1c", "\x1d", "\x1e"])
def test_k84_separators_that_json_escapes_stay_in_the_text(separator: str):
    record = {"input": f"a{separator}b"}
    assert lines(json.dumps(record).encode() + b"\n") == [(1, record)]


def test_r47_an_error_names_the_line_of_the_file_and_the_column():
    assert lines_refused(CLEAN + b"\n" + b'{"a": 1 "b"}\n').startswith("f.jsonl:4:9: not valid JSON")
    assert lines_refused(CLEAN + b'{"a": NaN}').startswith("f.jsonl:3:7: NaN")
    assert lines_refused(CLEAN + b'{"a": "\xe9"}').startswith("f.jsonl:3: byte 0xe9 (byte 8 of line 3)")
    assert "in JSONL a record stands on one line" in lines_refused(b'{\n  "a": 1\n}\n')


def test_k82_utf_16_is_refused_by_name():
    assert "UTF-16" in lines_refused('{"a": 1}\n'.encode("utf-16"))


def test_k82_a_mark_inside_the_file_is_refused():
    assert lines_refused(CLEAN + b"\xef\xbb\xbf" + CLEAN).startswith("f.jsonl:3: a byte-order mark stands inside")


@pytest.mark.parametrize("data", [b'[\n{"a": 1}\n]', b'\n[{"a": 1}]'])
def test_k89_a_json_list_in_a_lines_file_is_refused_with_the_hint(data: bytes):
    assert "ends in .json" in lines_refused(data)


def test_r43_a_line_over_the_limit_is_refused_with_its_number():
    assert lines(b'{"a": 1}\r\n', max_line_bytes=8) == [(1, {"a": 1})]
    message = lines_refused(CLEAN + b'{"a": 12}\n' + CLEAN, max_line_bytes=8)
    assert message == "f.jsonl:3: the line is longer than the limit of 8 bytes."


def test_r43_a_stream_over_the_limit_is_refused_with_the_line():
    reader = JsonLines(io.BytesIO(CLEAN * 10), place="f", max_line_bytes=100, max_bytes=50)
    with pytest.raises(InputError, match=r"^f:6: .*longer than the limit"):
        list(reader)


def _peak_memory_mb(code: str, path: Path) -> tuple[float, str]:
    # VmHWM starts anew with the program; ru_maxrss of a child begins at the size of the process that started it.
    measure = "\nimport re; print(re.search(r'VmHWM:\\s+(\\d+) kB', open('/proc/self/status').read())[1])"
    done = subprocess.run([sys.executable, "-c", code + measure, str(path)], capture_output=True, text=True, check=True)
    *output, peak_kb = done.stdout.splitlines()
    return float(peak_kb) / 1024, "\n".join(output)


def test_r43_a_line_of_100_mb_is_refused_without_reading_it(tmp_path: Path):
    path = tmp_path / "big.jsonl"
    with path.open("wb") as file:
        file.write(b'{"input": 1}\n{"input": "')
        for _ in range(100):
            file.write(b"x" * 1_000_000)
        file.write(b'"}\n')
    code = (
        "import sys, pathlib\nfrom fairtrial.errors import InputError\n"
        "from fairtrial.spec.dataset import load_dataset\n"
        "try: load_dataset(pathlib.Path(sys.argv[1]))\nexcept InputError as error: print(error)\n"
    )
    peak, message = _peak_memory_mb(code, path)
    assert message == f"{path}:2: the line is longer than the limit of 16,777,216 bytes."
    # The issue's bar for streamed files is 300 MB; reading the line at all would be above 200.
    assert peak < 120


@pytest.mark.slow
def test_r43_a_file_of_a_gigabyte_and_a_million_lines_is_streamed(tmp_path: Path):
    path = tmp_path / "big.jsonl.gz"
    block = (json.dumps({"input": "x" * 1010}) + "\n").encode() * 1000
    # A gzip file is one member after another, so one packed block does for all.
    path.write_bytes(gzip.compress(block, compresslevel=1) * 1000)
    assert len(block) * 1000 > 1e9
    code = (
        "import sys, gzip\nfrom fairtrial.spec.strict import iter_json_lines\n"
        "print(sum(1 for _ in iter_json_lines(gzip.open(sys.argv[1]), place='f')))\n"
    )
    peak, count = _peak_memory_mb(code, path)
    assert count == "1000000"
    assert peak < 300


# --- a list of records


@given(st.lists(VALUES, max_size=6), st.sampled_from([None, 0, 2]))
def test_list_elements_are_those_of_the_list(values: list[object], indent: int | None):
    text = json.dumps(values, indent=indent)
    assert [line.value for line in iter_json_list(text, place="f")] == json.loads(text)


def test_list_elements_know_the_line_they_begin_on():
    text = '[\n\n{"a":\n1}, {"a": 2},\r\n  {"a": 3}\n]\n'
    assert [line.number for line in iter_json_list(text, place="f")] == [3, 4, 5]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": 1}', "f:1:1: the document is one object"),
        ('"a"', "f:1:1: the document is not a list"),
        ("[1, 2", "f:1:6: not valid JSON: the list is not closed"),
        ("[1 2]", 'f:1:4: not valid JSON: a "," or "]" is missing'),
        ("[1,]", "f:1:4: not valid JSON: expecting value"),
        ("[1]\n[2]", "f:2:1: not valid JSON: more text follows"),
        ('[1,\n {"a": 1, "a": 2}]', 'f:2:11: the key "a" stands twice'),
        ("[[1],\n [0, NaN]]", "f:2:6: NaN"),
        ("[" * 200_000, "f:1:102: objects and lists are nested deeper"),
    ],
)
def test_r47_a_bad_list_names_line_and_column(text: str, message: str):
    with pytest.raises(InputError) as caught:
        list(iter_json_list(text, place="f"))
    assert str(caught.value).startswith(message)
