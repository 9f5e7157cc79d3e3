"""The Prefect task at the end of a run, and what it leaves in the UI: artifacts and an event.

The stored verdict comes first. What decorates the UI may fail: a lost server costs a picture, never an answer.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from typing import Any, Final

from prefect import task
from prefect.artifacts import (
    acreate_markdown_artifact,
    acreate_progress_artifact,
    acreate_table_artifact,
    aupdate_progress_artifact,
)
from prefect.cache_policies import NO_CACHE
from prefect.events import emit_event

from fairtrial.engine.open import OpenRun
from fairtrial.engine.progress import Progress
from fairtrial.records.verdict import RunDocument
from fairtrial.reports.figures import p_value, percent, points
from fairtrial.reports.run import run_markdown
from fairtrial.reports.safe import visible
from fairtrial.store.objects import ObjectStore
from tasks.publish import publish_run
from tasks.slice import OPEN_RUNS, SERIALIZER

UI_TIMEOUT_S: Final = 5.0
"""Longest wait for the server to take one artifact, or one change of a state."""

_LOG: Final = logging.getLogger("fairtrial.ui")


@task(
    name="verdict",
    task_run_name="verdict {experiment}",
    persist_result=False,
    result_serializer=SERIALIZER,
    cache_policy=NO_CACHE,
    retries=0,
)
async def verdict_task(experiment: str) -> str:
    """Compute and store the verdict of a run; returns the outcome in one word a comparison, or the pass rate."""
    run = OPEN_RUNS[experiment]
    document = await asyncio.to_thread(publish_run, run.engine, run.objects, experiment, fence=run.lease.fence)
    run.on_verdict(document)
    await show_verdict(document, run.objects)
    return ", ".join(outcomes(document))


def outcomes(document: RunDocument) -> list[str]:
    """Return the outcome of each comparison of a run, or how many of its cases passed when it has one arm."""
    if document.body.comparisons:
        return [comparison.decision.outcome for comparison in document.body.comparisons]
    return [f"pass {percent(document.body.arms[0].pass_share)}"]


async def show_verdict(document: RunDocument, objects: ObjectStore) -> None:
    """Leave the report, a table of the arms and the verdict's event in the UI."""
    experiment = document.meta.experiments[0]
    key = artifact_key(experiment)
    report = run_markdown(document.body, document.meta)
    where = objects.local_path(f"experiments/{experiment}/report.md")
    await in_ui(acreate_markdown_artifact(f"{report}\n\nStored report: `{where}`\n", key=f"{key}-report"))
    await in_ui(acreate_table_artifact(_arm_rows(document), key=f"{key}-arms", description="Arms"))
    emit_verdict(document)


def emit_verdict(document: RunDocument) -> None:
    """Send the event that automations listen for, one a run."""
    experiment = document.meta.experiments[0]
    comparisons: list[dict[str, Any]] = [
        {
            "base": comparison.a.label,
            "candidate": comparison.b.label,
            "outcome": comparison.decision.outcome,
            "delta": comparison.difference.estimate,
            "low": comparison.difference.low,
            "high": comparison.difference.high,
            "p": comparison.flips.p,
        }
        for comparison in document.body.comparisons
    ]
    arms = {side.label: side.pass_share for side in document.body.arms}
    emit_event(
        event="fairtrial.verdict",
        resource={
            "prefect.resource.id": f"fairtrial.experiment.{experiment}",
            "prefect.resource.name": visible(document.meta.names[0]),
        },
        payload={"experiment": experiment, "arms": arms, "comparisons": comparisons},
    )


class ProgressArtifact:
    """The progress bar of a run in the UI, kept current until it is closed."""

    def __init__(self, run: OpenRun, *, every_s: float = 5.0):
        self._run = run
        self._every_s = every_s
        self._id: Any = None
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> None:
        """Make the artifact, and keep it current in the background."""
        progress = self._run.loop.context.progress
        self._id = await in_ui(
            acreate_progress_artifact(
                progress=_share(progress),
                key=f"{artifact_key(self._run.record.id)}-progress",
                description=_progress_text(progress),
            )
        )
        if self._id is not None:
            self._task = asyncio.create_task(self._keep_current())

    async def __aexit__(self, *_error: object) -> None:
        """Bring it to its last state."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            await self._update()

    async def _keep_current(self) -> None:
        while True:
            await asyncio.sleep(self._every_s)
            await self._update()

    async def _update(self) -> None:
        progress = self._run.loop.context.progress
        await in_ui(
            aupdate_progress_artifact(self._id, progress=_share(progress), description=_progress_text(progress))
        )


def artifact_key(experiment: str) -> str:
    """Return the start of the keys of an experiment's artifacts: lower case, digits and dashes only."""
    return experiment.lower().replace("_", "-")


def _share(progress: Progress) -> float:
    return 100.0 * progress.n_done / progress.n_planned if progress.n_planned else 100.0


def _progress_text(progress: Progress) -> str:
    eta = progress.eta_s()
    left = "" if eta is None else f", about {eta:.0f} s left"
    cost = f", ${progress.cost_usd} so far" if progress.n_with_cost else ", cost not reported"
    return f"{progress.n_done:,} of {progress.n_planned:,} trials{left}{cost}"


def _arm_rows(document: RunDocument) -> list[dict[str, str]]:
    rows = []
    versus = {comparison.b.label: comparison for comparison in document.body.comparisons}
    for side in document.body.arms:
        row = {"arm": visible(side.label), "pass": percent(side.pass_share), "trials": f"{side.n_done}/{side.n_trials}"}
        if document.body.comparisons:
            found = versus.get(side.label)
            row["B − A"] = points(found.difference.estimate) if found else "baseline"
            row["p"] = p_value(found.flips.p) if found else ""
            row["verdict"] = found.decision.outcome if found else ""
        rows.append(row)
    return rows


async def in_ui(call: Awaitable[Any]) -> Any:
    """Return what a call to the Prefect server gives; None when it fails or takes too long. A picture, not the run."""
    try:
        return await asyncio.wait_for(call, UI_TIMEOUT_S)
    except Exception as error:
        _LOG.debug("the Prefect server did not take a call: %s", type(error).__name__)
        return None
