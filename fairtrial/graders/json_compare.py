"""Where two JSON values differ.

Numbers are compared by what they are worth (1 is 1.0), exactly or within a tolerance; a text is never a number and
true is never 1.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from decimal import Decimal
from itertools import chain
from typing import Final

from fairtrial.graders.json_reading import Path, path_text
from fairtrial.graders.number_text import EXACT
from fairtrial.hashing import JsonValue, canonical_json

MAX_STEPS: Final = 200_000
"""Most values looked at while elements are paired, in one comparison: about a second."""

_SHOWN: Final = 60


class TooLarge(Exception):
    """The comparison would take more than MAX_STEPS."""


@dataclass(frozen=True, slots=True)
class Rules:
    """How two values are compared.

    subset     the found value may have more keys and elements; an ordered list then holds the expected elements in
               their order, others between them allowed
    unordered  the order of elements does not count; each element answers for one expected element
    tolerance  largest absolute difference of two numbers, in exact decimals
    """

    subset: bool = False
    unordered: bool = False
    tolerance: Decimal = Decimal(0)


def first_difference(expected: JsonValue, found: JsonValue, rules: Rules, path: Path = ()) -> str | None:
    """Return what is different at the first path that differs, in the order of the expected value; None when nothing.

    path   where `found` stands, for the paths that are named
    Raises TooLarge.
    """
    return _Comparison(rules).differ(expected, found, path)


class _Comparison:
    def __init__(self, rules: Rules):
        self._rules = rules
        self._n_steps = 0
        self._is_pairing = False

    def differ(self, want: JsonValue, got: JsonValue, path: Path) -> str | None:
        self._step(1)
        if isinstance(want, dict) and isinstance(got, dict):
            return self._objects(want, got, path)
        if isinstance(want, list) and isinstance(got, list):
            if self._rules.unordered:
                return self._in_any_order(want, got, path)
            return self._in_sequence(want, got, path) if self._rules.subset else self._one_by_one(want, got, path)
        if self._same_scalar(want, got):
            return None
        return f"{path_text(path)}: expected {_shown(want)}, found {_shown(got)}"

    def _step(self, n: int) -> None:
        # Outside of a pairing each value is looked at once, so a long answer needs no limit.
        if self._is_pairing:
            self._n_steps += n
            if self._n_steps > MAX_STEPS:
                raise TooLarge

    def _same_scalar(self, want: JsonValue, got: JsonValue) -> bool:
        if _is_number(want) and _is_number(got):
            return want == got or (bool(self._rules.tolerance) and self._is_near(want, got))
        return type(want) is type(got) and want == got

    def _is_near(self, want: JsonValue, got: JsonValue) -> bool:
        off = EXACT.subtract(Decimal(repr(want)), Decimal(repr(got)))
        return EXACT.abs(off) <= self._rules.tolerance

    def _objects(self, want: dict[str, JsonValue], got: dict[str, JsonValue], path: Path) -> str | None:
        for key, value in want.items():
            if key not in got:
                return f"{path_text((*path, key))} is missing"
            told = self.differ(value, got[key], (*path, key))
            if told is not None:
                return told
        more = None if self._rules.subset else next((key for key in got if key not in want), None)
        return None if more is None else f"{path_text((*path, more))} is not expected"

    def _one_by_one(self, want: list[JsonValue], got: list[JsonValue], path: Path) -> str | None:
        for index, (one, other) in enumerate(zip(want, got, strict=False)):
            told = self.differ(one, other, (*path, index))
            if told is not None:
                return told
        if len(want) == len(got):
            return None
        return (
            f"{path_text((*path, min(len(want), len(got))))} is {'not expected' if len(want) < len(got) else 'missing'}"
        )

    def _in_sequence(self, want: list[JsonValue], got: list[JsonValue], path: Path) -> str | None:
        at = 0
        for index, value in enumerate(want):
            start = at
            while at < len(got) and self.differ(value, got[at], path) is not None:
                at += 1
            if at == len(got):
                where = f"from position {start} on" if start else "in the answer's list"
                return f"{path_text(path)}: expected element {index}, {_shown(value)}, is not {where}"
            at += 1
        return None

    def _in_any_order(self, want: list[JsonValue], got: list[JsonValue], path: Path) -> str | None:
        if len(want) > len(got) or (len(want) < len(got) and not self._rules.subset):
            return f"{path_text(path)}: expected {_shown(want)}, found {_shown(got)}"
        lost = self._unmatched(want, got, path)
        if lost is None:
            return None
        return f"{path_text(path)}: expected element {lost}, {_shown(want[lost])}, is not in the answer's list"

    def _unmatched(self, want: list[JsonValue], got: list[JsonValue], path: Path) -> int | None:
        """Return the first expected element that no element is left for, None when each has its own."""
        self._step(len(want) + len(got))
        wanted, there = list(range(len(want))), list(range(len(got)))
        if not self._rules.tolerance:
            counts = Counter(_key(value) for value in got if self._is_counted(value))
            for index in wanted:
                if self._is_counted(want[index]):
                    key = _key(want[index])
                    counts[key] -= 1
                    if counts[key] < 0:
                        return index
            wanted = [index for index in wanted if not self._is_counted(want[index])]
            there = [index for index in there if not self._is_counted(got[index])]
        was_pairing, self._is_pairing = self._is_pairing, True
        lost = self._first_unpaired(
            len(wanted), len(there), lambda i, j: self.differ(want[wanted[i]], got[there[j]], path) is None
        )
        self._is_pairing = was_pairing
        return None if lost is None else wanted[lost]

    def _is_counted(self, value: JsonValue) -> bool:
        """Return whether, without a tolerance, what fits this value is its equal: then counting is pairing enough."""
        return not self._rules.subset or not isinstance(value, dict | list)

    def _first_unpaired(self, n: int, m: int, fits: Callable[[int, int], bool]) -> int | None:
        """Pair each of n with one of m that fits it (augmenting paths, Kuhn 1955); return the first that gets none."""
        known: dict[tuple[int, int], bool] = {}
        owner: dict[int, int] = {}
        has: dict[int, int] = {}

        def fit(i: int, j: int) -> bool:
            self._step(1)
            if (i, j) not in known:
                known[i, j] = fits(i, j)
            return known[i, j]

        for start in range(n):
            reached_by: dict[int, int] = {}
            queue, free = deque([start]), None
            while queue and free is None:
                i = queue.popleft()
                # Most lists are in order already, so an element's own position is tried first.
                for j in chain(range(i, min(i + 1, m)), range(m)):
                    if j in reached_by or not fit(i, j):
                        continue
                    reached_by[j] = i
                    if j not in owner:
                        free = j
                        break
                    queue.append(owner[j])
            if free is None:
                return start
            # Along the path that was found everyone moves on by one, which leaves a place for the first.
            while True:
                i = reached_by[free]
                given_up = has.get(i)
                owner[free], has[i] = i, free
                if given_up is None:
                    break
                free = given_up
        return None


def _is_number(value: JsonValue) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _key(value: JsonValue) -> tuple[str, Hashable]:
    """Return what two values share exactly when they are equal, lists in any order."""
    if isinstance(value, dict):
        return "object", frozenset((key, _key(item)) for key, item in value.items())
    if isinstance(value, list):
        return "list", frozenset(Counter(map(_key, value)).items())
    # The name first, because Python takes 1 and true for one.
    return "number" if _is_number(value) else type(value).__name__, value


def _shown(value: JsonValue) -> str:
    if isinstance(value, dict | list):
        # Never the whole: it may be long, and most of it is alike.
        kind, noun = ("an object", "key") if isinstance(value, dict) else ("a list", "element")
        return f"{kind} of {len(value):,} {noun}{'' if len(value) == 1 else 's'}"
    if isinstance(value, str):
        value = value[: _SHOWN + 1]
    text = canonical_json(value).decode("utf-8", "replace")
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
