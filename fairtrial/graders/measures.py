"""Graders that hold an answer to a limit: length of its text, seconds it took, US dollars it cost.

A time or price that nobody reported is no score, never 0 and never within the limit.
"""

from __future__ import annotations

from fairtrial.graders.pattern import ReadingGrader
from fairtrial.graders.score import GraderBase
from fairtrial.records.trial import Answer, Grade
from fairtrial.spec.case import Case
from fairtrial.spec.models import CostGrader, LatencyGrader, LengthGrader


class TextLengthGrader(ReadingGrader):
    """1 when the text has at least `min` and at most `max` characters, words or lines."""

    def __init__(self, spec: LengthGrader, *, name: str, version: str, place: str):
        super().__init__(spec, name=name, version=version, place=place)
        self._unit = spec.unit
        self._min = spec.min
        self._max = spec.max

    async def judge(self, text: str, case: Case) -> Grade:
        n = _count(text, self._unit)
        unit = self._unit.removesuffix("s") if n == 1 else self._unit
        if self._min is not None and n < self._min:
            return self.scored(0, f"{n:,} {unit}, at least {self._min:,} wanted")
        if self._max is not None and n > self._max:
            return self.scored(0, f"{n:,} {unit}, at most {self._max:,} wanted")
        return self.scored(1, f"{n:,} {unit}")


class SecondsGrader(GraderBase):
    """1 when the answer took at most `max_s` seconds."""

    def __init__(self, spec: LatencyGrader, *, name: str, version: str):
        super().__init__(name, version)
        self._max_s = spec.max_s

    async def grade(self, output: bytes, *, case: Case, mark: dict[str, str]) -> Grade:
        """Return no score: bytes alone do not say how long they took."""
        return self.no_score("how long the answer took is not known")

    async def grade_answer(self, answer: Answer, *, case: Case, mark: dict[str, str]) -> Grade:
        if answer.latency_s is None:
            return await self.grade(answer.output, case=case, mark=mark)
        return self.scored(answer.latency_s <= self._max_s, f"{answer.latency_s:.3f} s, at most {self._max_s:g} s")


class DollarsGrader(GraderBase):
    """1 when the answer cost at most `max_usd` US dollars, compared exactly."""

    def __init__(self, spec: CostGrader, *, name: str, version: str):
        super().__init__(name, version)
        self._max_usd = spec.max_usd

    async def grade(self, output: bytes, *, case: Case, mark: dict[str, str]) -> Grade:
        """Return no score: bytes alone do not say what they cost."""
        return self.no_score("what the answer cost is not known")

    async def grade_answer(self, answer: Answer, *, case: Case, mark: dict[str, str]) -> Grade:
        cost = answer.usage.cost_usd
        if cost is None:
            return await self.grade(answer.output, case=case, mark=mark)
        return self.scored(cost <= self._max_usd, f"{cost:f} US dollars, at most {self._max_usd:f}")


def _count(text: str, unit: str) -> int:
    if unit == "characters":
        return len(text)
    if unit == "words":
        return len(text.split())
    # A line break ends a line, so the last one begins none. U+2028 and the like are text, as in a JSONL file.
    ends = text.count("\n") + text.count("\r") - text.count("\r\n")
    return ends + (not text.endswith(("\n", "\r")) and text != "")
