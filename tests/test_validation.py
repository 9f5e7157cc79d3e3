"""Our figures on published data against the published or independently computed ones.

The data stay outside the project: the folder is FAIRTRIAL_DATA, or ../shared/data beside it, and everything here skips
without it. reference.json in each data folder was computed with numpy, scipy, statsmodels and ppi_python, not with
this code; counts and exact p must agree to every digit it gives, bootstrap ends within 0.005 (another random stream).
docs/validation.md is the table for people.
"""

from __future__ import annotations

import collections
import csv
import functools
import gzip
import io
import itertools
import json
import os
import re
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from stats.bootstrap import bootstrap_difference, cut, resampled_means
from stats.clusters import cluster_difference, resampled_group_means
from stats.decision import decide
from stats.holm import holm
from stats.mcnemar import mcnemar_exact
from stats.means import mean_interval
from stats.paired_tests import paired_tests
from stats.pairing import PairedCases, pair_cases
from stats.trials import flip_rate, mean_pass_at_k, trial_disagreement
from stats.wilson import wilson

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("FAIRTRIAL_DATA") or ROOT.parent / "shared" / "data")
BOOTSTRAP_TOLERANCE = 0.005
"""As stated by the reference files."""

Floats = npt.NDArray[np.float64]

pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="no validation data here: set FAIRTRIAL_DATA to their folder")


def read(path: str) -> str:
    raw = (DATA / path).read_bytes()
    return (gzip.decompress(raw) if path.endswith(".gz") else raw).decode("utf-8")


@functools.cache
def reference(folder: str) -> Any:
    return json.loads(read(f"{folder}/reference.json"))


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def same_digits(got: float | None, expected: float) -> bool:
    """Return whether a figure agrees to the six digits the reference files print."""
    return got is not None and f"{got:.6g}" == f"{expected:.6g}"


def assert_pair(passes_a: npt.ArrayLike, passes_b: npt.ArrayLike, expected: dict[str, Any]) -> PairedCases:
    """Compare one paired pass/fail result with its row of reference.json."""
    a, b = np.asarray(passes_a, dtype=float), np.asarray(passes_b, dtype=float)
    pair = pair_cases(a[:, None], b[:, None])
    kept_a, kept_b = a[pair.case_index], b[pair.case_index]
    n, pass_a, pass_b = pair.n, int(kept_a.sum()), int(kept_b.sum())
    assert (n, pass_a, pass_b) == (expected["n"], expected["passA"], expected["passB"])
    assert (pair.regressed, pair.improved) == (expected["A_only"], expected["B_only"])
    assert same_digits(pair.estimate, expected["diff"])
    test = mcnemar_exact(improved=pair.improved, regressed=pair.regressed)
    assert same_digits(test.p, expected["mcnemar_exact_p"])
    resampled = bootstrap_difference(pair.differences, rng=rng(), method="percentile")
    assert_ends(resampled.interval, expected["boot95"], step=1.0 / n)
    for passed, ends in ((pass_a, expected["wilsonA"]), (pass_b, expected["wilsonB"])):
        interval = wilson(passed, n)
        assert same_digits(interval.low, ends[0])
        assert same_digits(interval.high, ends[1])
    return pair


def assert_ends(interval: Any, expected: list[float], *, step: float = 0.0) -> None:
    """Compare ends; with few cases one step of the pass/fail lattice is more than the tolerance."""
    tolerance = max(BOOTSTRAP_TOLERANCE, step + 1e-4)
    assert (interval.low, interval.high) == pytest.approx(expected, abs=tolerance)


def cluster_percentiles(differences: Floats, groups: list[str]) -> Any:
    """Return the percentile interval over groups: the reference's cut, while ours is wider on purpose."""
    labels = sorted(set(groups))
    index = np.array([labels.index(group) for group in groups])
    sums = np.bincount(index, weights=differences)
    means = resampled_group_means(sums, np.bincount(index).astype(np.int64), rng=rng())
    return cut(means, lower=0.025, upper=0.025, level=0.95)


# gsm8k: openai/grade-school-math, four systems on 1,319 cases.


@functools.cache
def gsm8k() -> dict[str, list[float]]:
    rows = [json.loads(line) for line in read("gsm8k/example_model_solutions.jsonl.gz").splitlines()]
    return {system: [float(row[system]["is_correct"]) for row in rows] for system in reference("gsm8k")["accuracy"]}


