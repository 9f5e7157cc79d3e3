"""The main job at the command line: what is printed, what ends with which status. Recorded answers, real server."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

EXP_ID = re.compile(r"exp_[0-9A-HJKMNP-TV-Z]{26}")


def write_run(
    project: Path,
    name: str,
    answers: dict[str, str],
    *,
    expected: dict[str, str] | None = None,
    dataset: str = "cases.jsonl",
    **spec: Any,
) -> str:
    """Write cases (expected `yes` unless said otherwise), answers and a spec; returns the spec's name."""
    cases = [
        {"id": case, "input": f"question {case}", "expected": (expected or {}).get(case, "yes")} for case in answers
    ]
    (project / dataset).write_text("".join(json.dumps(case) + "\n" for case in cases))
    rows = "".join(json.dumps({"id": case, "output": output}) + "\n" for case, output in answers.items())
    (project / f"{name}.answers.jsonl").write_text(rows)
    document = {
        "name": name,
        "dataset": dataset,
        "task": {"kind": "recorded", "path": f"{name}.answers.jsonl"},
        "graders": [{"kind": "exact"}],
        "seed": 1,
    } | spec
    (project / f"{name}.json").write_text(json.dumps(document))
    return f"{name}.json"


def flips(n: int, improved: int, regressed: int, both: int = 0) -> tuple[dict[str, str], dict[str, str]]:
    """Answers of two runs over n cases with that many flips; `both` cases are right in both."""
    a, b = {}, {}
    for index in range(n):
        case = f"k{index:03d}"
        before = index < regressed + both
        after = regressed <= index < regressed + both + improved
        a[case], b[case] = "yes" if before else "no", "yes" if after else "no"
    return a, b


@pytest.fixture
def pair(exp: Any, project: Path) -> Any:
    """Store two runs and return their ids."""

    def stored(a: dict[str, str], b: dict[str, str], **spec: Any) -> tuple[str, str]:
        ids = []
        for name, answers in (("base", a), ("cand", b)):
            run = exp("run", write_run(project, name, answers, **spec), "--json", "-q", server=True)
            assert run.code == 0, run.err
            ids.append(run.json["meta"]["experiments"][0])
        return ids[0], ids[1]

    return stored


@pytest.mark.prefect
def test_c01_c02_a_run_prints_an_id_and_a_pass_rate_and_shows_in_the_list(exp: Any, project: Path) -> None:
    spec = write_run(project, "smoke2", {"c1": "yes", "c2": "no"})
    ids = []
    for _ in range(2):
        run = exp("run", spec, server=True)
        assert run.code == 0
        assert "pass 50.0%" in run.out
        ids.append(EXP_ID.search(run.out).group())  # type: ignore[union-attr]
    assert ids[0] < ids[1]
    listed = exp("list").out
    assert all(identity in listed for identity in ids)
    assert listed.index(ids[1]) < listed.index(ids[0])


@pytest.mark.prefect
def test_c02_an_unnamed_case_has_the_same_id_in_every_run(exp: Any, project: Path) -> None:
    (project / "d.jsonl").write_text('{"input": "hello", "expected": "hello"}\n{"expected":"x","input":"x"}\n')
    (project / "s.json").write_text(
        json.dumps(
            {"dataset": "d.jsonl", "task": {"kind": "command", "command": ["cat"]}, "graders": [{"kind": "exact"}]}
        )
    )
    seen = []
    for _ in range(2):
        assert exp("run", "s.json", server=True).code == 0
        seen.append([trial["case"] for trial in exp("trials", "latest", "--json").json["trials"]])
    assert seen[0] == seen[1]
    assert all(re.fullmatch(r"c_[0-9a-f]{16}", case) for case in seen[0])


@pytest.mark.prefect
def test_c09_to_c14_compare_prints_the_report_of_smoke2(exp: Any, project: Path, pair: Any) -> None:
    a, b = pair({"c1": "yes", "c2": "yes"}, {"c1": "yes", "c2": "no"})
    run = exp("compare", a, b)
    assert run.code == 0
    lines = run.out.splitlines()
    assert f"A base  {a}  pass 100.0%" in lines
    assert f"B cand  {b}  pass 50.0%" in lines
    # The source's own example of this comparison.
    assert any(
        line.startswith("B − A    −50.0pp [−100.0pp, 0.0pp] (2 paired cases, 95% paired bootstrap") for line in lines
    )
    assert "mcnemar  p=1.000  1 regressed, 0 improved" in lines
    assert "verdict  inconclusive (CI includes 0)" in lines
    at = lines.index("regressions 1")
    assert lines[at + 3].split() == ["c2", "100%", "0%", "−100pp"]


