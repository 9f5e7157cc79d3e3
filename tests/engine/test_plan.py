"""The plan: every trial once, arms in both orders, the same from the same seed, and readable in years to come."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairtrial.engine.plan import Plan, dump_plan, load_plan, plan_blocks, plan_hash
from fairtrial.errors import StoreError
from fairtrial.hashing import canonical_json, parse_canonical

PLANS = st.builds(
    plan_blocks,
    st.lists(st.text(min_size=1, max_size=8), min_size=1, max_size=30, unique=True),
    n_arms=st.integers(1, 25),
    trials=st.integers(1, 4),
    seed=st.integers(0, 2**63 - 1),
    slice_blocks=st.integers(1, 40),
)


def ids(n: int) -> list[str]:
    return [f"k{number}" for number in range(n)]


@given(PLANS)
def test_c44_every_case_repetition_and_arm_is_in_it_exactly_once(plan: Plan) -> None:
    trials = [(block.case, block.repetition, arm) for block in plan.blocks for arm in block.arms]
    n_cases = 1 + max(block.case for block in plan.blocks)
    n_trials = max(block.repetition for block in plan.blocks)
    expected = {(c, r, a) for c in range(n_cases) for r in range(1, n_trials + 1) for a in range(plan.n_arms)}
    assert len(trials) == len(expected)
    assert set(trials) == expected
    # Cases in dataset order, each one's repetitions together.
    assert [(block.case, block.repetition) for block in plan.blocks] == sorted(
        (block.case, block.repetition) for block in plan.blocks
    )


@given(PLANS)
def test_the_slices_are_the_plan_cut_in_pieces(plan: Plan) -> None:
    slices = [plan.slice(number) for number in range(plan.n_slices)]
    assert tuple(block for each in slices for block in each) == plan.blocks
    assert all(len(each) == plan.slice_blocks for each in slices[:-1])
    assert 1 <= len(slices[-1]) <= plan.slice_blocks
    assert plan.slice(plan.n_slices) == ()


@given(PLANS)
def test_a_plan_comes_back_as_it_was_stored(plan: Plan) -> None:
    dumped = dump_plan(plan)
    back = load_plan(parse_canonical(dumped))
    assert back == plan
    assert tuple(back.blocks) == plan.blocks
    assert dump_plan(back) == dumped == canonical_json(parse_canonical(dumped))
    assert plan_hash(dumped) == plan_hash(dump_plan(back))


def orders(n_arms: int, n: int = 3000, *, seed: int = 5) -> Counter[tuple[int, ...]]:
    plan = plan_blocks(ids(n), n_arms=n_arms, trials=1, seed=seed, slice_blocks=50)
    return Counter(block.arms for block in plan.blocks)


@pytest.mark.parametrize("n_arms", [2, 3, 4])
def test_c44_every_order_of_the_arms_comes_about_equally_often(n_arms: int) -> None:
    counts = orders(n_arms)
    expected = 3000 / math.factorial(n_arms)
    assert set(counts) == set(permutations(range(n_arms)))
    # Binomial: five standard deviations of one order's count.
    spread = 5 * math.sqrt(expected * (1 - 1 / math.factorial(n_arms)))
    assert all(abs(count - expected) < spread for count in counts.values())


@pytest.mark.parametrize("n_arms", [10, 21, 30, 60])
def test_c44_with_many_arms_every_one_comes_first_and_every_pair_both_ways_about_equally_often(n_arms: int) -> None:
    n = 3000
    plan = plan_blocks(ids(n), n_arms=n_arms, trials=1, seed=5, slice_blocks=50)
    first = Counter(block.arms[0] for block in plan.blocks)
    expected = n / n_arms
    assert all(abs(first[arm] - expected) < 5 * math.sqrt(expected) for arm in range(n_arms))
    # Neighbours in the list are where a draw with too few digits keeps the order of the list.
    for low in range(n_arms - 1):
        before = sum(block.arms.index(low) < block.arms.index(low + 1) for block in plan.blocks)
        assert abs(before - n / 2) < 5 * math.sqrt(n) / 2
    last = [block.arms[-2:] for block in plan.blocks]
    assert abs(sum(a < b for a, b in last) - n / 2) < 5 * math.sqrt(n) / 2


def test_c44_the_order_of_one_block_says_nothing_about_the_next() -> None:
    plan = plan_blocks(ids(1000), n_arms=2, trials=3, seed=5, slice_blocks=50)
    flips = [block.arms[0] for block in plan.blocks]
    same = sum(a == b for a, b in pairwise(flips))
    # 2,999 neighbours, half of them equal by chance, within five standard deviations.
    assert abs(same - 2999 / 2) < 5 * math.sqrt(2999) / 2


def test_c85_a_seed_repeats_the_plan_and_another_one_does_not() -> None:
    def plan(seed: int, cases: list[str]) -> Plan:
        return plan_blocks(cases, n_arms=2, trials=2, seed=seed, slice_blocks=50)

    assert plan(1, ids(50)) == plan(1, ids(50))
    assert plan(1, ids(50)) != plan(2, ids(50))
    # A case keeps its order whatever stands before it: the draw is by name, not by place.
    shifted = plan(1, ["new", *ids(50)])
    assert [block.arms for block in shifted.blocks[2:]] == [block.arms for block in plan(1, ids(50)).blocks]


def test_one_arm_needs_no_draw() -> None:
    plan = plan_blocks(ids(3), n_arms=1, trials=1, seed=0, slice_blocks=2)
    assert [block.arms for block in plan.blocks] == [(0,)] * 3
    assert plan.n_slices == 2


# Two cases, two arms, two repetitions, seed 11. The orders by hand: sha256sum of [11,"arm-order","alpha",1] begins with
# ea122e85c39e25b9, which halved is even: order 0. alpha 2: 424bc4ac1ca6bf77, beta 1: 259deab8ef1105a3,
# beta 2: 5aef84a211758ed2, which halved are odd: order 1.
STORED = b'{"blocks":[[0,1,0],[0,2,1],[1,1,1],[1,2,1]],"format":1,"n_arms":2,"orders":[[0,1],[1,0]],"slice_blocks":3}'


def test_the_stored_form_and_its_hash_stay_what_they_are() -> None:
    plan = plan_blocks(["alpha", "beta"], n_arms=2, trials=2, seed=11, slice_blocks=3)
    assert dump_plan(plan) == STORED
    # By coreutils: sha256sum of the line above.
    assert plan_hash(STORED) == "35a3e4a09e26d3128e83d9ed87a48248694ccfcf1f2c03e9065699ac0581e11c"


def test_a_plan_of_another_format_is_refused_by_name() -> None:
    document = parse_canonical(STORED)
    assert isinstance(document, dict)
    with pytest.raises(StoreError) as refused:
        load_plan(document | {"format": 2})
    assert refused.value.code == "store_newer"
