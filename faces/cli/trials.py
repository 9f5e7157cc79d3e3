"""`exp trials`: single trials with their outputs, grades and history. Imports neither Prefect nor scipy."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from faces.cli.output import note, out, out_json
from faces.cli.settings import read_settings
from faces.cli.store import Store, open_store
from fairtrial.errors import SpecError
from fairtrial.records.trial import Grade, Trial, TrialKey
from fairtrial.reports.figures import NOT_REPORTED, duration
from fairtrial.reports.safe import shorten, visible, visible_bytes
from fairtrial.store.experiments import resolve_id
from fairtrial.store.history import Earlier, earlier_attempts
from fairtrial.store.trials import page_of_trials

_WHY: Final = {
    "retried": "run again by --retry-errors",
    "damaged": "its stored answer could not be read any more",
}


def trials(
    experiment: str,
    /,
    *,
    arm: str | None = None,
    case: str | None = None,
    outcome: Literal["graded", "agent_failure", "infra_loss", "ungraded"] | None = None,
    limit: Annotated[int, Parameter(validator=Number(gte=1, lte=10_000))] = 20,
    after: str | None = None,
    json: bool = False,
) -> int:
    """Show the trials of an experiment, with outputs and grades, in order of arm and case.

    A trial that was run again shows what its earlier attempts came to.

    Examples:
      exp trials latest --outcome agent_failure
      exp trials EXP --arm cand --case c_756966685591eb9b --json

    Parameters
    ----------
    experiment
        An experiment id, the start of one, or `latest`.
    arm
        Only this arm.
    case
        Only this case.
    outcome
        Only trials that ended so.
    limit
        Most trials to show.
    after
        Go on after this trial, as the last page named it.
    json
        Print a JSON object with the trials and the cursor of the next page. Outputs that are not UTF-8 are base64.
    """
    store = open_store(read_settings(), must_exist=True)
    found, history = _page(store, experiment, arm=arm, case=case, outcome=outcome, limit=limit, after=after)
    more = _cursor(found[-1]) if len(found) == limit else None
    if json:
        forms = [_trial_json(trial, history[trial.key]) for trial in found]
        out_json({"schema": "fairtrial/trials/1", "trials": forms, "next": more})
        return 0
    if not found:
        note("no trials fit")
    for trial in found:
        _show_trial(trial, history[trial.key])
    if more is not None:
        note(f"more: exp trials {experiment} --after {more}")
    return 0


def _page(
    store: Store, experiment: str, *, after: str | None, **filters: Any
) -> tuple[list[Trial], dict[TrialKey, list[Earlier]]]:
    """Return a page of trials, and what earlier attempts of each came to."""
    with store.engine.connect() as connection:
        found = page_of_trials(
            connection, store.objects, resolve_id(connection, experiment), after=_key(after), **filters
        )
        cases = sorted({trial.key.case for trial in found})
        earlier = earlier_attempts(connection, found[0].key.experiment, cases) if found else {}
    return found, {trial.key: earlier.get((trial.key.arm, trial.key.case, trial.key.repetition), []) for trial in found}


def _show_trial(trial: Trial, earlier: Sequence[Earlier]) -> None:
    value = "no value" if trial.value is None else "pass" if trial.value == 1.0 else "fail"
    kind = f" ({visible(trial.answer.error_kind)})" if trial.answer.error_kind else ""
    latency = NOT_REPORTED if trial.answer.latency_s is None else duration(trial.answer.latency_s)
    out(
        f"{visible(trial.key.arm)}  {visible(trial.key.case)}  #{trial.key.repetition}  {trial.outcome}{kind}  "
        f"{value}  latency {latency}"
    )
    out(f"  output  {shorten(visible_bytes(trial.answer.output), 200)}{' (cut)' if trial.answer.cut else ''}")
    if trial.answer.error:
        out(f"  error   {shorten(visible_bytes(trial.answer.error), 200)}")
    for grade in trial.grades:
        score = grade.state if grade.score is None else f"{grade.score:g}"
        reason = f"  {shorten(visible_bytes(grade.reason), 160)}" if grade.reason else ""
        out(f"  {visible(grade.grader)}  {score}{reason}")
    for each in earlier:
        kind = f" ({visible(each.error_kind)})" if each.error_kind else ""
        error = f"  {shorten(visible_bytes(each.error), 160)}" if each.error else ""
        out(f"  earlier attempt {each.attempt}: {each.outcome or 'not graded'}{kind}, {_WHY[each.why]}{error}")


def _trial_json(trial: Trial, earlier: Sequence[Earlier]) -> dict[str, Any]:
    answer = trial.answer
    return {
        "arm": trial.key.arm,
        "case": trial.key.case,
        "repetition": trial.key.repetition,
        "outcome": trial.outcome,
        "value": trial.value,
        "attempt": trial.attempt,
        **_text_json("output", answer.output),
        "output_cut": answer.cut,
        "error_kind": answer.error_kind,
        **_text_json("error", answer.error),
        "latency_s": answer.latency_s,
        "input_tokens": answer.usage.input_tokens,
        "output_tokens": answer.usage.output_tokens,
        "cost_usd": None if answer.usage.cost_usd is None else str(answer.usage.cost_usd),
        "started_at": trial.started_at.isoformat(),
        "finished_at": trial.finished_at.isoformat(),
        "grades": [_grade_json(grade) for grade in trial.grades],
        "earlier": [_earlier_json(each) for each in earlier],
    }


def _earlier_json(earlier: Earlier) -> dict[str, Any]:
    return {
        "attempt": earlier.attempt,
        "taken_back": earlier.why,
        "outcome": earlier.outcome,
        "error_kind": earlier.error_kind,
        **_text_json("error", earlier.error),
        "cost_usd": None if earlier.cost_usd is None else str(earlier.cost_usd),
        "started_at": datetime.fromtimestamp(earlier.started_at, UTC).isoformat(),
        "finished_at": (
            None if earlier.finished_at is None else datetime.fromtimestamp(earlier.finished_at, UTC).isoformat()
        ),
    }


def _grade_json(grade: Grade) -> dict[str, Any]:
    return {
        "grader": grade.grader,
        "version": grade.version,
        "state": grade.state,
        "score": grade.score,
        **_text_json("reason", grade.reason),
    }


def _text_json(name: str, data: bytes) -> dict[str, str]:
    try:
        return {name: data.decode("utf-8")}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode("ascii")}


def _cursor(trial: Trial) -> str:
    key = f"{trial.key.arm}\n{trial.key.case}\n{trial.key.repetition}"
    return base64.urlsafe_b64encode(key.encode()).decode("ascii").rstrip("=")


def _key(cursor: str | None) -> tuple[str, str, int] | None:
    if cursor is None:
        return None
    try:
        arm, case, repetition = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode().split("\n")
        return arm, case, int(repetition)
    except ValueError:
        raise SpecError(
            f"--after {cursor} is no cursor.", code="bad_usage", hint="Take it from the page before."
        ) from None
