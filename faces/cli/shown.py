"""Showing a run's verdict, and the status that it ends the process with."""

from __future__ import annotations

import signal
from pathlib import Path

from faces.cli.files import write_outputs
from faces.cli.output import note, out, out_json
from faces.cli.store import Store
from fairtrial.errors import CODES
from fairtrial.hashing import canonical_json
from fairtrial.records.experiment import ExperimentRecord
from fairtrial.records.verdict import RunDocument, to_json
from fairtrial.reports.run import run_lines
from fairtrial.reports.safe import visible
from fairtrial.spec.models import Limits
from tasks.publish import read_run


class Shown:
    """Shows a verdict once, where it was asked for, and says which status it ends the process with."""

    def __init__(self, project: Store, outputs: list[Path], *, as_json: bool):
        self._project = project
        self._outputs = outputs
        self._as_json = as_json

    def stored(self, experiment: ExperimentRecord) -> int:
        """Show the verdict of a finished run without writing anything to the store."""
        document = read_run(self._project.engine, self._project.objects, experiment.id)
        return self._show(document, max_loss=strictest_loss(experiment))

    def verdict(
        self, document: RunDocument, experiment: ExperimentRecord, stopped_by: signal.Signals | None = None
    ) -> int:
        """Show a fresh verdict; a run that was stopped says how to go on and ends with its signal's status."""
        status = self._show(document, max_loss=strictest_loss(experiment))
        if stopped_by is not None:
            note(f"stopped by {stopped_by.name}; go on with: exp run --resume {experiment.id}")
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
        return run_status(document, max_loss=max_loss)


def strictest_loss(experiment: ExperimentRecord) -> float:
    """Return the strictest loss limit among the arms."""
    return min(Limits.model_validate_json(canonical_json(arm.limits)).max_loss for arm in experiment.arms)


def run_status(document: RunDocument, *, max_loss: float) -> int:
    """Return 0 for a run that is whole or was closed by hand, 4 for one that lost too much, graded nothing or waits."""
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
    ended = document.meta.state == "closed" or all(side.complete for side in document.body.arms)
    return 0 if ended else CODES["not_complete"].exit
