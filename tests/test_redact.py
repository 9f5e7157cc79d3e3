"""Redaction of secret values in every spelling a program is likely to print them in."""

from __future__ import annotations

import base64
import json
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairtrial.redact import MIN_SECRET, Redactor

SECRET = 'sk-ab+c/d"é 17=x'
REDACTOR = Redactor({"KEY": SECRET})


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    "spelling",
    [
        SECRET,
        json.dumps(SECRET)[1:-1],
        json.dumps(SECRET, ensure_ascii=False)[1:-1],
        quote(SECRET),
        quote(SECRET, safe=""),
        quote_plus(SECRET),
        SECRET.encode().hex(),
        SECRET.encode().hex().upper(),
    ],
)
def test_k99_a_secret_is_found_in_its_usual_spellings(spelling: str) -> None:
    assert REDACTOR.redact(f"a {spelling} b {spelling}".encode()) == b"a [redacted:KEY] b [redacted:KEY]"


@pytest.mark.parametrize("before", ["", "u", "us", "user:"])
@pytest.mark.parametrize("after", ["", "!", "!!"])
def test_k99_a_secret_inside_base64_is_found_at_any_offset(before: str, after: str) -> None:
    secret = "correct-horse-battery"
    found = Redactor({"KEY": secret}).redact_text(f"Basic {b64(before + secret + after)} end")
    assert "[redacted:KEY]" in found
    # What is left of the encoded text decodes to nothing of the secret but single letters at its ends.
    assert b64(secret)[4:-4] not in found


def test_values_shorter_than_the_floor_are_left_alone() -> None:
    short = "a" * (MIN_SECRET - 1)
    assert Redactor({"SHORT": short}).redact(b"aaaaaaaaaa") == b"aaaaaaaaaa"


def test_a_secret_inside_another_does_not_break_it_up() -> None:
    redactor = Redactor({"LONG": "abcdefghij", "PART": "cdefgh"})
    assert redactor.redact(b"abcdefghij cdefgh") == b"[redacted:LONG] [redacted:PART]"


def test_a_secret_that_is_part_of_the_mark_is_not_searched_in_marks() -> None:
    redactor = Redactor({"A": "redacted", "B": "hunter22"})
    assert redactor.redact(b"hunter22 redacted") == b"[redacted:B] [redacted:A]"


def test_the_beginning_of_a_secret_at_a_cut_is_taken_out() -> None:
    redactor = Redactor({"KEY": "correct-horse"})
    assert redactor.redact(b"x correct-hor", is_cut=True) == b"x [redacted:KEY]"
    assert redactor.redact(b"x correct-hor") == b"x correct-hor"
    assert redactor.redact(b"x corr", is_cut=True) == b"x corr"


@given(st.binary(max_size=200), st.text(min_size=MIN_SECRET, max_size=20), st.binary(max_size=200))
def test_r62_no_text_with_the_secret_in_it_keeps_it(before: bytes, secret: str, after: bytes) -> None:
    raw = secret.encode("utf-8", "surrogatepass")
    mark = b"[redacted:N]"
    if raw in mark or mark in raw:
        return
    assert raw not in Redactor({"N": secret}).redact(before + raw + after).replace(mark, b"\xff\xfe")


@given(st.binary(max_size=300))
def test_bytes_without_a_secret_come_back_as_they_are(data: bytes) -> None:
    assert Redactor({}).redact(data) == data
    assert Redactor({"KEY": "a-secret-not-in-it-0123456789"}).redact(data) == data
