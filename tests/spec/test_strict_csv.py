"""CSV: cells are text, rows are whole."""

from __future__ import annotations

import csv
import io
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairtrial.errors import InputError
from fairtrial.spec.strict import parse_csv


def rows(data: bytes) -> list[dict[str, str]]:
    return list(parse_csv(data, "f.csv"))


def refused(data: bytes) -> str:
    with pytest.raises(InputError) as caught:
        rows(data)
    return str(caught.value)


def test_k82_the_mark_is_not_part_of_the_first_header():
    assert rows(b"\xef\xbb\xbfid,answer\r\n1,x\r\n") == [{"id": "1", "answer": "x"}]


def test_k82_other_encodings_are_refused():
    assert "UTF-16" in refused("id,a\n1,é\n".encode("utf-16"))
    assert refused("id,a\n1,é\n".encode("latin-1")).startswith("f.csv:2: byte 0xe9 (byte 3 of line 2)")


@pytest.mark.parametrize(
    "cell", ["007", "1e5", "no", "on", "null", "2024-01-01", "1_000", "0x10", " padded ", "", "NaN", "1e400"]
)
def test_k88_cells_stay_text(cell: str):
    assert rows(f"id,{'a'}\n{cell},{cell}\n".encode()) == [{"id": cell, "a": cell}]


@given(
    st.lists(
        st.lists(st.text(st.characters(blacklist_categories=["Cs"]), max_size=8), min_size=2, max_size=2), max_size=5
    ),
    st.sampled_from(["\n", "\r\n"]),
)
def test_k84_what_the_standard_library_wrote_reads_back_exactly(cells: list[list[str]], ending: str):
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator=ending, quoting=csv.QUOTE_ALL)
    writer.writerow(["a", "b"])
    writer.writerows(cells)
    assert [list(row.values()) for row in rows(text.getvalue().encode())] == cells


@pytest.mark.parametrize(
    "text",
    [
        'a,b\n1,"x, y"\n',
        'a,b\n1,say "hi"\n',
        'a,b\n"1""2",\n,\n',
        "a,b\n\n1,2\n\n\n",
        "a,b\n1,2",
        'a,b\r\n"x\r\ny\nz",2\r\n',
        "é,b\nü,\u2028x\x85\n",
    ],
)
def test_it_agrees_with_the_standard_library_where_both_accept(text: str):
    assert rows(text.encode()) == list(csv.DictReader(io.StringIO(text, newline="")))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "f.csv: the file is empty"),
        (b"\n\n", "f.csv: the file is empty"),
        (b"a,b,a\n", 'f.csv:1: the column "a" stands twice'),
        (b"a,,b\n", "f.csv:1: column 2 has no name"),
        (b",a\n0,x\n", "f.csv:1: column 1 has no name in the header. A table written by pandas needs index=False."),
        (b"a, \n", "f.csv:1: column 2 has no name"),
        (b"a;b\n1;2\n", "f.csv:1: the header is one column with semicolons or tabs"),
        (b"a\tb\n", "f.csv:1: the header is one column with semicolons or tabs"),
        (b"a,b\n1,2\n\n1\n", "f.csv:4: the row has 1 cells, the header has 2."),
        (b"a,b\n1,2,3\n", "f.csv:2: the row has 3 cells"),
        (b'a,b\n"x\ny",1\n2\n', "f.csv:4: the row has 1 cells"),
        (b'a,b\n1,"x\n2,y\n', "f.csv:2: a quoted cell that begins in this row is not closed"),
        (b'a,b\n"x" y,1\n', "f.csv:2: text follows the closing quote"),
        (b"a,b\r1,2\r", "f.csv:1: a carriage return stands alone"),
    ],
)
def test_k89_r37_r47_what_is_refused_is_named_with_its_line(data: bytes, message: str):
    assert refused(data).startswith(message)


def test_a_header_alone_has_no_rows():
    assert rows(b"a,b\n") == []


def test_the_line_of_a_row_is_where_it_begins():
    reader = parse_csv(b'a\n1\n\n"x\ny"\n2\n', "f")
    assert [(row["a"], reader.line) for row in reader] == [("1", 2), ("x\ny", 4), ("2", 6)]


def test_a_cell_of_a_megabyte_is_read_and_an_open_quote_costs_no_more():
    cell = "x" * 1_000_000
    assert rows(f"a\n{cell}\n".encode()) == [{"a": cell}]
    tracemalloc.start()
    assert "not closed" in refused(b'a\n"' + b'""' * 500_000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20_000_000
