"""Which stored run a --resume goes on with, and whether it may."""

from __future__ import annotations

from dataclasses import replace

from faces.cli.ask import RunFlags, ask
from faces.cli.main import RESUME_NEWEST
from faces.cli.settings import environment
from faces.cli.store import Store
from fairtrial.engine.create import Asked, Prepared, prepare
from fairtrial.engine.resume import check_files, check_same
from fairtrial.errors import SpecError
from fairtrial.records.experiment import ExperimentRecord
from fairtrial.reports.figures import count
from fairtrial.spec.selection import Selection
from fairtrial.store.experiments import cases_of, get_experiment, newest_to_resume, resolve_id, resume_key, summaries_of
from fairtrial.store.quarantine import find_damaged


def stored_experiment(flags: RunFlags, resume: str, project: Store) -> ExperimentRecord:
    """Return the stored run that `resume` names, after the check that what it measures has not changed.

    Raises SpecError (unknown_experiment, changed_inputs, …); nothing is written when it refuses.
    """
    named = _named(resume, project) if resume != RESUME_NEWEST else None
    if named is not None and flags.spec is None and not flags.arms:
        check_files(named)
        return named
    asked = ask(flags, project)
    if named is not None and flags.first_n is None and not flags.cases:
        asked = replace(asked, selection=Selection.from_json(named.selection))
    prepared = prepare(asked, environ=environment())
    stored = named or _newest(prepared, project)
    _check(stored, prepared, project, seed=asked.arms[0].loaded.spec.seed)
    _restore_dataset(stored, asked, project)
    # The code that was checked is the code that runs, also when the project lies in another place by now.
    return replace(stored, arms=prepared.record.arms)


def nothing_left(project: Store, experiment: ExperimentRecord, *, retry_errors: bool) -> bool:
    """Return whether a stored run has nothing to run: every trial done, and every stored answer still readable."""
    with project.engine.connect() as connection:
        summaries = summaries_of(connection, [experiment.id])[experiment.id]
    if experiment.state != "finished" or any(summary.n_done < summary.n_planned for summary in summaries):
        return False
    if retry_errors and any(summary.n_agent_failures + summary.n_infra_losses for summary in summaries):
        return False
    return not find_damaged(project.engine, project.objects, experiment.id)


def _named(resume: str, project: Store) -> ExperimentRecord:
    with project.engine.connect() as connection:
        return get_experiment(connection, resolve_id(connection, resume))


def _newest(prepared: Prepared, project: Store) -> ExperimentRecord:
    now = prepared.record
    key = resume_key(name=now.name, arms=[arm.name for arm in now.arms], selection=now.selection)
    with project.engine.connect() as connection:
        found = newest_to_resume(connection, key)
        if found is None:
            raise SpecError(
                f"there is no stored run named {now.name!r} with these arms and this selection.",
                code="unknown_experiment",
                hint="`exp list` shows the stored ones; without --resume a new one starts.",
            )
        stored = get_experiment(connection, found)
        summaries = summaries_of(connection, [found])[found]
    if stored.state == "closed":
        n_done = sum(summary.n_done for summary in summaries)
        raise SpecError(
            f"{found} was closed with {n_done:,} of {count(stored.n_trials, 'trial')}.",
            code="bad_usage",
            hint=f"Name it to open it again: --resume {found}. Without --resume a new run starts.",
        )
    return stored


def _check(stored: ExperimentRecord, prepared: Prepared, project: Store, *, seed: int | None) -> None:
    before, now = ([arm.name for arm in record.arms] for record in (stored, prepared.record))
    if before != now:
        raise SpecError(
            f"{stored.id} has the arms {', '.join(before)}, not {', '.join(now)}.",
            code="changed_inputs",
            hint="Start a new run without --resume.",
        )
    with project.engine.connect() as connection:
        cases = cases_of(connection, stored.id)
    check_same(stored, cases, prepared, seed=seed)


def _restore_dataset(stored: ExperimentRecord, asked: Asked, project: Store) -> None:
    # The same content is at hand: a stored copy that was lost or damaged is made whole from it.
    if asked.dataset.hash == stored.dataset.hash:
        project.objects.put_blob(asked.dataset.content)
