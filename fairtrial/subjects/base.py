"""What the engine asks of every subject, and what it gives it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from fairtrial.records.trial import Answer
from fairtrial.spec.case import Case


@dataclass(frozen=True, slots=True)
class TrialRequest:
    """One case to answer.

    seed        derived from the stored seed, arm, case and repetition; a subject may use it or not
    timeout_s   seconds left for this trial, None without a limit
    mark        names and values for the environment of every process of this trial; the reaper finds them by it
    """

    experiment: str
    arm: str
    case: Case
    repetition: int
    seed: int
    timeout_s: float | None
    mark: dict[str, str]


class Subject(Protocol):
    """The thing under test. Raises InfraError for what is not the agent's fault, and nothing else."""

    async def answer(self, request: TrialRequest) -> Answer:
        """Return the answer, or the agent's own failure as an answer with error_kind."""

    async def close(self) -> None:
        """Give back what the subject holds; safe to call twice."""