@pytest.mark.prefect
def test_k20_flip4_is_inconclusive_and_says_which_test_did_not_agree(exp: Any, pair: Any) -> None:
    a, b = pair(*flips(4, improved=4, regressed=0))
    out = exp("compare", a, b).out
    assert "B − A    +100.0pp [+100.0pp, +100.0pp]" in out
    assert "p=0.125" in out
    assert "verdict  inconclusive (exact McNemar p = 0.125 does not agree)" in out


@pytest.mark.prefect
def test_c12_qa8_all_eight_flipped_is_better(exp: Any, pair: Any) -> None:
    a, b = pair(*flips(8, improved=8, regressed=0))
    body = exp("compare", a, b, "--json").json["body"]
    # By hand: 2 * 0.5**8 = 0.0078.
    assert body["flips"] == {"improved": 8, "regressed": 0, "p": 2 * 0.5**8, "adjusted_p": None}
    assert body["decision"] == {"outcome": "better", "reasons": []}


@pytest.mark.prefect
def test_k24_order_of_rows_changes_no_figure(exp: Any, project: Path, pair: Any) -> None:
    a, b = flips(200, improved=18, regressed=6, both=120)
    first = exp("compare", *pair(a, b), "--json").json["body"]
    # cases.md K24: McNemar p = 0.0227.
    assert first["flips"]["p"] == pytest.approx(0.0227, abs=5e-5)
    turned = exp("compare", *pair(dict(reversed(a.items())), dict(reversed(b.items()))), "--json").json["body"]
    # The whole body is equal but for the hash of the dataset, whose rows stand in another order.
    assert {**turned, "settings": []} == {**first, "settings": []}


@pytest.mark.prefect
def test_w13_a_changed_label_or_input_is_not_comparable_and_counted_apart(exp: Any, project: Path, pair: Any) -> None:
    answers = {f"k{i}": "yes" for i in range(5)}
    first, _ = pair(answers, answers)
    spec = write_run(project, "later", answers, expected={"k1": "no"})
    cases = (project / "cases.jsonl").read_text().replace("question k3", "another question k3")
    (project / "cases.jsonl").write_text(cases)
    later = exp("run", spec, "--json", "-q", server=True).json["meta"]["experiments"][0]
    run = exp("compare", first, later)
    assert "1 not comparable: the input changed: k3" in run.out
    assert "1 not comparable: the label changed (a regrade mends this): k1" in run.out
    assert "3 paired cases" in run.out


@pytest.mark.prefect
def test_k23_trials_and_pasted_rows_are_not_counted_as_cases(exp: Any, project: Path) -> None:
    a, b = flips(6, improved=5, regressed=1)
    for name, answers in (("base", a), ("cand", b)):
        write_run(project, name, answers, trials=4)
        rows = [
            json.dumps({"id": case, "output": output, "n": n}) for case, output in answers.items() for n in range(1, 5)
        ]
        (project / f"{name}.answers.jsonl").write_text("\n".join(rows))
        spec = json.loads((project / f"{name}.json").read_text())
        spec["task"]["repetition"] = "n"
        (project / f"{name}.json").write_text(json.dumps(spec))
    run = exp("run", "--arm", "a=base.json", "--arm", "b=cand.json", "--json", server=True)
    assert run.code == 0, run.err
    (comparison,) = run.json["body"]["comparisons"]
    # cases.md K23: p stays 0.219 whatever the number of trials; naive counting gives 0.0015.
    assert comparison["n_pairs"] == 6
    assert comparison["flips"]["p"] == pytest.approx(0.21875)
    pasted = (project / "cases.jsonl").read_text()
    rows = [json.loads(line) for line in pasted.splitlines()]
    copies = [{**row, "id": f"{row['id']}-{n}"} for row in rows for n in range(4)]
    (project / "cases.jsonl").write_text("".join(json.dumps(row) + "\n" for row in copies))
    for name, answers in (("base", a), ("cand", b)):
        lines = [json.dumps({"id": f"{case}-{n}", "output": out}) for case, out in answers.items() for n in range(4)]
        (project / f"{name}.answers.jsonl").write_text("\n".join(lines))
        spec = json.loads((project / f"{name}.json").read_text())
        (project / f"{name}.json").write_text(
            json.dumps(spec | {"trials": 1, "task": spec["task"] | {"repetition": None}})
        )
    run = exp("run", "--arm", "a=base.json", "--arm", "b=cand.json", server=True)
    assert "6 distinct" in run.err
    assert "24" in run.err
    assert "6 distinct inputs among 24 shared cases" in run.out


