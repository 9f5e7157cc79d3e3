"""Our figures on published judges' answers and benchmark timings against the published ones.

The second part of tests/test_validation.py, which says where the data are and how close is close enough.
"""

from __future__ import annotations

import collections
import functools
import gzip
import itertools
import json
import math
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stats.mcnemar import mcnemar_exact
from stats.means import mean_interval
from stats.metrics import MetricComparison, compare_metrics, pairs_to_speak
from stats.pairwise import Answer, PairwiseJudge, pairwise_judge
from stats.ppi import ppi_difference

DATA = Path(os.environ.get("FAIRTRIAL_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")

pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="no validation data here: set FAIRTRIAL_DATA to their folder")


def read(path: str) -> str:
    raw = (DATA / path).read_bytes()
    return (gzip.decompress(raw) if path.endswith(".gz") else raw).decode("utf-8")


def reference(folder: str) -> Any:
    return json.loads(read(f"{folder}/reference.json"))


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


# mtbench-judges: four judges with two prompts, both orders, on 200 pairs with a human choice.

NAMES: dict[str | None, Answer | None] = {"1": "A", "2": "B", None: None}


def mtbench(judge: str) -> tuple[list[tuple[Answer | None, Answer | None]], list[str], PairwiseJudge]:
    rows = json.loads(read(f"mtbench-judges/{judge}/result.json.gz"))
    answers = []
    for row in rows:
        last = row["results"]
        while isinstance(last, list):
            last = last[-1]
        answers.append((NAMES[last["swap = False"]["winner"]], NAMES[last["swap = True"]["winner"]]))
    return answers, ["AB"[row["label"] - 1] for row in rows], pairwise_judge(answers, rng=rng(), n_resamples=1000)


@pytest.mark.parametrize("model", ["ChatGPT", "GPT-4", "LLaMA2", "PaLM2"])
@pytest.mark.parametrize("prompt", ["Vanilla_NoRules", "Metrics_Reference"])
def test_mtbench_judges_agree_with_the_published_statistics(model: str, prompt: str) -> None:
    answers, labels, result = mtbench(f"{model}/{prompt}")
    expected = reference("mtbench-judges")["judges"][f"{model}/{prompt}"]
    published = json.loads(read(f"mtbench-judges/{model}/{prompt}/statistics.json"))
    both = sum(a == b == label for (a, b), label in zip(answers, labels, strict=True))
    assert both == expected["correct_both"] == int(published["correct_both"].split()[0])
    assert sum(answer is None for pair in answers for answer in pair) == expected["unparsed"]
    # The paper counts two unreadable answers as the same winner; here such a case is incomplete and out.
    unreadable_twice = sum(pair == (None, None) for pair in answers)
    same = result.outcome.cases - result.inconsistent + unreadable_twice
    assert same == expected["same_winner_both_orders"] == int(published["equal"].split()[0])
    # A complete case whose two orders agree with the human wins or loses as a whole.
    won = sum(
        score == (label == "B")
        for score, label in zip(result.scores, [labels[i] for i in result.case_index], strict=True)
    )
    assert won == expected["correct_both"]
    if not expected["unparsed"]:
        assert result.first_position_rate is not None
        picks = round(result.first_position_rate * result.decided_answers)
        assert picks == expected["picks_of_first_shown"]
        assert ("position" in result.warnings) == (mcnemar_exact(improved=picks, regressed=400 - picks).p < 0.05)


# pandalm: 999 answer pairs, three human labels and two judges.


@functools.cache
def pandalm() -> list[dict[str, Any]]:
    rows = {row["idx"]: row for row in json.loads(read("pandalm/testset-v1.json.gz"))}
    for row in json.loads(read("pandalm/gpt-3.5-turbo-testset-v1.json.gz")):
        rows[row["idx"]]["gpt35"] = {"1": -1.0, "2": 1.0}.get(row["gpt_result"], 0.0)
    for row in json.loads(read("pandalm/pandalm-7b-testset-v1.json.gz")):
        rows[row["idx"]]["pandalm7b"] = {1: -1.0, 2: 1.0}.get(row["pandalm_result"], 0.0)
    for row in rows.values():
        votes = collections.Counter(int(row[f"annotator{i}"]) for i in (1, 2, 3))
        row["majority"] = votes.most_common(1)[0][0]
    return list(rows.values())


def test_pandalm_majority_labels_are_counted_as_published() -> None:
    counts = collections.Counter(str(row["majority"]) for row in pandalm())
    assert counts == reference("pandalm")["label_counts"] == {"0": 105, "1": 422, "2": 472}


