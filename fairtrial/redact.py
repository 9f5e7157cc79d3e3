"""Takes secret values out of what a program printed, before it is stored or graded.

Redaction comes first, so a later regrade reads the same text as the first grading did.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote, quote_plus

MIN_SECRET: Final = 6
"""Shorter values are left alone: they would be found inside ordinary words and figures."""

_MIN_ENCODED: Final = 8


class Redactor:
    """Replaces secret values by `[redacted:NAME]`.

    A value is also found in its JSON, URL, base64 and hex spellings; base64 at any offset of the encoded text.
    """

    def __init__(self, values: Mapping[str, str]):
        spellings: dict[bytes, str] = {}
        for name, value in values.items():
            if len(value) >= MIN_SECRET:
                for spelling in _spellings(value):
                    spellings.setdefault(spelling, name)
        self._names = spellings
        # Longest first, in one pass: a secret inside another one must not break it up, and a mark is never searched.
        longest_first = sorted(spellings, key=len, reverse=True)
        self._pattern = re.compile(b"|".join(re.escape(spelling) for spelling in longest_first)) if spellings else None

    def redact(self, data: bytes, *, is_cut: bool = False) -> bytes:
        """Return `data` without the secrets.

        is_cut   the data ends at a cap, so the beginning of a secret at its end is taken out too
        """
        if self._pattern is None:
            return data
        # Looking for each value first is far cheaper than the pattern, and nearly always finds nothing.
        if any(spelling in data for spelling in self._names):
            data = self._pattern.sub(lambda found: self._mark(found.group()), data)
        return self._without_cut_end(data) if is_cut else data

    def redact_text(self, text: str) -> str:
        """Return `text` without the secrets."""
        return self.redact(text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")

    def _mark(self, spelling: bytes) -> bytes:
        return f"[redacted:{self._names[spelling]}]".encode()

    def _without_cut_end(self, data: bytes) -> bytes:
        best: tuple[int, bytes] | None = None
        for spelling in self._names:
            for length in range(min(len(spelling) - 1, len(data)), MIN_SECRET - 1, -1):
                if data.endswith(spelling[:length]):
                    if best is None or length > best[0]:
                        best = (length, spelling)
                    break
        return data if best is None else data[: -best[0]] + self._mark(best[1])


def _spellings(value: str) -> set[bytes]:
    raw = value.encode("utf-8", "surrogatepass")
    found = {
        raw,
        json.dumps(value)[1:-1].encode(),
        json.dumps(value, ensure_ascii=False)[1:-1].encode("utf-8", "surrogatepass"),
        quote(raw, safe="").encode(),
        quote(raw).encode(),
        quote_plus(raw).encode(),
        raw.hex().encode(),
        raw.hex().upper().encode(),
    }
    return found | {text for text in _base64_spellings(raw) if len(text) >= _MIN_ENCODED}


def _base64_spellings(raw: bytes) -> set[bytes]:
    """Return the characters that `raw` alone decides, for each of the three places it can begin at in a group."""
    found = set()
    for before in range(3):
        n_bits = 8 * (before + len(raw))
        first = -(-8 * before // 6)
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            found.add(encode(b"\0" * before + raw)[first : n_bits // 6])
    return found
