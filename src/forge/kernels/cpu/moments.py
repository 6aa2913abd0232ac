"""Mean and sum of squared differences of a long row in one pass over memory."""

from __future__ import annotations

from collections.abc import Sequence

from forge import dtypes
from forge.kernels.cpu.rows import AlongRow, Position
from forge.loops import Cell, Totals, bind, blocks, bound, nest
from forge.tir import expr as E
from forge.tir.expr import Expr
from forge.tir.stmt import Stmt, seq

MEAN, SQUARES = range(2)


def moments(row: AlongRow) -> tuple[Stmt, Expr, Expr]:
    """Returns statements, the mean, and the sum of squared differences from it.

    Each chunk has its own mean and squares, taken in two passes over the nearest cache; they join what is known as (Chan et al.)
    ``mean += d * n / N`` and ``squares += squares' + d * d * n * (N - n) / N`` with d = mean' - mean and N elements so far.
    Both are totals in two parts, so that many chunks are as exact as few.
    """
    axis, dtype = row.axis, row.dtype
    size = row.problem.target.l1_cache // (4 * dtypes.itemsize(dtype))
    chunks, first, count = blocks(axis.extent, size)
    known, seen = Totals(dtype, 1, 2), Cell("seen", dtype)
    body = nest([chunks], seq(_chunk(row, known, seen, first, count)))
    parts: list[Stmt] = [known.start(), seen.start(0.0), nest(row.problem.row[:-1], body)]
    mean, squares = bound(known.get(MEAN), parts, "mean"), bound(known.get(SQUARES), parts, "squares")
    return seq(parts), mean, squares


def _chunk(row: AlongRow, known: Totals, seen: Cell, first: Expr, count: Expr) -> list[Stmt]:
    part = AlongRow(row.problem, row.dtype, False, (first, count))
    summed, total = part.reduce("sum", lambda position: ([], part.read("data", position)))
    parts: list[Stmt] = [summed]
    number = bound(E.cast(count, row.dtype), parts, "number")
    mean = bound(total / number, parts, "chunk_mean")

    def square(position: Position) -> tuple[Sequence[Stmt], Expr]:
        lets, d = bind("d", part.read("data", position) - mean)
        return lets, d * d

    squared, squares = part.reduce("sum", square)
    parts.append(squared)
    together = bound(seen.value + number, parts, "together")
    share = bound(number / together, parts, "share")
    delta = bound(mean - known.get(MEAN), parts, "delta")
    more = squares + delta * delta * share * seen.value
    return [*parts, known.add(SQUARES, more), known.add(MEAN, delta * share), seen.set(together)]