@pytest.mark.parametrize("judge", ["gpt35", "pandalm7b"])
def test_pandalm_ppi_agrees_with_ppi_python_and_ours_is_wider(judge: str) -> None:
    for key, expected in reference("pandalm")["ppi"].items():
        rows = [row for row in pandalm() if row["cmp_key"] == key]
        rows = [rows[i] for i in np.random.default_rng(0).permutation(len(rows))]
        human = np.array([{1: -1.0, 2: 1.0, 0: 0.0}[row["majority"]] for row in rows])
        figures = np.array([row[judge] for row in rows])
        parts = human[:40], figures[:40], figures[40:]
        by_z, shown = ppi_difference(*parts, quantile="z"), ppi_difference(*parts)
        alone = ppi_difference(human[:40], figures[:40], [], quantile="z")
        row = expected[judge]
        assert human.size == row["N"]
        assert human.mean() == pytest.approx(row["all_human_mean"], abs=1e-6)
        assert by_z.judge_only == pytest.approx(row["all_judge_mean"], abs=1e-6)
        for result, ends in ((by_z, row["ppi_plus_plus"]), (alone, row["classical"])):
            assert result.interval is not None
            assert [result.estimate, result.interval.low, result.interval.high] == pytest.approx(ends, abs=1e-6)
        assert shown.interval is not None
        assert by_z.interval is not None
        assert shown.interval.high - shown.interval.low > by_z.interval.high - by_z.interval.low


# judgebench: 350 pairs with an objective winner.

DECISIONS: dict[str | None, Answer | None] = {"A>B": "A", "B>A": "B", "A=B": "tie", None: None}
TURNED: dict[Answer | None, Answer | None] = {"A": "B", "B": "A", "tie": "tie", None: None}


@pytest.mark.parametrize(
    "file",
    [
        "o1-mini_arena-hard_gpt-4o-pairs",
        "Skywork_Skywork-Reward-Llama-3.1-8B_gpt-4o-pairs",
        "internlm_internlm2-7b-reward_gpt-4o-pairs",
    ],
)
def test_judgebench_right_wrong_and_tied_pairs_agree_with_the_published_rule(file: str) -> None:
    expected = reference("judgebench")[f"{file}.jsonl.gz"]
    rows = [json.loads(line) for line in read(f"judgebench/{file}.jsonl.gz").splitlines()]
    answers = []
    for row in rows:
        first, second = (DECISIONS[judgment["decision"]] for judgment in row["judgments"])
        # The second look has the outputs swapped and its answer not turned back.
        answers.append((first, TURNED[second]))
    result = pairwise_judge(answers, rng=rng(), n_resamples=1000)
    lead = [(1 if row["label"] == "B>A" else -1) * (s - 0.5) for row, s in zip(rows, result.scores, strict=True)]
    assert (result.outcome.cases, result.incomplete) == (expected["n"], expected["null"])
    assert sum(value > 0 for value in lead) == expected["correct"]
    assert sum(value == 0 for value in lead) == expected.get("tie", 0)
    assert sum(value < 0 for value in lead) == expected["incorrect"]
    # Theirs counts any two answers that differ, a tie against a winner too; ours only opposite winners.
    assert sum(a != b for a, b in answers) == expected["inconsistent"] >= result.inconsistent


# go-bench and pyperf: benchmark timings.


@functools.cache
def go_bench(file: str) -> dict[str, list[float]]:
    timings: dict[str, list[float]] = collections.defaultdict(list)
    for line in read(f"go-bench/cmd/{file}").splitlines():
        if found := re.match(r"Benchmark(\S+)\s+\d+\s+([\d.e+]+) ns/op", line):
            timings[found[1]].append(float(found[2]))
    return timings


def compare_go(base: str, cand: str) -> dict[str, MetricComparison]:
    a, b = go_bench(base), go_bench(cand)
    # Where one night has fewer runs, the last ones of the other have no partner.
    pairs = {name: list(itertools.zip_longest(a[name], b[name], fillvalue=math.nan)) for name in a}
    return compare_metrics({name: ([x for x, _ in rows], [y for _, y in rows]) for name, rows in pairs.items()})


def odd(night: str, version: str = "Go1.17") -> str:
    return f"benchseries/testdata/odd/{version}-opt.{night}.gz"