@pytest.mark.parametrize(
    ("a", "b"),
    list(itertools.combinations(["6b_finetuning", "6b_verification", "175b_finetuning", "175b_verification"], 2)),
)
def test_gsm8k_pairs_agree_with_the_reference(a: str, b: str) -> None:
    assert_pair(gsm8k()[a], gsm8k()[b], reference("gsm8k")["pairs"][f"{a} -> {b}"])


def test_gsm8k_the_close_pair_is_worse_by_the_one_rule() -> None:
    pair = pair_cases(*(np.array(gsm8k()[system])[:, None] for system in ("6b_verification", "175b_finetuning")))
    result = bootstrap_difference(pair.differences, rng=rng())
    p = mcnemar_exact(improved=pair.improved, regressed=pair.regressed).p
    assert (pair.regressed, pair.improved) == (209, 152)
    verdict = decide(estimate=result.estimate, interval=result.interval, exact_p=p, kind="pass_fail")
    assert verdict.outcome == "worse"


# bbh: one model with two prompts on 27 tasks, graded as reference.json writes.


def bbh_passes(prediction: str, target: str) -> bool:
    answer = prediction.split("answer is ")[-1].strip().split("\n")[0].strip().rstrip(".").strip()
    return answer == target.strip()


@functools.cache
def bbh() -> dict[str, tuple[list[float], list[float]]]:
    def arm(task: str, prompt: str) -> list[float]:
        folder = DATA / "bbh" / "code-davinci-002-outputs" / f"code-davinci-002-{prompt}"
        (file,) = folder.glob(f"{task}_few_shot*")
        rows = json.loads(gzip.decompress(file.read_bytes()))["outputs"]
        return [float(bbh_passes(row["prediction"], row["target"])) for row in rows]

    return {task: (arm(task, "direct"), arm(task, "cot")) for task in reference("bbh")["per_task"]}


@pytest.mark.parametrize("part", range(3))
def test_bbh_tasks_agree_with_the_reference(part: int) -> None:
    for task, expected in list(reference("bbh")["per_task"].items())[part::3]:
        assert_pair(*bbh()[task], expected)


def test_bbh_all_cases_agree_plain_and_by_cluster() -> None:
    expected = reference("bbh")["all"]
    a, b = ([value for task in bbh().values() for value in task[side]] for side in (0, 1))
    groups = [task for task, sides in bbh().items() for _ in sides[0]]
    pair = assert_pair(a, b, expected)
    assert len(set(groups)) == expected["clusters"]
    assert_ends(cluster_percentiles(pair.differences, groups), expected["cluster_boot95"])
    # The point of groups: ours is more than twice as wide as the plain interval, and a little wider than percentile.
    clustered = cluster_difference(pair.differences, groups, rng=rng()).interval
    plain = bootstrap_difference(pair.differences, rng=rng()).interval
    assert clustered is not None
    assert plain is not None
    assert clustered.high - clustered.low > 2 * (plain.high - plain.low)
    assert clustered.low == pytest.approx(0.1342, abs=0.02)


def test_bbh_p_over_27_tasks_are_corrected_as_by_statsmodels() -> None:
    expected = reference("bbh")["holm_p_27_tasks"]
    pairs = {task: pair_cases(np.array(a)[:, None], np.array(b)[:, None]) for task, (a, b) in bbh().items()}
    tests = [mcnemar_exact(improved=pair.improved, regressed=pair.regressed).p for pair in pairs.values()]
    adjusted = dict(zip(pairs, holm(tests), strict=True))
    # The reference corrects p-values already rounded to six digits.
    assert all(adjusted[task] == pytest.approx(p, rel=5e-6) for task, p in expected.items())


def test_bbh_averages_over_23_tasks_are_those_of_the_papers_figure() -> None:
    # Suzgun et al. 2022, figure: about 57 without and 74 with reasoning; three sizes of a task count as one.
    def average(side: int) -> float:
        by_task = collections.defaultdict(list)
        for task, sides in bbh().items():
            by_task[re.sub("_(three|five|seven)_objects$", "", task)].append(np.mean(sides[side]))
        assert len(by_task) == 23
        return 100 * float(np.mean([np.mean(sizes) for sizes in by_task.values()]))

    assert [average(0), average(1)] == pytest.approx(reference("bbh")["macro_23_tasks"], abs=1e-4)
    assert [round(average(0)), round(average(1))] == [57, 74]


