"""--retry-errors: errors run again, what they were stays, and nothing that was answered is asked for twice."""

from __future__ import annotations

import sys
import textwrap
from decimal import Decimal
from typing import Any

import pytest

from fairtrial.store.history import earlier_attempts, take_back_errors
from fairtrial.store.trials import cost_of
from tasks.publish import publish_run

# Fails its first call for the cases named in `failing`, each call leaves a line in the ledger.
TASK = """
    import os, pathlib, sys
    case = os.environ["FAIRTRIAL_CASE_ID"]
    with open("ledger", "a") as ledger:
        ledger.write(case + "\\n")
    if case in pathlib.Path("failing").read_text().split():
        print("half an answer")
        sys.exit(f"no answer for {case}")
    print("x")
"""

GRADER = """
    import pathlib

    def grade(output, case):
        if case["id"] in pathlib.Path(__file__).with_name("unfair").read_text().split():
            raise RuntimeError("the grader has a bug")
        return 1.0
"""


def made(lab: Any, n: int = 6, **spec: Any) -> Any:
    lab.cases([{"id": f"k{i}", "input": f"q{i}", "expected": "x"} for i in range(n)])
    (lab.folder / "task.py").write_text(textwrap.dedent(TASK))
    (lab.folder / "failing").write_text("k1 k3 k4")
    return lab.make(
        {"main": {"kind": "command", "command": [sys.executable, "-S", "-E", "task.py"], "files": ["task.py"]}}, **spec
    )


def again(lab: Any, experiment: str) -> Any:
    seen: list[Any] = []
    lab.run(experiment, retry_errors=True, before=seen.append)
    return seen[0]


def calls(lab: Any) -> list[str]:
    return sorted((lab.folder / "ledger").read_text().split())


def test_c83_three_errors_become_three_new_trials_and_the_old_ones_stay_in_the_history(lab: Any) -> None:
    record = made(lab)
    lab.run(record.id)
    assert [each.n_agent_failures for each in lab.body(record.id).arms] == [3]
    (lab.folder / "failing").write_text("")
    (lab.folder / "ledger").unlink()
    run = again(lab, record.id)
    assert calls(lab) == ["k1", "k3", "k4"]
    assert [(each.case, each.outcome, each.asked_again) for each in run.taken_back] == [
        ("k1", "agent_failure", True),
        ("k3", "agent_failure", True),
        ("k4", "agent_failure", True),
    ]
    (side,) = lab.body(record.id).arms
    assert (side.n_done, side.n_graded, side.n_agent_failures, side.pass_share) == (6, 6, 0, 1.0)
    assert lab.rows("select n_done, n_graded, n_passed, n_agent_failures from summary") == [(6, 6, 6, 0)]
    with lab.engine.connect() as connection:
        history = earlier_attempts(connection, record.id, [f"k{i}" for i in range(6)])
    assert sorted(history) == [("main", "k1", 1), ("main", "k3", 1), ("main", "k4", 1)]
    (earlier,) = history["main", "k3", 1]
    assert (earlier.attempt, earlier.why, earlier.outcome, earlier.error_kind) == (
        1,
        "retried",
        "agent_failure",
        "exit_code",
    )
    assert b"no answer for k3" in earlier.error
    assert lab.rows("select output from attempt where case_id = 'k3' and taken_back = 'retried'") == [
        (b"half an answer\n",)
    ]
    assert lab.rows("select attempt from trial where case_id = 'k3'") == [(2,)]


def test_c83_a_retry_has_a_new_result_version_so_prefect_takes_no_old_slice_for_it(lab: Any) -> None:
    record = made(lab)
    lab.run(record.id)
    assert again(lab, record.id).record.result_version == 2
    assert lab.rows("select result_version from experiment") == [(2,)]


def test_c83_without_an_error_nothing_is_taken_back_and_the_result_version_stays(lab: Any) -> None:
    record = made(lab)
    (lab.folder / "failing").write_text("")
    lab.run(record.id)
    before = lab.rows("select * from attempt")
    assert again(lab, record.id).taken_back == ()
    assert lab.rows("select result_version from experiment") == [(1,)]
    assert lab.rows("select * from attempt") == before


