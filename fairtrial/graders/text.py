"""Graders that compare the answer with the label: exact, iexact, contains, icontains.

A label that is text is compared as text; any other JSON value by its meaning, so the answer `{"b": 1, "a": 2}` equals
the label {"a": 2, "b": 1}. A list of texts means any of them.
"""

from __future__ import annotations

from collections.abc import Callable

from fairtrial.errors import SpecError
from fairtrial.graders.pattern import ReadingGrader
from fairtrial.graders.reading import NoLabel, json_or_none, json_text, label_of, same_json, same_rule
from fairtrial.hashing import JsonValue, canonical_json
from fairtrial.records.trial import Grade
from fairtrial.spec.case import Case
from fairtrial.spec.models import ContainsGrader, ExactGrader


class EqualGrader(ReadingGrader):
    """1 when the answer equals the label; `iexact` by case folding."""

    def __init__(self, spec: ExactGrader, *, name: str, version: str, place: str):
        super().__init__(spec, name=name, version=version, place=place)
        self._value = spec.value
        self._fold: Callable[[str], str] = str.casefold if spec.kind == "iexact" else str

    async def judge(self, text: str, case: Case) -> Grade:
        label = label_of(case, self._value)
        if isinstance(label, NoLabel):
            return self.no_score(label.reason)
        equal = self._is_equal(text, label)
        return self.scored(equal, "" if equal else "the output differs from the expected value")

    def _is_equal(self, text: str, label: JsonValue) -> bool:
        if isinstance(label, str):
            return self._prepared(label) == self._fold(text)
        if isinstance(label, list) and label and all(isinstance(item, str) for item in label):
            return any(self._is_equal(text, item) for item in label)
        is_json, value = json_or_none(text)
        if is_json and same_json(value, label):
            return True
        # `True` is no JSON, yet iexact takes it for true; parsed first, so that white space and key order do not count.
        spoken = canonical_json(value).decode("utf-8", "surrogatepass") if is_json else text
        return self._prepared(json_text(label)) == self._fold(same_rule(spoken))

    def _prepared(self, label: str) -> str:
        label = same_rule(label)
        return self._fold(label.strip() if self.strips else label)


class PartGrader(ReadingGrader):
    """1 when the answer contains the label; of a list, any or all of its texts. `icontains` by case folding."""

    def __init__(self, spec: ContainsGrader, *, name: str, version: str, place: str):
        super().__init__(spec, name=name, version=version, place=place)
        self._value: JsonValue = [*spec.value] if isinstance(spec.value, list) else spec.value
        self._enough = all if spec.match == "all" else any
        self._fold: Callable[[str], str] = str.casefold if spec.kind == "icontains" else str
        if self._value is not None and not self._parts(self._value):
            raise SpecError(
                "an empty text is in every answer, so it would always pass.",
                hint="Give a text, or leave value out to use the case's expected value.",
                place=f"{place}.value",
            )

    async def judge(self, text: str, case: Case) -> Grade:
        label = label_of(case, self._value)
        if isinstance(label, NoLabel):
            return self.no_score(label.reason)
        parts = self._parts(label)
        if not parts:
            return self.no_score("the expected value is an empty text or list, which every answer contains")
        folded = self._fold(text)
        found = self._enough(part in folded for part in parts)
        return self.scored(found, "" if found else "the output does not contain the expected text")

    def _parts(self, label: JsonValue) -> list[str]:
        """Return the texts to look for; empty when one of them is empty, as it would pass everything."""
        items = label if isinstance(label, list) else [label]
        texts = [json_text(item) for item in items]
        parts = [self._fold(text.strip() if self.strips else text) for text in texts]
        return parts if all(parts) else []
