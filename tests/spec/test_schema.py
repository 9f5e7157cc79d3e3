"""The schemas and the page say what the models do."""

from __future__ import annotations

import ast
import inspect
import json
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from fairtrial.errors import SpecError
from fairtrial.spec import examples
from fairtrial.spec.arms import ArmSpec, check_arms, settings_that_differ
from fairtrial.spec.dataset import LINE_SUFFIXES, LIST_SUFFIXES, RECORD_KEYS, load_dataset
from fairtrial.spec.loader import SPEC_SUFFIXES, load_spec, parse_grader, parse_spec
from fairtrial.spec.models import ExperimentSpec, GraderSpec, Limits, RecordedTask, Task
from fairtrial.spec.schema import case_schema, spec_markdown, spec_schema
from fairtrial.spec.shape import all_kinds, models_in
from fairtrial.spec.text import (
    MAX_DATASET_BYTES,
    MAX_DEPTH,
    MAX_INTEGER_DIGITS,
    MAX_JSON_BYTES,
    MAX_LINE_BYTES,
    MAX_SPEC_BYTES,
    MAX_YAML_NODES,
)

DOCS = Path(__file__).parents[2] / "docs"


def valid(document: Any, schema: Any) -> bool:
    return jsonschema.Draft202012Validator(schema).is_valid(document)


def test_docs_spec_md_is_what_the_generator_gives():
    assert (DOCS / "spec.md").read_text(encoding="utf-8") == spec_markdown(), (
        "write spec_markdown() to docs/spec.md again"
    )


def test_every_key_and_kind_is_documented():
    page = spec_markdown()
    for model in (ExperimentSpec, Limits, *models_in(Task), *models_in(GraderSpec)):
        assert (model.__doc__ or "").strip()
        for name, field in model.model_fields.items():
            key = field.alias or name
            assert key == "kind" or (f"| `{key}` |" in page and field.description), f"{model.__name__}.{key}"


def test_there_is_an_example_of_every_kind_and_of_no_other():
    assert set(examples.TASKS) == set(all_kinds(models_in(Task)))
    assert set(examples.GRADERS) == set(all_kinds(models_in(GraderSpec)))


def fenced(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)


def test_c01_every_example_of_the_page_is_a_valid_spec_task_or_grader(tmp_path: Path):
    page = (DOCS / "spec.md").read_text(encoding="utf-8")
    head, rest = page.split("## Tasks", 1)
    tasks, graders = rest.split("## Graders", 1)
    whole = [("json", text) for text in fenced(head, "json")]
    whole += [(language, text) for language in ("yaml", "toml") for text in fenced(head, language)]
    specs = []
    for language, text in whole:
        path = tmp_path / f"s.{language}"
        path.write_text(text, encoding="utf-8")
        specs.append(load_spec(path).spec)
    assert len(specs) == 3
    assert specs[0] == specs[1] == specs[2]
    for text in fenced(tasks, "json"):
        document = {"task": json.loads(text)}
        assert parse_spec(document, place="docs", folder=tmp_path).spec.task
        assert valid(document, spec_schema())
    for text in fenced(graders, "json"):
        grader = parse_grader(text, place="docs")
        document = {"task": examples.TASKS["command"], "graders": [json.loads(text)]}
        assert grader in parse_spec(document, place="docs", folder=tmp_path).spec.graders
        assert valid(document, spec_schema())
    assert (len(fenced(tasks, "json")), len(fenced(graders, "json"))) == (len(examples.TASKS), len(examples.GRADERS))


EXAMPLES = Path(__file__).parents[2] / "examples"
SHIPPED = sorted(path for suffix in SPEC_SUFFIXES for path in EXAMPLES.glob(f"*/*{suffix}"))


def test_c01_there_are_example_specs_of_both_kinds_of_task():
    kinds = {load_spec(path).spec.task.kind for path in SHIPPED}
    assert kinds == {"command", "recorded"}


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_c01_every_example_spec_is_valid_and_so_are_its_dataset_and_its_files(path: Path):
    loaded = load_spec(path)
    assert valid(json.loads(path.read_text(encoding="utf-8")), spec_schema())
    assert loaded.spec.dataset is not None
    dataset = load_dataset(loaded.folder / loaded.spec.dataset)
    assert dataset.warnings == ()
    for line in (loaded.folder / loaded.spec.dataset).read_text(encoding="utf-8").splitlines():
        assert valid(json.loads(line), case_schema())
    task = loaded.spec.task
    files = [task.path] if isinstance(task, RecordedTask) else (task.files or [])
    assert files
    assert all((loaded.folder / name).is_file() for name in files)


@pytest.mark.parametrize(
    "folder", sorted({path.parent for path in SHIPPED}, key=lambda folder: folder.name), ids=lambda folder: folder.name
)
def test_c01_the_example_specs_of_a_folder_can_be_arms_of_one_experiment(folder: Path):
    arms = [ArmSpec(path.stem, load_spec(path)) for path in SHIPPED if path.parent == folder]
    assert len(arms) > 1
    check_arms(arms)
    assert settings_that_differ(arms[0].loaded.spec, arms[1].loaded.spec) != []


