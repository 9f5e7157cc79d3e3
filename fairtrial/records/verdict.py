"""What a run or a comparison came to: verdict.json is {schema, body, meta}.

The body is canonical: no ids of experiments, no times, no money, no count of repeated calls. Two runs of the same
trials, one of them killed and resumed, have byte-equal bodies.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from fairtrial.hashing import JsonValue, canonical_json

RUN_SCHEMA = "fairtrial/run/1"


class Record(BaseModel):
    """Base of every stored document."""

    # NaN would be found only when the document is written, after everything was paid.
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class ErrorRecord(Record):
    """Trials of one side that ended with one kind of error. outcome is agent_failure or infra_loss."""

    outcome: str
    kind: str
    n: int


class ScoreRecord(Record):
    """One grader over one arm: the mean of the scores it gave, and over how many trials. None without a score."""

    grader: str
    mean: float | None
    n_scored: int
    n_no_score: int
    n_errors: int


class SideRecord(Record):
    """One arm's trials by outcome. Shares are in [0, 1]; None where there is nothing to share.

    pass_share      mean over cases of the case's own pass share, agent failures as 0; every case weighs the same
    pass_low, _high 95% Wilson interval of the share of cases that pass (at least half of their trials)
    """

    label: str
    n_cases: int
    n_trials: int
    n_done: int
    n_graded: int
    n_graded_passed: int
    n_agent_failures: int
    n_infra_losses: int
    n_ungraded: int
    n_valued_cases: int
    pass_share: float | None
    pass_low: float | None
    pass_high: float | None
    errors: tuple[ErrorRecord, ...] = ()
    scores: tuple[ScoreRecord, ...] = ()

    @property
    def n_valued(self) -> int:
        """Return the trials with a value: graded, and agent failures as 0."""
        return self.n_graded + self.n_agent_failures

    @property
    def n_lost(self) -> int:
        """Return the trials left out: infra losses and ungraded ones."""
        return self.n_infra_losses + self.n_ungraded

    @property
    def complete(self) -> bool:
        """Return whether every planned trial is done."""
        return self.n_done == self.n_trials


class DifferenceRecord(Record):
    """B − A over the paired cases, in shares. Ends are None with a reason when they are not defined."""

    estimate: float | None
    low: float | None
    high: float | None
    level: float
    method: str
    n_resamples: int
    seed: int
    reason: str | None = None


class FlipsRecord(Record):
    """Exact McNemar test on the cases that flipped; adjusted_p is Holm's over a family of several comparisons."""

    improved: int
    regressed: int
    p: float
    adjusted_p: float | None = None


class ReasonRecord(Record):
    """Why a verdict is what it is; the code has a page in docs/reasons."""

    code: str
    text: str


class DecisionRecord(Record):
    """The outcome of the one rule."""

    outcome: Literal["better", "worse", "inconclusive"]
    reasons: tuple[ReasonRecord, ...] = ()


class CaseChange(Record):
    """A case whose passes changed, as shares of the trials compared."""

    case: str
    a: float
    b: float


class NotComparableRecord(Record):
    """Cases that both runs have and no comparison may use, and cases that only one has."""

    input_changed: tuple[str, ...] = ()
    label_changed: tuple[str, ...] = ()
    only_a: int = 0
    only_b: int = 0
    without_value: tuple[str, ...] = ()


class SettingRecord(Record):
    """A setting besides the one under test that differs between the sides."""

    path: str
    a: str
    b: str


class ComparisonBody(Record):
    """Everything a comparison says; canonical."""

    a: SideRecord
    b: SideRecord
    n_pairs: int
    n_distinct_inputs: int
    difference: DifferenceRecord
    flips: FlipsRecord
    decision: DecisionRecord
    regressions: tuple[CaseChange, ...]
    improvements: tuple[CaseChange, ...]
    not_comparable: NotComparableRecord
    settings: tuple[SettingRecord, ...] = ()
    warnings: tuple[ReasonRecord, ...] = ()


class RunBody(Record):
    """Everything a run of one arm or more says; comparisons are of each further arm with the first. Canonical."""

    dataset_hash: str
    trials: int
    arms: tuple[SideRecord, ...]
    comparisons: tuple[ComparisonBody, ...] = ()
    warnings: tuple[str, ...] = ()


class TakenBackRecord(Record):
    """Results that were run again, by the reason (retried or damaged) and what they had been."""

    why: str
    outcome: str | None
    n: int


class Meta(Record):
    """What may differ between two runs of the same trials: ids, names, times (ISO 8601 UTC), money, repeats.

    duration_s      seconds somebody worked on the run: the sum over its parts, without the time between them
    parts           stretches of work, each ended by a stop, a crash or the verdict
    repeated_calls  calls that a stop or crash cut off
    reserved_usd    the most that those can have cost, where a price was known beforehand
    """

    experiments: tuple[str, ...]
    names: tuple[str, ...]
    dataset: str
    created_at: str
    look: int | None = None
    duration_s: float | None = None
    parts: int = 1
    repeated_calls: int = 0
    taken_back: tuple[TakenBackRecord, ...] = ()
    cost_usd: str | None = None
    n_with_cost: int = 0
    reserved_usd: str | None = None
    state: str = "finished"


class ComparisonDocument(Record):
    """verdict.json of a comparison."""

    schema_: Literal["fairtrial/comparison/1"] = "fairtrial/comparison/1"
    body: ComparisonBody
    meta: Meta


class RunDocument(Record):
    """verdict.json of a run."""

    schema_: Literal["fairtrial/run/1"] = "fairtrial/run/1"
    body: RunBody
    meta: Meta


def to_json(document: ComparisonDocument | RunDocument) -> dict[str, JsonValue]:
    """Return the document as it is stored and as --json prints it."""
    dumped = document.model_dump(mode="json")
    return {"schema": dumped["schema_"], "body": dumped["body"], "meta": dumped["meta"]}


def body_bytes(body: ComparisonBody | RunBody) -> bytes:
    """Return the canonical bytes of a body: what two equal verdicts share."""
    return canonical_json(body.model_dump(mode="json"))
