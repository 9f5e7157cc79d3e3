"""The json grader: the answer as a JSON value against the expected one."""

from __future__ import annotations

from decimal import Decimal

from fairtrial.graders.json_compare import MAX_STEPS, Rules, TooLarge, first_difference
from fairtrial.graders.json_reading import JsonReadingGrader, NotThere
from fairtrial.graders.reading import NoLabel, label_of
from fairtrial.records.trial import Grade
from fairtrial.spec.case import Case
from fairtrial.spec.models import JsonGrader


class ValueGrader(JsonReadingGrader):
    """1 when the answer's value is the label, or holds all of it; the reason names the first path that differs."""

    def __init__(self, spec: JsonGrader, *, name: str, version: str, place: str):
        super().__init__(spec, name=name, version=version, place=place)
        self._value = spec.value
        self._rules = Rules(spec.match == "subset", spec.unordered, Decimal(repr(spec.tolerance)))

    async def judge(self, text: str, case: Case) -> Grade:
        label = label_of(case, self._value)
        if isinstance(label, NoLabel):
            return self.no_score(label.reason)
        try:
            value, path = self.part_of(text)
            told = first_difference(label, value, self._rules, path)
        except NotThere as reason:
            return self.scored(0, str(reason))
        except TooLarge:
            return self.error(f"pairing the elements would take more than {MAX_STEPS:,} steps")
        return self.scored(told is None, told or "")
