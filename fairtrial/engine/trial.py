"""One trial, from the attempt mark to its grades.

What a subject or grader does wrong ends up in the trial's record, never as an exception; only the store's own trouble
and a lost lease stop the run.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fairtrial.engine.journal import Journal
from fairtrial.engine.progress import Progress
from fairtrial.engine.retry import with_retries
from fairtrial.engine.seeds import derive
from fairtrial.errors import ConflictError, InfraError, StoreError
from fairtrial.graders.base import Grader
from fairtrial.records.trial import Answer, Grade, Outcome, TrialKey
from fairtrial.spec.case import Case
from fairtrial.store.quarantine import UNREADABLE
from fairtrial.store.trials import Progressed
from fairtrial.subjects.base import Subject, TrialRequest

PASS_THRESHOLD = 0.5
"""A score of at least this passes. The same number as stats.results.PASS_THRESHOLD, which a test compares."""


@dataclass(frozen=True, slots=True)
class ArmRuntime:
    """One arm, ready to run."""

    name: str
    subject: Subject
    graders: tuple[Grader, ...]
    trial_timeout_s: float | None
    retries: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a trial's grades add up to."""

    outcome: Outcome
    value: float | None
    error_kind: str | None


@dataclass(frozen=True, slots=True)
class TrialContext:
    """What every trial of a run shares."""

    experiment: str
    seed: int
    journal: Journal
    progress: Progress
    mark: dict[str, str]
    say: Callable[[str], None] = lambda _line: None


async def run_trial(
    context: TrialContext, arm: ArmRuntime, case: Case, repetition: int, *, known: Progressed | None
) -> Verdict:
    """Run one trial that is not done and return how it ended; everything about it is in the journal by then.

    known   what the journal has of it from earlier: a stored answer is graded without asking the subject again

    Raises StoreError and ConflictError only.
    """
    key = TrialKey(context.experiment, arm.name, case.id, repetition)
    started_at = time.time()
    kept = await _kept_answer(context, key) if known is not None and known.state == "answered" else None
    if known is not None and kept is not None:
        attempt, answer = known.attempt, kept
    else:
        attempt = (known.attempt if known is not None else 0) + 1
        await context.journal.begin(key, attempt=attempt, started_at=started_at)
        answer, loss = await _ask(context, arm, case, repetition)
        if loss is not None:
            return await _close(context, key, answer, loss, (), attempt=attempt, started_at=started_at)
        await context.journal.keep_answer(key, answer, attempt=attempt, started_at=started_at)
    grades = await _grade(context, arm, case, answer)
    verdict = weigh(answer, grades)
    return await _close(context, key, answer, verdict, grades, attempt=attempt, started_at=started_at)


async def _kept_answer(context: TrialContext, key: TrialKey) -> Answer | None:
    """Return the answer that an earlier part kept; None when it cannot be read any more and has to be asked for."""
    try:
        return await context.journal.answer(key)
    except StoreError as error:
        if error.code not in UNREADABLE:
            raise
        context.say(await context.journal.set_answer_aside(key))
        return None


def weigh(answer: Answer, grades: Sequence[Grade]) -> Verdict:
    """Return what an answer and its grades come to.

    An agent failure is 0. A grader's own error loses the trial, whatever the others said. Graders without a score are
    left out; the trial passes when every score is at least 0.5, and is ungraded when there is none.
    """
    if answer.error_kind is not None:
        return Verdict("agent_failure", 0.0, answer.error_kind)
    if any(grade.state == "error" for grade in grades):
        return Verdict("infra_loss", None, "grader_error")
    scores = [grade.score for grade in grades if grade.score is not None]
    if not scores:
        return Verdict("ungraded", None, None)
    return Verdict("graded", 1.0 if min(scores) >= PASS_THRESHOLD else 0.0, None)


async def _ask(context: TrialContext, arm: ArmRuntime, case: Case, repetition: int) -> tuple[Answer, Verdict | None]:
    seed = derive(context.seed, "subject", arm.name, case.id, repetition)
    deadline = None if arm.trial_timeout_s is None else time.monotonic() + arm.trial_timeout_s

    async def call() -> Answer:
        left = None if deadline is None else max(deadline - time.monotonic(), 0.001)
        request = TrialRequest(
            experiment=context.experiment,
            arm=arm.name,
            case=case,
            repetition=repetition,
            seed=seed,
            timeout_s=left,
            mark=context.mark,
        )
        return await arm.subject.answer(request)

    try:
        answer = await with_retries(call, retries=arm.retries, deadline=deadline, jitter=random.Random(seed))
    except InfraError as error:
        return _lost(error.kind, str(error))
    except (StoreError, ConflictError):
        raise
    except Exception as error:
        # A subject that breaks its contract loses this trial, by name; the others go on.
        return _lost("internal", f"{type(error).__name__}: {error}")
    return answer, None


def _lost(kind: str, message: str) -> tuple[Answer, Verdict]:
    answer = Answer(error_kind=kind, error=message.encode("utf-8", "backslashreplace"))
    return answer, Verdict("infra_loss", None, kind)


async def _grade(context: TrialContext, arm: ArmRuntime, case: Case, answer: Answer) -> tuple[Grade, ...]:
    if answer.error_kind is not None:
        return ()
    # One after the other: a trial holds one place in the gate and asks for one thing at a time.
    return tuple([await grader.grade_answer(answer, case=case, mark=context.mark) for grader in arm.graders])


async def _close(
    context: TrialContext,
    key: TrialKey,
    answer: Answer,
    verdict: Verdict,
    grades: tuple[Grade, ...],
    *,
    attempt: int,
    started_at: float,
) -> Verdict:
    if verdict.error_kind != answer.error_kind:
        answer = Answer(answer.output, verdict.error_kind, answer.error, answer.cut, answer.latency_s, answer.usage)
    await context.journal.finish(
        key,
        answer,
        outcome=verdict.outcome,
        value=verdict.value,
        grades=grades,
        attempt=attempt,
        started_at=started_at,
        finished_at=time.time(),
    )
    context.progress.count(key.arm, verdict.outcome, verdict.value, answer.usage)
    return verdict
