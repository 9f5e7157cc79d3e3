"""What a resumed run adds up to: both parts, and nothing that was finished is asked for again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from decimal import Decimal
from typing import Any

import pytest

pytestmark = [pytest.mark.prefect, pytest.mark.fire]

FIELDS = ("cost_usd", "input_tokens", "output_tokens")


def test_k04_r02_stopped_at_900_of_1000_the_totals_are_those_of_both_parts(fire: Any, exp: Any) -> None:
    """The wall time of the parts is another test's."""
    rows = [{"id": f"k{i:04d}", "input": str(i), "expected": "yes"} for i in range(1000)]
    answers = [
        {"id": row["id"], "output": "yes", "cost_usd": "0.0125", "input_tokens": 7 + i % 5, "output_tokens": 3}
        for i, row in enumerate(rows)
    ]
    for name, lines in (("cases", rows), ("answers", answers)):
        (fire.folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    # A recorded answer costs no time, so the grader is the one that is slow, and that keeps the ledger.
    (fire.folder / "grader.py").write_text(
        "import time\n"
        "def grade(output, case):\n"
        "    with open('ledger', 'a') as ledger:\n"
        "        ledger.write(f\"call main {case['id']}\\n\")\n"
        "    time.sleep(0.004)\n"
        "    return output == case['expected']\n"
    )
    spec = {
        "name": "big",
        "dataset": "cases.jsonl",
        "task": {"kind": "recorded", "path": "answers.jsonl", **{field: field for field in FIELDS}},
        "graders": [{"kind": "python", "path": "grader.py"}],
        "seed": 1,
    }
    (fire.folder / "spec.json").write_text(json.dumps(spec))
    first = fire.start("run", "spec.json", "--concurrency", "8")
    first.wait_for_call(fire, beyond=900)
    first.kill()
    fire.wait_until_gone()
    n_before = fire.stored().total()
    assert 880 <= n_before < 1000
    second = fire.start("run", "spec.json", "--resume", "--concurrency", "8", "--json")
    assert second.wait() == 0, second.err
    (side,) = second.json["body"]["arms"]
    assert (side["n_cases"], side["n_trials"], side["n_done"], side["n_graded"]) == (1000, 1000, 1000, 1000)
    # By hand: 1,000 times $0.0125.
    assert Decimal(second.json["meta"]["cost_usd"]) == Decimal("12.5")
    assert second.json["meta"]["n_with_cost"] == 1000
    trials = exp("trials", fire.experiment, "--limit", "1000", "--json", env=fire.environ).json["trials"]
    assert len(trials) == 1000
    # By hand: 7, 8, 9, 10, 11 in turn, 200 times each: 9,000 in all; 3 each: 3,000.
    assert sum(trial["input_tokens"] for trial in trials) == 9000
    assert sum(trial["output_tokens"] for trial in trials) == 3000
    assert "1000 cases" in exp("show", fire.experiment, env=fire.environ).out.replace(",", "")
    assert fire.ledger().total() - 1000 <= 8


DEFAULT_POLICY = """
    import os
    from pathlib import Path
    from flows.local_server import Server
    from flows.prefect_env import prepare
    prepare(os.environ, Server(url={url!r}, auth={auth!r}, pid={pid}, started=False, home=Path({home!r})))
    from prefect import flow, task

    @task(persist_result=True, result_storage=Path({folder!r}), result_serializer="json")
    def step(n):
        open("default", "a").write("call\\n")
        return n

    @flow(persist_result=False, name="default policy")
    def run():
        step(1)

    run()
"""


def test_k73_a_second_process_reuses_the_trials_of_the_first_though_prefects_default_would_not(
    fire: Any, flow_runs: Any, prefect_server: Any
) -> None:
    fire.write(20, pause_s=0.05)
    first = fire.start("run", *fire.arms, "--slice", "4")
    first.wait_for_call(fire, beyond=20)
    first.kill()
    fire.wait_until_gone()
    kept = fire.stored()
    assert kept.total() >= 18
    fire.forget_calls()
    second = fire.start("run", *fire.arms, "--slice", "4", "--resume")
    assert second.wait() == 0, second.err
    assert not set(kept) & set(fire.ledger())
    assert fire.ledger().total() == fire.n_trials - kept.total()
    runs = flow_runs(fire.experiment)
    assert len({run["id"] for run in runs}) == 2

    # The same with Prefect's own default key, which holds the id of the flow run: nothing is reused.
    server = prefect_server
    code = textwrap.dedent(DEFAULT_POLICY).format(
        url=server.url,
        auth=server.auth,
        pid=server.pid,
        home=str(server.home),
        folder=str(fire.folder / "default-store"),
    )
    for _ in range(2):
        subprocess.run([sys.executable, "-c", code], cwd=fire.folder, env=dict(os.environ), check=True, timeout=120)
    assert (fire.folder / "default").read_text() == "call\n" * 2
