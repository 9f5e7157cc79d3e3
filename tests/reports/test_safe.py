"""R51, R53, K100: text from outside is data on every page, whatever it is made of; K96: and it keeps its column."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from fairtrial.records.verdict import NotComparableRecord, ReasonRecord, ScoreRecord, SettingRecord
from fairtrial.reports.comparison import comparison_lines, comparison_markdown
from fairtrial.reports.run import run_lines, run_markdown
from fairtrial.reports.safe import markdown, names_for, pad, shorten, visible, visible_bytes, width_of

ANY = st.text(alphabet=st.characters(), max_size=60)

ESC = "\x1b"
HOSTILE = {
    "colour": f"{ESC}[31mred{ESC}[0m",
    "clear the screen": f"{ESC}[2J{ESC}[H",
    "link of a terminal": f"{ESC}]8;;http://evil.example{ESC}\\text{ESC}]8;;{ESC}\\",
    "clipboard of a terminal": f"{ESC}]52;c;ZXZpbA==\x07",
    "eight-bit escape": "\x9b31m\x9d8;;x\x9c",
    "bell, backspace, delete": "a\x07b\x08\x08c\x7f",
    "bidi": "abc\u202etxt.exe\u202c \u2066x\u2069 \u200f\u061c",
    "lines": "one\ntwo\r\nthree\rfour\x0bfive\x0csix\x1cseven\x85eight\u2028nine\u2029ten",
    "tab": "a\tb",
    "NUL": "a\0b",
    "half a pair": "\ud835 and \udc00",
    "tags": "\U000e0041\U000e0042 \ufeff \u200b \u2060 \xad \ufff9",
    "private": "\ue000\U0010fffd",
    "rich": "[/x] [bold]b[/bold] [link=http://evil.example]x[/link]",
    "HTML": "<img src=x onerror=alert(1)><script>alert(1)</script><!-- x --><a href='javascript:alert(1)'>x</a>",
    "entities": "&lt;img src=x&gt; &#60;b&#62; &amp;",
    "image": "![x](http://evil.example/a.png) ![][r]\n\n[r]: http://evil.example",
    "link": "[x](javascript:alert(1)) [y][z] <http://evil.example> <me@evil.example>",
    "bare address": "http://evil.example/x https://evil.example ftp://evil.example www.evil.example me@evil.example",
    "mention": "@everyone @torvalds #123 org/repo#7 ~@x",
    "table": "a | b || c \\| d |",
    "emphasis": "*a* **b** _c_ __d__ ~~e~~ `f` ``g`` ***h***",
    "head and list": "# head\n- item\n1. one\n> quote\n---\n===\n    code\n```\nfence\n```\n~~~",
    "head in a line": "# x",
    "item in a line": "- x",
    "number in a line": "1. x",
    "quote in a line": "> x",
    "rule in a line": "---",
    "formula": "$x^2$ $$\\href{javascript:alert(1)}{x}$$ \\(y\\) \\[z\\]",
    "footnote": "[^1] [^1]: note",
    "backslashes": "\\ \\\\ \\* \\[ \\`",
    "task": "- [x] done",
    "spaces": "   a   ",
    "code of a fence": "`````",
}


def invisible(text: str) -> list[str]:
    return [f"U+{ord(c):04X}" for c in text if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")]


def every_place(build: Any, text: str) -> tuple[Any, Any, Any]:
    """Return a comparison, a run and their meta with `text` in every field that somebody else fills."""
    a = build.side(f"{text}a", n=9, passed=3, errors=[("agent_failure", text, 2), ("infra_loss", text, 1)])
    scores = (ScoreRecord(grader=text, mean=0.5, n_scored=2, n_no_score=1, n_errors=1),)
    a = a.model_copy(update={"scores": scores})
    b = build.side(f"{text}b", n=9, passed=4, done=7, ungraded=1)
    comparison = build.comparison(
        a,
        b,
        reasons=[("held", f"held: {text}")],
        regressions=[(text, 1.0, 0.0), (f"{text}2", 1.0, 0.5)],
        improvements=[(f"x{text}" * 20, 0.0, 1.0)],
        not_comparable=NotComparableRecord(
            input_changed=(text,), label_changed=(text, text + "1"), without_value=(text * 30,)
        ),
        settings=(SettingRecord(path=f"task.env.{text}", a=text, b="not set"),),
        warnings=(ReasonRecord(code="w", text=text),),
    )
    run = build.run(a, b, comparisons=[comparison], warnings=(text,))
    meta = build.meta(names=(text, text), dataset=text, look=2, duration_s=1.0, repeated_calls=1)
    return comparison, run, meta


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_r53_no_control_character_from_outside_reaches_a_terminal(build: Any, text: str) -> None:
    comparison, run, meta = every_place(build, text)
    plain_comparison, plain_run, plain_meta = every_place(build, "x")
    for lines, plain in (
        (comparison_lines(comparison, meta), comparison_lines(plain_comparison, plain_meta)),
        (run_lines(run, meta), run_lines(plain_run, plain_meta)),
    ):
        assert [invisible(line) for line in lines if invisible(line)] == []
        # One line a fact: nothing from outside begins a line of its own.
        assert len(lines) == len(plain)


MARKDOWN = MarkdownIt("commonmark").enable(["table", "strikethrough"])
# What our own tables, heads, lists and line breaks are made of, and nothing else.
OURS = {
    "heading_open",
    "heading_close",
    "paragraph_open",
    "paragraph_close",
    "bullet_list_open",
    "bullet_list_close",
    "list_item_open",
    "list_item_close",
    "table_open",
    "table_close",
    "thead_open",
    "thead_close",
    "tbody_open",
    "tbody_close",
    "tr_open",
    "tr_close",
    "th_open",
    "th_close",
    "td_open",
    "td_close",
    "inline",
}
OURS_INLINE = {"text", "softbreak", "hardbreak", "strong_open", "strong_close"}


def shape_of(text: str) -> list[str]:
    """Return what a page makes of Markdown: its blocks, and inside them everything that is not plain text."""
    shape = []
    for token in MARKDOWN.parse(text):
        assert token.type in OURS, token
        shape.append(token.type)
        for child in token.children or []:
            assert child.type in OURS_INLINE, child
            if child.type != "text":
                shape.append(child.type)
    return shape


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_r51_k100_nothing_live_comes_of_text_from_outside_in_markdown(build: Any, text: str) -> None:
    comparison, run, meta = every_place(build, text)
    plain_comparison, plain_run, plain_meta = every_place(build, "x")
    pages: list[tuple[str, str]] = [
        (comparison_markdown(comparison, meta), comparison_markdown(plain_comparison, plain_meta)),
        (run_markdown(run, meta), run_markdown(plain_run, plain_meta)),
    ]
    for page, plain in pages:
        # The same page as with a harmless text: no block, cell, line or mark more.
        assert shape_of(page) == shape_of(plain)
        assert set(invisible(page)) <= {"U+000A", "U+2060"}
        # Pages that turn bare addresses and names into links look at the source, or at the text that it shows.
        assert not re.search(r"(https?|ftp)://|www\.|[@#]\w", page)
        shown = MARKDOWN.render(page)
        assert not re.search(r"<(?!/?(h1|p|ul|li|table|thead|tbody|tr|th|td|strong|br)\b)", shown)
        assert not re.search(r"[@#]\w", shown.replace("&#", ""))


@given(ANY)
def test_any_text_is_shown_as_itself_and_makes_no_mark(text: str) -> None:
    for before, after in (("- ", ""), ("# ", ""), ("| a |\n| --- |\n| ", " |"), ("**x** ", ""), ("**", "**"), ("", "")):
        # A letter at both ends: white space there, and a line of nothing, are the page's own affair.
        assert shape_of(f"{before}x{markdown(text)}x{after}") == shape_of(f"{before}xx{after}")
    # What begins a block does so at the start of a line only.
    if text.strip():
        assert shape_of(f"- {markdown(text.strip())}") == shape_of("- x")
    tokens = MARKDOWN.parse(f"x{markdown(text)}x")
    shown = "".join(child.content for token in tokens for child in token.children or [])
    assert shown.replace("\u2060", "") == f"x{visible(text)}x"


@given(ANY)
def test_visible_text_is_one_line_without_anything_that_acts(text: str) -> None:
    told = visible(text)
    assert invisible(told.replace("\u200d", "").replace("\u200c", "")) == []
    assert len(told.splitlines()) <= 1
    # What needs no change is not changed, and what was written out stays as it is.
    assert visible(told) == told
    told.encode("utf-8")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("plain", "plain"),
        ("\x1b[31m", "\\x1b[31m"),
        ("a\nb\r\tc", "a\\nb\\r\\tc"),
        ("\u202e", "\\u202e"),
        ("\U000e0041", "\\U000e0041"),
        ("\ud835", "\\ud835"),
        ("naïve 日本 👩\u200d🔬", "naïve 日本 👩\u200d🔬"),
    ],
)
def test_control_characters_are_written_out(text: str, told: str) -> None:
    assert visible(text) == told


def test_k85_bytes_that_are_no_text_are_written_out() -> None:
    assert visible_bytes(b"ok \xff\xfe \x00 \xe2\x82") == "ok \\xff\\xfe \\x00 \\xe2\\x82"
    assert visible_bytes("é\U0001f600".encode()) == "é\U0001f600"


# --- K96: width -------------------------------------------------------------------------------------------------------

WIDTHS = {
    "": 0,
    "abc": 3,
    "日本語": 6,
    "ｆｕｌｌ": 8,
    "é": 1,
    "e\u0301": 1,
    # Zero-width marks whose combining class is 0: Thai, Devanagari, an emoji's variation selector.
    "ที่": 1,
    "कु": 1,
    "❤\ufe0f": 1,
    # A syllable of three Hangul letters is one block of two columns.
    "\u1112\u1161\u11ab": 2,
    "한": 2,
    "العربية": 7,
    "\U0001f600": 2,
}


@pytest.mark.parametrize(("text", "columns"), WIDTHS.items())
def test_k96_a_text_takes_as_many_columns_as_a_terminal_gives_it(text: str, columns: int) -> None:
    assert width_of(text) == columns
    assert width_of(pad(text, 20)) == width_of(pad(text, 20, right=True)) == 20


def test_k96_long_names_are_cut_in_the_middle() -> None:
    assert shorten("c_756966685591eb9b", 18) == "c_756966685591eb9b"
    assert shorten("c_756966685591eb9b", 11) == "c_756…1eb9b"
    assert shorten("日本語日本語", 7) == "日…語"
    # A mark is not parted from its letter: the tail begins with a letter.
    assert shorten("aaaaaaaae\u0301bc", 5) in ("aa…bc", "aa…e\u0301bc"[:6])


@given(ANY, st.integers(3, 40))
def test_k96_a_cut_name_fits_its_column(text: str, width: int) -> None:
    told = shorten(visible(text), width)
    assert width_of(told) <= width
    assert len(told) <= 4 * width + 1


def test_marks_piled_on_one_letter_do_not_fill_the_screen() -> None:
    assert len(shorten("a" + "\u0301" * 10_000, 60)) < 250


@given(st.lists(ANY, max_size=8), st.integers(16, 40))
def test_k96_names_that_differ_are_shown_differently(texts: list[str], width: int) -> None:
    names = names_for(texts, width)
    assert len(names) == len(texts)
    assert all(width_of(name) <= width for name in names)
    shown = {unicodedata.normalize("NFC", name) for name in names}
    assert len(shown) == len(set(texts))


@pytest.mark.parametrize(
    "pair",
    [
        ("a" * 200 + "1" + "b" * 200, "a" * 200 + "2" + "b" * 200),
        ("é", "e\u0301"),
        ("\x1b", "\\x1b"),
    ],
)
def test_k96_ids_that_would_look_alike_get_digits_that_tell_them_apart(pair: tuple[str, str]) -> None:
    one, other = names_for(pair, 40)
    assert re.search(r" #[0-9a-f]{6}$", one)
    assert one != other
    # Alone, or twice the same, there is nothing to tell apart.
    assert names_for([pair[0], pair[0]], 40) == [shorten(visible(pair[0]), 40)] * 2


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_k96_names_give_way_to_a_narrow_terminal_and_figures_never(build: Any, width: int) -> None:
    cases = [
        ("x" * 500, 1.0, 0.0),
        ("日本語のケース名" * 10, 0.5, 0.0),
        ("👩\u200d🔬" * 30, 1.0, 0.0),
        ("e\u0301" * 300, 1.0, 0.25),
        ("العربية", 1.0, 0.0),
        ("short", 0.999, 0.998),
    ]
    lines = comparison_lines(build.comparison(regressions=cases), build.meta(), width=width)
    start = next(n for n, line in enumerate(lines) if line.startswith("regressions 6"))
    table = lines[start + 1 : start + 3 + len(cases)]
    assert {width_of(line) for line in table} == {width_of(table[0])}
    assert width_of(table[0]) <= min(width, 84)
    # Right-aligned figures end in one column, whole.
    assert [line.split()[-3:] for line in table[2:]] == [
        ["100%", "0%", "−100pp"],
        ["50%", "0%", "−50pp"],
        ["100%", "0%", "−100pp"],
        ["100%", "25%", "−75pp"],
        ["100%", "0%", "−100pp"],
        ["99.9%", "99.8%", "−0.1pp"],
    ]


@pytest.mark.parametrize("make", [comparison_lines, comparison_markdown])
def test_r53_an_output_of_a_megabyte_in_a_name_makes_no_report_of_a_megabyte(
    build: Any, make: Callable[..., Any]
) -> None:
    comparison = build.comparison(regressions=[("x\u0301" * 500_000, 1.0, 0.0)])
    assert len("".join(make(comparison, build.meta()))) < 5000
