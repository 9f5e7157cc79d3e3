"""Events from bytes: the borders of chunks mean nothing, and nothing is dropped or made up."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairtrial.providers.sse import Event, EventReader, TooLong
from fairtrial.providers.wire import AnswerStream

# Every kind of line and line end, a character of four bytes, a lone CR, a blank data line, and a field without a colon.
TEXT = (
    "\ufeff: a comment\r\nevent: first\r\ndata: one \U0001f600\r\ndata:two\r\n\r\n"
    "id: 7\nretry: 10\n\n"
    "data\ndata:  padded\n\n"
    "event: third\rdata: cr\r\r"
    ": only a comment\n\n"
    "data: last\n\n"
).encode()

# By hand, after the HTML standard's section on interpreting an event stream.
EVENTS = [
    Event("first", "one \U0001f600\ntwo".encode()),
    Event("message", b"\n padded"),
    Event("third", b"cr"),
    Event("message", b"last"),
]


def events_of(chunks: list[bytes]) -> list[Event]:
    reader = EventReader()
    return [event for chunk in chunks for event in reader.feed(chunk)] + reader.end()


def feed_all(reader: EventReader, chunks: list[bytes]) -> None:
    for chunk in chunks:
        reader.feed(chunk)


def cut(data: bytes, borders: list[int]) -> list[bytes]:
    places = [0, *sorted(borders), len(data)]
    return [data[start:end] for start, end in pairwise(places)]


def test_events_of_every_spelling_are_read() -> None:
    assert events_of([TEXT]) == EVENTS


@given(st.lists(st.integers(0, len(TEXT)), max_size=30))
def test_k85_the_borders_of_chunks_change_nothing(borders: list[int]) -> None:
    assert events_of(cut(TEXT, borders)) == EVENTS


def test_one_byte_at_a_time_changes_nothing() -> None:
    assert events_of([bytes([byte]) for byte in TEXT]) == EVENTS


@given(st.binary(max_size=300), st.lists(st.integers(0, 300), max_size=10))
def test_any_bytes_give_the_same_events_in_any_pieces(data: bytes, borders: list[int]) -> None:
    assert events_of(cut(data, [border for border in borders if border <= len(data)])) == events_of([data])


def test_an_event_without_its_blank_line_is_given_at_the_end_only() -> None:
    reader = EventReader()
    assert reader.feed(b"data: begun") == []
    assert reader.end() == [Event("message", b"begun")]
    assert reader.end() == []


@pytest.mark.parametrize("line", [b"data: " + b"x" * 90, b": " + b"x" * 120, b"data: 12345678\n" * 8])
def test_r26_an_event_over_its_cap_is_refused_while_it_comes(line: bytes) -> None:
    reader = EventReader(max_event_bytes=64)
    pieces = [line[start : start + 10] for start in range(0, len(line), 10)]
    with pytest.raises(TooLong, match="64 bytes"):
        feed_all(reader, pieces)


def test_r26_a_stream_over_its_cap_is_refused_while_it_comes() -> None:
    reader = EventReader(max_bytes=100)
    feed_all(reader, [b"data: abc\n"] * 10)
    with pytest.raises(TooLong, match="the stream is longer than 100 bytes"):
        reader.feed(b"d")


def test_k85_an_emoji_in_two_deltas_is_one_character() -> None:
    # A surrogate pair whose halves stand in two events, as escapes: JSON allows each half alone.
    stream = AnswerStream("openai-chat")
    for half in (r"\ud83d", r"\ude00"):
        stream.feed(b'data: {"choices":[{"index":0,"delta":{"content":"%s"}}]}\n\n' % half.encode())
    stream.feed(b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n')
    assert stream.finish().text == "\U0001f600"


def test_k85_half_a_pair_and_a_nul_stay_as_the_model_wrote_them() -> None:
    stream = AnswerStream("openai-chat")
    stream.feed(
        rb'data: {"choices":[{"index":0,"delta":{"content":"a\ud835\u0000"},"finish_reason":"stop"}]}' + b"\n\n"
    )
    stream.feed(b"data: [DONE]\n\n")
    text = stream.finish().text
    assert text == "a\ud835\0"
    # UTF-8 by hand: D835 is 1101 100000 110101.
    assert text.encode("utf-8", "surrogatepass") == b"a\xed\xa0\xb5\0"
