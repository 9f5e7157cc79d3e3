"""Equal names are no equal things: runs of one name over two datasets, and one case in two arms, stay apart."""

from __future__ import annotations

import sys
from typing import Any

from tasks.slice import slice_key

TASK = "import os; print(os.environ['ARM'])\n"


def test_r69_one_name_over_two_datasets_and_one_case_in_two_arms_share_no_trial_and_no_key(lab: Any) -> None:
    (lab.folder / "task.py").write_text(TASK)
    tasks = {
        arm: {"kind": "command", "command": [sys.executable, "-S", "-E", "task.py"], "env": {"ARM": arm}}
        for arm in ("base", "cand")
    }
    records = []
    for name in ("first.jsonl", "second.jsonl"):
        path = lab.cases([{"id": "c1", "input": name, "expected": "cand"}], name)
        records.append(lab.make(tasks, dataset=path))
        lab.run(records[-1].id)
    one, other = records
    assert one.name == other.name
    assert one.id != other.id
    rows = lab.rows("select experiment, arm, case_id, value from trial order by experiment, arm")
    assert rows == [
        (experiment, arm, "c1", float(arm == "cand"))
        for experiment in sorted((one.id, other.id))
        for arm in sorted(tasks)
    ]
    # The keys under which Prefect keeps slices: no run is shown another one's slice as its own.
    keys = {
        slice_key(
            None,  # type: ignore[arg-type]
            {"experiment": each.id, "plan_hash": each.plan_hash, "number": 0, "result_version": 1},
        )
        for each in records
    }
    assert len(keys) == 2
