"""The plan of an experiment: which trial runs when.

A pure function of arms, cases, trials and seed. It is stored with the experiment, and a resume reads it back.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, overload

from fairtrial.engine.seeds import SEED_BITS, derive
from fairtrial.errors import StoreError
from fairtrial.hashing import canonical_json, sha256_hex

PLAN_FORMAT = 1
SLICE_BLOCKS = 50


@dataclass(frozen=True, slots=True)
class Block:
    """One case and repetition in all arms, back to back. case is a position in the experiment's case list."""

    case: int
    repetition: int
    arms: tuple[int, ...]


class Blocks(Sequence[Block]):
    """The blocks of a plan in running order, twelve bytes each; a Block is made when one is asked for."""

    def __init__(self, blocks: Iterable[tuple[int, int, tuple[int, ...]]]):
        """Take (case, repetition, arms) of each block."""
        self.cases, self.repetitions, self._order_of = array("I"), array("I"), array("I")
        numbers: dict[tuple[int, ...], int] = {}
        for case, repetition, arms in blocks:
            self.cases.append(case)
            self.repetitions.append(repetition)
            self._order_of.append(numbers.setdefault(arms, len(numbers)))
        self.orders = tuple(numbers)

    def __len__(self) -> int:
        return len(self.cases)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(self) == len(other) and all(map(Block.__eq__, self, other))

    @overload
    def __getitem__(self, index: int) -> Block: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Block, ...]: ...
    def __getitem__(self, index: int | slice) -> Block | tuple[Block, ...]:
        if isinstance(index, slice):
            return tuple(self[one] for one in range(*index.indices(len(self))))
        return Block(self.cases[index], self.repetitions[index], self.orders[self._order_of[index]])

    def numbered(self) -> tuple[list[tuple[int, ...]], Iterable[tuple[int, int, int]]]:
        """Return the orders of the arms, sorted, and (case, repetition, number of its order) of each block."""
        ordered = sorted(self.orders)
        number = {order: index for index, order in enumerate(ordered)}
        renumbered = [number[order] for order in self.orders]
        return ordered, zip(self.cases, self.repetitions, map(renumbered.__getitem__, self._order_of), strict=True)


@dataclass(frozen=True, slots=True)
class Plan:
    """The ordered blocks, and how many of them one slice holds."""

    blocks: Blocks
    n_arms: int
    slice_blocks: int

    @property
    def n_slices(self) -> int:
        """Return how many slices the plan has."""
        return math.ceil(len(self.blocks) / self.slice_blocks)

    def slice(self, number: int) -> tuple[Block, ...]:
        """Return the blocks of slice `number`, counted from 0."""
        start = number * self.slice_blocks
        return self.blocks[start : start + self.slice_blocks]


@dataclass(frozen=True, slots=True)
class Split:
    """The numbers of the slices that owe trials, and of those that owe none, in plan order."""

    unfinished: tuple[int, ...]
    finished: tuple[int, ...]


def split_slices(plan: Plan, done: Iterable[tuple[int, int, int]]) -> Split:
    """Return which slices are finished.

    done    (case, repetition, arm) of every finished trial, the case and the arm as positions
    """
    cases, repetitions = plan.blocks.cases, plan.blocks.repetitions
    # One byte a trial: a set of keys would take two hundred.
    trials, width = max(repetitions), plan.n_arms
    marks = bytearray((max(cases) + 1) * trials * width)
    for case, repetition, arm in done:
        marks[(case * trials + repetition - 1) * width + arm] = 1
    numbers: tuple[list[int], list[int]] = ([], [])
    for number in range(plan.n_slices):
        start = number * plan.slice_blocks
        of_slice = slice(start, start + plan.slice_blocks)
        firsts = (
            (case * trials + repetition - 1) * width
            for case, repetition in zip(cases[of_slice], repetitions[of_slice], strict=True)
        )
        numbers[all(0 not in marks[first : first + width] for first in firsts)].append(number)
    return Split(unfinished=tuple(numbers[False]), finished=tuple(numbers[True]))


def plan_blocks(case_ids: Sequence[str], *, n_arms: int, trials: int, seed: int, slice_blocks: int) -> Plan:
    """Return every block in running order: cases in dataset order, each case's repetitions together.

    The order of the arms inside a block is drawn anew for each block, so that drift during a run hits every arm alike.
    """
    blocks = Blocks(
        (position, repetition, _arm_order(seed, case_id, repetition, n_arms))
        for position, case_id in enumerate(case_ids)
        for repetition in range(1, trials + 1)
    )
    return Plan(blocks=blocks, n_arms=n_arms, slice_blocks=slice_blocks)


def dump_plan(plan: Plan) -> bytes:
    """Return the stored form of a plan, which is canonical JSON; its SHA-256 is the plan hash."""
    orders, blocks = plan.blocks.numbered()
    rest = {
        "format": PLAN_FORMAT,
        "n_arms": plan.n_arms,
        "orders": [list(order) for order in orders],
        "slice_blocks": plan.slice_blocks,
    }
    # Written by hand: as lists the blocks would take ten times their text. No key sorts before theirs.
    listed = ",".join([f"[{case},{repetition},{order}]" for case, repetition, order in blocks])
    return b'{"blocks":[%s],%s' % (listed.encode(), canonical_json(rest).removeprefix(b"{"))


def load_plan(document: Any) -> Plan:
    """Return the plan that dump_plan wrote, already parsed. Raises StoreError (store_newer)."""
    if document["format"] != PLAN_FORMAT:
        raise StoreError("the stored plan has a format this program does not know.", code="store_newer")
    orders = [tuple(order) for order in document["orders"]]
    blocks = Blocks((case, repetition, orders[order]) for case, repetition, order in document["blocks"])
    return Plan(blocks=blocks, n_arms=document["n_arms"], slice_blocks=document["slice_blocks"])


def plan_hash(dumped: bytes) -> str:
    """Return the hash that names a plan."""
    return sha256_hex(dumped)


def _arm_order(seed: int, case_id: str, repetition: int, n_arms: int) -> tuple[int, ...]:
    if n_arms == 1:
        return (0,)
    # A number below n_arms! picks the permutation. Every ten arms get 63 bits more, so that the bias of the remainders
    # stays below 1e-9 up to 190 of them.
    rest = 0
    for word in range(1 + n_arms // 10):
        rest = rest << SEED_BITS | derive(seed, "arm-order", case_id, repetition, *([word] if word else []))
    left = list(range(n_arms))
    order = []
    while left:
        rest, index = divmod(rest, len(left))
        order.append(left.pop(index))
    return tuple(order)
