"""Memory of a run of 100,000 recorded trials: its peak, and what a trial more costs.

Run with `python -m benchmarks.memory [TRIALS]`. `exp run` is watched from outside by /proc, and the store says how many
trials were done at that moment. References: a process that only imports what a run imports, and a run of a tenth of the
trials. The bars are in benchmarks/README.md.
"""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.overhead import write_project
from benchmarks.stamp import stamp

TRIALS = 100_000
PEAK_BAR_MB = 300
SLOPE_BAR_KB = 0.2
WARM_UP = 0.1
"""Share of the trials after which the slope is measured."""
EVERY_S = 0.5
N_POINTS = 20

IMPORTS = """
import sys
import faces.cli.main, faces.cli.run, flows.execute
print("done", flush=True)
sys.stdin.read()
"""


@dataclass(frozen=True, slots=True)
class Watched:
    """What was seen of one run. points: (trials done, resident MB); the last trial is in the last one."""

    points: list[tuple[int, float]]
    peak_mb: float
    before_verdict_mb: float

    def slope_kb(self) -> float:
        """Return the kB a trial more took after the warm-up, by least squares."""
        total = max(done for done, _ in self.points)
        chosen = [(done, mb) for done, mb in self.points if WARM_UP * total <= done < total]
        mean_x = sum(done for done, _ in chosen) / len(chosen)
        mean_y = sum(mb for _, mb in chosen) / len(chosen)
        spread = sum((done - mean_x) ** 2 for done, _ in chosen)
        return 1024 * sum((done - mean_x) * (mb - mean_y) for done, mb in chosen) / spread


def main() -> int:
    """Measure and print; returns 1 past a bar."""
    trials = int(sys.argv[1]) if len(sys.argv) > 1 else TRIALS
    with tempfile.TemporaryDirectory() as folder:
        state = Path(folder) / "state"
        floor_mb = imports_mb(state)
        small = watch(Path(folder) / "small", state, max(trials // 10, 100))
        large = watch(Path(folder) / "large", state, trials)
    slope = large.slope_kb()
    print(stamp())
    print(f"exp run of {trials:,} recorded trials through Prefect, 64 in flight")
    print(f"  imports alone                 {floor_mb:4.0f} MB")
    print(
        f"  peak                          {large.peak_mb:4.0f} MB, {large.peak_mb / floor_mb:.2f} x the imports; "
        f"{large.before_verdict_mb:.0f} before the verdict (bar {PEAK_BAR_MB})"
    )
    print(f"  peak of a tenth of the trials {small.peak_mb:4.0f} MB")
    print(f"  a trial more                  {slope:6.3f} kB (bar {SLOPE_BAR_KB})")
    step = max(len(large.points) // N_POINTS, 1)
    print("  " + "  ".join(f"{done:,}: {mb:.0f}" for done, mb in large.points[::step]))
    return int(large.peak_mb > PEAK_BAR_MB or slope > SLOPE_BAR_KB)


def memory_mb(pid: int | None = None) -> dict[str, float]:
    """Return VmRSS and VmHWM (the peak) of a process in MB; empty when it is gone."""
    try:
        status = Path(f"/proc/{pid or 'self'}/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return {}
    lines = (line.split() for line in status.splitlines())
    return {line[0].rstrip(":"): int(line[1]) / 1024 for line in lines if line[0] in ("VmRSS:", "VmHWM:")}


def imports_mb(state: Path) -> float:
    """Return the resident MB of a process that imports what `exp run` does, and does nothing."""
    home = state / "imports"
    home.mkdir(parents=True)
    with subprocess.Popen(
        [sys.executable, "-c", IMPORTS],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PREFECT_HOME": str(home)},
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        return memory_mb(process.pid)["VmRSS"]


def watch(project: Path, state: Path, trials: int) -> Watched:
    """Run the whole command over that many trials and return what was seen of it; the server is up before."""
    from flows.local_server import find_or_start, stop

    project.mkdir()
    write_project(project, trials)
    environ = {**os.environ, "FAIRTRIAL_STATE_DIR": str(state), "FAIRTRIAL_HOME": str(project / "home")}
    find_or_start(state_dir=state, environ=environ, say=lambda _line: None)
    points, last = [], {"VmRSS": 0.0, "VmHWM": 0.0}
    before_verdict_mb = 0.0
    try:
        with subprocess.Popen(
            [sys.executable, "-m", "faces.cli.main", "run", "spec.json", "-q"],
            cwd=project,
            env={**environ, "PYTHONPATH": str(Path.cwd())},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as process:
            while process.poll() is None:
                # A process that has ended and was not waited for has no memory to tell of.
                last = memory_mb(process.pid) or last
                done = _done(project / "home" / "fairtrial.db")
                points.append((done, last["VmRSS"]))
                if done < trials:
                    before_verdict_mb = last["VmHWM"]
                time.sleep(EVERY_S)
    finally:
        stop(state)
    if process.returncode:
        raise SystemExit(f"exp run ended with status {process.returncode}")
    return Watched(points=points, peak_mb=last["VmHWM"], before_verdict_mb=before_verdict_mb)


def _done(database: Path) -> int:
    if not database.exists():
        return 0
    plain = sqlite3.connect(f"file:{database}?mode=ro", uri=True)
    try:
        return int(plain.execute("select coalesce(sum(n_done), 0) from summary").fetchone()[0])
    except sqlite3.OperationalError:
        # Its tables are being made.
        return 0
    finally:
        plain.close()


if __name__ == "__main__":
    sys.exit(main())
