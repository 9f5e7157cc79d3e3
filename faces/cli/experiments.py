"""`exp list` and `exp show`: what is stored. A verdict is read, not computed: neither imports Prefect or scipy."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

from cyclopts import Parameter
from cyclopts.validators import Number

from faces.cli.output import note, out, out_json, out_table
from faces.cli.settings import read_settings
from faces.cli.store import Store, open_store
from fairtrial.records.experiment import ArmSummary, ExperimentRecord
from fairtrial.records.verdict import RunDocument, to_json
from fairtrial.reports.figures import count, duration, percent
from fairtrial.reports.run import run_lines
from fairtrial.reports.safe import shorten, visible
from fairtrial.store.experiments import get_experiment, list_experiments, resolve_id, summaries_of
from fairtrial.store.lease import Holder, holder
from fairtrial.store.status import state_of
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
    verdict = _verdict(store, record)
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


def _state_text(record: ExperimentRecord, summaries: tuple[ArmSummary, ...], held: Holder | None) -> str:
    """Return finished, closed, running, or partial with when it was last seen."""
    state = state_of(record, summaries, held)
    if state == "partial" and held is not None:
        return f"(partial), last seen {duration(held.last_seen_s)} ago"
    return f"({state})" if state in ("running", "partial") else state


def _verdict(store: Store, record: ExperimentRecord) -> RunDocument | None:
    """Return the verdict of an experiment; made again from the journal when the stored one is lost or damaged."""
    found = stored_run(store.objects, record)
    if found is None and record.verdict_sha256 is not None:
        note("the stored verdict is not there or does not match its checksum; this one is made from the journal")
        from tasks.publish import read_run  # imports numpy, which a whole store does not need here

        return read_run(store.engine, store.objects, record.id)
    return found


def _line(record: ExperimentRecord, summaries: tuple[ArmSummary, ...], held: Holder | None) -> tuple[str, ...]:
    names = [shorten(visible(arm.name), 16) for arm in record.arms]
    return (
        record.id,
        _when(record.created_at).strftime("%Y-%m-%d %H:%M"),
        shorten(visible(record.name), 32),
        shorten(" vs ".join(names) if len(names) > 1 else "–", 36),
        " ".join(percent(summary.pass_share) if summary.n_valued else "–" for summary in summaries),
        f"{sum(s.n_done for s in summaries):,}/{sum(s.n_planned for s in summaries):,}",
        _state_text(record, summaries, held),
    )


def _line_json(record: ExperimentRecord, summaries: tuple[ArmSummary, ...], held: Holder | None) -> dict[str, Any]:
    return {
        "schema": "fairtrial/experiment/1",
        "id": record.id,
        "name": record.name,
        "kind": record.kind,
        "state": state_of(record, summaries, held),
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
    out(f"{record.id}  {visible(record.name)}  {_state_text(record, summaries, held)}")
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


def _when(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
