"""`exp list`, `exp show`, `exp trials`: reading what is stored. Imports neither Prefect nor scipy."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from faces.cli.output import note, out, out_json, out_table
from faces.cli.settings import read_settings
from faces.cli.store import Store, open_store
from fairtrial.errors import SpecError
from fairtrial.records.experiment import ArmSummary, ExperimentRecord
from fairtrial.records.trial import Grade, Trial
from fairtrial.records.verdict import to_json
from fairtrial.reports.figures import NOT_REPORTED, count, duration, percent
from fairtrial.reports.run import run_lines
from fairtrial.reports.safe import shorten, visible, visible_bytes
from fairtrial.store.experiments import get_experiment, list_experiments, resolve_id, summaries_of
from fairtrial.store.lease import Holder, holder
from fairtrial.store.trials import page_of_trials
from fairtrial.store.verdicts import stored_run

Json = bool


def list_(
    *, limit: Annotated[int, Parameter(validator=Number(gte=1))] = 20, name: str | None = None, json: Json = False
) -> int:
    """List the stored experiments, newest first.

    A run with trials left is marked (partial), one that a live process works
    on (running).

    Examples:
      exp list
      exp list --name smoke --limit 100 --json

    Parameters
    ----------
    limit
        Most experiments to list.
    name
        Only experiments with this name.
    json
        Print a JSON list.
    """
    settings = read_settings()
    store = open_store(settings)
    with store.engine.connect() as connection:
        found = list_experiments(connection, limit=limit, name=name)
        summaries = summaries_of(connection, [experiment.id for experiment in found])
        holders = {each.id: holder(connection, each.id) for each in found if each.state == "running"}
    if json:
        out_json([_line_json(each, summaries[each.id], holders.get(each.id)) for each in found])
        return 0
    if not found:
        note(f"no experiments in {settings.home}")
        return 0
    rows = [_line(each, summaries[each.id], holders.get(each.id)) for each in found]
    out_table(("experiment", "when (UTC)", "name", "arms", "pass", "trials", "state"), rows, right=(4, 5))
    return 0


def show(experiment: str, /, *, json: Json = False) -> int:
    """Show one experiment: what it was made of, its totals, its report.

    Example:
      exp show latest

    Parameters
    ----------
    experiment
        An experiment id, the start of one, or `latest`.
    json
        Print the record as JSON.
    """
    store = open_store(read_settings(), must_exist=True)
    with store.engine.connect() as connection:
        record = get_experiment(connection, resolve_id(connection, experiment))
        summaries = summaries_of(connection, [record.id])[record.id]
        held = holder(connection, record.id)
    verdict = stored_run(store.objects, record.id)
    if json:
        document: dict[str, Any] = _line_json(record, summaries, held)
        document |= {
            "seed": record.seed,
            "graders": [{"name": g.name, "kind": g.kind, "version": g.version, "spec": g.spec} for g in record.graders],
            "configurations": {
                arm.name: {"task": arm.task, "limits": arm.limits, "parts": arm.task_parts} for arm in record.arms
            },
            "selection": record.selection,
            "verdict": None if verdict is None else to_json(verdict),
        }
        out_json(document)
        return 0
    _show_record(record, summaries, held)
    if verdict is not None:
        out("", *run_lines(verdict.body, verdict.meta))
    return 0


def trials(
    experiment: str,
    /,
    *,
    arm: str | None = None,
    case: str | None = None,
    outcome: Literal["graded", "agent_failure", "infra_loss", "ungraded"] | None = None,
    limit: Annotated[int, Parameter(validator=Number(gte=1, lte=10_000))] = 20,
    after: str | None = None,
    json: Json = False,
) -> int:
    """Show the trials of an experiment, with outputs and grades, in order of arm and case.

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
    found = _page(store, experiment, arm=arm, case=case, outcome=outcome, limit=limit, after=after)
    more = _cursor(found[-1]) if len(found) == limit else None
    if json:
        out_json({"schema": "fairtrial/trials/1", "trials": [_trial_json(trial) for trial in found], "next": more})
        return 0
    if not found:
        note("no trials fit")
    for trial in found:
        _show_trial(trial)
    if more is not None:
        note(f"more: exp trials {experiment} --after {more}")
    return 0


