"""Reports written to files that a person names; the suffix says the form."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from faces.cli.output import note
from fairtrial.errors import SpecError
from fairtrial.records.verdict import ComparisonDocument, RunDocument, to_json
from fairtrial.reports.comparison import comparison_lines, comparison_markdown
from fairtrial.reports.run import run_lines, run_markdown

SUFFIXES: Final = (".md", ".txt", ".json")


def check_outputs(paths: Sequence[Path]) -> None:
    """Raise SpecError for an output that cannot be written, before anything is run."""
    for path in paths:
        if path.suffix not in SUFFIXES:
            raise SpecError(
                f"-o {path}: the suffix {path.suffix!r} is no form of report.",
                code="bad_usage",
                hint=f"Known: {', '.join(SUFFIXES)}.",
            )
        if not path.absolute().parent.is_dir():
            raise SpecError(f"-o {path}: the folder {path.parent} is not there.", code="bad_usage", hint="Make it.")
        if path.is_dir():
            raise SpecError(f"-o {path}: that is a folder.", code="bad_usage", hint="Name a file.")


def write_outputs(paths: Sequence[Path], documents: Sequence[RunDocument | ComparisonDocument]) -> None:
    """Write the reports to each path. A path that fails is named; the verdict stands and the others are written."""
    for path in paths:
        try:
            path.write_text(_form(path.suffix, documents), encoding="utf-8")
        except OSError as error:
            note(f"warning: {path} was not written: {error.strerror}")


def _form(suffix: str, documents: Sequence[RunDocument | ComparisonDocument]) -> str:
    if suffix == ".json":
        forms = [to_json(document) for document in documents]
        return json.dumps(forms[0] if len(forms) == 1 else forms, ensure_ascii=False, allow_nan=False, indent=2) + "\n"
    texts = [_markdown(document) if suffix == ".md" else _text(document) for document in documents]
    return "\n".join(text.rstrip("\n") + "\n" for text in texts)


def _markdown(document: RunDocument | ComparisonDocument) -> str:
    if isinstance(document, RunDocument):
        return run_markdown(document.body, document.meta)
    return comparison_markdown(document.body, document.meta)


def _text(document: RunDocument | ComparisonDocument) -> str:
    if isinstance(document, RunDocument):
        return "\n".join(run_lines(document.body, document.meta))
    return "\n".join(comparison_lines(document.body, document.meta))
