"""The one door for scores: what a grader gives is a number in [0, 1], or it is the grader's error.

NaN, infinities, texts such as "0.5" and numbers out of range never become a score, whatever made them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from fairtrial.hashing import canonical_json
from fairtrial.records.trial import Answer, Grade
from fairtrial.spec.case import Case

REASON_CAP: Final = 8 * 1024
"""Bytes of a reason that are kept."""

_SHOWN: Final = 80


class NotAScore(Exception):
    """A value that is no score; the message says what it was."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What a user's grader said: a score, or None for no score; and why."""

    score: float | None
    reason: str = ""


def score_of(value: object) -> float:
    """Return `value` as a score: True is 1, False is 0, an int or float in [0, 1] is itself.

    Raises NotAScore for everything else.
    """
    # Written so that NaN, which answers no comparison, falls through; and an int is compared before it is a float.
    if isinstance(value, bool | int | float) and 0 <= value <= 1:
        return abs(float(value))
    raise NotAScore(f"not a number in [0, 1]: {_shown(value)}")


def read_reply(value: object) -> Reply:
    """Return what a grader's number, bool, null or {"score", "reason"} says. Raises NotAScore."""
    if value is None:
        return Reply(None, "the grader gave no score")
    if not isinstance(value, dict):
        return Reply(score_of(value))
    if "score" not in value:
        raise NotAScore(f'not a number in [0, 1]: an object without "score" ({_shown(sorted(value))})')
    reason = value.get("reason")
    if reason is not None and not isinstance(reason, str):
        raise NotAScore(f'the "reason" is not a text: {_shown(reason)}')
    if value["score"] is None:
        return Reply(None, reason or "the grader gave no score")
    return Reply(score_of(value["score"]), reason or "")


class GraderBase:
    """What every grader of ours has: its name, its version, and the making of grades."""

    def __init__(self, name: str, version: str):
        self._name = name
        self._version = version

    @property
    def name(self) -> str:
        return self._name

    @property
    def version(self) -> str:
        return self._version

    async def prepare(self) -> None:
        """Most graders need nothing before the first answer."""

    async def grade(self, output: bytes, *, case: Case, mark: dict[str, str]) -> Grade:
        """Return the grade of `output`; each grader has its own."""
        raise NotImplementedError

    async def grade_answer(self, answer: Answer, *, case: Case, mark: dict[str, str]) -> Grade:
        """Return the grade of the answer's bytes; a grader that needs more of the answer overrides this."""
        return await self.grade(answer.output, case=case, mark=mark)

    def scored(self, score: object, reason: str = "") -> Grade:
        """Return a grade, which is an error when `score` is no score."""
        try:
            return Grade(self._name, self._version, "scored", score_of(score), _reason(reason))
        except NotAScore as error:
            return self.error(str(error))

    def no_score(self, reason: str) -> Grade:
        """Return the grade of an answer that cannot be scored."""
        return Grade(self._name, self._version, "no_score", None, _reason(reason))

    def error(self, reason: str) -> Grade:
        """Return the grade that says the grader itself failed."""
        return Grade(self._name, self._version, "error", None, _reason(reason))

    def replied(self, value: object) -> Grade:
        """Return the grade of what a user's grader replied."""
        try:
            reply = read_reply(value)
        except NotAScore as error:
            return self.error(str(error))
        return self.no_score(reply.reason) if reply.score is None else self.scored(reply.score, reply.reason)

    async def close(self) -> None:
        """Nothing is held; graders with a process of their own override this."""


def _reason(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")[:REASON_CAP]


def _shown(value: object) -> str:
    if isinstance(value, float | int) and not isinstance(value, bool):
        # Python refuses to print integers of more than 4,300 digits.
        text = str(value) if isinstance(value, float) or value.bit_length() < 200 else "a huge integer"
    else:
        try:
            text = canonical_json(value).decode("utf-8", "replace")
        except (TypeError, ValueError):
            text = type(value).__name__
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
