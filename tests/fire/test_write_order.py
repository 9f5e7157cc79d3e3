"""Promise A1 by the trace of a run: what is shown as finished was on the disk before, all of it, in this order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from tests.rig.lanes import MakeLane
from tests.rig.meter import LONG_BYTES, Knobs, answer_to

KNOBS: Final = Knobs(long_share=0.5, fail_share=0.1)
N: Final = 40


@pytest.mark.parametrize("concurrency", [1, 8])
def test_a1_a_trial_is_counted_after_its_commit_and_its_long_answer_was_on_the_disk_before(
    make_lane: MakeLane, tmp_path: Path, concurrency: int
) -> None:
    lane = make_lane(KNOBS)
    bench = lane.bench
    record = bench.make(N)
    trace = tmp_path / "trace.jsonl"
    running = lane.zygote.start(bench.options(record.id, concurrency=concurrency, trace=str(trace)))
    assert running.wait() == 0, running.lines
    steps = [json.loads(line) for line in trace.read_text().splitlines()]
    blobs = {row["case_id"]: row["sha256"] for row in bench.table("trial_output", record.id) if row["inline"] is None}
    long = [n for n in range(N) if len(answer_to(f"main/k{n:04d}/1", KNOBS)[1]) == LONG_BYTES]
    assert sorted(blobs) == [f"k{n:04d}" for n in long]
    assert 10 < len(long) < 30
    for n in range(N):
        check_trial(steps, f"k{n:04d}", blobs.get(f"k{n:04d}"))


def check_trial(steps: list[dict[str, Any]], case: str, blob: str | None) -> None:
    """Check the order of the steps of one trial: mark, call, object, answer, result, count."""
    begun = committed_after(steps, first(steps, "insert.attempt", case))
    answered = first(steps, "insert.trial", case, state="answered")
    done = first(steps, "insert.trial", case, state="done")
    counted = next(i for i, step in enumerate(steps) if step["op"] == "counted" and step["key"] == f"main {case} 1")
    assert begun < answered < committed_after(steps, answered) < done < committed_after(steps, done) < counted
    if blob is None:
        return
    rename = next(i for i, step in enumerate(steps) if step["op"] == "rename.blob" and step["path"].endswith(blob))
    part, folder = steps[rename]["part"], str(Path(steps[rename]["path"]).parent)
    write = next(i for i, step in enumerate(steps) if step["op"] == "file.write" and step["path"] == part)
    fsynced = next(i for i, step in enumerate(steps) if step["op"] == "fsynced" and step["path"] == part)
    entered = next(
        i for i, step in enumerate(steps) if i > rename and step["op"] == "fsynced" and step["path"] == folder
    )
    assert write < fsynced < rename < entered
    # In SQL already before the statement that names it, not only before the commit.
    assert entered < answered


def first(steps: list[dict[str, Any]], op: str, case: str, **columns: Any) -> int:
    """Return the position of the first statement that writes such a row."""
    wanted = {"case_id": case, **columns}
    return next(
        i
        for i, step in enumerate(steps)
        if step["op"] == op and any(wanted.items() <= row.items() for row in step["rows"])
    )


def committed_after(steps: list[dict[str, Any]], position: int) -> int:
    """Return where the commit of a statement returned; the run has one writer, so the next commit is its own."""
    return next(i for i, step in enumerate(steps) if i > position and step["op"] == "committed")
