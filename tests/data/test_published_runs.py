"""Recorded answers of real systems, run, graded from their text and compared: counts and exact p as published.

The expected figures are those of reference.json in each data folder (scipy 1.17.1; see its README).
"""

from __future__ import annotations

import gzip
import json
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

GSM8K = ("6b_finetuning", "6b_verification", "175b_finetuning", "175b_verification")

# bbh's published grader: the text after the last "answer is ", its first line, without trailing dots.
BBH_ANSWER = r"(?s)(?:.*answer is )?\s*([^\n]*?)\s*\.*\s*(?:\n.*)?\Z"


def write_lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def write_specs(project: Path, arms: tuple[str, ...], grader: dict[str, Any]) -> list[str]:
    for arm in arms:
        task = {"kind": "recorded", "path": "answers.jsonl", "output": arm}
        spec = {"name": "published", "dataset": "cases.jsonl", "task": task, "graders": [grader], "seed": 1}
        (project / f"{arm}.json").write_text(json.dumps(spec))
    return [word for arm in arms for word in ("--arm", f"{arm}={arm}.json")]


@pytest.mark.prefect
def test_gsm8k_four_systems_graded_from_their_text_and_compared_in_all_pairs(
    exp: Any, project: Path, data_dir: Path
) -> None:
    folder = data_dir / "gsm8k"
    questions = [json.loads(line) for line in (folder / "test.jsonl").read_text(encoding="utf-8").split("\n") if line]
    with gzip.open(folder / "example_model_solutions.jsonl.gz", "rt", encoding="utf-8") as file:
        systems = [json.loads(line) for line in file]
    cases = [
        {"id": f"g{index:04d}", "input": row["question"], "expected": row["answer"]}
        for index, row in enumerate(questions)
    ]
    write_lines(project / "cases.jsonl", cases)
    answers = [
        {"id": f"g{index:04d}"} | {arm: row[arm]["solution"] for arm in GSM8K} for index, row in enumerate(systems)
    ]
    write_lines(project / "answers.jsonl", answers)
    # The last number of the text, on both sides: "#### 18" in the label, "A: 18" in the solution.
    arguments = write_specs(project, GSM8K, {"kind": "number"})
    run = exp("run", *arguments, "--json", "-q", server=True, timeout_s=300)
    assert run.code == 0, run.err
    published = json.loads((folder / "reference.json").read_text())
    for side in run.json["body"]["arms"]:
        assert (side["n_graded"], side["n_graded_passed"]) == (1319, published["accuracy"][side["label"]]["correct"])
    experiment = run.json["meta"]["experiments"][0]
    for a, b in combinations(GSM8K, 2):
        body = exp("compare", f"{experiment}/{a}", f"{experiment}/{b}", "--json").json["body"]
        check_pair(body, published["pairs"][f"{a} -> {b}"])
    # The close pair is worse by both rules: -4.32 points, p = 0.00315.
    assert exp("compare", f"{experiment}/6b_verification", f"{experiment}/175b_finetuning", "--json").json["body"][
        "decision"
    ] == {"outcome": "worse", "reasons": []}


@pytest.mark.prefect
def test_bbh_two_prompts_on_6511_cases_graded_from_their_text(exp: Any, project: Path, data_dir: Path) -> None:
    folder = data_dir / "bbh"
    arms = {"direct": "code-davinci-002-direct", "cot": "code-davinci-002-cot"}
    cases: list[dict[str, Any]] = []
    answers: list[dict[str, Any]] = []
    for task in sorted((folder / "bbh").glob("*.json.gz")):
        name = task.name.removesuffix(".json.gz")
        examples = json.loads(gzip.decompress(task.read_bytes()))["examples"]
        outputs = {}
        for arm, path in arms.items():
            (found,) = (folder / "code-davinci-002-outputs" / path).glob(f"{name}_*.json.gz")
            outputs[arm] = json.loads(gzip.decompress(found.read_bytes()))["outputs"]
        for index, example in enumerate(examples):
            case = f"{name}-{index:03d}"
            cases.append({"id": case, "input": example["input"], "expected": example["target"], "group": name})
            answers.append({"id": case} | {arm: outputs[arm][index]["prediction"] for arm in arms})
    write_lines(project / "cases.jsonl", cases)
    write_lines(project / "answers.jsonl", answers)
    arguments = write_specs(project, tuple(arms), {"kind": "exact", "extract": BBH_ANSWER, "extract_from": "first"})
    run = exp("run", *arguments, "--json", "-q", server=True, timeout_s=300)
    assert run.code == 0, run.err
    published = json.loads((folder / "reference.json").read_text())["all"]
    (comparison,) = run.json["body"]["comparisons"]
    check_pair(comparison, published)


def check_pair(body: dict[str, Any], published: dict[str, Any]) -> None:
    """Counts equal, exact p to the digits printed there, bootstrap ends within the tolerance its README states."""
    assert body["n_pairs"] == published["n"]
    assert (body["a"]["n_graded_passed"], body["b"]["n_graded_passed"]) == (published["passA"], published["passB"])
    assert (body["flips"]["regressed"], body["flips"]["improved"]) == (published["A_only"], published["B_only"])
    assert (len(body["regressions"]), len(body["improvements"])) == (published["A_only"], published["B_only"])
    assert body["flips"]["p"] == pytest.approx(published["mcnemar_exact_p"], rel=1e-5)
    difference = body["difference"]
    assert difference["estimate"] == pytest.approx(published["diff"], abs=1e-6)
    assert [difference["low"], difference["high"]] == pytest.approx(published["boot95"], abs=0.005)
    for side, name in (("a", "wilsonA"), ("b", "wilsonB")):
        assert [body[side]["pass_low"], body[side]["pass_high"]] == pytest.approx(published[name], abs=1e-5)
