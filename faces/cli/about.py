"""`exp graders` and `exp schema`: what can be written."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Literal

from faces.cli.output import out, out_json, out_table
from fairtrial.errors import SpecError
from fairtrial.graders.catalogue import catalogue
from fairtrial.records.verdict import ComparisonDocument, RunDocument
from fairtrial.spec.schema import case_schema, spec_schema


def graders(kind: str | None = None, /, *, json: bool = False) -> int:
    """List the graders and their settings.

    Examples:
      exp graders
      exp graders number

    Parameters
    ----------
    kind
        Only this kind, with every setting.
    json
        Print a JSON list.
    """
    found = [entry for entry in catalogue() if kind in (None, entry.kind)]
    if not found:
        known = ", ".join(entry.kind for entry in catalogue())
        raise SpecError(f"there is no grader {kind!r}.", code="bad_usage", hint=f"Known: {known}.")
    if json:
        out_json([asdict(entry) for entry in found])
        return 0
    if kind is None:
        out_table(("grader", "what it does"), [(entry.kind, entry.about) for entry in found])
        return 0
    for entry in found:
        out(f"{entry.kind}: {entry.about}", "")
        rows = [(each.name, each.type, each.default or "required", each.about) for each in entry.parameters]
        out_table(("setting", "type", "default", "what it is"), rows)
    return 0


def schema(what: Literal["spec", "case", "run", "comparison"] = "spec", /) -> int:
    """Print the JSON Schema of a spec, of a dataset's case, or of a stored verdict.

    Example:
      exp schema spec > spec.schema.json

    Parameters
    ----------
    what
        spec, case, run (verdict.json of a run) or comparison.
    """
    documents: dict[str, Any] = {"run": RunDocument, "comparison": ComparisonDocument}
    if what in documents:
        out_json(documents[what].model_json_schema())
    else:
        out_json(spec_schema() if what == "spec" else case_schema())
    return 0
