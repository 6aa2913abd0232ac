"""Samples of long sweeps: other cases for every seed, the same ones for the same seed."""

from __future__ import annotations

import hashlib
from collections.abc import Collection

PART = 10


def sample(cases: Collection[str], seed: str, part: int = PART) -> list[str]:
    """One of ``part`` of the cases, rounded up, chosen by a hash of seed and case; in the order of ``cases``."""
    count = -(-len(cases) // part)
    chosen = set(sorted(cases, key=lambda case: hashlib.sha256(f"{seed} {case}".encode()).digest())[:count])
    return [case for case in cases if case in chosen]
