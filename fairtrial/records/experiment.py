"""An experiment as it is stored: everything it was asked to do, and how far it is.

Whatever a resume compares, a report names or a comparison pairs by is in here; nothing in here is a secret.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from fairtrial.hashing import JsonValue

ExperimentKind: TypeAlias = Literal["run", "ab"]
ExperimentState: TypeAlias = Literal["running", "partial", "finished", "closed"]
"""closed: ended by hand with what it had."""


@dataclass(frozen=True, slots=True)
class GraderRecord:
    """A grader as the experiment used it; parts names what its version is made of (part -> digest)."""

    name: str
    kind: str
    version: str
    spec: dict[str, JsonValue]
    parts: dict[str, str]


@dataclass(frozen=True, slots=True)
class ArmRecord:
    """One configuration: its parsed task and limits, and the parts its version is made of (part -> hash)."""

    name: str
    task: dict[str, JsonValue]
    limits: dict[str, JsonValue]
    folder: str
    task_hash: str
    task_parts: dict[str, str]


@dataclass(frozen=True, slots=True)
class DatasetRef:
    """Which data a run used."""

    name: str
    hash: str
    source: str
    n_cases: int


@dataclass(frozen=True, slots=True)
class ExperimentRecord:
    """One graded run of one arm or more. Times are seconds since the epoch, UTC."""

    id: str
    name: str
    kind: ExperimentKind
    state: ExperimentState
    created_at: float
    finished_at: float | None
    seed: int
    trials: int
    dataset: DatasetRef
    graders: tuple[GraderRecord, ...]
    arms: tuple[ArmRecord, ...]
    selection: dict[str, JsonValue]
    tags: tuple[str, ...]
    description: str | None
    n_cases: int
    n_blocks: int
    slice_blocks: int
    plan_hash: str
    result_version: int = 1
    verdict_sha256: str | None = None
    warnings: tuple[str, ...] = ()

    @property
    def n_trials(self) -> int:
        """Return how many trials the plan has."""
        return self.n_blocks * len(self.arms)

    def arm(self, name: str) -> ArmRecord:
        """Return the arm with that name; KeyError when there is none."""
        for arm in self.arms:
            if arm.name == name:
                return arm
        raise KeyError(name)


@dataclass(frozen=True, slots=True)
class ArmSummary:
    """Counts of one arm. graded + agent failures + infra losses + ungraded = done."""

    arm: str
    n_planned: int
    n_done: int = 0
    n_graded: int = 0
    n_passed: int = 0
    n_agent_failures: int = 0
    n_infra_losses: int = 0
    n_ungraded: int = 0

    @property
    def n_valued(self) -> int:
        """Return the trials that have a value: graded ones, and agent failures as 0."""
        return self.n_graded + self.n_agent_failures

    @property
    def pass_share(self) -> float | None:
        """Return passes over valued trials, None when there is none."""
        return self.n_passed / self.n_valued if self.n_valued else None


@dataclass(frozen=True, slots=True)
class CaseRef:
    """One case of a stored experiment, without its texts."""

    position: int
    id: str
    input_hash: str
    label_hash: str
    kind: str
