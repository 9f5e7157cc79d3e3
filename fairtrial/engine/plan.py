"""The plan of an experiment: which trial runs when.

A pure function of arms, cases, trials and seed. It is stored with the experiment, and a resume reads it back.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

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


@dataclass(frozen=True, slots=True)
class Plan:
    """The ordered blocks, and how many of them one slice holds."""

    blocks: tuple[Block, ...]
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


def plan_blocks(case_ids: Sequence[str], *, n_arms: int, trials: int, seed: int, slice_blocks: int) -> Plan:
    """Return every block in running order: cases in dataset order, each case's repetitions together.

    The order of the arms inside a block is drawn anew for each block, so that drift during a run hits every arm alike.
    """
    blocks = tuple(
        Block(case=position, repetition=repetition, arms=_arm_order(seed, case_id, repetition, n_arms))
        for position, case_id in enumerate(case_ids)
        for repetition in range(1, trials + 1)
    )
    return Plan(blocks=blocks, n_arms=n_arms, slice_blocks=slice_blocks)


def dump_plan(plan: Plan) -> bytes:
    """Return the stored form of a plan; its SHA-256 is the plan hash."""
    orders = sorted({block.arms for block in plan.blocks})
    number = {order: index for index, order in enumerate(orders)}
    return canonical_json(
        {
            "format": PLAN_FORMAT,
            "n_arms": plan.n_arms,
            "slice_blocks": plan.slice_blocks,
            "orders": [list(order) for order in orders],
            "blocks": [[block.case, block.repetition, number[block.arms]] for block in plan.blocks],
        }
    )


def load_plan(document: Any) -> Plan:
    """Return the plan that dump_plan wrote, already parsed. Raises StoreError (store_newer)."""
    if document["format"] != PLAN_FORMAT:
        raise StoreError("the stored plan has a format this program does not know.", code="store_newer")
    orders = [tuple(order) for order in document["orders"]]
    blocks = tuple(
        Block(case=case, repetition=repetition, arms=orders[order]) for case, repetition, order in document["blocks"]
    )
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
