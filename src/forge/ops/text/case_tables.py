"""Upper and lower case of single code points, as tables that compiled code takes as constants.

A code point changes to what Unicode gives for it where that is one code point, and else stays: no text changes its number of
characters. Positions in a word do not matter.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import cache

import numpy as np

from forge.ops.core.signatures import Array

CHANGES: dict[str, Callable[[str], str] | None] = {"NONE": None, "LOWER": str.lower, "UPPER": str.upper}


@cache
def mapping(action: str) -> dict[int, int]:
    """The code points that ``action`` changes, ascending, and what they become."""
    change = CHANGES[action]
    if change is None:
        return {}
    changed = ((point, change(chr(point))) for point in range(sys.maxunicode + 1))
    return {point: ord(text) for point, text in changed if len(text) == 1 and ord(text) != point}


def change_case(text: str, action: str) -> str:
    """``text`` with every code point changed."""
    return text.translate(mapping(action))


@cache
def table(action: str) -> Array:
    """Rows (first, last, step, delta), int32, ascending: what ``forge_case`` of the runtime is. Never empty."""
    return np.array([(0, 0, 1, 0), *_runs(mapping(action))], np.int32)


def _runs(changes: dict[int, int]) -> Iterator[tuple[int, int, int, int]]:
    """Consecutive code points, or every other one, with the same distance to what they become."""
    pending = list(changes.items())
    while pending:
        first, to = pending[0]
        delta = to - first
        step = 2 if len(pending) > 1 and pending[1] == (first + 2, first + 2 + delta) else 1
        count = 1
        while count < len(pending) and pending[count] == (first + count * step, first + count * step + delta):
            count += 1
        yield first, first + (count - 1) * step, step, delta
        pending = pending[count:]
