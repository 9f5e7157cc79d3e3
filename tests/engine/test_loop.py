"""The trial loop, bare: what runs when, what a trial comes to, and that order of completion decides nothing."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

BOTH_STORES = pytest.mark.parametrize("backend", ["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])

# Cases of the answers: right, wrong, agent failure, lost. With 40 cases every slice holds some of each.
KINDS = ("right", "wrong", "empty", "lost")


def mixed(lab: Any, n: int = 40) -> dict[str, dict[str, Any]]:
    """Two arms of recorded answers over n cases; the candidate repairs some and breaks others."""
    lab.cases([{"id": f"k{i:03d}", "input": f"q{i}", "expected": str(i)} for i in range(n)])
    tasks = {}
    for arm, shift in (("base", 0), ("cand", 1)):
        answers: dict[str, Any] = {}
        for i in range(n):
            kind = KINDS[(i * 7 + shift * (i // 3)) % 4]
            if kind != "lost":
                answers[f"k{i:03d}"] = {"right": str(i), "wrong": "no", "empty": "  "}[kind]
        tasks[arm] = lab.answers(answers, f"{arm}.jsonl")
    return tasks


def logging_task(lab: Any, name: str, *, body: str = "print(sys.stdin.read(), end='')") -> dict[str, Any]:
    """A command that writes `arm case repetition` to a common log before it answers."""
    script = lab.folder / f"{name}.py"
    script.write_text(
        "import os, sys\n"
        "with open('log', 'a') as log:\n"
        f'    log.write(f\'{name} {{os.environ["FAIRTRIAL_CASE_ID"]}} {{os.environ["FAIRTRIAL_REPETITION"]}}\\n\')\n'
        f"{body}\n",
        encoding="utf-8",
    )
    return {"kind": "command", "command": [sys.executable, f"{name}.py"]}


def log_of(lab: Any) -> list[tuple[str, str, str]]:
    return [tuple(line.split()) for line in (lab.folder / "log").read_text().splitlines()]


def test_c44_arms_of_a_case_run_back_to_back_in_both_orders_and_a_seed_repeats_them(lab: Any) -> None:
    lab.cases([{"id": f"k{i:02d}", "input": "x", "expected": "x"} for i in range(12)])
    tasks = {name: logging_task(lab, name) for name in ("base", "cand")}
    orders = []
    for seed in (5, 5, 6):
        (lab.folder / "log").write_text("")
        lab.run(lab.make(tasks, seed=seed).id)
        log = log_of(lab)
        pairs = [log[at : at + 2] for at in range(0, len(log), 2)]
        assert all(first[1] == second[1] and {first[0], second[0]} == {"base", "cand"} for first, second in pairs)
        orders.append([first[0] for first, _ in pairs])
    assert orders[0] == orders[1] != orders[2]
    assert set(orders[0]) == {"base", "cand"}


@BOTH_STORES
def test_c06_each_case_runs_as_often_as_trials_says(lab: Any) -> None:
    lab.cases([{"id": "a", "input": "1", "expected": "1"}, {"id": "b", "input": "2", "expected": "1"}])
    record = lab.make({"main": logging_task(lab, "main")}, trials=3)
    lab.run(record.id)
    # 2 cases x 3 trials, by hand.
    assert sorted(log_of(lab)) == [("main", case, str(n)) for case in "ab" for n in (1, 2, 3)]
    assert lab.body(record.id).arms[0].n_graded == 6
    assert lab.body(record.id).arms[0].pass_share == 0.5


@BOTH_STORES
def test_g22_verdict_bytes_are_equal_at_any_concurrency_and_completion_order(lab: Any) -> None:
    tasks = mixed(lab)
    bodies = set()
    for shuffle in range(20):
        record = lab.make(tasks)
        lab.run(record.id, concurrency=(1, 16, 3)[shuffle % 3], shuffle=shuffle)
        bodies.add(lab.bytes(record.id))
    assert len(bodies) == 1


@BOTH_STORES
def test_outcomes_are_counted_by_class(lab: Any) -> None:
    record = lab.make(mixed(lab, 8))
    lab.run(record.id)
    base = lab.body(record.id).arms[0]
    # By hand: i*7 % 4 for i = 0..7 is 0 3 2 1 0 3 2 1: right, lost, empty, wrong, twice.
    assert (base.n_graded, base.n_graded_passed, base.n_agent_failures, base.n_infra_losses) == (4, 2, 2, 2)
    assert base.pass_share == pytest.approx(2 / 6)
    assert {(error.outcome, error.kind, error.n) for error in base.errors} == {
        ("agent_failure", "empty", 2),
        ("infra_loss", "recording", 2),
    }


@BOTH_STORES
def test_k14_crashes_count_as_fails_and_are_shown_apart(lab: Any) -> None:
    lab.cases([{"id": f"c{i:02d}", "input": f"q{i}", "expected": "x"} for i in range(1, 11)])
    crash = "import os\nif os.environ['FAIRTRIAL_CASE_ID'] > 'c05': sys.exit(1)\nprint('x')"
    wrong = "import os\nprint('x' if os.environ['FAIRTRIAL_CASE_ID'] <= 'c06' else 'y')"
    record = lab.make({"a": logging_task(lab, "a", body=crash), "b": logging_task(lab, "b", body=wrong)})
    lab.run(record.id)
    (comparison,) = lab.body(record.id).comparisons
    # cases.md K14: 50% against 60% over 10, graded only 5/5, failure rate 50% against 0%, and a warning.
    assert (comparison.a.pass_share, comparison.b.pass_share) == (0.5, 0.6)
    assert (comparison.a.n_graded_passed, comparison.a.n_graded, comparison.a.n_agent_failures) == (5, 5, 5)
    assert comparison.n_pairs == 10
    assert comparison.difference.estimate == pytest.approx(0.1)
    assert [warning.code for warning in comparison.warnings] == ["uneven-loss"]


@BOTH_STORES
def test_k15_a_grader_crash_is_neither_pass_nor_fail(lab: Any) -> None:
    lab.cases([{"id": f"k{i}", "input": str(i), "expected": "yes"} for i in range(8)])
    (lab.folder / "grader.py").write_text(
        "def grade(output, case):\n    if case['id'] == 'k7':\n        raise RuntimeError('no')\n"
        "    return output.strip() == case['expected']\n"
    )
    answers = {f"k{i}": "yes" if i < 2 else "no" for i in range(8) if i != 6}
    record = lab.make({"main": lab.answers(answers, "a.jsonl")}, graders=[{"kind": "python", "path": "grader.py"}])
    lab.run(record.id)
    side = lab.body(record.id).arms[0]
    # cases.md K15: 8 cases: 6 graded, 1 infra, 1 grader error; 2 of the 6 are right.
    assert (side.n_graded, side.n_infra_losses, side.pass_share) == (6, 2, pytest.approx(2 / 6))
    assert {(error.kind, error.n) for error in side.errors} == {("recording", 1), ("grader_error", 1)}


def test_c84_a_failed_task_is_run_once(lab: Any) -> None:
    lab.cases([{"id": "a", "input": "1", "expected": "1"}])
    record = lab.make({"main": logging_task(lab, "main", body="sys.exit(3)")}, limits={"retries": 5})
    lab.run(record.id)
    assert len(log_of(lab)) == 1
    assert lab.rows("select attempt, error_kind, outcome from trial") == [(1, "exit_code", "agent_failure")]


@BOTH_STORES
def test_w07_every_field_of_a_trial_is_stored_errors_too(lab: Any) -> None:
    lab.cases([{"id": "a", "input": "1", "expected": "1"}, {"id": "b", "input": "2", "expected": "2"}])
    path = lab.folder / "r.jsonl"
    rows = [
        {"id": "a", "output": "1", "s": 0.5, "usd": 0.25, "tin": 10, "tout": 3},
        {"id": "b", "output": None, "why": "refused"},
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    task = {"kind": "recorded", "path": "r.jsonl", "error": "why", "latency_s": "s", "cost_usd": "usd"}
    record = lab.make({"main": task | {"input_tokens": "tin", "output_tokens": "tout"}})
    lab.run(record.id)
    stored = lab.rows(
        "select case_id, outcome, value, latency_s, cost_usd, input_tokens, output_tokens, error_kind from trial"
    )
    assert stored == [
        ("a", "graded", 1.0, 0.5, "0.25", 10, 3, None),
        ("b", "agent_failure", 0.0, None, None, None, None, "recorded_error"),
    ]
    # W08: one grade a graded trial; an agent failure has nothing to grade.
    assert lab.rows("select case_id, state, score from grade") == [("a", "scored", 1.0)]


def test_c05_every_grade_carries_the_version_of_its_grader(lab: Any) -> None:
    lab.cases([{"id": "a", "input": "1", "expected": "1"}])
    grader = lab.folder / "g.py"
    versions = []
    for text in ("def grade(output, case):\n    return 1\n", "def grade(output, case):\n    return 0\n"):
        grader.write_text(text)
        record = lab.make({"main": lab.answers({"a": "1"}, "a.jsonl")}, graders=[{"kind": "python", "path": "g.py"}])
        lab.run(record.id)
        versions += lab.rows("select version from grade where experiment = :e", e=record.id)
    assert versions[0] != versions[1]


def test_a_trial_passes_only_when_every_grader_with_a_score_passes_it(lab: Any) -> None:
    lab.cases(
        [
            {"id": "both", "input": "x", "expected": "ab"},
            {"id": "one", "input": "x", "expected": "zz"},
            {"id": "unlabelled", "input": "x"},
        ]
    )
    graders = [{"kind": "exact"}, {"kind": "regex", "pattern": "^a"}]
    record = lab.make(
        {"main": lab.answers(dict.fromkeys(("both", "one", "unlabelled"), "ab"), "a.jsonl")}, graders=graders
    )
    lab.run(record.id)
    # exact has nothing to say about a case without a label, so the regex alone decides it.
    assert lab.rows("select case_id, value from trial order by case_id") == [
        ("both", 1.0),
        ("one", 0.0),
        ("unlabelled", 1.0),
    ]


@BOTH_STORES
def test_c36_a_case_without_any_score_is_left_out_and_counted(lab: Any) -> None:
    lab.cases([{"id": "a", "input": "1", "expected": "1"}, {"id": "b", "input": "2"}])
    record = lab.make({n: lab.answers({"a": "1", "b": "2"}, f"{n}.jsonl") for n in ("base", "cand")})
    lab.run(record.id)
    (comparison,) = lab.body(record.id).comparisons
    assert (comparison.n_pairs, comparison.a.n_ungraded) == (1, 1)
    assert comparison.not_comparable.without_value == ("b",)


@BOTH_STORES
def test_k85_any_bytes_of_an_answer_are_stored_and_the_run_goes_on(lab: Any) -> None:
    lab.cases([{"id": "a", "input": "1", "expected": "1"}, {"id": "b", "input": "2", "expected": "2"}])
    odd = bytes(range(256)) + "\ud835".encode("utf-8", "surrogatepass") + b"\x00" * 3
    (lab.folder / "odd").write_bytes(odd)
    body = "import shutil\nshutil.copyfileobj(open('odd', 'rb'), sys.stdout.buffer)"
    record = lab.make({"main": logging_task(lab, "main", body=body)})
    lab.run(record.id)
    # r33: bytes as they came, graded by a written rule (a fail here).
    assert lab.rows("select inline from trial_output") == [(odd,), (odd,)]
    assert lab.body(record.id).arms[0].n_graded == 2


@BOTH_STORES
def test_large_outputs_go_to_the_object_store_by_their_hash(lab: Any) -> None:
    lab.cases([{"id": "a", "input": "1", "expected": "1"}])
    record = lab.make({"main": lab.answers({"a": "y" * 20_000}, "a.jsonl")})
    lab.run(record.id)
    ((digest, size, inline),) = lab.rows("select sha256, size, inline from trial_output")
    assert (size, inline) == (20_000, None)
    assert lab.objects.get_blob(digest) == b"y" * 20_000


@BOTH_STORES
def test_totals_in_the_summary_equal_the_counted_rows(lab: Any) -> None:
    record = lab.make(mixed(lab))
    lab.run(record.id, concurrency=16)
    counted = lab.rows(
        "select arm, count(*), sum(cast(outcome = 'graded' as integer)), sum(cast(value = 1.0 as integer)), "
        "sum(cast(outcome = 'agent_failure' as integer)), sum(cast(outcome = 'infra_loss' as integer)) "
        "from trial group by arm order by arm"
    )
    stored = lab.rows(
        "select arm, n_done, n_graded, n_passed, n_agent_failures, n_infra_losses from summary order by arm"
    )
    assert stored == counted
    if lab.objects.folder is not None:
        assert lab.objects.folder.is_dir()


@BOTH_STORES
def test_w09_each_grader_has_its_average_over_the_trials_it_scored_and_their_number(lab: Any) -> None:
    lab.cases(
        [
            {"id": "a", "input": "1", "expected": "x"},
            {"id": "b", "input": "2", "expected": "x"},
            {"id": "c", "input": "3"},
        ]
    )
    (lab.folder / "g.py").write_text(
        "def grade(output, case):\n    return {'a': 0.25, 'b': 0.75, 'c': 1}[case['id']]\n"
    )
    graders = [{"kind": "exact"}, {"kind": "python", "path": "g.py", "name": "shade"}]
    record = lab.make({"main": lab.answers(dict.fromkeys("abc", "x"), "a.jsonl")}, graders=graders)
    lab.run(record.id)
    found = {s.grader: (s.mean, s.n_scored, s.n_no_score) for s in lab.body(record.id).arms[0].scores}
    # By hand: (1 + 1) / 2 over the labelled cases; (0.25 + 0.75 + 1) / 3.
    assert found == {"exact": (1.0, 2, 1), "shade": (pytest.approx(2 / 3), 3, 0)}


def test_w04_a_case_runs_once_unless_the_spec_says_more(lab: Any) -> None:
    lab.cases([{"id": "a", "input": "1", "expected": "1"}, {"id": "b", "input": "2", "expected": "2"}])
    lab.run(lab.make({"main": logging_task(lab, "main")}).id)
    assert len(log_of(lab)) == 2
