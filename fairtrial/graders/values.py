"""The values grader: what an answer extracted, property by property, against the labels; the score is the F1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fairtrial.graders.json_reading import JsonReadingGrader, NotThere, path_text
from fairtrial.graders.reading import NoLabel, label_of
from fairtrial.graders.value_rules import ValueCounts, ValueRules, count_values
from fairtrial.hashing import canonical_json
from fairtrial.records.trial import Grade
from fairtrial.spec.case import Case
from fairtrial.spec.models import ValuesGrader

_NAMED: Final = 20
_SHOWN: Final = 60


class ExtractionGrader(JsonReadingGrader):
    """F1 of the values written for labelled properties. An answer that is no JSON object scores 0."""

    def __init__(self, spec: ValuesGrader, *, name: str, version: str, place: str):
        super().__init__(spec, name=name, version=version, place=place)
        self._value = spec.value
        self._rules = ValueRules.of(spec.ignore, spec.no_value)

    async def judge(self, text: str, case: Case) -> Grade:
        label = label_of(case, self._value)
        if isinstance(label, NoLabel):
            return self.no_score(label.reason)
        if not isinstance(label, dict):
            return self.no_score("the expected value is not an object of properties")
        if not label:
            return self.no_score("the expected value labels no property; null says that one should have no value")
        try:
            value, path = self.part_of(text)
        except NotThere as reason:
            return self.scored(0, str(reason))
        if not isinstance(value, dict):
            return self.scored(0, f"{path_text(path)} is not an object of properties")
        counts = count_values(label, value, self._rules)
        return self.scored(counts.f1, _reason(counts))


def _reason(counts: ValueCounts) -> str:
    lines = [
        f"tp {counts.right}, fp {counts.written - counts.right}, fn {counts.labelled - counts.right}; "
        f"precision {_share(counts.precision)}, recall {_share(counts.recall)}, F1 {_share(counts.f1)}"
    ]
    if counts.wrong:
        lines.append(f"wrong or missing: {_names(counts.wrong)}")
    if counts.unlabelled:
        lines.append(f"left out, without a label: {_names(counts.unlabelled)}")
    return "; ".join(lines)


def _share(value: float | None) -> str:
    return "none" if value is None else f"{value:.4f}"


def _names(names: Sequence[str]) -> str:
    listed = [_name(name) for name in names[:_NAMED]]
    more = len(names) - len(listed)
    return ", ".join(listed) + (f" and {more:,} more" if more else "")


def _name(name: str) -> str:
    text = canonical_json(name[: _SHOWN + 1]).decode("utf-8", "replace")[1:-1]
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
