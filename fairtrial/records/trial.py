"""What happened in one trial, as stored.

Three outcomes: graded; agent failure (value 0, counted apart); infra loss (no value, left out, counted). A trial that
no grader scored is ungraded: left out and counted too.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Final, Literal, TypeAlias

Outcome: TypeAlias = Literal["graded", "agent_failure", "infra_loss", "ungraded"]
GradeState: TypeAlias = Literal["scored", "no_score", "error"]

COUNT_OF: Final[dict[Outcome, str]] = {
    "graded": "n_graded",
    "agent_failure": "n_agent_failures",
    "infra_loss": "n_infra_losses",
    "ungraded": "n_ungraded",
}
"""The name under which totals count each outcome."""


@dataclass(frozen=True, slots=True)
class TrialKey:
    """One run of one case in one arm."""

    experiment: str
    arm: str
    case: str
    repetition: int


@dataclass(frozen=True, slots=True)
class Usage:
    """What one trial used; None means nobody said, which is not 0. Money is an exact decimal."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: Decimal | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What a subject gave back: an answer, or the agent's own failure. Infra failures are raised as InfraError.

    output      the bytes as they came, never decoded; up to the cap
    error_kind  None for an answer; else a short word such as exit_code, signal, timeout, empty, not_started
    error       what the failure said, in bytes (the tail of stderr, say)
    cut         the output was longer than the cap and ends at it
    latency_s   seconds from start to end of the answer, waiting for a free slot left out; None when not known
    """

    output: bytes = b""
    error_kind: str | None = None
    error: bytes = b""
    cut: bool = False
    latency_s: float | None = None
    usage: Usage = Usage()


@dataclass(frozen=True, slots=True)
class Grade:
    """One grader's reading of one answer. score is in [0, 1] and set exactly when state is scored."""

    grader: str
    version: str
    state: GradeState
    score: float | None = None
    reason: bytes = b""


@dataclass(frozen=True, slots=True)
class Trial:
    """A finished trial as the journal holds it. value is 1 or 0 (pass or fail), None when the trial has none."""

    key: TrialKey
    outcome: Outcome
    value: float | None
    answer: Answer
    grades: tuple[Grade, ...]
    attempt: int
    started_at: datetime
    finished_at: datetime
