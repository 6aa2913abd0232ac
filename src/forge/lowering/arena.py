"""Where the blocks of an arena lie, of known sizes and of sizes that depend on symbols.

Blocks are placed for typical sizes: largest first at the lowest free offset, in other orders while that leaves gaps. What is
kept is above which others each one lies, of those that are needed at the same time; it begins where the last of them ends. So
these are apart for all sizes, and as close as blocks of known sizes where the sizes are the typical ones.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from forge import dims
from forge.dims import Dim
from forge.tir.expr import Expr

MAX_ATTEMPTS = 32
MAX_PLACED = 20_000
"""Blocks that all attempts to reach the lower bound place together."""

Number = TypeVar("Number", int, Expr)


@dataclass(eq=False)
class Block:
    """Bytes that are needed from step ``first`` to step ``last``, placed at ``offset``."""

    size: int
    first: int
    last: int
    offset: int = 0

    @property
    def end(self) -> int:
        return self.offset + self.size


@dataclass(frozen=True)
class Part:
    """A block: its size, never below 0, and the numbers of parts in ``below``, where the last end of which it begins."""

    size: Dim
    below: tuple[int, ...]


@dataclass(frozen=True)
class Arena:
    """``parts`` lie below later ones only; ``top`` are those below no other."""

    parts: tuple[Part, ...] = ()
    top: tuple[int, ...] = ()

    def layout(
        self, number: Callable[[Dim], Number], largest: Callable[[Sequence[Number]], Number]
    ) -> tuple[list[Number], Number]:
        """Returns the offsets of the parts, and the size of all, computed by ``number`` and ``largest`` (of no numbers: 0)."""
        begins: list[Number] = []
        ends: list[Number] = []
        for part in self.parts:
            begins.append(largest([ends[k] for k in part.below]))
            ends.append(begins[-1] + number(part.size))
        return begins, largest([ends[k] for k in self.top])

    def layout_at(self, sizes: Mapping[str, int]) -> tuple[list[int], int]:
        """Returns the layout for these sizes."""
        return self.layout(lambda size: dims.evaluate(size, sizes), lambda numbers: max(numbers, default=0))


def plan(sizes: Sequence[Dim], lives: Sequence[tuple[int, int]], typical: Sequence[Mapping[str, int]]) -> tuple[Arena, list[int]]:
    """Returns an arena of blocks of these sizes, needed from a first step to a last one, and the number of each one's part.

    Blocks are placed for each of the ``typical`` values of symbols: the smallest arena for the first values counts, of equal ones
    the smallest for the second, and so on.
    """
    plans = [_plan_for(sizes, lives, values) for values in typical]
    return min(plans, key=lambda plan: [plan[0].layout_at(values)[1] for values in typical])


def _plan_for(sizes: Sequence[Dim], lives: Sequence[tuple[int, int]], values: Mapping[str, int]) -> tuple[Arena, list[int]]:
    """The arena in which a block of no bytes lies below one at the same place."""
    blocks = [Block(dims.evaluate(size, values), first, last) for size, (first, last) in zip(sizes, lives, strict=True)]
    place(blocks)
    order = sorted(range(len(blocks)), key=lambda k: (blocks[k].offset, blocks[k].size))
    number_of = {blocks[k]: number for number, k in enumerate(order)}
    parts: list[Part] = []
    covered: list[int] = []  # for each part, the set of it and all parts that are under it, as bits
    placed = Lives(max((b.last for b in blocks), default=0) + 1)
    for number, k in enumerate(order):
        below, under = [], 0
        for other in sorted((number_of[b] for b in placed.overlapping(blocks[k])), reverse=True):
            if not under >> other & 1:
                below.append(other)
                under |= covered[other]
        parts.append(Part(sizes[k], tuple(below)))
        covered.append(under | 1 << number)
        placed.add(blocks[k])
    carrying = {other for part in parts for other in part.below}
    return Arena(tuple(parts), tuple(n for n in range(len(parts)) if n not in carrying)), [number_of[b] for b in blocks]


def most_live_bytes(blocks: Sequence[Block]) -> int:
    """Returns the largest sum of sizes that are needed at the same step."""
    changes = [0] * (max((b.last for b in blocks), default=0) + 2)
    for block in blocks:
        changes[block.first] += block.size
        changes[block.last + 1] -= block.size
    return max(itertools.accumulate(changes))


class Lives:
    """Blocks by the steps during which they live: a segment tree over steps, and a list in order of first steps.

    Adding takes log(steps), finding all that overlap a block log(steps) and the number found.
    """

    def __init__(self, steps: int) -> None:
        self._leaves = 1 << max(0, steps - 1).bit_length()
        self._nodes: list[list[Block]] = [[] for _ in range(2 * self._leaves)]
        self._starts: list[int] = []
        self._by_start: list[Block] = []

    def add(self, block: Block) -> None:
        low, high = block.first + self._leaves, block.last + 1 + self._leaves
        while low < high:
            if low & 1:
                self._nodes[low].append(block)
                low += 1
            if high & 1:
                high -= 1
                self._nodes[high].append(block)
            low, high = low // 2, high // 2
        place = bisect.bisect_right(self._starts, block.first)
        self._starts.insert(place, block.first)
        self._by_start.insert(place, block)

    def overlapping(self, block: Block) -> list[Block]:
        """Returns blocks that live when ``block`` begins, and those that begin during its life."""
        found: list[Block] = []
        node = block.first + self._leaves
        while node:
            found.extend(self._nodes[node])
            node //= 2
        later = bisect.bisect_right(self._starts, block.first), bisect.bisect_right(self._starts, block.last)
        return found + self._by_start[slice(*later)]


def place(blocks: Sequence[Block]) -> int:
    """Places blocks one by one, largest first; returns the bytes needed.

    While that is more than live at any step, the block that ends highest comes earlier in another attempt; the best counts.
    """
    bound = most_live_bytes(blocks)
    order = sorted(blocks, key=lambda b: (-b.size, b.first))
    best, offsets = _place_in_order(order), [b.offset for b in blocks]
    for attempt in range(min(MAX_ATTEMPTS, MAX_PLACED // max(1, len(blocks)))):
        if best <= bound:
            break
        highest = max(range(len(order)), key=lambda k: order[k].end)
        order.insert(0 if attempt % 2 == 0 else highest // 2, order.pop(highest))
        size = _place_in_order(order)
        if size < best:
            best, offsets = size, [b.offset for b in blocks]
    for block, offset in zip(blocks, offsets, strict=True):
        block.offset = offset
    return best


def _place_in_order(blocks: Sequence[Block]) -> int:
    """Each at the lowest offset that is free during its life; returns the bytes needed."""
    placed = Lives(max((b.last for b in blocks), default=0) + 1)
    for block in blocks:
        offset = 0
        for other in sorted(placed.overlapping(block), key=lambda o: o.offset):
            if offset + block.size <= other.offset:
                break
            offset = max(offset, other.end)
        block.offset = offset
        placed.add(block)
    return max((b.end for b in blocks), default=0)
