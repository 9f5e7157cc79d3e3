"""`exp run`: one spec, or several arms side by side."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

from cyclopts import Parameter
from cyclopts.validators import Number

from faces.cli.ask import RunFlags, ask
from faces.cli.files import check_outputs
from faces.cli.live import Live
from faces.cli.main import RESUME_NEWEST
from faces.cli.output import note
from faces.cli.resume import nothing_left, stored_experiment
from faces.cli.settings import environment, read_concurrency, read_settings
from faces.cli.shown import Shown
from faces.cli.store import Store, open_store
from faces.cli.window import Window
from fairtrial.engine.create import prepare, store
from fairtrial.engine.open import default_concurrency, open_run
from fairtrial.errors import FairtrialError, SpecError
from fairtrial.records.experiment import ExperimentRecord
from fairtrial.records.verdict import RunDocument
from fairtrial.reports.figures import count
from fairtrial.reports.safe import visible
from fairtrial.store.history import TakenBack
from fairtrial.store.lease import this_process

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
    retry_errors: Annotated[bool, Parameter(negative="")] = False,
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
      exp run --resume latest --retry-errors

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
    retry_errors
        With --resume: run trials that ended in an error again too. What they were stays in the history.
    output
        Write the report there too: .md, .txt or .json; repeatable.
    json
        Print the verdict as JSON on stdout, and nothing else there.
    quiet
        No progress on stderr.
    """
    check_outputs(output or [])
    if retry_errors and resume is None:
        raise SpecError(
            "--retry-errors runs errors of a stored run again, and none is named.",
            code="bad_usage",
            hint="Write --resume EXP --retry-errors; --retries is the flag for calls that fail for a moment.",
        )
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
    shown = Shown(project, output or [], as_json=json)
    if resume is not None and nothing_left(project, experiment, retry_errors=retry_errors):
        note(f"{experiment.id}: nothing left to run")
        return shown.stored(experiment)
    note(_about(experiment, limit))
    # The server starts while Prefect is imported and the experiment opened; nothing wrong with the spec gets this far.
    window = Window(settings, say=note)
    return _execute(project, experiment, window, shown, limit=limit, quiet=quiet, retry_errors=retry_errors)


def _experiment(flags: RunFlags, resume: str | None, project: Store) -> ExperimentRecord:
    """Return the experiment to run: a new one that is stored by now, or a stored one that has not changed."""
    if resume is not None:
        return stored_experiment(flags, resume, project)
    asked = ask(flags, project)
    prepared = prepare(asked, environ=environment())
    for warning in prepared.record.warnings:
        note(f"warning: {visible(warning)}")
    store(prepared, asked.dataset, engine=project.engine, objects=project.objects)
    return prepared.record


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
    project: Store,
    experiment: ExperimentRecord,
    window: Window,
    shown: Shown,
    *,
    limit: int | None,
    quiet: bool,
    retry_errors: bool,
) -> int:
    run = open_run(
        project.engine,
        project.objects,
        experiment.id,
        owner=this_process(),
        environ=environment(),
        concurrency=limit,
        arms=experiment.arms,
        retry_errors=retry_errors,
        say=lambda line: note(visible(line)),
    )
    try:
        if run.lease.taken_from is not None:
            note(f"taken over from {run.lease.taken_from}")
        if run.taken_back:
            note(_again(run.taken_back))
        window.wait()
        from flows.execute import execute  # imports Prefect, whose settings are in the environment now

        if run.finished:
            window.warn_of_settings()

        live = Live(run.loop.context.progress, shown=not quiet)

        def announce(document: RunDocument, stopped_by: signal.Signals | None) -> int:
            live.close()
            return shown.verdict(document, experiment, stopped_by)

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


def _again(taken_back: Sequence[TakenBack]) -> str:
    n_asked = sum(each.asked_again for each in taken_back)
    graded = len(taken_back) - n_asked
    asked = [f"{count(n_asked, 'trial')} that ended in an error, to be run again"] if n_asked else []
    kept = [f"{count(graded, 'stored answer')} that a grader failed on, to be graded again"] if graded else []
    return f"--retry-errors: {'; '.join(asked + kept)}"


def _title(experiment: ExperimentRecord) -> str:
    parts = [experiment.kind, visible(experiment.name)]
    if len(experiment.arms) > 1:
        parts.append(" vs ".join(arm.name for arm in experiment.arms))
    return " · ".join([*parts, experiment.id])


def _labels(experiment: ExperimentRecord) -> list[str]:
    labels = ["fairtrial", experiment.kind, f"dataset:{visible(experiment.dataset.name)}", experiment.id]
    return labels + [visible(tag) for tag in experiment.tags]
