"""Which cases of a dataset run. Order is always dataset order, whatever order the ids were given in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fairtrial.errors import SpecError
from fairtrial.hashing import JsonValue
from fairtrial.spec.case import Case
from fairtrial.spec.text import nearest, shown


@dataclass(frozen=True, slots=True)
class Selection:
    """What was asked for; with both, the first n of the named cases. Neither: everything."""

    first_n: int | None = None
    cases: tuple[str, ...] = ()

    def to_json(self) -> dict[str, JsonValue]:
        """Return the selection as a JSON object; equal selections give equal objects."""
        return {"first_n": self.first_n, "cases": list(self.cases)}

    @classmethod
    def from_json(cls, document: dict[str, JsonValue]) -> Selection:
        """Return the selection that to_json wrote. Raises SpecError for anything else."""
        first_n, cases = document.get("first_n"), document.get("cases", [])
        is_count = first_n is None or (isinstance(first_n, int) and not isinstance(first_n, bool))
        if not is_count or not isinstance(cases, list):
            raise SpecError("a selection has first_n, a whole number or null, and cases, a list of ids.")
        ids = tuple(case for case in cases if isinstance(case, str))
        if len(ids) != len(cases) or set(document) - {"first_n", "cases"}:
            raise SpecError("a selection has first_n and cases only, and the cases are ids.")
        return cls(first_n=first_n if isinstance(first_n, int) else None, cases=ids)


def select(dataset_cases: Sequence[Case], selection: Selection) -> tuple[Case, ...]:
    """Return the cases to run, in dataset order.

    Raises SpecError: bad_usage for an id the dataset has not, with the nearest ones it has, and for a first_n below 1;
    nothing_selected when no case is left.
    """
    if selection.first_n is not None and selection.first_n < 1:
        raise SpecError(
            f"--first-n {selection.first_n} leaves nothing.",
            code="bad_usage",
            hint="The least is 1.",
            place="--first-n",
        )
    chosen = list(dataset_cases)
    if selection.cases:
        _refuse_unknown(selection.cases, chosen)
        wanted = frozenset(selection.cases)
        chosen = [case for case in chosen if case.id in wanted]
    if selection.first_n is not None:
        chosen = chosen[: selection.first_n]
    if not chosen:
        raise SpecError("no case is selected.", code="nothing_selected", hint="Check the dataset and the filters.")
    return tuple(chosen)


def _refuse_unknown(ids: Sequence[str], cases: Sequence[Case]) -> None:
    known = {case.id for case in cases}
    unknown = [case_id for case_id in ids if case_id not in known]
    if not unknown:
        return
    near = nearest(unknown[0], (case.id for case in cases), limit=3)
    names = near or [case.id for case in cases[:3]]
    listed = ", ".join(shown(name) for name in names)
    others = f" (and {len(unknown) - 1} more)" if len(unknown) > 1 else ""
    raise SpecError(
        f"the dataset has no case {shown(unknown[0])}{others}.",
        code="bad_usage",
        hint=f"The nearest are {listed}." if near else f"Its cases begin {listed}.",
        place="--case",
    )
