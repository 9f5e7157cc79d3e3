"""The values grader: counts by hand, the rules of sameness, and the published figures of oa-mine."""

from __future__ import annotations

import asyncio
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from fairtrial.graders.value_rules import ValueRules, count_values
from fairtrial.spec.case import Case

ALL = ("case", "space", "unicode", "number")


def same(a: Any, b: Any, ignore: tuple[str, ...] = ALL) -> bool:
    rules = ValueRules.of(ignore, ())
    return rules.normal(a) == rules.normal(b)


# By hand. Right, written, labelled; F1 = 2 · right / (written + labelled).
@pytest.mark.parametrize(
    ("answer", "expected", "counts", "figures"),
    [
        ({"a": "x", "b": "y"}, {"a": "x", "b": "y"}, (2, 0, 0), "precision 1.0000, recall 1.0000, F1 1.0000"),
        # One right, one wrong (a wrong value is also a missing one), one missing: 1 of 2, 1 of 3, 2 / 5.
        ({"a": "x", "b": "z"}, {"a": "x", "b": "y", "c": "w"}, (1, 1, 2), "precision 0.5000, recall 0.3333, F1 0.4000"),
        # Lists: x and z of three, x and z of two.
        ({"a": ["x", "y", "z"]}, {"a": ["z", "x"]}, (2, 1, 0), "precision 0.6667, recall 1.0000, F1 0.8000"),
        ({"a": ["x", "x", "X "]}, {"a": "x"}, (1, 0, 0), "precision 1.0000, recall 1.0000, F1 1.0000"),
        # Nothing written; nothing labelled; neither.
        ({}, {"a": "x"}, (0, 0, 1), "precision none, recall 0.0000, F1 0.0000"),
        ({"a": None, "b": " ", "c": []}, {"a": "x"}, (0, 0, 1), "precision none, recall 0.0000, F1 0.0000"),
        ({"a": "x"}, {"a": None}, (0, 1, 0), "precision 0.0000, recall none, F1 0.0000"),
        ({}, {"a": None, "b": []}, (0, 0, 0), "precision 1.0000, recall 1.0000, F1 1.0000"),
        # The right value of another property is a wrong one.
        ({"a": "y", "b": "x"}, {"a": "x", "b": "y"}, (0, 2, 2), "precision 0.0000, recall 0.0000, F1 0.0000"),
    ],
)
def test_l43_precision_recall_and_f1_are_the_count_by_hand(
    grade: Any, answer: Any, expected: Any, counts: tuple[int, int, int], figures: str
) -> None:
    found = grade(json.dumps(answer), expected=expected, kind="values")
    right, wrong, missing = counts
    assert found.reason.decode().startswith(f"tp {right}, fp {wrong}, fn {missing}; {figures}")
    n = 2 * right + wrong + missing
    assert found.score == pytest.approx(2 * right / n if n else 1.0)


def test_l23_properties_without_a_label_count_nowhere_and_are_named(grade: Any) -> None:
    answer = json.dumps({"brand": "A", "Color": "red", "Size": 5, "none": "n/a", "void": None})
    found = grade(answer, expected={"brand": "A"}, kind="values", no_value=["N/A"])
    assert found.score == 1
    assert found.reason.decode().endswith("F1 1.0000; left out, without a label: Color, Size")
    # A label more is one value more that counts, a label less one more in the list.
    more = grade(answer, expected={"brand": "A", "Color": "blue"}, kind="values", no_value=["n/a"])
    assert more.reason.decode().endswith("; wrong or missing: Color; left out, without a label: Size")
    assert more.score == pytest.approx(2 / 4)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("Red", "rED"),
        ("Straße", "STRASSE"),
        (" dark\u00a0 red\n", "dark red"),
        ("é", "e\u0301"),
        ("1,234.50", 1234.5),
        ("1234.5", "1,234.50"),
        (12, "12"),
        (12.0, 12),
        ("+5", 5),
        ("−5", "-5.0"),
        ("1e3", 1000),
        (0, "-0.0"),
        (True, "true"),
        ({"b": 1, "a": "X"}, {"a": "x", "b": 1}),
    ],
)
def test_differences_that_do_not_count(a: Any, b: Any) -> None:
    assert same(a, b)
    assert same(b, a)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("2024-01-02", "02/01/2024"),
        ("2024-01-02", "2024-1-2"),
        ("0151", "151"),
        ("1,23", 123),
        ("12,34,567", 1234567),
        ("5 km", 5),
        ("50%", 50),
        ("1.2.3", "1.2.30"),
        ("²", "2"),
        ("５", "5"),
        ("a-b", "a b"),
        (True, 1),
        ("1" + "0" * 2_000, "1" + "0" * 1_999 + "1"),
        ("1e99999", "1e99998"),
        (0.1, 0.10000000000000002),
    ],
)
def test_differences_that_count(a: Any, b: Any) -> None:
    assert not same(a, b)


@pytest.mark.parametrize(
    ("rule", "a", "b"),
    [("case", "Red", "red"), ("space", "a  b", "a b"), ("unicode", "é", "e\u0301"), ("number", "1.0", "1")],
)
def test_each_rule_can_be_left_out(grade: Any, rule: str, a: str, b: str) -> None:
    assert same(a, b, (rule,))
    assert not same(a, b, tuple(name for name in ALL if name != rule))
    answer = json.dumps({"p": a})
    assert grade(answer, expected={"p": b}, kind="values", ignore=[rule]).score == 1
    assert grade(answer, expected={"p": b}, kind="values", ignore=[]).score == 0