def state_of(record: ExperimentRecord, summaries: tuple[ArmSummary, ...], held: Holder | None) -> str:
    """Return finished, running, or partial with when it was last seen."""
    if all(summary.n_done == summary.n_planned for summary in summaries) and record.state == "finished":
        return "finished"
    if held is not None and held.alive:
        return "(running)"
    if held is not None:
        return f"(partial), last seen {duration(held.last_seen_s)} ago"
    return "(partial)"


def _page(store: Store, experiment: str, *, after: str | None, **filters: Any) -> list[Trial]:
    with store.engine.connect() as connection:
        found = resolve_id(connection, experiment)
        return page_of_trials(connection, store.objects, found, after=_key(after), **filters)


def _line(record: ExperimentRecord, summaries: tuple[ArmSummary, ...], held: Holder | None) -> tuple[str, ...]:
    names = [shorten(visible(arm.name), 16) for arm in record.arms]
    return (
        record.id,
        _when(record.created_at).strftime("%Y-%m-%d %H:%M"),
        shorten(visible(record.name), 32),
        shorten(" vs ".join(names) if len(names) > 1 else "–", 36),
        " ".join(percent(summary.pass_share) if summary.n_valued else "–" for summary in summaries),
        f"{sum(s.n_done for s in summaries):,}/{sum(s.n_planned for s in summaries):,}",
        state_of(record, summaries, held),
    )


def _line_json(record: ExperimentRecord, summaries: tuple[ArmSummary, ...], held: Holder | None) -> dict[str, Any]:
    return {
        "schema": "fairtrial/experiment/1",
        "id": record.id,
        "name": record.name,
        "kind": record.kind,
        "state": state_of(record, summaries, held).strip("()").partition(")")[0],
        "created_at": _when(record.created_at).isoformat(),
        "finished_at": None if record.finished_at is None else _when(record.finished_at).isoformat(),
        "dataset": {"name": record.dataset.name, "hash": record.dataset.hash, "n_cases": record.dataset.n_cases},
        "n_cases": record.n_cases,
        "trials": record.trials,
        "tags": list(record.tags),
        "arms": [
            {
                "name": summary.arm,
                "n_planned": summary.n_planned,
                "n_done": summary.n_done,
                "n_graded": summary.n_graded,
                "n_passed": summary.n_passed,
                "n_agent_failures": summary.n_agent_failures,
                "n_infra_losses": summary.n_infra_losses,
                "n_ungraded": summary.n_ungraded,
                "pass_share": summary.pass_share,
            }
            for summary in summaries
        ],
    }


def _show_record(record: ExperimentRecord, summaries: tuple[ArmSummary, ...], held: Holder | None) -> None:
    out(f"{record.id}  {visible(record.name)}  {state_of(record, summaries, held)}")
    out(f"made     {_when(record.created_at):%Y-%m-%d %H:%M:%S} UTC, seed {record.seed}")
    out(f"dataset  {visible(record.dataset.name)}  {record.dataset.hash[:12]}  {count(record.n_cases, 'case')}")
    for grader in record.graders:
        out(f"grader   {visible(grader.name)} ({grader.kind})  version {grader.version[:12]}")
    for arm, summary in zip(record.arms, summaries, strict=True):
        out(
            f"arm      {visible(arm.name)} ({arm.task['kind']})  {summary.n_done:,} of {summary.n_planned:,} trials, "
            f"pass {percent(summary.pass_share)}"
        )
        for part, digest in sorted(arm.task_parts.items()):
            if part.startswith("file "):
                out(f"         {visible(part)}  {digest[:12]}")


def _show_trial(trial: Trial) -> None:
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


def _trial_json(trial: Trial) -> dict[str, Any]:
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


def _when(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
