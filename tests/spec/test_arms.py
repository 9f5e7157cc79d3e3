"""What arms must share, and every setting they do not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fairtrial.errors import SpecError
from fairtrial.spec.arms import ArmSpec, Difference, check_arms, parse_arm, settings_that_differ
from fairtrial.spec.loader import parse_spec
from fairtrial.spec.models import ExperimentSpec

BASE: dict[str, Any] = {
    "dataset": "q.jsonl",
    "task": {"kind": "command", "command": ["agent"], "env": {"MODEL": "small"}},
    "graders": [{"kind": "exact"}],
    "seed": 7,
}


def arm(arm_name: str, folder: Path = Path("/specs"), /, **changes: Any) -> ArmSpec:
    return ArmSpec(arm_name, parse_spec({**BASE, **changes}, place=arm_name, folder=folder))


def spec(**changes: Any) -> ExperimentSpec:
    return arm("x", **changes).loaded.spec


def refused(*arms: ArmSpec) -> SpecError:
    with pytest.raises(SpecError) as caught:
        check_arms(arms)
    assert caught.value.exit_status == 64
    return caught.value


# --- names


@pytest.mark.parametrize(
    ("text", "path"),
    [
        (r"arm=C:\x.json", r"C:\x.json"),
        (r"arm=\\server\share\q.json", r"\\server\share\q.json"),
        ("arm=a=b.json", "a=b.json"),
        ("arm=données 📁/é.json", "données 📁/é.json"),
        ("arm=s3://x/y.json", "s3://x/y.json"),
    ],
)
def test_k93_an_arm_splits_at_the_first_equals_sign_only(text: str, path: str):
    name, given = parse_arm(text)
    assert (name, given) == ("arm", path)


@pytest.mark.parametrize(
    "text",
    ["arm", "", "=x.json", "arm=", "arm= ", "a b=x.json", "a/b=x.json", "é=x.json", "x" * 61 + "=x", "EXP_1=x.json"],
)
def test_an_arm_that_cannot_be_named_is_refused(text: str):
    with pytest.raises(SpecError) as caught:
        parse_arm(text)
    assert caught.value.code == "bad_usage"


def test_names_of_arms_are_unique_without_regard_to_case():
    check_arms([arm("base"), arm("cand-1.2_x")])
    assert refused(arm("base"), arm("Base")).code == "bad_usage"
    assert refused(arm("exp_1"), arm("b")).code == "bad_usage"


# --- what must agree


def test_arms_may_differ_in_task_and_limits():
    other = {"kind": "recorded", "path": "x.jsonl"}
    check_arms([arm("a"), arm("b", task=other, limits={"retries": 0}, name="n", tags=["t"], description="d")])
    check_arms(
        [arm("a", graders=[{"kind": "exact", "name": "one"}]), arm("b", graders=[{"kind": "exact", "name": "two"}])]
    )
    check_arms([arm("a", trials=1), arm("b")])


def test_arms_that_disagree_are_refused_naming_every_difference():
    error = refused(
        arm("a"),
        arm("b", dataset="other.jsonl", trials=3),
        arm("c", graders=[{"kind": "iexact"}, {"kind": "regex", "pattern": "x"}], seed=8),
    )
    assert error.code == "arms_disagree"
    assert error.message.split("\n  ")[1:] == [
        "dataset: q.jsonl in a, other.jsonl in b",
        "trials: 1 in a, 3 in b",
        "graders[0]: exact in a, iexact in c",
        "graders[1]: not set in a, regex in c",
        "seed: 7 in a, 8 in c.",
    ]
    number = {"kind": "number", "value": 1}
    error = refused(arm("a", graders=[number]), arm("b", graders=[{**number, "tolerance": 0.5}]))
    assert error.message.endswith("\n  graders[0].tolerance: 0 in a, 0.5 in b.")


def test_a_seed_in_one_arm_only_is_a_disagreement():
    assert "seed: 7 in a, not set in b" in refused(arm("a"), arm("b", seed=None)).message


def test_k93_files_are_compared_from_each_specs_own_folder(tmp_path: Path):
    one, two = tmp_path / "one", tmp_path / "two"
    python = {"kind": "python", "path": "g.py"}
    check_arms([arm("a", one, dataset="../q.jsonl"), arm("b", two, dataset=f"{tmp_path}/q.jsonl")])
    check_arms(
        [
            arm("a", one, graders=[python], dataset="n"),
            arm("b", one, graders=[{**python, "path": "./g.py"}], dataset="n"),
        ]
    )
    absolute = {**python, "path": f"{one}/g.py"}
    check_arms([arm("a", one, graders=[python], dataset="n"), arm("b", two, graders=[absolute], dataset="n")])
    message = refused(arm("a", one), arm("b", two)).message
    assert f"dataset: {one}/q.jsonl in a, {two}/q.jsonl in b" in message
    graders = refused(arm("a", one, graders=[python], dataset="n"), arm("b", two, graders=[python], dataset="n"))
    assert "graders[0].path" in graders.message
    command = {"kind": "command", "command": ["python3", "g.py"]}
    graders = refused(arm("a", one, graders=[command], dataset="n"), arm("b", two, graders=[command], dataset="n"))
    assert f"graders[0].cwd: {one} in a, {two} in b" in graders.message
    in_one = [{**command, "cwd": "../one"}]
    check_arms([arm("a", one, graders=[command], dataset="n"), arm("b", two, graders=in_one, dataset="n")])
    assert "dataset" in refused(arm("a", one, dataset="q@2.jsonl"), arm("b", two, dataset="q@2.jsonl")).message
    # A name is no path and means the same dataset from everywhere.
    check_arms([arm("a", one, dataset="smoke@1"), arm("b", two, dataset="smoke@1")])
    assert "smoke@1 in a, smoke@2 in b" in refused(arm("a", dataset="smoke@1"), arm("b", dataset="smoke@2")).message


# --- differences


def test_k33_every_setting_that_differs_is_listed():
    a = spec(limits={"trial_timeout_s": 60, "retries": 1})
    b = spec(
        limits={"trial_timeout_s": 300, "max_tokens": 4000, "max_cost_usd": "2.50"},
        task={
            "kind": "command",
            "command": ["agent", "-v"],
            "env": {"MODEL": "big", "KEY": {"from_env": "K"}},
            "stdin": "json",
        },
        trials=3,
    )
    assert settings_that_differ(a, b) == [
        Difference("task.command", '["agent"]', '["agent","-v"]'),
        Difference("task.env.MODEL", "small", "big"),
        Difference("task.stdin", "text", "json"),
        Difference("trials", "1", "3"),
        Difference("limits.trial_timeout_s", "60", "300"),
        Difference("limits.retries", "1", "3"),
        Difference("limits.max_cost_usd", "not set", "2.50"),
        Difference("limits.max_tokens", "not set", "4000"),
        Difference("task.env.KEY", "not set", "from $K"),
    ]


def test_k33_a_default_that_is_spelt_out_is_no_difference():
    plain = {"kind": "command", "command": ["agent"], "env": {"MODEL": "small"}}
    assert (
        settings_that_differ(
            spec(),
            spec(
                limits={"retries": 3, "max_loss": 0.05},
                task={**plain, "stdin": "text", "cwd": None},
                name="n",
                tags=["t"],
            ),
        )
        == []
    )
    money = [spec(limits={"max_cost_usd": price}) for price in ("2.50", 2.5)]
    assert settings_that_differ(*money) == []


def test_k33_tasks_of_two_kinds_differ_in_every_key_that_is_set():
    found = {
        d.path: (d.a, d.b) for d in settings_that_differ(spec(), spec(task={"kind": "recorded", "path": "x.jsonl"}))
    }
    assert found["task.kind"] == ("command", "recorded")
    assert found["task.path"] == ("not set", "x.jsonl")
    assert found["task.env.MODEL"] == ("small", "not set")


def test_k33_a_secret_is_shown_by_its_name_and_apart_from_the_same_text():
    def with_key(value: Any) -> ExperimentSpec:
        return spec(task={**BASE["task"], "env": {"KEY": value}})

    assert settings_that_differ(with_key({"from_env": "A"}), with_key({"from_env": "B"})) == [
        Difference("task.env.KEY", "from $A", "from $B")
    ]
    assert settings_that_differ(with_key({"from_env": "A"}), with_key("from $A")) == [
        Difference("task.env.KEY", '{"from_env":"A"}', '"from $A"')
    ]
    assert settings_that_differ(spec(graders=[{"kind": "number", "value": 1}]), spec(graders=[{"kind": "number"}])) == [
        Difference("graders[0].value", "1", "not set")
    ]


def test_k33_long_values_are_cut_where_they_begin_to_differ():
    a, b = ("x" * 500 + end + "y" * 500 for end in ("first", "second"))
    (found,) = settings_that_differ(
        spec(task={**BASE["task"], "env": {"P": a, "MODEL": "small"}}),
        spec(task={**BASE["task"], "env": {"P": b, "MODEL": "small"}}),
    )
    assert "first" in found.a
    assert "second" in found.b
    assert max(len(found.a), len(found.b)) <= 80


def test_k33_stored_documents_are_compared_the_same_way():
    a = {"task": {"kind": "command", "env": {"KEY": {"from_env": "K"}}}, "trials": 3, "graders": {"exact": "v1"}}
    b = {"task": {"kind": "command", "env": {"KEY": {"from_env": "L"}}}, "trials": "3", "graders": {"exact": "v2"}}
    assert settings_that_differ(a, b) == [
        Difference("task.env.KEY", "from $K", "from $L"),
        Difference("trials", "3", '"3"'),
        Difference("graders.exact", "v1", "v2"),
    ]


def test_differences_are_symmetric():
    a, b = spec(limits={"retries": 1}), spec(trials=2, task={"kind": "recorded", "path": "x.jsonl"})
    there = {(d.path, d.a, d.b) for d in settings_that_differ(a, b)}
    assert there == {(d.path, d.b, d.a) for d in settings_that_differ(b, a)}
