"""Long sums, in blocks, so that their error does not grow with their number of terms.

An accumulator adds at most ``BLOCK`` terms, one after the other. What it holds is then added to a total, which keeps what
rounding takes from it for the next one (two-sum, Knuth), and the accumulator starts again. So the error is that of a block,
however many there are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Final

from forge import dtypes
from forge.loops.nest import Loop, blocks, guard, nest, places
from forge.loops.values import bound, ceildiv, static
from forge.tir import expr as E
from forge.tir.expr import Buffer, Expr, Var
from forge.tir.stmt import Allocate, Stmt, loop, seq, store

# Terms of a block: adding a block to its total takes about eight operations.
BLOCK: Final = 128
# Sums of at most this many steps are one block.
LONG: Final = 256


def is_long(kind: str, dtype: str, steps: Expr) -> Expr:
    """Returns whether a reduction with accumulators of ``dtype``, each of ``steps`` terms, is done in blocks."""
    rounds = kind == "sum" and (dtypes.is_float(dtype) or dtypes.is_complex(dtype))
    return E.compare("gt", steps, E.const(LONG)) if rounds else E.const(False, "bool")


class Totals:
    """Totals of ``count`` accumulators of ``lanes`` elements, each as a sum and what rounding took from it."""

    def __init__(self, dtype: str, lanes: int, count: int = 1) -> None:
        self.count = count
        self.buffer = Buffer("total", dtype, (E.const(2 * count),), "local", lanes)

    def start(self) -> Stmt:
        """Allocates and clears them."""
        zero = E.const(0, self.buffer.dtype, self.buffer.lanes)
        return seq(Allocate(self.buffer), *(store(self.buffer, k, zero) for k in range(2 * self.count)))

    def add(self, number: int, value: Expr) -> Stmt:
        """Adds ``value`` to a total, and what was lost before."""
        parts: list[Stmt] = []
        total, lost = two_sum(E.load(self.buffer, 2 * number), E.load(self.buffer, 2 * number + 1) + value, parts)
        return seq(parts, store(self.buffer, 2 * number, total), store(self.buffer, 2 * number + 1, lost))

    def scale(self, number: int, factor: Expr) -> Stmt:
        """Multiplies a total by ``factor``."""
        places = (2 * number, 2 * number + 1)
        return seq(store(self.buffer, place, E.load(self.buffer, place) * factor) for place in places)

    def get(self, number: int, value: Expr | None = None) -> Expr:
        """Returns a total, with ``value`` added to it."""
        lost = E.load(self.buffer, 2 * number + 1)
        return E.load(self.buffer, 2 * number) + (lost if value is None else lost + value)


def two_sum(a: Expr, b: Expr, parts: list[Stmt]) -> tuple[Expr, Expr]:
    """Returns a + b as it is rounded, and what rounding took: 0 where it overflowed. ``parts`` gets what computes them."""
    a, b = bound(a, parts, "a"), bound(b, parts, "b")
    total = bound(a + b, parts, "sum")
    of_b = bound(total - a, parts, "of_b")
    lost = bound((a - (total - of_b)) + (b - of_b), parts, "lost")
    return total, E.select(E.compare("eq", lost, lost), lost, E.const(0, lost.dtype, lost.lanes))


def in_blocks(axes: Sequence[Loop], unit: int, body: Callable[[Expr, Expr], Stmt], collect: Stmt) -> Stmt:
    """Makes loops over ``axes``, with ``collect`` before every block but the first.

    Args:
        unit: elements of the last axis that are one term.
        body: ``body(begin, extent)`` runs over that many elements of the last axis.
    """
    room: Expr = E.const(BLOCK)
    around: list[Loop] = []
    inside: list[tuple[Var, Expr, Expr]] = []
    for axis in reversed(axes):
        per = unit if axis is axes[-1] else 1
        size = room * per
        most, block, start, extent = static(size), *blocks(axis.extent, size)
        steps = ceildiv(E.binary("min", axis.extent, size), per)
        room = E.binary("max", room // E.binary("max", steps, E.const(1)), E.const(1))
        if axis.static is None or most is None or axis.static > most:
            even = axis.static is not None and most is not None and axis.static % most == 0
            around.insert(0, block)
            inside.append((axis.var, start, size if even else extent))
        else:
            inside.append((axis.var, E.const(0), axis.extent))
    (_, first, count), *others = inside
    inner = body(first, count)
    for var, start, extent in others:
        inner = loop(var, extent, inner, "serial", start)
    zero: Expr = E.const(0)
    later = reduce(lambda a, b: a + b, places(around), zero) > zero
    return nest(around, seq(guard(later, collect), inner))
