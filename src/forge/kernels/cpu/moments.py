"""Mean and sum of squared differences of a long row in one pass over memory."""

from __future__ import annotations

from collections.abc import Sequence

from forge import dtypes
from forge.kernels.cpu.rows import AlongRow, Position
from forge.loops import blocks, nest
from forge.tir import expr as E
from forge.tir.expr import Buffer, Expr
from forge.tir.stmt import Allocate, Let, Stmt, seq, store

COUNT, MEAN, SQUARES = range(3)


def moments(row: AlongRow) -> tuple[Stmt, Expr, Expr]:
    """Statements, the mean, and the sum of squared differences from it.

    Each chunk has its own mean and squares, taken in two passes over the nearest cache; they join what is known as (Chan et al.)
    ``mean += d * n / N`` and ``squares += squares' + d * d * n * (N - n) / N`` with d = mean' - mean and N elements so far.
    """
    axis, dtype = row.axis, row.dtype
    size = row.problem.target.l1_cache // (4 * dtypes.itemsize(dtype))
    chunks, first, count = blocks(axis.extent, size)
    known = Buffer("moments", dtype, (E.const(3),), scope="local")
    body = nest([chunks], seq(_chunk(row, known, first, count)))
    mean, squares = E.Var(dtype, 1, "mean"), E.Var(dtype, 1, "squares")
    statements = seq(
        Allocate(known),
        *(store(known, k, E.const(0.0, dtype)) for k in (COUNT, MEAN, SQUARES)),
        nest(row.problem.row[:-1], body),
        Let(mean, E.load(known, MEAN)),
        Let(squares, E.load(known, SQUARES)),
    )
    return statements, mean, squares


def _chunk(row: AlongRow, known: Buffer, first: Expr, count: Expr) -> list[Stmt]:
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
        Let(together, E.load(known, COUNT) + number),
        Let(share, number / together),
        Let(delta, mean - E.load(known, MEAN)),
        store(known, SQUARES, E.load(known, SQUARES) + squares + delta * delta * share * E.load(known, COUNT)),
        store(known, MEAN, E.load(known, MEAN) + delta * share),
        store(known, COUNT, together),
    ]
