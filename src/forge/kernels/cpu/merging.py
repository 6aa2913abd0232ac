"""Sorting a row by merging keys: an element's order and its position in one int64, so that one comparison decides and ties cannot
be. Blocks of 32 keys are put in place by counting the smaller ones, then runs are merged from both ends at once, which needs no
test for the end of a run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from forge import dtypes
from forge.loops import ceildiv, static, vector_loop
from forge.target import Target
from forge.tir import expr as E
from forge.tir.expr import Buffer, Expr
from forge.tir.stmt import Allocate, If, Let, Stmt, loop, seq, store

# Blocks of this many keys are sorted by counting, then merged.
BLOCK: Final = 32
# The longest row, limited by the scratch on the stack: 16 bytes per element.
LARGEST: Final = 1 << 14


def has_key(dtype: str) -> bool:
    """Returns whether the order of ``dtype`` fits into 32 bits."""
    return not dtypes.is_complex(dtype) and dtypes.itemsize(dtype) <= 4 and (dtypes.is_integer(dtype) or dtypes.is_float(dtype))


def key(value: Expr, position: Expr, ascending: bool) -> Expr:
    """Makes the int64 (or vector) that comes before another if ``value`` does or, where they are equal, ``position``."""
    order = _float_order(value) if dtypes.is_float(value.dtype) else E.cast(value, "int64")
    if value.dtype == "uint32":
        order = order - (1 << 31)
    if not ascending:
        order = E.const(-1, "int64", order.lanes) - order
    return E.binary("shl", order, E.const(32, "int64", order.lanes)) + position


def _float_order(value: Expr) -> Expr:
    """Numbers as integers of the same order; both zeros are 0, and NaN is larger than infinity."""
    lanes = value.lanes
    x = E.cast(value, "float32")
    bits = E.call("reinterpret", x, dtype="int32")
    sign = E.binary("shr", bits, E.const(31, "int32", lanes))
    ordered = E.binary("xor", bits, E.binary("and", sign, E.const(0x7FFFFFFF, "int32", lanes)))
    ordered = E.select(E.compare("eq", x, E.const(0.0, "float32", lanes)), E.const(0, "int32", lanes), ordered)
    return E.cast(E.select(E.call("isnan", x), E.const(0x7FFFFFFF, "int32", lanes), ordered), "int64")


def position_of(sorted_key: Expr) -> Expr:
    """Returns the position that sorted keys hold."""
    return E.binary("and", sorted_key, E.const(0xFFFFFFFF, "int64", sorted_key.lanes))


class Merge:
    """Sorts up to ``capacity`` keys (a power of two) in the scratch of one row."""

    def __init__(self, target: Target, capacity: int) -> None:
        self.capacity = max(BLOCK, capacity)
        self.lanes = target.vector_bits // 64
        self.halves = Buffer("keys", "int64", (E.const(2 * self.capacity),), scope="local", alignment=64)

    def allocate(self) -> Stmt:
        """Allocates the scratch."""
        return Allocate(self.halves)

    def put(self, place: Expr, value: Expr) -> Stmt:
        """Sets the key(s) at ``place`` before sorting."""
        return store(self.halves, place, value)

    def pad(self, length: Expr, begin: Expr | None = None) -> Stmt:
        """Keys after the row, or from ``begin`` on, which come last."""
        begin = length if begin is None else begin
        place = E.var("place")
        last = E.const(0x7FFFFFFF << 32) + E.const(1 << 31) + place
        return loop(place, self.size(length) - begin, self.put(place, last), begin=begin)

    def size(self, length: Expr) -> Expr:
        """Returns the power of two that is sorted."""
        if isinstance(length, E.Const):
            return E.const(self.capacity)
        bits = E.const(64) - E.call("clz", E.binary("max", length - 1, E.const(BLOCK - 1)))
        return E.binary("shl", E.const(1), bits)

    def sort(self, length: Expr, wanted: Expr) -> tuple[Stmt, Expr]:
        """Returns statements, and where the sorted keys begin, of which the first ``wanted`` are in their place."""
        few = static(wanted)
        if few is None or static(length) is None:
            few = self.capacity
        size = self.size(length)
        block = E.var("block")
        parts: list[Stmt] = [loop(block, size // BLOCK, self._rank(block * BLOCK, block * BLOCK + self.capacity))]
        width, source, target = BLOCK, self.capacity, 0
        begin: Expr = E.const(self.capacity)
        while width < self.capacity:
            pairs = E.var("pairs")
            first = pairs * (4 * width)
            merge = loop(pairs, ceildiv(size, 4 * width), self._merge(
                source, target, (first, E.binary("min", first + 2 * width, size - 2 * width)), width))
            if 2 * width == self.capacity:
                last = self._merge(source, target, (E.const(0),), width)
                merge = self._merge_first(source, target, width, few) if few <= width else last
            if isinstance(length, E.Const):
                parts.append(merge)
                begin = E.const(target)
            else:
                parts.append(If(size > width, merge))
                begin = E.select(size > width, E.const(target), begin)
            width, source, target = 2 * width, target, source
        return seq(*parts), begin

    def load(self, place: Expr) -> Expr:
        """Loads the key(s) at ``place``."""
        return E.load(self.halves, place)

    def _rank(self, source: Expr, target: Expr) -> Stmt:
        """Puts every key of a block after the smaller ones."""

        def body(at: Expr, lanes: int, mask: Expr | None) -> Stmt:
            own = E.Var("int64", lanes, "own")
            ranks = Buffer("ranks", "int64", (E.const(1),), scope="local", lanes=lanes)
            other = E.var("other")
            smaller = E.broadcast(self.load(source + other), lanes) < own
            count = loop(other, BLOCK, store(ranks, 0, E.load(ranks, 0) + E.cast(smaller, "int64")))
            place = E.load(ranks, 0) + E.broadcast(target, lanes)
            return seq(Let(own, self.load(E.ramp(source + at, 1, lanes) if lanes > 1 else source + at)), Allocate(ranks),
                       store(ranks, 0, E.const(0, "int64", lanes)), count, store(self.halves, place, own))

        return vector_loop(E.const(BLOCK), self.lanes, body)

    def _merge_first(self, source: int, target: int, width: int, wanted: int) -> Stmt:
        """The first ``wanted`` of two runs."""
        ends = Buffer("ends", "int64", (E.const(2),), scope="local")
        a, b, takes_left, step = (E.var(name) for name in ("a", "b", "takes_left", "step"))
        body = seq(
            Let(a, self.load(E.load(ends, 0))), Let(b, self.load(E.load(ends, 1))), Let(takes_left, E.cast(a < b, "int64")),
            store(self.halves, step + target, E.binary("min", a, b)),
            store(ends, 0, E.load(ends, 0) + takes_left), store(ends, 1, E.load(ends, 1) + 1 - takes_left),
        )
        starts = [store(ends, k, E.const(source + k * width)) for k in range(2)]
        return seq(Allocate(ends), *starts, loop(step, wanted, body))

    def _merge(self, source: int, target: int, bases: Sequence[Expr], width: int) -> Stmt:
        """For each base, two runs of ``width`` at ``source + base`` become one at ``target + base``.

        A step waits for the one before; those of several bases overlap. Equal bases do the same twice.
        """
        step = E.var("step")
        starts, steps = zip(*(self._merge_step(source, target, base, width, step) for base in bases))
        return seq(*starts, loop(step, width, seq(*steps)))

    def _merge_step(self, source: int, target: int, base: Expr, width: int, step: Expr) -> tuple[Stmt, Stmt]:
        """What comes before the steps, and a step: the next of the smallest keys and of the largest."""
        ends = Buffer("ends", "int64", (E.const(4),), scope="local")
        left, right, top_left, top_right = (E.load(ends, k) for k in range(4))
        a, b, c, d = (E.var(name) for name in ("a", "b", "c", "d"))
        first = base + source
        takes_left, takes_top = E.var("takes_left"), E.var("takes_top")
        body = seq(
            Let(a, self.load(left)), Let(b, self.load(right)), Let(c, self.load(top_left)), Let(d, self.load(top_right)),
            Let(takes_left, E.cast(a < b, "int64")), Let(takes_top, E.cast(c > d, "int64")),
            store(self.halves, base + target + step, E.binary("min", a, b)),
            store(self.halves, base + (target + 2 * width - 1) - step, E.binary("max", c, d)),
            store(ends, 0, left + takes_left), store(ends, 1, right + 1 - takes_left),
            store(ends, 2, top_left - takes_top), store(ends, 3, top_right - 1 + takes_top),
        )
        starts = (first, first + width, first + (width - 1), first + (2 * width - 1))
        return seq(Allocate(ends), *(store(ends, k, start) for k, start in enumerate(starts))), body
