"""Every random choice of a run, derived from the stored seed and what it is for.

Never from an id and never from one constant for all cases: with one sampling seed for every case a model's answers move
together, which breaks every test that takes cases as independent.
"""

from __future__ import annotations

import secrets

from fairtrial.hashing import content_hash

SEED_BITS = 63


def draw_seed() -> int:
    """Return a fresh seed for an experiment whose spec names none; it is stored and printed."""
    return secrets.randbits(SEED_BITS)


def derive(seed: int, purpose: str, *parts: str | int) -> int:
    """Return the number below 2**63 that belongs to (seed, purpose, parts); the same on every machine."""
    return int(content_hash([seed, purpose, *parts])[:16], 16) >> 1