# llm-stability: seven tasks, one configuration run five times.


@functools.cache
def llm_stability() -> dict[str, Floats]:
    """Return passes of shape (cases, runs) per task."""
    csv.field_size_limit(10**9)
    runs: dict[str, dict[int, dict[int, float]]] = collections.defaultdict(dict)
    with tarfile.open(DATA / "llm-stability" / "strict_json_schema" / "runs.tgz") as archive:
        for member in archive:
            stream = archive.extractfile(member)
            if stream is None or not member.name.endswith(".csv") or Path(member.name).name.startswith("._"):
                continue
            rows = list(csv.DictReader(io.TextIOWrapper(stream, encoding="utf-8", newline="")))
            runs[rows[0]["task"]][int(rows[0]["run"])] = {
                int(row["rubric_id"]): stability_passes(row["response"], row["gt"]) for row in rows
            }
    return {
        task: np.array([[by_run[run][case] for run in sorted(by_run)] for case in sorted(by_run[0])])
        for task, by_run in runs.items()
    }


def stability_passes(response: str, truth: str) -> float:
    try:
        answer = next(iter(json.loads(response).values()))
    except ValueError:
        return 0.0
    return float(str(answer).strip("() ").lower() == truth.strip("() ").lower())


@pytest.mark.parametrize(
    "task",
    [
        "college_mathematics",
        "high_school_european_history",
        "logical_deduction",
        "navigate",
        "professional_accounting",
        "public_relations",
        "ruin_names",
    ],
)
def test_llm_stability_flips_and_passes_out_of_five_agree(task: str) -> None:
    expected, table = reference("llm-stability")["strict_json_schema"][task], llm_stability()[task]
    n, k = table.shape
    assert (n, k) == (expected["n"], expected["k"])
    assert table.sum(axis=0).astype(int).tolist() == expected["correct_per_run"]
    passes = table.sum(axis=1).astype(int).tolist()
    assert {str(c): count for c, count in sorted(collections.Counter(passes).items())} == expected["cases_by_passes"]
    # A disagreement of two trials is a flip between two runs, so its mean is the mean pairwise flip rate.
    assert same_digits(trial_disagreement(passes, [k] * n), expected["mean_pairwise_flip_rate"])
    at_k = mean_pass_at_k([k] * n, passes, k=k)
    assert at_k.pass_all_k == pytest.approx(expected["pass_hat_k_count"] / n)
    assert at_k.pass_at_k == pytest.approx(expected["any_count"] / n)
    pair = assert_pair(table[:, 0], table[:, 4], expected["run0_vs_run4"])
    aa = flip_rate(pair.improved + pair.regressed, pair.n)
    assert aa.share == (pair.improved + pair.regressed) / n


# alpaca-eval: many systems on the same 805 instructions.


@functools.cache
def alpaca(file: str) -> tuple[dict[str, dict[str, float]], dict[str, str]]:
    """Return the preference by system and case, 1 to 2, and the group of each case."""
    preferences: dict[str, dict[str, float]] = collections.defaultdict(dict)
    groups = {}
    for row in csv.DictReader(io.StringIO(read(f"alpaca-eval/{file}"))):
        groups[row["id"]] = row["dataset"]
        if row["preference"]:
            preferences[row["model"]][row["id"]] = float(row["preference"])
    return preferences, groups


@pytest.mark.parametrize(
    "pair",
    [
        "gpt4_0314 -> gpt4",
        "zephyr-7b-alpha -> zephyr-7b-beta",
        "llama-2-7b-chat-hf -> llama-2-13b-chat-hf",
        "tulu-2-dpo-7b -> tulu-2-dpo-70b",
        "minichat-3b -> phi-2",
    ],
)
def test_alpaca_eval_wins_agree_plain_and_by_group(pair: str) -> None:
    expected = reference("alpaca-eval")["binary_win_pairs"][pair]
    preferences, groups = alpaca("alpaca_eval_gpt4_preferences.csv.gz")
    a, b = (preferences[system] for system in pair.split(" -> "))
    cases = sorted(groups)
    wins = [[float(side[case] == 2.0) if case in side else np.nan for case in cases] for side in (a, b)]
    paired = assert_pair(wins[0], wins[1], expected)
    labels = [groups[cases[i]] for i in paired.case_index]
    assert_ends(cluster_percentiles(paired.differences, labels), expected["cluster_boot95"])
    assert cluster_difference(paired.differences, labels, rng=rng()).few_groups


