"""Graders that look at more than the bytes of an answer, in a run: its time, its price, and what nobody reported."""

from __future__ import annotations

import json
from typing import Any

GRADERS = [
    {"kind": "json", "match": "subset"},
    {"kind": "json_schema", "schema": {"required": ["a"]}},
    {"kind": "latency", "max_s": 1.0},
    {"kind": "cost", "max_usd": "0.01"},
]
ANSWERS: list[dict[str, Any]] = [
    {"id": "fast", "output": {"a": 1, "b": 2}, "s": 0.5, "usd": 0.01},
    {"id": "slow", "output": {"a": 1}, "s": 1.5, "usd": 0.005},
    {"id": "unknown", "output": {"a": 1}},
]


def test_time_and_price_of_an_answer_are_graded_and_unknown_ones_left_out(lab: Any) -> None:
    lab.cases([{"id": row["id"], "input": "q", "expected": {"a": 1}} for row in ANSWERS])
    (lab.folder / "r.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ANSWERS))
    task = {"kind": "recorded", "path": "r.jsonl", "latency_s": "s", "cost_usd": "usd"}
    record = lab.make({"main": task}, graders=GRADERS)
    lab.run(record.id)
    grades = lab.rows("select case_id, grader, state, score from grade where grader in ('latency', 'cost')")
    assert sorted(grades) == [
        ("fast", "cost", "scored", 1.0),
        ("fast", "latency", "scored", 1.0),
        ("slow", "cost", "scored", 1.0),
        ("slow", "latency", "scored", 0.0),
        ("unknown", "cost", "no_score", None),
        ("unknown", "latency", "no_score", None),
    ]
    trials = lab.rows("select case_id, outcome, value from trial order by case_id")
    assert trials == [("fast", "graded", 1.0), ("slow", "graded", 0.0), ("unknown", "graded", 1.0)]


def test_a_stored_spec_with_every_new_grader_is_opened_again(lab: Any) -> None:
    """A schema's key and a price keep their form in the store, and the versions of the graders agree."""
    lab.cases([{"id": "a", "input": "q", "expected": "x"}])
    kinds: list[dict[str, Any]] = [{"kind": kind} for kind in ("similarity", "bleu", "chrf", "values")]
    record = lab.make(
        {"main": lab.answers({"a": "x"}, "r.jsonl")}, graders=[*GRADERS, {"kind": "length", "max": 9}, *kinds]
    )
    lab.run(record.id)
    assert lab.rows("select count(*) from grade") == [(9,)]
    assert lab.rows("select count(*) from grade where state = 'error'") == [(0,)]
