"""How right an arm's written values are for one item: precision, recall and F1, and their means over items.

Values of properties the dataset does not label are taken out first: nobody has said whether they are right.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from stats.results import NotEnoughData

Value = TypeVar("Value", bound=Hashable)


@dataclass(frozen=True, slots=True)
class ItemScore:
    """One item of one arm; shares in [0, 1].

    precision   None when nothing was written though something was labelled
    recall      None when nothing was labelled though something was written
    """

    precision: float | None
    recall: float | None
    f1: float
    right: int
    written: int
    labelled: int


@dataclass(frozen=True, slots=True)
class ArmScore:
    """Means over the items of an arm; precision and recall over the items that have one, None without any."""

    items: int
    score: float
    precision: float | None
    recall: float | None


@dataclass(frozen=True, slots=True)
class Split:
    """Values by whether the dataset labels their property, each a set of (property, value)."""

    graded: frozenset[tuple[str, Hashable]]
    unlabelled: frozenset[tuple[str, Hashable]]


def split_by_label(values: Iterable[tuple[str, Hashable]], *, properties: Collection[str]) -> Split:
    """Return the written values of labelled properties, and the others, which no score counts.

    values       (property, value) as written
    properties   the properties the dataset labels for this item
    """
    everything = frozenset(values)
    graded = frozenset(value for value in everything if value[0] in properties)
    return Split(graded=graded, unlabelled=everything - graded)


def item_score(written: Iterable[Value], labelled: Iterable[Value]) -> ItemScore:
    """Return precision, recall and F1 of the values written for one item, compared as sets.

    Both empty is a perfect answer: 1, 1, 1. F1 is 2 right/(written + labelled), so it needs neither of the other two.
    """
    wrote, truth = set(written), set(labelled)
    right = len(wrote & truth)
    if not wrote and not truth:
        return ItemScore(1.0, 1.0, 1.0, right=0, written=0, labelled=0)
    return ItemScore(
        precision=right / len(wrote) if wrote else None,
        recall=right / len(truth) if truth else None,
        f1=2 * right / (len(wrote) + len(truth)),
        right=right,
        written=len(wrote),
        labelled=len(truth),
    )


def arm_score(items: Sequence[ItemScore]) -> ArmScore:
    """Return the means of an arm over the items both arms answered; raises NotEnoughData without an item."""
    if not items:
        raise NotEnoughData("no item both arms answered")
    return ArmScore(
        items=len(items),
        score=math.fsum(item.f1 for item in items) / len(items),
        precision=_mean([item.precision for item in items]),
        recall=_mean([item.recall for item in items]),
    )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None
