"""Text from outside, made safe for one kind of page at a time.

Model output, case ids and error texts are data everywhere: control characters become visible marks before anything else
happens, so that no escape code reaches a terminal and no bidi override turns a line around.
"""

from __future__ import annotations

import unicodedata
from typing import Final

_INVISIBLE: Final = {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}
# A joiner holds an emoji or an Arabic word together; alone it does nothing to a terminal.
_KEPT: Final = {"\u200d", "\u200c"}

_MARKDOWN: Final = str.maketrans(
    {char: f"\\{char}" for char in "\\`*_{}[]()#+-.!|~"} | {"<": "&lt;", ">": "&gt;", "&": "&amp;"}
)


def visible(text: str) -> str:
    """Return `text` on one line; control, format and surrogate characters are written out, like \\x1b or \\u202e."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_written_out(char) for char in text)


def visible_bytes(data: bytes) -> str:
    """Return bytes from outside as visible text; bytes that are not UTF-8 are written out."""
    return visible(data.decode("utf-8", "backslashreplace"))


def markdown(text: str) -> str:
    """Return `text` as inert Markdown: no link, image, tag, table cell or emphasis can come of it."""
    return visible(text).translate(_MARKDOWN)


def shorten(text: str, width: int) -> str:
    """Return `text` in at most `width` columns, cut in the middle so that both ends stay recognisable."""
    if width_of(text) <= width:
        return text
    keep = max(width - 1, 2)
    head, tail = _take(text, keep - keep // 2), _take(text[::-1], keep // 2)[::-1]
    return f"{head}…{tail}"


def width_of(text: str) -> int:
    """Return how many terminal columns `text` takes."""
    if text.isascii():
        return len(text)
    return sum(_columns(char) for char in text)


def pad(text: str, width: int, *, right: bool = False) -> str:
    """Return `text` padded to `width` columns."""
    fill = " " * max(width - width_of(text), 0)
    return fill + text if right else text + fill


def _take(text: str, width: int) -> str:
    taken = 0
    for index, char in enumerate(text):
        taken += _columns(char)
        if taken > width:
            return text[:index]
    return text


def _columns(char: str) -> int:
    if unicodedata.combining(char) or char in _KEPT:
        return 0
    return 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1


def _written_out(char: str) -> str:
    if char in _KEPT or unicodedata.category(char) not in _INVISIBLE:
        return char
    code = ord(char)
    if char in "\n\r\t":
        return {"\n": "\\n", "\r": "\\r", "\t": "\\t"}[char]
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