@pytest.mark.prefect
def test_k33_every_setting_that_differs_is_listed_above_the_verdict(exp: Any, project: Path, pair: Any) -> None:
    answers = {"k1": "yes", "k2": "no"}
    write_run(project, "slow", answers, limits={"trial_timeout_s": 60})
    write_run(project, "patient", answers, limits={"trial_timeout_s": 300, "retries": 1})
    run = exp("run", "--arm", "a=slow.json", "--arm", "b=patient.json", server=True)
    differs = [line for line in run.out.splitlines() if line.startswith("differs")]
    assert "differs  limits.trial_timeout_s: 60 → 300" in differs
    assert "differs  limits.retries: 3 → 1" in differs
    assert run.out.index("differs") < run.out.index("verdict")


@pytest.mark.prefect
def test_a_repeated_compare_of_runs_that_have_not_grown_is_the_same_look(exp: Any, project: Path) -> None:
    a, b = flips(8, improved=8, regressed=0)
    write_run(project, "base", a)
    write_run(project, "cand", b)
    run = exp("run", "--arm", "a=base.json", "--arm", "b=cand.json", "--json", server=True)
    experiment = run.json["meta"]["experiments"][0]
    looks = [exp("compare", experiment, "--json").json["meta"]["look"] for _ in range(2)]
    assert looks == [1, 1]


@pytest.mark.prefect
def test_a_run_that_loses_more_than_its_limit_ends_with_4_and_keeps_its_report(exp: Any, project: Path) -> None:
    answers = {f"k{i}": "yes" for i in range(10)}
    spec = write_run(project, "lossy", answers)
    kept = (project / "lossy.answers.jsonl").read_text().splitlines()[:9]
    (project / "lossy.answers.jsonl").write_text("\n".join(kept))
    run = exp("run", spec, server=True)
    assert run.code == 4
    assert "lost 1 of 10 trials, over the limit of 5%" in run.err
    assert "pass 100.0%" in run.out
    assert "10 trials: 9 graded, 1 infra" in run.out


@pytest.mark.prefect
def test_nothing_graded_ends_with_4_never_with_0(exp: Any, project: Path) -> None:
    (project / "d.jsonl").write_text('{"id": "a", "input": "x"}\n')
    (project / "s.json").write_text(
        json.dumps(
            {"dataset": "d.jsonl", "task": {"kind": "command", "command": ["cat"]}, "graders": [{"kind": "exact"}]}
        )
    )
    run = exp("run", "s.json", server=True)
    assert run.code == 4
    assert "nothing was measured" in run.err


@pytest.mark.prefect
def test_reports_are_written_where_they_are_asked_for(exp: Any, project: Path) -> None:
    spec = write_run(project, "smoke2", {"c1": "yes", "c2": "no"})
    run = exp("run", spec, "-o", "r.md", "-o", "r.json", "-o", "r.txt", server=True)
    assert run.code == 0
    assert json.loads((project / "r.json").read_text())["schema"] == "fairtrial/run/1"
    assert (project / "r.txt").read_text() == run.out
    experiment = EXP_ID.search(run.out).group()  # type: ignore[union-attr]
    stored = project / ".fairtrial" / "objects" / "experiments" / experiment
    assert (stored / "report.md").read_text() == (project / "r.md").read_text()
    assert json.loads((stored / "verdict.json").read_text()) == json.loads((project / "r.json").read_text())