@pytest.mark.parametrize(
    "change",
    [
        {"nam": "x"},
        {"trials": "3"},
        {"trials": 0},
        {"task": {"kind": "comand", "command": "x"}},
        {"task": {"kind": "command"}},
        {"graders": [{"kind": "regex"}]},
        {"graders": [{"kind": "exact", "x": 1}]},
        {"limits": {"retries": -1}},
        {"tags": "x"},
        {"task": {"kind": "command", "command": "x", "env": {"A": 5}}},
    ],
)
def test_what_the_loader_refuses_the_schema_refuses_too(change: dict[str, Any]):
    document = {**examples.SPEC, **change}
    assert not valid(document, spec_schema())
    with pytest.raises(SpecError):
        parse_spec(document, place="x", folder=Path("/x"))


def test_both_schemas_are_schemas():
    for schema in (spec_schema(), case_schema()):
        jsonschema.Draft202012Validator.check_schema(schema)
        assert json.loads(json.dumps(schema)) == schema
    assert set(case_schema()["properties"]) == set(RECORD_KEYS)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("record", "is_valid"),
    [
        ({"input": 1}, True),
        (
            {"input": None, "id": 7, "expected": None, "kind": None, "tags": None, "split": "a", "group": 3, "x": {}},
            True,
        ),
        ({"input": 1, "id": "a", "kind": "guard", "tags": ["a"]}, True),
        ({"id": "a"}, False),
        ({"input": 1, "id": ""}, False),
        ({"input": 1, "id": "x" * 501}, False),
        ({"input": 1, "id": 7.5}, False),
        ({"input": 1, "kind": "guards"}, False),
        ({"input": 1, "tags": "a"}, False),
        ({"input": 1, "tags": [1]}, False),
        ({"input": 1, "split": []}, False),
        ([1], False),
    ],
)
def test_the_case_schema_and_the_loader_agree(tmp_path: Path, record: Any, is_valid: bool):
    assert valid(record, case_schema()) == is_valid
    path = tmp_path / "q.json"
    path.write_text(json.dumps([record]))
    if is_valid:
        assert len(load_dataset(path).cases) == 1
    else:
        with pytest.raises(SpecError):
            load_dataset(path)


def test_docs_datasets_md_names_every_key_suffix_and_limit(tmp_path: Path):
    page = (DOCS / "datasets.md").read_text(encoding="utf-8")
    for word in (*RECORD_KEYS, *(suffix for suffix in LINE_SUFFIXES + LIST_SUFFIXES if not suffix.endswith(".gz"))):
        assert f"`{word}`" in page
    mib = 1024**2
    for limit in (
        f"{MAX_SPEC_BYTES // mib} MiB, and {MAX_YAML_NODES:,} nodes",
        f"{MAX_JSON_BYTES // mib} MiB",
        f"{MAX_LINE_BYTES // mib} MiB",
        f"{MAX_DATASET_BYTES // mib // 1024} GiB",
        f"| {MAX_DEPTH} |",
        f"{MAX_INTEGER_DIGITS:,} digits",
    ):
        assert limit in page
    (example,) = fenced(page, "json")
    path = tmp_path / "q.jsonl"
    path.write_text(example, encoding="utf-8")
    (case,) = load_dataset(path).cases
    assert (case.id, case.kind, case.fields) == ("refund-1", "bad", {"topic": "returns"})


def test_links_of_the_pages_lead_somewhere():
    for page in (DOCS / "spec.md", DOCS / "datasets.md", *sorted((DOCS / "decisions").glob("000[23]*.md"))):
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).is_file(), f"{page.name}: {target}"


# --- the messages of docs/datasets.md

READERS = ("dataset", "files", "strict_csv", "strict_json", "strict_toml", "strict_yaml", "text")


def as_pattern(node: ast.expr) -> str | None:
    """Return what a text of the source can become, as a regular expression; None for what is no text."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return re.escape(node.value)
    if isinstance(node, ast.JoinedStr):
        parts = (re.escape(part.value) if isinstance(part, ast.Constant) else ".*" for part in node.values)
        return "".join(parts)
    if isinstance(node, ast.BinOp):
        return f"{as_pattern(node.left)}{as_pattern(node.right)}"
    return None


def texts_in_source() -> tuple[set[str], set[str]]:
    """Return patterns of every sentence in the readers, and of those that an error is made with on the spot."""
    sentences, raised = set(), set()
    for module in READERS:
        tree = ast.parse(Path(inspect.getfile(import_module(f"fairtrial.spec.{module}"))).read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            pattern = as_pattern(node) if isinstance(node, ast.expr) else None
            if pattern is not None:
                # `format` fills what an f-string would.
                sentences.add(re.sub(r"\\\{.*?\\\}", ".*", pattern))
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("InputError", "_bad", "self._error"):
                message = as_pattern(node.args[0])
                if message is not None:
                    raised.add(message)
    return {sentence for sentence in sentences if len(sentence.replace(".*", "")) > 12}, raised


def messages_of_the_page() -> list[str]:
    page = (DOCS / "datasets.md").read_text(encoding="utf-8").partition("## What is refused")[2]
    return re.findall(r"^\| `(.*?)` \|", page, re.MULTILINE)


def test_r47_docs_datasets_md_has_every_message_of_the_readers():
    messages = messages_of_the_page()
    _, raised = texts_in_source()
    assert len(raised) > 40
    assert [pattern for pattern in sorted(raised) if not any(re.fullmatch(pattern, text) for text in messages)] == []


def test_r47_docs_datasets_md_has_no_message_that_no_reader_gives():
    sentences, _ = texts_in_source()
    assert [text for text in messages_of_the_page() if not any(re.fullmatch(one, text) for one in sentences)] == []
