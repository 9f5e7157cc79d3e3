"""Registered datasets: a name, its versions, and what tells a name from a path."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Engine

from fairtrial.errors import SpecError
from fairtrial.spec.files import is_path
from fairtrial.store.datasets import add_dataset, get_dataset, list_datasets, versions_of


def add(engine: Engine, name: str, content: str) -> tuple[int, bool]:
    version, new = add_dataset(engine, name, digest=content * 64, n_cases=3, source=f"./{name}.jsonl")
    return version.version, new


def test_a_version_is_added_only_when_the_content_differs_from_the_newest(engine: Engine) -> None:
    assert [add(engine, "qa", content) for content in "aabbab"] == [
        (1, True),
        (1, False),
        (2, True),
        (2, False),
        # Content that an older version had is new again when the newest has other content.
        (3, True),
        (4, True),
    ]
    assert add(engine, "other", "a") == (1, True)
    with engine.connect() as connection:
        assert [version.version for version in versions_of(connection, "qa")] == [4, 3, 2, 1]
        assert [(version.name, version.version) for version in list_datasets(connection)] == [("other", 1), ("qa", 4)]
        assert versions_of(connection, "none") == []


def test_a_name_is_the_newest_version_and_name_at_number_that_one(engine: Engine) -> None:
    for content in "ab":
        add(engine, "qa", content)
    with engine.connect() as connection:
        assert get_dataset(connection, "qa").hash == "b" * 64
        assert get_dataset(connection, "qa@1").hash == "a" * 64
        assert get_dataset(connection, "qa@2") == get_dataset(connection, "qa")
        assert get_dataset(connection, "qa@2").source == "./qa.jsonl"


@pytest.mark.parametrize(
    "text",
    ["none", "qa@3", "qa@0", "qa@", "qa@latest", "qa@-1", "qa@1@1", "qa@²", "qa@" + "9" * 30, "QA", "", "@1", "é"],
)
def test_k39_what_is_not_registered_is_refused_with_what_is(engine: Engine, text: str) -> None:
    add(engine, "qa", "a")
    with engine.connect() as connection, pytest.raises(SpecError) as refused:
        get_dataset(connection, text)
    assert (refused.value.code, refused.value.exit_status) == ("unknown_dataset", 64)
    assert "qa" in str(refused.value) or "@1" in str(refused.value)


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "a.jsonl", "../x", "a b", "a@1", "é", "-x", "_x", "a\n", "a\0", "a" * 81, "C:\\x"]
)
def test_a_name_that_could_be_a_path_cannot_be_registered(engine: Engine, name: str, ask: Any) -> None:
    with pytest.raises(SpecError) as refused:
        add(engine, name, "a")
    assert refused.value.code == "bad_usage"
    assert ask("select count(*) from dataset") == [(0,)]


def test_k93_a_file_whose_name_is_no_text_can_be_registered(engine: Engine) -> None:
    # The byte ff in a file name, as Python hands it over.
    version, _ = add_dataset(engine, "odd", digest="a" * 64, n_cases=1, source="./\udcff.jsonl")
    with engine.connect() as connection:
        assert get_dataset(connection, "odd") == version
    assert version.source == "./\\udcff.jsonl"


@pytest.mark.parametrize("text", ["a/b", "./a", "a.jsonl", "C:\\data\\q", "..", "a@2.jsonl", "/abs", "\\\\server\\x"])
def test_k93_a_slash_or_a_suffix_makes_it_a_path(text: str) -> None:
    assert is_path(text)


@pytest.mark.parametrize("text", ["qa", "qa@3", "a-b_c", "qa@"])
def test_anything_else_is_a_name(text: str) -> None:
    assert not is_path(text)


ADDER = """
    import sys
    from fairtrial.store.database import open_database
    from fairtrial.store.datasets import add_dataset

    engine = open_database(sys.argv[1])
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(25):
        add_dataset(engine, "qa", digest=f"{sys.argv[2]}{number:063d}", n_cases=1, source="x")
    print("done", flush=True)
"""


def test_two_processes_that_add_at_once_count_on_from_each_other(child: Any, database_url: str, engine: Engine) -> None:
    pair = [child(ADDER, database_url, side) for side in "ab"]
    assert [each.line() for each in pair] == ["ready", "ready"]
    for each in pair:
        each.tell("go")
    assert [each.line() for each in pair] == ["done", "done"]
    with engine.connect() as connection:
        found = versions_of(connection, "qa")
    assert [version.version for version in found] == list(range(50, 0, -1))
    assert len({version.hash for version in found}) == 50
