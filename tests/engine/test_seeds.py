"""Every random choice follows from the stored seed and what it is for, and from nothing else."""

from __future__ import annotations

import math
from collections import Counter
from hashlib import sha256

from hypothesis import given
from hypothesis import strategies as st

from fairtrial.engine.seeds import SEED_BITS, derive, draw_seed

PARTS = st.lists(st.text(max_size=8) | st.integers(-10, 10_000), max_size=4)


def test_a_derived_number_is_half_of_a_hash_of_what_it_is_for() -> None:
    # The definition, written out by hand: the first 64 bits of SHA-256 of the canonical JSON, without the last one.
    text = '[11,"subject","base","k1",2]'
    assert derive(11, "subject", "base", "k1", 2) == int(sha256(text.encode()).hexdigest()[:16], 16) >> 1


def test_derived_numbers_stay_what_they_are() -> None:
    # By coreutils, the first 16 digits: printf '%s' '[11,"arm-order","k1",1]' | sha256sum; the last is
    # printf '[0,"subject","\303\251","\355\240\265",10]'.
    assert derive(11, "arm-order", "k1", 1) == 0x8D081DC22DDE6A18 >> 1
    assert derive(2**63 - 1, "compare", 0) == 0x4F7B4906077FB9E3 >> 1
    assert derive(0, "subject", "é", "\ud835", 10) == 0x6E0DC46F052540B1 >> 1


@given(st.integers(0, 2**63 - 1), st.text(max_size=10), PARTS)
def test_it_fits_a_signed_64_bit_column_and_is_the_same_each_time(
    seed: int, purpose: str, parts: list[int | str]
) -> None:
    value = derive(seed, purpose, *parts)
    assert 0 <= value < 2**SEED_BITS
    assert derive(seed, purpose, *parts) == value


def test_any_change_of_what_it_is_for_gives_another_number() -> None:
    asked: list[tuple[int, str, tuple[int | str, ...]]] = [
        (1, "a", ()),
        (2, "a", ()),
        (1, "b", ()),
        (1, "a", (1,)),
        (1, "a", ("1",)),
        (1, "a", (1, 1)),
        (1, "a", (11,)),
        (1, "a", ("a", "b")),
        (1, "a", ("b", "a")),
        (1, "a", ("ab",)),
        (1, "a", ('a","b',)),
        (1, "a", ("é",)),
        (1, "a", ("e\u0301",)),
    ]
    assert len({derive(seed, purpose, *parts) for seed, purpose, parts in asked}) == len(asked)


def test_a_sampling_seed_differs_from_case_to_case_and_from_arm_to_arm() -> None:
    # One constant for all cases made a real model's answers move together.
    seeds = {derive(11, "subject", arm, f"k{n}", r) for arm in ("base", "cand") for n in range(500) for r in (1, 2)}
    assert len(seeds) == 2000


def test_the_numbers_are_spread_evenly() -> None:
    n, bins = 20_000, 16
    counts = Counter(derive(7, "spread", k) * bins >> SEED_BITS for k in range(n))
    expected = n / bins
    chi = sum((counts[k] - expected) ** 2 / expected for k in range(bins))
    # Chi-squared with 15 degrees of freedom: mean 15, standard deviation sqrt(30); five of them.
    assert chi < 15 + 5 * math.sqrt(30)


def test_a_drawn_seed_is_another_one_each_time_and_fits_the_spec() -> None:
    drawn = {draw_seed() for _ in range(200)}
    assert len(drawn) == 200
    assert all(0 <= seed < 2**63 for seed in drawn)
