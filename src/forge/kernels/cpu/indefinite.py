"""Factors of symmetric matrices with the pivots of Bunch and Kaufman, one matrix after the other: ldl, ldl_solve."""

from __future__ import annotations

import math
from collections.abc import Callable

from forge.kernels.cpu.factorization import Matrix, batch_loops, find_first, magnitude
from forge.loops import Cell, bound, clamped, parallel_nest
from forge.loops.contract import KernelCall, kernel
from forge.tir import expr as E
from forge.tir.expr import Expr
from forge.tir.stmt import Function, If, Let, Stmt, loop, seq

# As in forge.ops.linalg.indefinite.
THRESHOLD = (1 + math.sqrt(17)) / 8


def _pivot_pair(element: Callable[[Expr, Expr], Expr], k: Expr, lets: list[Stmt]) -> tuple[Expr, Expr, Expr]:
    """Binds what a pivot of columns k and k + 1 has below its diagonal, and both elements on it, divided by that."""
    edge = bound(element(k + 1, k), lets, "edge")
    return edge, bound(element(k, k) / edge, lets, "upper_pivot"), bound(element(k + 1, k + 1) / edge, lets, "lower_pivot")


def _find_largest(place: Cell, element: Callable[[Expr], Expr], begin: Expr, end: Expr) -> Stmt:
    """Sets ``place`` to the first index from ``begin`` to ``end`` whose element is the largest; ``begin`` where there is none."""
    count = E.binary("max", end - begin, E.const(0))
    return find_first(place, begin, count, lambda a, b: magnitude(element(a)) > magnitude(element(b)))


class _Elimination:
    """One stage of ldl: a pivot of one or two columns from column k on, and what it subtracts from the columns after it."""

    def __init__(self, out: Matrix, size: Expr) -> None:
        self.out, self.size = out, size
        self.cells = [*map(Cell, ("at", "count", "chosen", "best")), Cell("in_row", out.dtype), Cell("in_column", out.dtype)]
        self.at, self.count, self.row, self.best, self.in_row, self.in_column = self.cells
        self.k, self.last = E.var("k"), E.var("last")

    def choose(self) -> Stmt:
        """Sets ``count`` to the columns of the pivot, and ``row`` to the row that is exchanged with its last one."""
        out, k, row, best = self.out, self.k, self.row, self.best
        pivot, largest = magnitude(out.load(k, k)), self.in_column.value
        decide = If(pivot >= largest * THRESHOLD * (largest / self.in_row.value),
                    row.set(k),
                    If(magnitude(out.load(row.value, row.value)) < self.in_row.value * THRESHOLD, self.count.set(2)))
        compare = seq(
            _find_largest(best, lambda r: out.load(r, k), k + 1, self.size),
            self.in_column.set(magnitude(out.load(best.value, k))),
            If(pivot < largest * THRESHOLD, seq(row.set(best.value), self._row_maximum(), decide)),
        )
        return seq(
            row.set(k), self.count.set(1), self.in_column.set(E.const(0.0, out.dtype)), If(k + 1 < self.size, compare))

    def _row_maximum(self) -> Stmt:
        """Sets ``in_row`` to the largest element next to the diagonal in the row that ``row`` names."""
        out, row, best = self.out, self.row.value, self.best
        below = E.binary("max", self.in_row.value, magnitude(out.load(best.value, row)))
        return seq(
            _find_largest(best, lambda c: out.load(row, c), self.k, row),
            self.in_row.set(magnitude(out.load(row, best.value))),
            _find_largest(best, lambda r: out.load(r, row), row + 1, self.size),
            If(row + 1 < self.size, self.in_row.set(below)),
        )

    def exchange(self) -> Stmt:
        """Exchanges rows and columns ``last`` and ``row`` of the lower triangle."""
        i, p, last, k, swap = E.var("i"), self.row.value, self.last, self.k, self.out.swap
        return seq(
            loop(i, self.size - p - 1, swap((i, last), (i, p)), begin=p + 1),
            loop(i, p - last - 1, swap((i, last), (p, i)), begin=last + 1),
            swap((last, last), (p, p)),
            If(self.count.value.eq(2), swap((k + 1, k), (p, k))),
        )

    def one(self) -> Stmt:
        """Subtracts what a pivot of one column makes of the columns after it."""
        out, k, i, j = self.out, self.k, E.var("i"), E.var("j")
        pivot, factor = (E.Var(out.dtype, 1, name) for name in ("pivot", "factor"))
        column = seq(
            Let(factor, out.load(j, k) / pivot),
            loop(i, self.size - j, out.store(i, j, out.load(i, j) - factor * out.load(i, k)), begin=j),
            out.store(j, k, factor),
        )
        return seq(Let(pivot, out.load(k, k)), If(pivot.ne(0.0), loop(j, self.size - k - 1, column, begin=k + 1)))

    def two(self) -> Stmt:
        """Subtracts what a pivot of two columns makes of the columns after it."""
        out, k, i, j = self.out, self.k, E.var("i"), E.var("j")
        lets: list[Stmt] = []
        edge, upper, lower = _pivot_pair(out.load, k, lets)
        scale = bound(E.const(1.0, out.dtype) / (upper * lower - 1.0) / edge, lets, "scale")
        first, second, factor, other = (E.Var(out.dtype, 1, name) for name in ("first", "second", "factor", "other"))
        rest = out.load(i, j) - out.load(i, k) * factor - out.load(i, k + 1) * other
        column = seq(
            Let(first, out.load(j, k)),
            Let(second, out.load(j, k + 1)),
            Let(factor, scale * (lower * first - second)),
            Let(other, scale * (upper * second - first)),
            loop(i, self.size - j, out.store(i, j, rest), begin=j),
            out.store(j, k, factor),
            out.store(j, k + 1, other),
        )
        return seq(lets, loop(j, self.size - k - 2, column, begin=k + 2))


