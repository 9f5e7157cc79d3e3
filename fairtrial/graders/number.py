"""The number grader: the number in the answer against the number in the label, in exact decimals.

A label that is text is read by the same rule as the answer, so a worked solution can serve as it is.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Literal

from fairtrial.graders.number_text import EXACT, Found, find_numbers
from fairtrial.graders.pattern import EXTRACT_TIMEOUT_S, ReadingGrader, timed
from fairtrial.graders.reading import NoLabel, label_of, same_rule
from fairtrial.hashing import JsonValue
from fairtrial.records.trial import Grade
from fairtrial.spec.case import Case
from fairtrial.spec.models import NumberGrader

_SHOWN = 40


class NumberReader(ReadingGrader):
    """1 when the number of the answer is the label's, within the tolerance; an answer without a number scores 0."""

    def __init__(self, spec: NumberGrader, *, name: str, version: str, place: str):
        super().__init__(spec, name=name, version=version, place=place)
        self._where = spec.where
        self._value = spec.value
        self._tolerance = Decimal(repr(spec.tolerance))
        self._relative = Decimal(repr(spec.relative_tolerance))

    async def judge(self, text: str, case: Case) -> Grade:
        label = label_of(case, self._value)
        if isinstance(label, NoLabel):
            return self.no_score(label.reason)
        expected = await self._expected(label)
        if isinstance(expected, str):
            return self.no_score(f"the expected value holds {expected}")
        read = await _read(text, self._where)
        if isinstance(read, str):
            return self.scored(0, f"the output holds {read}")
        if read.value is None or expected.value is None:
            side = "output" if read.value is None else "expected value"
            return self.scored(0, f"the number in the {side} is too long to compare: {_short(read.text)}")
        passed = self._is_near(read.value, expected.value)
        return self.scored(passed, f"read {_short(read.text)}, expected {_short(expected.text)}")

    async def _expected(self, label: JsonValue) -> Found | str:
        if isinstance(label, str):
            return await _read(same_rule(label), self._where)
        if isinstance(label, bool) or not isinstance(label, int | float):
            return "no number"
        return await _read(repr(label), "only")

    def _is_near(self, read: Decimal, expected: Decimal) -> bool:
        off = EXACT.abs(EXACT.subtract(read, expected))
        return off <= self._tolerance or off <= EXACT.multiply(self._relative, EXACT.abs(expected))


async def _read(text: str, where: Literal["first", "last", "only"]) -> Found | str:
    """Return the number that counts, or what there is instead, for a sentence that begins "the output holds"."""

    def search(limit_s: float) -> Found | str:
        first = last = None
        count = 0
        for last in find_numbers(text, limit_s=limit_s):
            first = first or last
            count += 1
            if where == "first":
                break
        if first is None or last is None:
            return "no number"
        if where == "only" and count > 1:
            return f"{count:,} numbers, not one"
        return last

    return await timed(search, EXTRACT_TIMEOUT_S)


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
