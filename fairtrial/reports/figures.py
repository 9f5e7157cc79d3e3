"""How figures are written. One place, so that the terminal, Markdown and every artifact agree to the digit."""

from __future__ import annotations

NOT_REPORTED = "not reported"
MINUS = "−"


def percent(share: float | None) -> str:
    """Return a share as a percentage with one decimal; what is not all is never 100%, what is not nothing never 0%."""
    if share is None:
        return NOT_REPORTED
    text = f"{share * 100:.1f}%"
    if text == "100.0%" and share < 1:
        return ">99.9%"
    if text == "0.0%" and share > 0:
        return "<0.1%"
    return text


def short_percent(share: float) -> str:
    """Return a share of few trials as a whole percentage, of many with a decimal where a whole one would say all."""
    text = f"{share * 100:.0f}%"
    return percent(share) if text in ("0%", "100%") and share not in (0, 1) else text


def points(share: float | None, *, sign: bool = True) -> str:
    """Return a difference of shares in percentage points with one decimal and a true minus sign."""
    if share is None:
        return NOT_REPORTED
    value = round(share * 100, 1)
    if value == 0 and round(share, 12) != 0:
        # An end near 0 keeps its sign: whether the interval includes 0 decides the verdict.
        return f"{_sign(share, sign)}{abs(share) * 100:.1g}pp"
    return f"{_sign(value, sign)}{abs(value):.1f}pp"


def short_points(share: float) -> str:
    """Return a difference of shares in whole percentage points, with a decimal where it would else be none."""
    value = round(share * 100)
    if value == 0 and share != 0:
        return points(share)
    return f"{_sign(value, True)}{abs(value)}pp"


def p_value(p: float) -> str:
    """Return p with three decimals, as a power of ten below 0.001; it never shows as the level it is compared with."""
    if p == 0:
        # Below what a float can hold; a p-value is never 0.
        return "<1e-300"
    if p < 0.001:
        mantissa, _, exponent = f"{p:.1e}".partition("e")
        return f"{mantissa}e{int(exponent)}"
    for decimals in range(3, 9):
        text = f"{p:.{decimals}f}"
        if float(text) != 0.05 or p == 0.05:
            return text
    return repr(p)


def duration(seconds: float | None) -> str:
    """Return seconds as a person would say them."""
    if seconds is None:
        return NOT_REPORTED
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min"


def count(n: int, one: str, many: str | None = None) -> str:
    """Return a count with its noun."""
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def _sign(value: float, shown: bool) -> str:
    if value < 0:
        return MINUS
    return "+" if shown and value > 0 else ""