@kernel("ldl")
def ldl(call: KernelCall) -> Function:
    """Family of ``linalg.ldl``: operand data; results factors in the lower triangle, in place, and pivots. LAPACK's sytf2."""
    (data,) = call.readers
    loops, batch = batch_loops(data.shape)
    (out, pivots), size = (Matrix(buffer, batch) for buffer in call.buffers[-2:]), data.shape[-1]
    stage = _Elimination(out, size)
    k, row = stage.k, stage.row.value

    eliminate = seq(
        Let(k, stage.at.value),
        stage.choose(),
        Let(stage.last, k + stage.count.value - 1),
        If(row.ne(stage.last), stage.exchange()),
        If(stage.count.value.eq(1),
           seq(pivots.store(k, row + 1), stage.one()),
           seq(pivots.store(k, E.const(-1) - row), pivots.store(k + 1, E.const(-1) - row), stage.two())),
        stage.at.set(k + stage.count.value),
    )
    body = seq(
        [cell.allocate() for cell in stage.cells],
        out.fill(size, size, lambda i, j: E.select(j <= i, data.read((*batch, i, j)), E.const(0.0, out.dtype))),
        stage.at.set(0),
        loop(E.var("step"), size, If(stage.at.value < size, eliminate)),
    )
    return call.function(parallel_nest(loops, body, size * size * size))


class _Substitution:
    """The steps of ldl_solve at row k of the right sides ``out``; ``element`` reads the factors."""

    def __init__(self, out: Matrix, size: Expr, columns: Expr, element: Callable[[Expr, Expr], Expr]) -> None:
        self.out, self.size, self.columns, self.element = out, size, columns, element
        self.k, self.chosen = E.var("k"), E.var("chosen")

    def _columns(self, statement: Callable[[Expr], Stmt]) -> Stmt:
        c = E.var("column")
        return loop(c, self.columns, statement(c))

    def swap(self, row: Expr) -> Stmt:
        return If(self.chosen.ne(row), self.out.exchange(row, self.chosen, self.columns))

    def down(self, column: Expr, begin: Expr) -> Stmt:
        """Subtracts a row, times its column of L, from the rows from ``begin`` on."""
        out, i = self.out, E.var("i")
        return self._rows(i, begin, lambda c: out.store(i, c, out.load(i, c) - self.element(i, column) * out.load(column, c)))

    def up(self, column: Expr, begin: Expr) -> Stmt:
        """Subtracts the rows from ``begin`` on, times a column of L, from its row."""
        out, i = self.out, E.var("i")
        return self._rows(i, begin, lambda c: out.store(
            column, c, out.load(column, c) - self.element(i, column) * out.load(i, c)))

    def _rows(self, i: E.Var, begin: Expr, statement: Callable[[Expr], Stmt]) -> Stmt:
        return loop(i, E.binary("max", self.size - begin, E.const(0)), self._columns(statement), begin=begin)

    def divide(self) -> Stmt:
        out, k = self.out, self.k
        return self._columns(lambda c: out.store(k, c, out.load(k, c) / self.element(k, k)))

    def divide_pair(self) -> Stmt:
        """Solves the equations of a pivot of two columns."""
        out, k = self.out, self.k
        lets: list[Stmt] = []
        edge, upper, lower = _pivot_pair(self.element, k, lets)
        denominator = bound(upper * lower - 1.0, lets, "denominator")
        first, second = (E.Var(out.dtype, 1, name) for name in ("first", "second"))
        return seq(
            lets,
            self._columns(lambda c: seq(
                Let(first, out.load(k, c) / edge),
                Let(second, out.load(k + 1, c) / edge),
                out.store(k, c, (lower * first - second) / denominator),
                out.store(k + 1, c, (upper * second - first) / denominator),
            )),
        )


@kernel("ldl_solve")
def ldl_solve(call: KernelCall) -> Function:
    """Family of ``linalg.ldl_solve``: operands factors, pivots, b; the result in place of b. LAPACK's sytrs."""
    factors, pivots, b = call.readers
    loops, batch = batch_loops(b.shape)
    out = Matrix(call.buffers[-1], batch)
    size, columns = b.shape[-2], b.shape[-1]
    at, step = Cell("at"), E.var("step")
    rows = _Substitution(out, size, columns, lambda row, column: factors.read((*batch, row, column)))
    k = rows.k
    pivot = E.cast(pivots.read((*batch, k)), E.INDEX)
    begin = [Let(k, at.value), Let(rows.chosen, clamped(magnitude(pivot) - 1, size))]
    forward = seq(
        begin,
        If(E.logical_and(pivot < 0, k + 1 < size),
           seq(rows.swap(k + 1), rows.down(k, k + 2), rows.down(k + 1, k + 2), rows.divide_pair(), at.set(k + 2)),
           seq(rows.swap(k), rows.down(k, k + 1), rows.divide(), at.set(k + 1))),
    )
    backward = seq(
        begin,
        If(E.logical_and(pivot < 0, k > 0),
           seq(rows.up(k, k + 1), rows.up(k - 1, k + 1), rows.swap(k), at.set(k - 2)),
           seq(rows.up(k, k + 1), rows.swap(k), at.set(k - 1))),
    )
    body = seq(
        at.allocate(),
        out.copy(b),
        at.set(0),
        loop(step, size, If(at.value < size, forward)),
        at.set(size - 1),
        loop(step, size, If(at.value >= 0, backward)),
    )
    return call.function(parallel_nest(loops, body, size * size * columns))
