"""Text from outside, made safe for one kind of page at a time.

Model output, case ids and error texts are data everywhere: control characters become visible marks before anything else
happens, so that no escape code reaches a terminal and no bidi override turns a line around.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from typing import Final

from fairtrial.hashing import sha256_hex

_INVISIBLE: Final = {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}
# A joiner holds an emoji or an Arabic word together; alone it does nothing to a terminal.
_KEPT: Final = {"\u200d", "\u200c"}

_MARKDOWN: Final = str.maketrans(
    {char: f"\\{char}" for char in "\\`*_{}[]()#+-.!|~$@"} | {"<": "&lt;", ">": "&gt;", "&": "&amp;"}
)
# A page that turns bare addresses into links looks at the source or at the shown text; the first is answered by a
# backslash, the second (mentions, mail addresses, numbers of issues) only by a character that takes no room.
_ADDRESS: Final = re.compile(r"(?<=[A-Za-z]):(?=//)")
_MENTION: Final = re.compile(r"([@#])(?=\w)")
_POINT: Final = re.compile(r"(?<=[0-9])\\\.(?=[0-9])")
_WORD_JOINER: Final = "\u2060"

_MOST_MARKS: Final = 4
"""Characters a column may hold before a text counts as too long: marks pile up on one letter without end."""


def visible(text: str) -> str:
    """Return `text` on one line; control, format and surrogate characters are written out, like \\x1b or \\u202e."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_written_out(char) for char in text)


def visible_bytes(data: bytes) -> str:
    """Return bytes from outside as visible text; bytes that are not UTF-8 are written out."""
    return visible(data.decode("utf-8", "backslashreplace"))


def markdown(text: str) -> str:
    """Return `text` as inert Markdown: no link, image, tag, table cell, emphasis, formula or mention can come of it."""
    marked = _MENTION.sub(rf"\1{_WORD_JOINER}", visible(text))
    escaped = _ADDRESS.sub(r"\\:", marked.translate(_MARKDOWN))
    # The point of a number makes nothing, and reports are read unrendered too.
    return _POINT.sub(".", escaped)


def shorten(text: str, width: int) -> str:
    """Return `text` in at most `width` columns (3 or more), cut in the middle so that both ends stay recognisable."""
    if width_of(text) <= width and len(text) <= width * _MOST_MARKS:
        return text
    keep = max(width - 1, 2)
    head, tail = _take(text, keep - keep // 2), _take(text[::-1], keep // 2)[::-1]
    # A mark whose letter was cut off would sit on the dots.
    while tail and not _columns(tail[0]):
        tail = tail[1:]
    return f"{head}…{tail}"


def names_for(texts: Sequence[str], width: int) -> list[str]:
    """Return names from outside as visible text of at most `width` columns (16 or more), different ones told apart.

    Names that would look alike, because they differ where they are cut or only in how a letter is composed, end in six
    digits of their hash.
    """
    shown = {text: shorten(visible(text), width) for text in texts}
    looks = {text: unicodedata.normalize("NFC", name) for text, name in shown.items()}
    times = Counter(looks.values())
    for text, look in looks.items():
        if times[look] > 1:
            digest = sha256_hex(text.encode("utf-8", "surrogatepass"))
            shown[text] = f"{shorten(visible(text), width - 8)} #{digest[:6]}"
    return [shown[text] for text in texts]


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
        if taken > width or index == width * _MOST_MARKS:
            return text[:index]
    return text


def _columns(char: str) -> int:
    # Vowels and final consonants of Hangul join the consonant before them, which is two columns wide.
    if unicodedata.category(char) in ("Mn", "Me") or char in _KEPT or "\u1160" <= char <= "\u11ff":
        return 0
    return 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1


def _written_out(char: str) -> str:
    if char in _KEPT or unicodedata.category(char) not in _INVISIBLE:
        return char
    code = ord(char)
    if char in "\n\r\t":
        return {"\n": "\\n", "\r": "\\r", "\t": "\\t"}[char]
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
