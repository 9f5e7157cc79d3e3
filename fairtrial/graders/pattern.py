"""Regular expressions that cannot hold a run: every search of an answer has a time limit.

Most searches take microseconds and are done at once; one that does not end soon goes on in a thread, where it keeps
neither the event loop nor Python's lock.
"""

from __future__ import annotations

import asyncio
import warnings
from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

from fairtrial.errors import SpecError
from fairtrial.graders.reading import text_of
from fairtrial.graders.score import GraderBase
from fairtrial.records.trial import Grade
from fairtrial.spec.case import Case
from fairtrial.spec.models import RegexGrader, TextGrader

if TYPE_CHECKING:
    import regex

T = TypeVar("T")

EXTRACT_TIMEOUT_S: Final = 1.0
"""Longest search of an `extract` or of the numbers in one answer."""

_AT_ONCE_S: Final = 0.01


class TooSlow(Exception):
    """A search that was given up at its time limit."""


def compile_pattern(pattern: str, flags: int = 0, *, place: str) -> regex.Pattern[str]:
    """Return the compiled pattern. Raises SpecError with the position of the fault; place is the spec's key."""
    import regex

    try:
        with warnings.catch_warnings():
            # "possible nested set" and the like are for the pattern's author, not for the screen of a run.
            warnings.simplefilter("ignore")
            return regex.compile(pattern, flags)
    except regex.error as error:
        raise SpecError(f"the regular expression cannot be used: {error}.", place=place) from None
    except (RecursionError, OverflowError, MemoryError):
        raise SpecError("the regular expression is too deep or too large.", place=place) from None


async def timed(search: Callable[[float], T], timeout_s: float) -> T:
    """Return what `search(limit_s)` finds. Raises TooSlow after `timeout_s`."""
    try:
        return search(min(_AT_ONCE_S, timeout_s))
    except TimeoutError:
        pass
    try:
        return await asyncio.to_thread(search, timeout_s)
    except TimeoutError:
        raise TooSlow(f"the search took longer than {timeout_s:g} s") from None


class ReadingGrader(GraderBase):
    """A grader that reads the answer as text: extraction and stripping first, then its own judgement."""

    def __init__(self, spec: TextGrader, *, name: str, version: str, place: str):
        super().__init__(name, version)
        self.strips = spec.strip
        self._first = spec.extract_from == "first"
        self._extract = None if spec.extract is None else compile_pattern(spec.extract, place=f"{place}.extract")

    async def grade(self, output: bytes, *, case: Case, mark: dict[str, str]) -> Grade:
        """Return the grade of `output`; no match of `extract` is a score of 0."""
        text: str | None = text_of(output)
        try:
            if self._extract is not None:
                text = await self._extracted(text or "", self._extract)
            if text is None:
                return self.scored(0, "extract found nothing in the output")
            return await self.judge(text.strip() if self.strips else text, case)
        except TooSlow as error:
            return self.error(str(error))

    @abstractmethod
    async def judge(self, text: str, case: Case) -> Grade:
        """Return the grade of the extracted text. May raise TooSlow."""

    async def _extracted(self, text: str, pattern: regex.Pattern[str]) -> str | None:
        def search(limit_s: float) -> str | None:
            match = None
            # The limit is for all matches together.
            for found in pattern.finditer(text, timeout=limit_s, concurrent=True):
                match = found
                if self._first:
                    break
            if match is None:
                return None
            group: str | None = match.group(1) if pattern.groups else None
            whole: str = match.group()
            return whole if group is None else group

        return await timed(search, EXTRACT_TIMEOUT_S)


class PatternGrader(ReadingGrader):
    """1 when the pattern is found anywhere in the answer, 0 when not."""

    def __init__(self, spec: RegexGrader, *, name: str, version: str, place: str):
        super().__init__(spec, name=name, version=version, place=place)
        self._timeout_s = spec.timeout_s
        self._pattern = compile_pattern(spec.pattern, _flags(spec), place=f"{place}.pattern")

    async def judge(self, text: str, case: Case) -> Grade:
        def search(limit_s: float) -> bool:
            return self._pattern.search(text, timeout=limit_s, concurrent=True) is not None

        found = await timed(search, self._timeout_s)
        return self.scored(found, "" if found else "the pattern was not found")


def _flags(spec: RegexGrader) -> int:
    import regex

    chosen = ((spec.ignore_case, regex.IGNORECASE), (spec.multiline, regex.MULTILINE), (spec.dotall, regex.DOTALL))
    return sum(int(flag) for on, flag in chosen if on)
