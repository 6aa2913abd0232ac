"""Mean and sum of squared differences of a long row in one pass over memory."""

from __future__ import annotations

from collections.abc import Sequence

from forge import dtypes
from forge.kernels.cpu.rows import AlongRow, Position
from forge.loops import Cell, Totals, blocks, nest
from forge.tir import expr as E
from forge.tir.expr import Expr
from forge.tir.stmt import Let, Stmt, seq

MEAN, SQUARES = range(2)


def moments(row: AlongRow) -> tuple[Stmt, Expr, Expr]:
    """Statements, the mean, and the sum of squared differences from it.

    Each chunk has its own mean and squares, taken in two passes over the nearest cache; they join what is known as (Chan et al.)
    ``mean += d * n / N`` and ``squares += squares' + d * d * n * (N - n) / N`` with d = mean' - mean and N elements so far.
    Both are totals in two parts, so that many chunks are as exact as few.
    """
    axis, dtype = row.axis, row.dtype
    size = row.problem.target.l1_cache // (4 * dtypes.itemsize(dtype))
    chunks, first, count = blocks(axis.extent, size)
    known, seen = Totals(dtype, 1, 2), Cell("seen", dtype)
    body = nest([chunks], seq(_chunk(row, known, seen, first, count)))
    mean, squares = E.Var(dtype, 1, "mean"), E.Var(dtype, 1, "squares")
    statements = seq(
        known.start(),
        seen.start(0.0),
        nest(row.problem.row[:-1], body),
        Let(mean, known.get(MEAN)),
        Let(squares, known.get(SQUARES)),
    )
    return statements, mean, squares


def _chunk(row: AlongRow, known: Totals, seen: Cell, first: Expr, count: Expr) -> list[Stmt]:
    dtype = row.dtype
    part = AlongRow(row.problem, dtype, False, (first, count))
    summed, total = part.reduce("sum", lambda position: ([], part.read("data", position)))
    mean, number = E.Var(dtype, 1, "chunk_mean"), E.Var(dtype, 1, "number")

    def square(position: Position) -> tuple[Sequence[Stmt], Expr]:
        d = E.Var(dtype, position.lanes, "d")
        return [Let(d, part.read("data", position) - mean)], d * d

    squared, squares = part.reduce("sum", square)
    together, share, delta = E.Var(dtype, 1, "together"), E.Var(dtype, 1, "share"), E.Var(dtype, 1, "delta")
    return [
        summed,
        Let(number, E.cast(count, dtype)),
        Let(mean, total / number),
        squared,
        Let(together, seen.value + number),
        Let(share, number / together),
        Let(delta, mean - known.get(MEAN)),
        known.add(SQUARES, squares + delta * delta * share * seen.value),
        known.add(MEAN, delta * share),
        seen.set(together),
    ]
