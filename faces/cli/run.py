"""`exp run`: one spec, or several arms side by side."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import Parameter
from cyclopts.validators import Number

from faces.cli.ask import RunFlags, ask
from faces.cli.files import check_outputs, write_outputs
from faces.cli.live import Live
from faces.cli.main import RESUME_NEWEST
from faces.cli.output import note, out, out_json
from faces.cli.settings import environment, read_concurrency, read_settings
from faces.cli.store import Store, open_store
from faces.cli.window import Window
from fairtrial.engine.create import Prepared, prepare, store
from fairtrial.engine.open import OpenRun, default_concurrency, open_run
from fairtrial.engine.resume import check_files, check_same
from fairtrial.errors import CODES, FairtrialError, SpecError
from fairtrial.hashing import canonical_json
from fairtrial.records.experiment import ExperimentRecord
from fairtrial.records.verdict import RunDocument, to_json
from fairtrial.reports.figures import count
from fairtrial.reports.run import run_lines
from fairtrial.reports.safe import visible
from fairtrial.spec.models import Limits
from fairtrial.store.experiments import cases_of, get_experiment, newest_to_resume, resolve_id, resume_key, summaries_of
from fairtrial.store.lease import this_process
from tasks.publish import read_run

if TYPE_CHECKING:
    pass

_AT_LEAST_ONE: Final = Number(gte=1)


def run(
    spec: str | None = None,
    /,
    *,
    arm: list[str] | None = None,
    dataset: Annotated[str | None, Parameter(name=["--dataset", "-d"])] = None,
    grader: Annotated[list[str] | None, Parameter(name=["--grader", "-g"])] = None,
    name: str | None = None,
    trials: Annotated[int | None, Parameter(validator=_AT_LEAST_ONE)] = None,
    seed: Annotated[int | None, Parameter(validator=Number(gte=0))] = None,
    concurrency: Annotated[int | None, Parameter(validator=_AT_LEAST_ONE)] = None,
    slice_: Annotated[int | None, Parameter(name="--slice", validator=_AT_LEAST_ONE)] = None,
    trial_timeout: Annotated[float | None, Parameter(validator=Number(gt=0))] = None,
    retries: Annotated[int | None, Parameter(validator=Number(gte=0))] = None,
    first_n: Annotated[int | None, Parameter(validator=_AT_LEAST_ONE)] = None,
    case: list[str] | None = None,
    resume: str | None = None,
    output: Annotated[list[Path] | None, Parameter(name=["--output", "-o"])] = None,
    json: bool = False,
    quiet: Annotated[bool, Parameter(name=["--quiet", "-q"], negative="")] = False,
) -> int:
    """Run a spec, or several arms side by side, to a verdict.

    Each case runs in all arms back to back, in random order. Every trial is
    stored as it finishes: after Ctrl-C or a crash the same command with
    --resume runs only what is left.

    Examples:
      exp run spec.json
      exp run spec.json -d cases.jsonl -g '{"kind": "exact"}' --trials 3
      exp run --arm base=a.json --arm cand=b.json --seed 7 -o report.md
      exp run --resume exp_01M6SAJYC5RM7A5TCT65R3SFSM

    Parameters
    ----------
    spec
        Spec file (JSON, YAML or TOML).
    arm
        NAME=SPEC, twice or more: the first is the baseline.
    dataset
        Dataset instead of the spec's: a path, or a registered name.
    grader
        Grader instead of the spec's: JSON, or @FILE; repeatable.
    name
        Name of the experiment instead of the spec's.
    trials
        Times each case is run.
    seed
        Start of every random choice.
    concurrency
        Trials in flight. Default: 1 for commands, 64 for recorded answers. Variable: FAIRTRIAL_CONCURRENCY.
    slice_
        Blocks of trials in one Prefect task; 1 gives every block its own line in the UI. Default: 50.
    trial_timeout
        Longest trial in seconds, retries included.
    retries
        Further tries after a rate limit, 5xx or network error; failed tasks are never tried again. Default: 3.
    first_n
        Run only the first N cases.
    case
        Run only this case; repeatable, @FILE for a list.
    resume
        Go on with a stored run: an id, `latest`, or nothing for the newest run of the same spec.
    output
        Write the report there too: .md, .txt or .json; repeatable.
    json
        Print the verdict as JSON on stdout, and nothing else there.
    quiet
        No progress on stderr.
    """
    check_outputs(output or [])
    flags = RunFlags(
        spec=spec,
        arms=tuple(arm or ()),
        dataset=dataset,
        graders=tuple(grader or ()),
        name=name,
        trials=trials,
        seed=seed,
        trial_timeout_s=trial_timeout,
        retries=retries,
        first_n=first_n,
        cases=tuple(case or ()),
        slice_blocks=slice_,
    )
    settings = read_settings()
    limit = concurrency if concurrency is not None else read_concurrency()
    project = open_store(settings, must_exist=resume is not None and resume != RESUME_NEWEST)
    experiment = _experiment(flags, resume, project)
    shown = _Shown(project, output or [], as_json=json)
    if _nothing_left(project, experiment):
        note(f"{experiment.id}: nothing left to run")
        return shown.stored(experiment)
    note(_about(experiment, limit))
    # The server starts while Prefect is imported and the experiment opened; nothing wrong with the spec gets this far.
    window = Window(settings, say=note)
    return _execute(project, experiment, window, shown, limit=limit, quiet=quiet)


def _experiment(flags: RunFlags, resume: str | None, project: Store) -> ExperimentRecord:
    """Return the experiment to run: a new one that is stored by now, or a stored one that has not changed."""
    if resume is not None and resume != RESUME_NEWEST and flags.spec is None and not flags.arms:
        with project.engine.connect() as connection:
            experiment = get_experiment(connection, resolve_id(connection, resume))
        check_files(experiment)
        return experiment
    asked = ask(flags, project)
    prepared = prepare(asked, environ=environment())
    if resume is None:
        for warning in prepared.record.warnings:
            note(f"warning: {visible(warning)}")
        store(prepared, asked.dataset, engine=project.engine, objects=project.objects)
        return prepared.record
    return _stored_same(prepared, resume, project, seed=asked.arms[0].loaded.spec.seed)


def _stored_same(prepared: Prepared, resume: str, project: Store, *, seed: int | None) -> ExperimentRecord:
    now = prepared.record
    arms = [arm.name for arm in now.arms]
    with project.engine.connect() as connection:
        if resume == RESUME_NEWEST:
            key = resume_key(name=now.name, arms=arms, selection=now.selection)
            found = newest_to_resume(connection, key)
        else:
            found = resolve_id(connection, resume)
        if found is None:
            raise SpecError(
                f"there is no stored run named {now.name!r} with these arms and this selection.",
                code="unknown_experiment",
                hint="`exp list` shows the stored ones; without --resume a new one starts.",
            )
        stored = get_experiment(connection, found)
        cases = cases_of(connection, found)
    if [arm.name for arm in stored.arms] != arms:
        raise SpecError(
            f"{found} has the arms {', '.join(arm.name for arm in stored.arms)}, not {', '.join(arms)}.",
            code="changed_inputs",
            hint="Start a new run without --resume.",
        )
    check_same(stored, cases, prepared, seed=seed)
    return stored


def _nothing_left(project: Store, experiment: ExperimentRecord) -> bool:
    with project.engine.connect() as connection:
        summaries = summaries_of(connection, [experiment.id])[experiment.id]
    return experiment.state == "finished" and all(summary.n_done == summary.n_planned for summary in summaries)


def _about(experiment: ExperimentRecord, limit: int | None) -> str:
    arms = " vs ".join(visible(arm.name) for arm in experiment.arms)
    arms = f"{arms}: " if len(experiment.arms) > 1 else ""
    each = f" × {count(experiment.trials, 'trial')}" if experiment.trials > 1 else ""
    return (
        f"{experiment.id}  {visible(experiment.name)}\n"
        f"{arms}{count(experiment.n_cases, 'case')}{each} × {count(len(experiment.arms), 'arm')} "
        f"= {count(experiment.n_trials, 'trial')} of {visible(experiment.dataset.name)}, "
        f"{limit or default_concurrency(experiment)} in flight, seed {experiment.seed}"
    )


def _execute(
    project: Store, experiment: ExperimentRecord, window: Window, shown: _Shown, *, limit: int | None, quiet: bool
) -> int:
    run = open_run(
        project.engine,
        project.objects,
        experiment.id,
        owner=this_process(),
        environ=environment(),
        concurrency=limit,
    )
    try:
        if run.lease.taken_from is not None:
            note(f"taken over from {run.lease.taken_from}")
        window.wait()
        from flows.execute import execute  # imports Prefect, whose settings are in the environment now

        if run.finished:
            window.warn_of_settings()

        live = Live(run.loop.context.progress, shown=not quiet)

        def announce(document: RunDocument, stopped_by: signal.Signals | None) -> int:
            live.close()
            return shown.verdict(document, run, stopped_by)

        live.start()
        try:
            return execute(run, title=_title(experiment), labels=_labels(experiment), announce=announce, say=note)
        finally:
            live.close()
    except FairtrialError:
        note(f"what was finished is stored; go on with: exp run --resume {experiment.id}")
        raise
    finally:
        run.writer.close()
        run.reaper.close()


def _title(experiment: ExperimentRecord) -> str:
    parts = [experiment.kind, visible(experiment.name)]
    if len(experiment.arms) > 1:
        parts.append(" vs ".join(arm.name for arm in experiment.arms))
    return " · ".join([*parts, experiment.id])


def _labels(experiment: ExperimentRecord) -> list[str]:
    labels = ["fairtrial", experiment.kind, f"dataset:{visible(experiment.dataset.name)}", experiment.id]
    return labels + [visible(tag) for tag in experiment.tags]


class _Shown:
    """Shows a verdict once, where it was asked for, and says which status it ends the process with."""

    def __init__(self, project: Store, outputs: list[Path], *, as_json: bool):
        self._project = project
        self._outputs = outputs
        self._as_json = as_json

    def stored(self, experiment: ExperimentRecord) -> int:
        """Show the verdict of a finished run without writing anything to the store."""
        document = read_run(self._project.engine, self._project.objects, experiment.id)
        return self._show(document, max_loss=_max_loss(experiment))

    def verdict(self, document: RunDocument, run: OpenRun, stopped_by: signal.Signals | None) -> int:
        """Show a fresh verdict; a run that was stopped says how to go on and ends with its signal's status."""
        status = self._show(document, max_loss=_max_loss(run.record))
        if stopped_by is not None:
            note(f"stopped by {stopped_by.name}; go on with: exp run --resume {run.record.id}")
            return 128 + stopped_by
        return status

    def _show(self, document: RunDocument, *, max_loss: float) -> int:
        if self._as_json:
            out_json(to_json(document))
        else:
            out(*run_lines(document.body, document.meta))
            where = self._project.objects.local_path(f"experiments/{document.meta.experiments[0]}/report.md")
            note(f"stored   {where}")
        write_outputs(self._outputs, [document])
        return _status(document, max_loss=max_loss)


def _max_loss(experiment: ExperimentRecord) -> float:
    """Return the strictest loss limit among the arms."""
    return min(Limits.model_validate_json(canonical_json(arm.limits)).max_loss for arm in experiment.arms)


def _status(document: RunDocument, *, max_loss: float) -> int:
    """Return 0 for a whole run, 4 for one that lost too much, graded nothing, or has trials left."""
    if any(not side.n_valued for side in document.body.arms):
        note("no trial has a score: nothing was measured")
        return CODES["nothing_graded"].exit
    for side in document.body.arms:
        if side.n_infra_losses > max_loss * side.n_trials:
            note(
                f"{visible(side.label)} lost {side.n_infra_losses:,} of {side.n_trials:,} trials, over the limit of "
                f"{max_loss:.0%}"
            )
            return CODES["not_complete"].exit
    return 0 if all(side.complete for side in document.body.arms) else CODES["not_complete"].exit
