"""Finding the numbers in a text, exactly. docs/graders.md states the rule for people.

What is glued to a word or to other figures (GPT4, 1.2.3, 0x1F, 9f86) is no number: guessing at it would grade by luck.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import regex

MAX_DIGITS: Final = 1_000
MAX_EXPONENT: Final = 1_000
"""Figures past these are found but not read: comparing them exactly would need unbounded memory."""

EXACT: Final = Context(prec=4 * (MAX_DIGITS + MAX_EXPONENT))
"""Enough digits for every sum and product of two numbers within the limits, so nothing is ever rounded."""

_MINUS: Final = "-\u2212\ufe63\uff0d"
# The hyphen is escaped: between two others it would stand for a range.
_SIGN: Final = "[+" + re.escape(_MINUS) + "]"
_SPACES: Final = "\u00a0\u2009\u202f"
_SUPERSCRIPT: Final = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺", "0123456789-+")

# In words: sign, currency, sign, digits in groups, decimals, power of ten. A sign counts only where it cannot be the
# hyphen of a range or a word; a number begins neither inside a word nor after "digit.".
_NUMBER: Final = rf"""(?x)
    (?P<sign> (?<![\w)\]%.]) {_SIGN} )?
    (?: \p{{Sc}} [\ ]? (?P<inner> {_SIGN} )? )?
    (?:
        (?<!\w) (?<!\d\.) (?P<digits> \d++ (?: [,{_SPACES}] \d++ )*+ ) (?P<decimals> \.\d++ )?+
      | (?<![\w.]) (?P<decimals> \.\d++ )
    )
    (?! _?\d | \.\d | [xX][0-9a-fA-F]*+\b(?<=\b0[xX][0-9a-fA-F]++) )
    (?:
        [eE] (?P<power> {_SIGN}? \d++ ) (?! \w | \.\d )
      | [\ ]*+ (?: [×*xX·] | \\times ) [\ ]*+ 10 [\ ]*+ \^ [\ ]*+ \{{?+ (?P<power> {_SIGN}? \d++ )
      | [\ ]*+ (?: [×*xX·] | \\times ) [\ ]*+ 10 (?P<power> [⁻⁺]? [⁰¹²³⁴⁵⁶⁷⁸⁹]++ )
    )?+
    (?! [^\W\d_xX]++ (?: \d\d | \d [^\W\d_] ) )
"""
_GROUPED: Final = re.compile(rf"\d{{1,3}}(?:(?:,\d{{3}})+|(?:[{_SPACES}]\d{{3}})+)")
_BETWEEN: Final = re.compile(f"[,{_SPACES}]")


@dataclass(frozen=True, slots=True)
class Found:
    """A number as it stands in a text; value None when it is past the limits."""

    text: str
    value: Decimal | None


def find_numbers(text: str, *, limit_s: float) -> Iterator[Found]:
    """Yield the numbers of `text` in order. Raises TimeoutError when the search takes longer than `limit_s`.

    Commas and narrow spaces between groups of three digits belong to the number, other commas part two numbers.
    Currency and percent signs are units and change nothing.
    """
    for match in _pattern().finditer(text, timeout=limit_s, concurrent=True):
        digits: str = match["digits"] or ""
        pieces = [digits] if _GROUPED.fullmatch(digits) else _BETWEEN.split(digits)
        for index, piece in enumerate(pieces):
            sign = (match["sign"] or match["inner"] or "") if index == 0 else ""
            is_last = index == len(pieces) - 1
            rest = ((match["decimals"] or "") if is_last else "", (match["power"] or "") if is_last else "")
            yield _found(sign, _BETWEEN.sub("", piece), *rest)


def _found(sign: str, digits: str, decimals: str, power: str) -> Found:
    text = ("-" if sign and sign in _MINUS else "") + (digits or "0") + decimals
    exponent = power.translate(_SUPERSCRIPT)
    exponent = "-" + exponent[1:] if exponent and exponent[0] in _MINUS else exponent
    shown = f"{text}e{exponent}" if exponent else text
    if len(text) > MAX_DIGITS or len(exponent) > 5 or abs(int(exponent or 0)) > MAX_EXPONENT:
        return Found(shown, None)
    return Found(shown, Decimal(shown))


@functools.cache
def _pattern() -> regex.Pattern[str]:
    import regex

    return regex.compile(_NUMBER)