@pytest.mark.parametrize(
    "pair",
    [
        "claude-2.1 -> claude-2.1_concise",
        "claude -> claude-2.1",
        "gpt-3.5-turbo-1106_concise -> gpt-3.5-turbo-1106_verbose",
        "phi-2 -> phi-2-sft",
        "vicuna-7b -> vicuna-13b",
        "NullModel -> gpt4_1106_preview",
    ],
)
def test_alpaca_eval_scores_agree(pair: str) -> None:
    expected = reference("alpaca-eval")["continuous_pairs"][pair]
    preferences, _ = alpaca("alpaca_eval2_weighted_preferences.csv.gz")
    first, second = (preferences[system] for system in pair.split(" -> "))
    cases = sorted(first.keys() & second.keys())
    a, b = (np.array([side[case] - 1.0 for case in cases]) for side in (first, second))
    tests = paired_tests(a, b)
    assert tests.n == expected["n"]
    assert tests.wilcoxon is not None
    signed_rank = expected["wilcoxon_zeros_dropped"]
    assert (tests.wilcoxon.statistic, tests.wilcoxon.n_nonzero) == (signed_rank["W"], signed_rank["n_nonzero"])
    figures = {
        "diff": tests.mean_difference,
        "t": tests.t,
        "t_p": tests.p_t,
        "cohens_dz": tests.d_z,
        "cohens_d_pooled": tests.d_av,
    }
    assert all(same_digits(got, expected[name]) for name, got in figures.items())
    assert same_digits(tests.wilcoxon.p, signed_rank["p"])
    means = resampled_means(b - a, rng=rng())
    assert_ends(cut(means, lower=0.025, upper=0.025, level=0.95), expected["boot95_diff"])


@pytest.mark.parametrize(
    ("file", "board", "rows"),
    [
        ("alpaca_eval_gpt4_preferences.csv.gz", "alpaca_eval_gpt4_leaderboard.csv", 36),
        ("alpaca_eval2_weighted_preferences.csv.gz", "alpaca_eval2_weighted_leaderboard.csv", 38),
    ],
)
def test_alpaca_eval_win_rates_are_those_of_the_published_leaderboard(file: str, board: str, rows: int) -> None:
    preferences, _ = alpaca(file)
    published = {row[""]: row for row in csv.DictReader(io.StringIO(read(f"alpaca-eval/{board}")))}
    compared = 0
    for system in preferences.keys() & published.keys():
        # 0 and 1.5 both mean a draw.
        wins = [0.5 if value in (0.0, 1.5) else value - 1.0 for value in preferences[system].values()]
        result = mean_interval(wins, rng=rng(), n_resamples=100)
        if int(published[system]["n_total"]) == result.n:
            assert result.mean is not None
            assert 100 * result.mean == pytest.approx(float(published[system]["win_rate"]), abs=1e-6)
            compared += 1
    assert compared == rows


def test_the_page_for_people_shows_these_figures() -> None:
    lines = (ROOT / "docs" / "validation.md").read_text(encoding="utf-8").splitlines()
    shown = {
        f"{folder} {name.replace('->', '→')}": row
        for folder, key in (("gsm8k", "pairs"), ("alpaca-eval", "binary_win_pairs"))
        for name, row in reference(folder)[key].items()
    }
    shown |= {
        f"llm-stability {task}, run 1 → 5": row["run0_vs_run4"]
        for task, row in reference("llm-stability")["strict_json_schema"].items()
    }
    shown["bbh, answer only → reasoning"] = reference("bbh")["all"]
    for name, row in shown.items():
        (line,) = [line for line in lines if line.startswith(f"| {name} |")]
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        counts, p = f"{row['A_only']} / {row['B_only']}", f"{row['mcnemar_exact_p']:.6g}"
        assert cells[1:6] == [f"{row['n']:,}", counts, counts, p, p]
