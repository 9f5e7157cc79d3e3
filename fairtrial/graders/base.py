"""What the engine asks of every grader.

A grader never raises for a bad answer: what it cannot score is `no_score` with a reason, its own fault is `error`.
"""

from __future__ import annotations

from typing import Protocol

from fairtrial.records.trial import Answer, Grade
from fairtrial.spec.case import Case


class Grader(Protocol):
    """Reads one answer. name is for people; version changes when anything that decides a score changes."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str: ...

    async def prepare(self) -> None:
        """Load what grading needs. Raises SpecError when that fails, so that no answer is paid for in vain."""

    async def grade(self, output: bytes, *, case: Case, mark: dict[str, str]) -> Grade:
        """Return the grade of `output` for `case`; `mark` goes into the environment of any process started for it."""

    async def grade_answer(self, answer: Answer, *, case: Case, mark: dict[str, str]) -> Grade:
        """Return the grade of an answer with all that is known of it, its time and cost too. This is what runs ask."""

    async def close(self) -> None:
        """Give back what the grader holds; safe to call twice."""
