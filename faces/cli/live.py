"""Live progress on stderr: a bar on a terminal, a line now and then where there is none."""

from __future__ import annotations

import sys
import threading
import time
from typing import Final

from faces.cli.output import note
from faces.cli.settings import quiet
from fairtrial.engine.progress import Progress
from fairtrial.reports.figures import duration, percent

LINE_EVERY_S: Final = 10.0
BAR_EVERY_S: Final = 0.25


class Live:
    """Shows a run's progress from a thread of its own until it is closed."""

    def __init__(self, progress: Progress, *, shown: bool):
        self._progress = progress
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True) if shown else None

    def start(self) -> None:
        """Begin to show."""
        if self._thread is not None:
            self._thread.start()

    def close(self) -> None:
        """Show the last state and stop; safe to call twice."""
        self._closed.set()
        if self._thread is not None and self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        if sys.stderr.isatty() and not quiet("CI"):
            self._bar()
            return
        last = ""
        while not self._closed.wait(LINE_EVERY_S):
            line = progress_text(self._progress)
            if line != last:
                note(line)
            last = line

    def _bar(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as Bar

        console = Console(file=sys.stderr, no_color=quiet("NO_COLOR"))
        columns = (BarColumn(bar_width=30), TextColumn("{task.description}", markup=False))
        with Bar(*columns, console=console, transient=True, auto_refresh=False) as bar:
            shown = bar.add_task("", total=self._progress.n_planned)
            done = False
            while not done:
                done = self._closed.wait(BAR_EVERY_S)
                text = progress_text(self._progress)
                bar.update(shown, completed=self._progress.n_done, description=text, refresh=True)


def progress_text(progress: Progress) -> str:
    """Return done/total, pass rates, losses, time left and cost, in one line."""
    arms = []
    for name, arm in progress.arms.items():
        share = percent(arm.n_passed / arm.n_valued) if arm.n_valued else "–"
        arms.append(f"{name} {share}" if len(progress.arms) > 1 else f"pass {share}")
    lost = sum(arm.n_infra_losses + arm.n_ungraded for arm in progress.arms.values())
    eta = progress.eta_s()
    parts = [
        f"{progress.n_done:,}/{progress.n_planned:,}",
        ", ".join(arms),
        f"{lost:,} lost" if lost else "",
        f"{duration(eta)} left" if eta is not None and progress.n_done < progress.n_planned else "",
        f"${progress.cost_usd} so far" if progress.n_with_cost else "cost not reported",
        f"{duration(time.monotonic() - progress.started)} in",
    ]
    return "  ".join(part for part in parts if part)