def test_go_bench_medians_and_deltas_are_benchstats() -> None:
    rows = compare_go("benchstat/testdata/crc-old.txt", "benchstat/testdata/crc-new.txt")
    scale = {"n": 1.0, "µ": 1e3}
    compared = 0
    for line in read("go-bench/cmd/benchstat/testdata/crcIgnore.stdout").splitlines():
        found = re.match(r"(CRC32\S+)\s+([\d.]+)([nµ]) ± \d+%\s+([\d.]+)([nµ]) ± \d+%\s+(\S+)", line)
        if found is None:
            continue
        row, compared = rows[found[1]], compared + 1
        for median, printed, unit in ((row.median_base, found[2], found[3]), (row.median_cand, found[4], found[5])):
            digits = len(printed.split(".")[1])
            assert median is not None
            assert median / scale[unit] == pytest.approx(float(printed), abs=0.51 * 10**-digits)
        if found[6] != "~":
            assert row.median_base is not None
            assert row.median_cand is not None
            delta = 100 * (row.median_cand / row.median_base - 1)
            assert delta == pytest.approx(float(found[6].rstrip("%")), abs=0.0051)
    assert compared == 36
    # Ten pairs cannot speak among 36 metrics, not even for −79%: 2 · (1/2)**10 · 36 is 0.07.
    assert pairs_to_speak(36) == 11
    assert {row.verdict for row in rows.values()} == {"no-change"}


def test_go_bench_two_benchmarks_get_benchstats_verdicts() -> None:
    # csvOldNew.stdout: Encode/json 1.718 to 1.4225 µs, p = 0.000; Encode/gob 3.0655 to 3.07 µs, "~".
    rows = compare_go("benchstat/testdata/old.txt", "benchstat/testdata/new.txt")
    json_row, gob_row = rows["Encode/format=json-48"], rows["Encode/format=gob-48"]
    assert (json_row.median_base, json_row.median_cand, json_row.verdict) == (1718.0, 1422.5, "better")
    assert (gob_row.median_base, gob_row.median_cand, gob_row.verdict) == (3065.5, 3070.0, "no-change")


def test_go_bench_the_same_go_one_night_later_stays_quiet() -> None:
    # README of the data: sign test 1 to 7% of 101 benchmarks below 5%, none after Holm.
    nights = ["20220101T213211", "20220102T213211", "20220103T213211", "20220104T213213"]
    later = ["20220114T213211", "20220115T213211", "20220116T213213"]
    for one, other in [*itertools.pairwise(nights), *itertools.pairwise(later)]:
        rows = compare_go(odd(one), odd(other))
        below = sum((row.sign_p or 1.0) < 0.05 for row in rows.values())
        assert len(rows) == 101
        assert 1 <= below <= 7
        assert {row.verdict for row in rows.values()} == {"no-change"}


def test_go_bench_eight_days_apart_drift_speaks_and_so_does_a_real_change() -> None:
    # README of the data: sign test 23.8% and 9 after Holm; development commit in the same night 71%.
    drifted = compare_go(odd("20220104T213213"), odd("20220112T213211"))
    assert sum((row.sign_p or 1.0) < 0.05 for row in drifted.values()) == 24
    assert sum((row.sign_p_holm or 1.0) < 0.05 for row in drifted.values()) == 9
    assert sum(row.verdict != "no-change" for row in drifted.values()) == 9
    changed = compare_go(odd("20220115T213211"), odd("20220115T213211", version="3b5eec9370"))
    assert sum((row.sign_p or 1.0) < 0.05 for row in changed.values()) == 72


def pyperf(version: int) -> dict[str, list[float]]:
    benchmarks = json.loads(read(f"pyperf/mult_list_py{version}.json"))["benchmarks"]
    return {
        benchmark["metadata"]["name"]: [v for run in benchmark["runs"] for v in run.get("values", [])]
        for benchmark in benchmarks
    }


@pytest.mark.parametrize(
    ("version", "means", "verdicts"),
    # pyperf 2.11.0, doc/cli.rst: µs, against 2.13, 3.70 and 4.61 of Python 3.6.
    [
        (37, (2.09, 5.28, 6.05), ("better", "worse", "worse")),
        (38, (2.13, 3.18, 4.17), ("no-change", "better", "better")),
    ],
)
def test_pyperf_means_and_verdicts_are_the_documented_ones(
    version: int, means: tuple[float, ...], verdicts: tuple[str, ...]
) -> None:
    base, cand = pyperf(36), pyperf(version)
    for values, expected in ((base, (2.13, 3.70, 4.61)), (cand, means)):
        ours = [mean_interval(row, rng=rng(), n_resamples=100).mean for row in values.values()]
        assert [round(1e6 * (mean or 0.0), 2) for mean in ours] == list(expected)
    rows = compare_metrics({name: (base[name], cand[name]) for name in base})
    assert tuple(row.verdict for row in rows.values()) == verdicts
