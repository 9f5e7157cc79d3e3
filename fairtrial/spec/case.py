"""One row of a dataset.

Two hashes a case: the input hash says whether two runs asked the same thing, the label hash whether they were judged by
the same answer. Nothing else of a case is in either.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from fairtrial.hashing import JsonValue

CASE_KINDS: Final = ("ordinary", "bad", "guard", "control")


@dataclass(frozen=True, slots=True)
class Case:
    """A case as the dataset states it.

    has_expected tells a label of null from no label; `fields` are the record's other keys, in no hash.
    position is the 0-based place in dataset order; line the physical line it came from, None for a stored one.
    """

    id: str
    input: JsonValue
    expected: JsonValue = None
    has_expected: bool = False
    kind: str = "ordinary"
    split: str | None = None
    group: str | None = None
    tags: tuple[str, ...] = ()
    fields: dict[str, JsonValue] = field(default_factory=dict)
    position: int = 0
    input_hash: str = ""
    label_hash: str = ""
    line: int | None = None
