"""`exp dataset`: datasets under a name, with versions."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cyclopts import App

from faces.cli.output import note, out, out_json, out_table
from faces.cli.settings import read_settings
from faces.cli.store import open_store
from fairtrial.reports.figures import count
from fairtrial.reports.safe import visible
from fairtrial.spec.dataset import dataset_from_content, load_dataset
from fairtrial.store.datasets import DatasetVersion, add_dataset, get_dataset, list_datasets, versions_of

Json = bool

app = App(name="dataset", help="Register datasets under a name, with versions.")


@app.command
def add(name: str, path: Path, /, *, json: Json = False) -> int:
    """Register a dataset file under a name; content that differs from the newest version makes a new one.

    Example:
      exp dataset add smoke cases.jsonl

    Parameters
    ----------
    name
        Letters, digits, _ and -.
    path
        A .jsonl or .json file, .gz allowed.
    json
        Print the version as JSON.
    """
    dataset = load_dataset(path)
    store = open_store(read_settings())
    digest = store.objects.put_blob(dataset.content)
    version, is_new = add_dataset(
        store.engine, name, digest=digest, n_cases=len(dataset.cases), source=str(path.absolute())
    )
    for warning in dataset.warnings:
        note(f"warning: {visible(warning)}")
    if json:
        out_json(_version_json(version) | {"new": is_new})
    else:
        same = "" if is_new else ", the same content as before"
        out(f"{version.name}@{version.version}  {count(version.n_cases, 'case')}  {version.hash[:12]}{same}")
    return 0


@app.command(name="list")
def list_(*, json: Json = False) -> int:
    """List the registered datasets with their newest versions.

    Parameters
    ----------
    json
        Print a JSON list.
    """
    store = open_store(read_settings())
    with store.engine.connect() as connection:
        found = list_datasets(connection)
    if json:
        out_json([_version_json(version) for version in found])
    elif not found:
        note("no datasets are registered; add one with: exp dataset add NAME FILE")
    else:
        _table(found)
    return 0


@app.command
def show(name: str, /, *, json: Json = False) -> int:
    """Show a dataset: its versions, and what its cases are.

    Example:
      exp dataset show smoke@1

    Parameters
    ----------
    name
        NAME, or NAME@VERSION.
    json
        Print JSON.
    """
    store = open_store(read_settings())
    with store.engine.connect() as connection:
        version = get_dataset(connection, name)
        versions = versions_of(connection, version.name)
    cases = dataset_from_content(store.objects.get_blob(version.hash)).cases
    kinds = Counter(case.kind for case in cases)
    splits = Counter(case.split or "none" for case in cases)
    labelled = sum(case.has_expected for case in cases)
    if json:
        about = {"kinds": dict(kinds), "splits": dict(splits), "n_labelled": labelled}
        out_json(_version_json(version) | about | {"versions": [_version_json(each) for each in versions]})
        return 0
    out(f"{version.name}@{version.version}  {count(version.n_cases, 'case')}, {labelled:,} with an expected value")
    out(f"kinds    {', '.join(f'{kind} {n:,}' for kind, n in kinds.most_common())}")
    out(f"splits   {', '.join(f'{visible(split)} {n:,}' for split, n in splits.most_common())}")
    out("")
    _table(versions)
    return 0


def _table(versions: list[DatasetVersion]) -> None:
    rows = [
        (
            f"{version.name}@{version.version}",
            f"{version.n_cases:,}",
            version.hash[:12],
            f"{datetime.fromtimestamp(version.created_at, UTC):%Y-%m-%d %H:%M}",
            visible(version.source),
        )
        for version in versions
    ]
    out_table(("dataset", "cases", "content", "added (UTC)", "from"), rows, right=(1,))


def _version_json(version: DatasetVersion) -> dict[str, Any]:
    return {
        "schema": "fairtrial/dataset/1",
        "name": version.name,
        "version": version.version,
        "hash": version.hash,
        "n_cases": version.n_cases,
        "source": version.source,
        "created_at": datetime.fromtimestamp(version.created_at, UTC).isoformat(),
    }