def test_k15_an_answer_that_only_a_grader_failed_on_is_graded_again_without_a_call(lab: Any) -> None:
    (lab.folder / "fair.py").write_text(textwrap.dedent(GRADER))
    (lab.folder / "unfair").write_text("k2 k5")
    record = made(lab, graders=[{"kind": "python", "path": "fair.py"}])
    (lab.folder / "failing").write_text("")
    lab.run(record.id)
    assert [each.n_infra_losses for each in lab.body(record.id).arms] == [2]
    (lab.folder / "unfair").write_text("")
    (lab.folder / "ledger").unlink()
    run = again(lab, record.id)
    assert not (lab.folder / "ledger").exists()
    assert [(each.case, each.asked_again) for each in run.taken_back] == [("k2", False), ("k5", False)]
    (side,) = lab.body(record.id).arms
    assert (side.n_done, side.n_graded, side.n_infra_losses) == (6, 6, 0)
    assert lab.rows("select n_done, n_graded, n_passed, n_infra_losses from summary") == [(6, 6, 6, 0)]


def test_c83_a_retry_that_is_cut_off_goes_on_without_being_asked_for_again(lab: Any) -> None:
    record = made(lab)
    lab.run(record.id)
    run = lab.open(record.id, retry_errors=True)
    run.writer.close()
    (lab.folder / "failing").write_text("")
    (lab.folder / "ledger").unlink()
    lab.run(record.id)
    assert calls(lab) == ["k1", "k3", "k4"]
    assert lab.body(record.id).arms[0].pass_share == 1.0


def test_c83_errors_can_be_retried_more_than_once(lab: Any) -> None:
    record = made(lab)
    lab.run(record.id)
    (lab.folder / "failing").write_text("k3")
    again(lab, record.id)
    (lab.folder / "failing").write_text("")
    again(lab, record.id)
    with lab.engine.connect() as connection:
        history = earlier_attempts(connection, record.id, ["k1", "k3"])
    assert [each.attempt for each in history["main", "k1", 1]] == [1]
    assert [each.attempt for each in history["main", "k3", 1]] == [1, 2]


def test_r02_what_a_result_cost_that_was_taken_back_stays_in_the_total(lab: Any) -> None:
    lab.cases([{"id": f"k{i}", "input": f"q{i}", "expected": "x"} for i in range(3)])
    (lab.folder / "answers.jsonl").write_text(
        '{"id": "k0", "output": "x", "cost": "0.25"}\n'
        '{"id": "k1", "output": "", "error": "refused", "cost": "0.5"}\n'
        '{"id": "k2", "output": "x", "cost": "0.125"}\n'
    )
    record = lab.make({"main": {"kind": "recorded", "path": "answers.jsonl", "cost_usd": "cost", "error": "error"}})
    lab.run(record.id)
    again(lab, record.id)
    with lab.engine.connect() as connection:
        total, reported = cost_of(connection, record.id)
    # By hand: the refused answer is read twice, and was paid for twice.
    assert (total, reported) == (Decimal("1.375"), 4)


def test_the_report_says_that_some_trials_had_a_second_chance(lab: Any) -> None:
    from fairtrial.reports.run import run_lines, run_markdown
    from fairtrial.store.lease import acquire, this_process

    record = made(lab)
    lab.run(record.id)
    (lab.folder / "failing").write_text("")
    again(lab, record.id)
    lease = acquire(lab.engine, record.id, this_process())
    document = publish_run(lab.engine, lab.objects, record.id, fence=lease.fence)
    said = "3 agent failures run again by --retry-errors: a second chance that no other trial had"
    assert f"again    {said}" in run_lines(document.body, document.meta)
    assert said in run_markdown(document.body, document.meta)
    assert "(working time in 2 parts)" in "\n".join(run_lines(document.body, document.meta))


def test_r09_an_owner_that_lost_its_lease_takes_nothing_back(lab: Any) -> None:
    from fairtrial.errors import ConflictError

    record = made(lab)
    lab.run(record.id)
    before = lab.rows("select * from trial")
    with pytest.raises(ConflictError):
        take_back_errors(lab.engine, record.id, fence=999)
    assert lab.rows("select * from trial") == before
