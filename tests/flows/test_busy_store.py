"""Reading while a run writes: whoever looks never meets a lock, and what is being written loses nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

pytestmark = [pytest.mark.prefect, pytest.mark.fire]

# `exp list` and `exp status` in turn, as fast as they go, in one process; a line a look: status, trials done, errors.
LOOKER = """
import contextlib, io, itertools, json
from faces.cli.main import call
for what in itertools.cycle((["list", "--json"], ["status", "latest", "--json"])):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = call(what)
    found = json.loads(out.getvalue())
    run = found[0] if what[0] == "list" else found["experiments"][0]
    print(json.dumps([code, sum(arm["n_done"] for arm in run["arms"]), err.getvalue()]), flush=True)
"""


def test_k69_looks_while_64_trials_finish_together_meet_no_lock_and_lose_nothing(fire: Any) -> None:
    n = 2_560
    rows = [{"id": f"k{i:04d}", "input": f"q{i}", "expected": "yes"} for i in range(n)]
    answers = [{"id": row["id"], "output": "yes"} for row in rows]
    for name, lines in (("cases", rows), ("answers", answers)):
        (fire.folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    spec = {
        "name": "busy",
        "dataset": "cases.jsonl",
        "task": {"kind": "recorded", "path": "answers.jsonl"},
        "graders": [{"kind": "exact"}],
        "seed": 1,
    }
    (fire.folder / "spec.json").write_text(json.dumps(spec))
    # Recorded answers cost no time: 64 are in flight and finish together, all the time.
    run = fire.start("run", "spec.json", "--concurrency", "64", "--json")
    while fire.experiment is None:
        assert not run.ends_within(0.05), run.err
    looks_path = fire.folder / "looks"
    with looks_path.open("wb") as looks:
        looker = subprocess.Popen(
            [sys.executable, "-c", LOOKER],
            cwd=fire.folder,
            env=dict(os.environ),
            stdout=looks,
            stderr=subprocess.STDOUT,
        )
    try:
        assert run.wait() == 0, run.err
        assert looker.poll() is None, looks_path.read_text()[-2000:]
    finally:
        looker.kill()
        looker.wait()
    # The last line may be cut by the kill.
    seen = [json.loads(line) for line in looks_path.read_text().split("\n")[:-1]]
    assert {(code, err) for code, _, err in seen} == {(0, "")}
    counts = [done for _, done, _ in seen]
    assert counts == sorted(counts)
    assert len({count for count in counts if 0 < count < n}) >= 3, "nobody looked while it ran"
    (side,) = run.json["body"]["arms"]
    assert (side["n_done"], side["n_graded"], side["n_infra_losses"]) == (n, n, 0)
    assert fire.stored().total() == n
    print(f"{len(seen)} looks, {len(set(counts))} different")
