"""When two values of a property are the same one, and how many of those written are right.

Precision is right over written, recall right over labelled, F1 2 · right over written + labelled, by the values of
labelled properties alone; what is written for other properties counts nowhere.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, TypeAlias

from fairtrial.graders.number_text import MAX_DIGITS, MAX_EXPONENT
from fairtrial.graders.reading import json_text, same_rule
from fairtrial.hashing import JsonValue

Value: TypeAlias = str | Decimal

# A leading zero makes a text a code, not a number: 0151 is not 151.
_NUMBER: Final = re.compile(
    r"([+\-−]?)((?:[1-9][0-9]{0,2}(?:,[0-9]{3})+|0|[1-9][0-9]*)(?:\.[0-9]+)?)(?:[eE]([+-]?[0-9]{1,5}))?", re.ASCII
)


@dataclass(frozen=True, slots=True)
class ValueRules:
    """ignore: the differences that do not count, of case, space, unicode and number. no_value: texts that mean none."""

    ignore: frozenset[str]
    no_value: frozenset[Value] = frozenset()

    @classmethod
    def of(cls, ignore: Collection[str], no_value: Collection[str]) -> ValueRules:
        """Return the rules; texts that mean no value are read by the same rules as values."""
        rules = cls(frozenset(ignore))
        return cls(rules.ignore, frozenset(rules.normal(text) for text in no_value))

    def normal(self, value: JsonValue) -> Value:
        """Return the form that two values share exactly when they are the same one by the rules.

        A number that is not text is compared as the text that JSON writes for it, an object as canonical JSON.
        """
        text = same_rule(value) if isinstance(value, str) else json_text(value)
        if "unicode" in self.ignore:
            text = unicodedata.normalize("NFC", text)
        if "space" in self.ignore:
            text = " ".join(text.split())
        if "case" in self.ignore:
            text = text.casefold()
        # Case folding can take a composed letter apart again.
        if "unicode" in self.ignore:
            text = unicodedata.normalize("NFC", text)
        number = _number(text) if "number" in self.ignore else None
        return text if number is None else number

    def values(self, written: JsonValue) -> frozenset[Value]:
        """Return the values of one property: of a list each, of null, blank texts and those of no_value none."""
        items = written if isinstance(written, list) else [written]
        found = {self.normal(item) for item in items if item is not None}
        return frozenset(value for value in found - self.no_value if not isinstance(value, str) or value.strip())


@dataclass(frozen=True, slots=True)
class ValueCounts:
    """Values of the labelled properties of one answer.

    right       written and labelled (true positives)
    written     all that were written
    labelled    all that should have been
    unlabelled  properties that were written and have no label, in the answer's order
    wrong       labelled properties of which a value is wrong or missing, in the label's order
    """

    right: int
    written: int
    labelled: int
    unlabelled: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()

    @property
    def precision(self) -> float | None:
        """Share of the written values that are right; None when none was written but some were labelled."""
        if self.written == 0:
            return 1.0 if self.labelled == 0 else None
        return self.right / self.written

    @property
    def recall(self) -> float | None:
        """Share of the labelled values that were written; None when none is labelled but some were written."""
        if self.labelled == 0:
            return 1.0 if self.written == 0 else None
        return self.right / self.labelled

    @property
    def f1(self) -> float:
        """Twice the right values over all written and labelled; 1 when there are none of either."""
        n = self.written + self.labelled
        return 1.0 if n == 0 else 2 * self.right / n


def count_values(expected: Mapping[str, JsonValue], written: Mapping[str, JsonValue], rules: ValueRules) -> ValueCounts:
    """Return the counts of one answer; each argument maps a property to a value or a list of values.

    The same value twice of one property counts once. A property that `expected` maps to null or [] is labelled: nothing
    should be written for it. Names of properties are compared as they are.
    """
    n_right = n_written = n_labelled = 0
    wrong = []
    for name, label in expected.items():
        wanted, found = rules.values(label), rules.values(written.get(name))
        n_right += len(wanted & found)
        n_written += len(found)
        n_labelled += len(wanted)
        if wanted != found:
            wrong.append(name)
    unlabelled = tuple(name for name, value in written.items() if name not in expected and rules.values(value))
    return ValueCounts(n_right, n_written, n_labelled, unlabelled, tuple(wrong))


def _number(text: str) -> Decimal | None:
    match = _NUMBER.fullmatch(text) if len(text) <= MAX_DIGITS else None
    if match is None:
        return None
    sign, digits, power = match.groups()
    if abs(int(power or 0)) > MAX_EXPONENT:
        return None
    plain = digits.replace(",", "")
    return Decimal(f"{'-' if sign in ('-', '−') else ''}{plain}e{power or 0}")