def test_a_number_that_is_not_read_as_one_is_the_text_that_json_writes() -> None:
    assert same(12, "12", ())
    assert not same(12.0, 12, ())


def test_names_of_properties_are_compared_as_they_are(grade: Any) -> None:
    found = grade('{"brand": "A"}', expected={"Brand": "A"}, kind="values")
    assert found.score == 0
    assert found.reason.decode().endswith("wrong or missing: Brand; left out, without a label: brand")


@pytest.mark.parametrize("expected", ["x", ["x"], None, 3])
def test_a_label_that_names_no_properties_gives_no_score(grade: Any, expected: Any) -> None:
    found = grade("{}", expected=expected, kind="values")
    assert (found.state, found.reason) == ("no_score", b"the expected value is not an object of properties")


def test_an_empty_label_would_pass_anything_and_gives_no_score(grade: Any) -> None:
    found = grade('{"a": "made up"}', expected={}, kind="values")
    assert found.state == "no_score"
    assert grade("{}", kind="values").reason == b"case has no expected value"


@pytest.mark.parametrize("answer", ["[]", "null", "Brand: A", "", '{"a": 1, "a": 2}', "[" * 100_000])
def test_k47_an_answer_that_is_no_object_scores_0_even_where_nothing_is_labelled(grade: Any, answer: str) -> None:
    for expected in ({"a": "x"}, {"a": None}):
        assert grade(answer, expected=expected, kind="values").score == 0


def test_the_answer_is_read_as_by_json(grade: Any) -> None:
    answer = '```json\n{"result": {"a": "x"}}\n```'
    assert grade(answer, expected={"a": "x"}, kind="values", pointer="/result").score == 1
    found = grade(answer, expected={"a": "x"}, kind="values", pointer="/lost")
    assert (found.score, found.reason) == (0.0, b"/lost is not in the answer")
    assert grade('{"a": "x"}', kind="values", value={"a": ["x"]}).score == 1


def test_r39_r41_a_wide_or_odd_answer_is_graded_and_its_reason_stays_short(grade: Any) -> None:
    wide = {f"p{n}" + "x" * 200: "v" for n in range(20_000)} | {"\ud800\0": "v", "a": "\ud800"}
    found = grade(json.dumps(wide), expected={"a": "\ud800"}, kind="values")
    assert found.score == 1
    assert found.reason.decode().endswith(" and 19,981 more")
    assert len(found.reason) < 2_000


def test_counting_can_be_asked_for_without_a_grader() -> None:
    """The example of the page: two right of three written and three labelled."""
    found = count_values({"A": "1", "B": ["2"], "Size": 3}, {"A": 1, "B": 2, "Size": 4, "C": 5}, ValueRules.of(ALL, ()))
    assert (found.right, found.written, found.labelled) == (2, 3, 3)
    assert (found.precision, found.recall, found.f1) == (2 / 3, 2 / 3, 2 / 3)
    assert (found.unlabelled, found.wrong) == (("C",), ("Size",))


def test_l43_the_published_figures_of_oa_mine_are_found_again(data_dir: Path, build: Any) -> None:
    """Five recorded runs over 491 titles against oa-mine/reference.json, micro counts and means over items.

    The source compares values after white space alone, so only that rule is on; it writes n/a for no value.
    """
    folder = data_dir / "oa-mine"
    reference = json.loads((folder / "reference.json").read_text(encoding="utf-8"))["runs"]
    grader = build(kind="values", ignore=["space"], no_value=["n/a"])
    rules = ValueRules.of(["space"], ["n/a"])
    seen = set()
    for path in sorted(folder.glob("past_runs/*/*.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as source:
            items = json.load(source)["examples"]
        labels = [{name: list(values) for name, values in item["target_scores"].items()} for item in items]

        async def scores(items: list[Any] = items, labels: list[Any] = labels) -> list[float | None]:
            cases = [Case(id="c", input="", expected=label, has_expected=True) for label in labels]
            pairs = zip(items, cases, strict=True)
            return [(await grader.grade(item["pred"].encode(), case=case, mark={})).score for item, case in pairs]

        wanted = reference[path.name.removesuffix(".gz")]
        found = [score for score in asyncio.run(scores()) if score is not None]
        counts = [
            count_values(label, json.loads(item["pred"]), rules) for item, label in zip(items, labels, strict=True)
        ]
        right, written, labelled = (sum(getattr(each, n) for each in counts) for n in ("right", "written", "labelled"))
        assert right == wanted["our_micro"]["counts"]["correct"]
        assert right / written == pytest.approx(wanted["our_micro"]["p"], abs=1e-6)
        assert right / labelled == pytest.approx(wanted["our_micro"]["r"], abs=1e-6)
        micro = wanted["published_micro"]
        published = [micro["micro_precision"], micro["micro_recall"], micro["micro_f1"]]
        ours = [100 * right / written, 100 * right / labelled, 200 * right / (written + labelled)]
        assert ours == pytest.approx(published, abs=0.0051)
        assert sum(len(each.unlabelled) for each in counts) == wanted["values_of_unlabelled_properties"]
        mean = wanted["mean_item"]
        assert sum(found) / 491 == pytest.approx(mean["f"], abs=1e-6)
        for name, short in (("precision", "p"), ("recall", "r")):
            defined = [getattr(each, name) for each in counts if getattr(each, name) is not None]
            assert sum(defined) / len(defined) == pytest.approx(mean[short], abs=1e-6)
        seen.add(path.name)
    assert len(seen) == len(reference) == 5
