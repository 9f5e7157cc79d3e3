"""UTF-8 in, places and names out."""

from __future__ import annotations

import os
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairtrial.errors import InputError
from fairtrial.spec.text import (
    Position,
    decode_text,
    did_you_mean,
    has_control_character,
    nearest,
    position_at,
    shown,
    shown_path,
)


def test_k82_a_byte_order_mark_is_dropped():
    assert decode_text(b"\xef\xbb\xbfid,input\n", place="q.csv") == "id,input\n"


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"])
@pytest.mark.parametrize("text", ['{"input": 1}', "id,input\n", "a: 1\n"])
def test_k82_r37_wide_encodings_are_refused_by_name_with_and_without_a_mark(encoding: str, text: str):
    with pytest.raises(InputError, match=rf"UTF-{encoding[4:6]}") as caught:
        decode_text(text.encode(encoding), place="q")
    assert "Save it as UTF-8" in str(caught.value)


def test_k82_latin_1_is_refused_with_line_and_byte():
    data = "one\nzwei\ncafé\n".encode("latin-1")
    with pytest.raises(InputError) as caught:
        decode_text(data, place="q.csv")
    # Counted by hand: é is the fourth byte of the third line.
    assert str(caught.value).startswith("q.csv:3: byte 0xe9 (byte 4 of line 3) is not UTF-8.")


def test_k82_line_of_a_bad_byte_counts_from_where_the_piece_begins():
    with pytest.raises(InputError, match=r"^q:41: .*byte 2 of line 41"):
        decode_text(b"a\xff", place="q", first_line=41)


@pytest.mark.parametrize(
    ("head", "name"), [(b"\x1f\x8b\x08\x00", "gzip"), (b"PK\x03\x04", "Excel"), (b"PAR1", "Parquet")]
)
def test_k82_binary_formats_are_refused_by_name(head: bytes, name: str):
    with pytest.raises(InputError, match=name):
        decode_text(head + b"rest", place="q")


@given(st.text())
def test_every_text_survives_utf_8(text: str):
    if text[:1] == "\ufeff" or any("\ud800" <= c <= "\udfff" for c in text) or "\0" in text[:4]:
        return
    assert decode_text(text.encode(), place="q") == text


def test_lines_end_at_lf_crlf_and_lone_cr_and_at_no_separator():
    text = "a\r\nb\u2028\x85\x0b\x0cc\rd\ne"
    # By hand: CRLF, CR and LF end three lines, the separators none.
    assert position_at(text, text.index("e")) == Position(4, 1)
    assert position_at(text, text.index("c")) == Position(2, 6)
    assert position_at(text, 0, first_line=10) == Position(10, 1)


@given(st.text(max_size=30))
def test_control_characters_are_the_categories_that_break_a_line(text: str):
    by_category = any(unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") for c in text)
    assert has_control_character(text) == by_category


def test_emoji_with_joiners_and_combining_marks_are_no_control_characters():
    assert not has_control_character("👩\u200d💻 e\u0301 \u05d0\u202e")


def test_shown_names_hold_no_escape_code_and_are_cut():
    assert shown("a\x1b[31m\n") == '"a\\x1b[31m\\n"'
    assert shown("\ud835") == '"\\ud835"'
    assert shown("x" * 100, limit=10) == '"xxxxxxxxx…"'


def test_a_file_name_of_any_bytes_can_be_shown():
    path = Path(os.fsdecode(b"caf\xe9\n.json"))
    assert shown_path(path) == "caf\ufffd\ufffd.json"
    assert shown_path(path).encode()


def test_the_nearest_name_ignores_case_and_far_names_are_not_proposed():
    assert nearest("COMAND", ["kind", "command"]) == ["command"]
    assert nearest("zzz", ["kind", "command"]) == []
    assert did_you_mean("zzz", ["a", "b"], what="keys") == "Known keys: a, b."
    assert did_you_mean("comand", ["command"], what="keys") == 'Did you mean "command"?'
