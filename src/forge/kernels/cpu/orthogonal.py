"""Householder reflections and Jacobi rotations, one matrix after the other: householder, householder_multiply, orthogonal_rows,
diagonalize.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from forge import dtypes
from forge.loops import (
    Accumulators,
    AxisAccumulators,
    Cell,
    RegisterTile,
    axes,
    bind,
    group_loop,
    multiply_add,
    parallel_nest,
    places,
    supports_masks,
)
from forge.loops.contract import KernelCall, kernel
from forge.target import Target
from forge.tir import expr as E
from forge.tir.expr import Buffer, Expr
from forge.tir.stmt import Function, If, Let, Stmt, loop, seq, store

SWEEPS: Final = 30
"""Over all pairs, at most. Convergence is quadratic: matrices of 1000 rows take about 12."""

TOGETHER: Final = 4
"""Vectors of columns that a reflection changes side by side, so that their sums overlap."""

NEGLIGIBLE: Final = 2.0**-60
"""An element off the diagonal that changes no eigenvalue in float64, relative to both elements on the diagonal."""


@dataclass(frozen=True)
class _Matrix:
    """One matrix of ``buffer``, and how its rows are run over in vectors."""

    buffer: Buffer
    batch: Sequence[Expr]
    target: Target

    @property
    def dtype(self) -> str:
        return self.buffer.dtype

    def place(self, i: Expr, j: Expr) -> Expr:
        return self.buffer.offset(*self.batch, i, j)

    def load(self, i: Expr, j: Expr) -> Expr:
        return E.load(self.buffer, self.place(i, j))

    def store(self, i: Expr, j: Expr, value: Expr) -> Stmt:
        return store(self.buffer, self.place(i, j), value)

    @property
    def lanes(self) -> int:
        return self.target.lanes(self.dtype)

    @property
    def masked(self) -> bool:
        return supports_masks(self.target, [dtypes.itemsize(self.dtype)])

    def each(self, extent: Expr, body: Callable[[Expr, int, Expr | None], Stmt]) -> Stmt:
        """``body`` (first element, lanes, mask) over ``extent`` elements of rows."""
        return group_loop(extent, self.lanes, lambda at, width, mask, _: body(at, width, mask), 1, self.masked)

    def rotate(self, i: Expr, j: Expr, extent: Expr, cosine: Expr, sine: Expr) -> Stmt:
        """Row i becomes cosine * row i - sine * row j, and row j sine * row i + cosine * row j.

        They are written as what they were and a change, so that rounding errors are relative to the change.
        """
        let, half = bind("half", sine / (cosine + 1.0))

        def vector(at: Expr, width: int, mask: Expr | None) -> Stmt:
            x, y = E.Var(self.dtype, width, "x"), E.Var(self.dtype, width, "y")
            s, t = E.broadcast(sine, width), E.broadcast(half, width)
            first, second = (E.ramp(self.place(row, at), 1, width) for row in (i, j))
            return seq(
                Let(x, E.load(self.buffer, first, mask)),
                Let(y, E.load(self.buffer, second, mask)),
                store(self.buffer, first, x - s * (y + t * x), mask),
                store(self.buffer, second, y + s * (x - t * y), mask),
            )

        return seq(let, self.each(extent, vector))

    def products(self, pairs: Sequence[tuple[Expr, Expr]], extent: Expr) -> tuple[Stmt, list[Expr]]:
        """Statements, and inner products of the rows of each pair."""
        sums = [AxisAccumulators(RegisterTile(1, 1, self.lanes, self.dtype), "sum", self.target, self.masked) for _ in pairs]

        def vector(at: Expr, width: int, mask: Expr | None) -> Stmt:
            rows = {row: E.Var(self.dtype, width, "row") for pair in pairs for row in pair}
            loads = [Let(v, E.load(self.buffer, E.ramp(self.place(row, at), 1, width), mask)) for row, v in rows.items()]
            return seq(loads, (total.step(0, width, rows[a] * rows[b], mask) for total, (a, b) in zip(sums, pairs)))

        return seq((total.start() for total in sums), self.each(extent, vector)), [total.total() for total in sums]

    def exchange(self, i: Expr, j: Expr, extent: Expr) -> Stmt:
        column = E.var("column")
        return loop(column, extent, _exchange(self.buffer, self.place(i, column), self.place(j, column)))

    def set_identity(self, size: Expr) -> Stmt:
        row, column = E.var("row"), E.var("column")
        one, zero = E.const(1.0, self.dtype), E.const(0.0, self.dtype)
        return loop(row, size, loop(column, size, self.store(row, column, E.select(row.eq(column), one, zero))))

    def reflect(self, step: Expr, rows: Expr, begin: Expr, columns: Expr, vector: Callable[[Expr], Expr], tau: Expr) -> Stmt:
        """The columns from ``begin`` on, ``columns`` of them, times 1 - tau v v^T.

        v is 0 before element ``step``, 1 there, and ``vector`` (row) after it.
        """

        def group(at: Expr, width: int, mask: Expr | None, count: int) -> Stmt:
            sums = Accumulators(RegisterTile(1, count, width, self.dtype), "sum", self.target)
            row, element = E.var("row"), E.Var(self.dtype, 1, "element")

            def part(i: Expr, v: int) -> Expr:
                return E.ramp(self.place(i, at + v * width), 1, width)

            def load(i: Expr, v: int) -> Expr:
                return E.load(self.buffer, part(i, v), mask)

            def below(body: Callable[[int], Stmt]) -> Stmt:
                each = seq(Let(element, vector(row)), (body(v) for v in range(count)))
                return loop(row, rows - step - 1, each, begin=step + 1)

            def add(v: int) -> Stmt:
                return sums.set(0, v, multiply_add(E.broadcast(element, width), load(row, v), sums.get(0, v)))

            def subtract(v: int) -> Stmt:
                return store(self.buffer, part(row, v), load(row, v) - E.broadcast(element, width) * sums.get(0, v), mask)

            return seq(
                sums.allocate(),
                (sums.set(0, v, load(step, v)) for v in range(count)),
                below(add),
                (sums.set(0, v, sums.get(0, v) * E.broadcast(tau, width)) for v in range(count)),
                (store(self.buffer, part(step, v), load(step, v) - sums.get(0, v), mask) for v in range(count)),
                below(subtract),
            )

        return group_loop(columns, self.lanes, group, TOGETHER, self.masked, begin)


def _exchange(buffer: Buffer, a: Expr, b: Expr) -> Stmt:
    first, second = E.Var(buffer.dtype, 1, "first"), E.Var(buffer.dtype, 1, "second")
    return seq(Let(first, E.load(buffer, a)), Let(second, E.load(buffer, b)), store(buffer, a, second), store(buffer, b, first))


def _size(x: Expr) -> Expr:
    return E.call("abs", x)


def _larger(x: Expr, y: Expr) -> Expr:
    """NaN if one of them is."""
    return E.binary("max", x, y)


@kernel("householder")
def householder(call: KernelCall) -> Function:
    """Family of ``linalg.householder``: operand data; results the factors, in place, and the numbers tau. Column by column."""
    (data,) = call.readers
    taus = call.buffers[-1]
    loops = axes(data.shape[:-2])
    batch = places(loops)
    out = _Matrix(call.buffers[-2], batch, call.target)
    dtype, (rows, columns) = out.dtype, data.shape[-2:]
    row, column, step = E.var("row"), E.var("column"), E.var("step")
    largest, total = Cell("largest", dtype), Cell("total", dtype)
    alpha, beta, tau, ratio = (E.Var(dtype, 1, name) for name in ("alpha", "beta", "tau", "ratio"))
    below = rows - step - 1
    relative = out.load(row, step) / largest.value  # so that squares, and quotients of subnormal numbers, are in range
    norm = E.call("sqrt", total.value)
    reflect = seq(
        largest.set(_larger(largest.value, _size(out.load(step, step)))),
        Let(alpha, out.load(step, step) / largest.value),
        total.set(0.0),
        loop(row, rows - step, seq(Let(ratio, relative), total.set(total.value + ratio * ratio)), begin=step),
        Let(beta, E.select(alpha < 0.0, norm, E.negate(norm))),
        Let(tau, (beta - alpha) / beta),
        loop(row, below, out.store(row, step, relative / (alpha - beta)), begin=step + 1),
        out.store(step, step, beta * largest.value),
        store(taus, taus.offset(*batch, step), tau),
        out.reflect(step, rows, step + 1, columns - step - 1, lambda i: out.load(i, step), tau),
    )
    stage = seq(
        largest.set(0.0),
        loop(row, below, largest.set(_larger(largest.value, _size(out.load(row, step)))), begin=step + 1),
        If(largest.value.ne(0.0), reflect, store(taus, taus.offset(*batch, step), E.const(0.0, dtype))),
    )
    body = seq(
        largest.allocate(),
        total.allocate(),
        loop(row, rows, loop(column, columns, out.store(row, column, data.read((*batch, row, column))))),
        loop(step, E.binary("min", rows, columns), stage),
    )
    return call.function(parallel_nest(loops, body, rows * columns * columns))


@kernel("householder_multiply")
def householder_multiply(call: KernelCall) -> Function:
    """Family of ``linalg.householder_multiply``: operands factors, tau, other; attribute transpose."""
    factors, taus, other = call.readers
    loops = axes(other.shape[:-2])
    batch = places(loops)
    out = _Matrix(call.buffers[-1], batch, call.target)
    (rows, columns), count = other.shape[-2:], taus.shape[-1]
    row, column, number, step = E.var("row"), E.var("column"), E.var("number"), E.var("step")
    tau = E.Var(out.dtype, 1, "tau")
    stage = seq(
        Let(step, number if call.attrs.transpose else count - 1 - number),
        Let(tau, taus.read((*batch, step))),
        out.reflect(step, rows, E.const(0), columns, lambda i: factors.read((*batch, i, step)), tau),
    )
    copy = out.store(row, column, other.read((*batch, row, column)))
    body = seq(loop(row, rows, loop(column, columns, copy)), loop(number, count, stage))
    return call.function(parallel_nest(loops, body, rows * columns * count))


def _sweeps(count: Expr, pair: Callable[[Expr, Expr, Stmt], Stmt]) -> Stmt:
    """``pair`` (i, j, what to run where it was rotated) for all i < j below ``count``, until none is rotated."""
    going, i, j = Cell("going"), E.var("i"), E.var("j")
    sweep = loop(i, count, loop(j, count - i - 1, pair(i, j, going.set(1)), begin=i + 1))
    return seq(going.start(1), loop(E.var("sweep"), SWEEPS, If(going.value.ne(0), seq(going.set(0), sweep))))


def _rotation(difference: Expr, product: Expr, rotate: Callable[[Expr, Expr, Expr], Stmt]) -> Stmt:
    """``rotate`` with tangent, cosine and sine of the angle, of at most 45 degrees, that makes [[a, b], [b, a + difference]]
    diagonal, ``product`` being b.
    """
    ratio, tangent, cosine, sine = (E.Var("float64", 1, name) for name in ("ratio", "tangent", "cosine", "sine"))
    root = _size(ratio) + E.call("sqrt", ratio * ratio + 1.0)
    return seq(
        Let(ratio, difference / (product * 2.0)),
        Let(tangent, E.select(ratio < 0.0, E.const(-1.0, "float64"), E.const(1.0, "float64")) / root),
        Let(cosine, E.const(1.0, "float64") / E.call("sqrt", tangent * tangent + 1.0)),
        Let(sine, cosine * tangent),
        rotate(tangent, cosine, sine),
    )


def _sorted(values: Buffer, batch: Sequence[Expr], count: Expr, descending: bool, exchange: Callable[[Expr, Expr], Stmt]) -> Stmt:
    """Sorts ``values``; ``exchange`` moves what belongs to two of them."""
    i, j, chosen, place = E.var("i"), E.var("j"), Cell("chosen"), E.var("place")

    def value(k: Expr) -> Expr:
        return E.load(values, values.offset(*batch, k))

    better = value(j) > value(chosen.value) if descending else value(j) < value(chosen.value)
    moved = seq(_exchange(values, values.offset(*batch, i), values.offset(*batch, place)), exchange(i, place))
    search = seq(chosen.set(i), loop(j, count - i - 1, If(better, chosen.set(j)), begin=i + 1), Let(place, chosen.value))
    return seq(chosen.allocate(), loop(i, count, seq(search, If(place.ne(i), moved))))


def _with_sign(vectors: _Matrix, row: Expr, count: Expr, zero: Expr, use: Callable[[Expr], Stmt]) -> Stmt:
    """``use`` with the factor that makes the first one of the largest elements of a row positive; NaN where ``zero`` is."""
    column, chosen, sign = E.var("column"), Cell("largest"), E.Var(vectors.dtype, 1, "sign")
    larger = _size(vectors.load(row, column)) > _size(vectors.load(row, chosen.value))
    one = E.const(1.0, vectors.dtype)
    return seq(
        chosen.start(0),
        loop(column, count, If(larger, chosen.set(column))),
        Let(sign, E.select(vectors.load(row, chosen.value) < 0.0, E.negate(one), one) + zero),
        loop(column, count, vectors.store(row, column, vectors.load(row, column) * sign)),
        use(sign),
    )


@kernel("orthogonal_rows")
def orthogonal_rows(call: KernelCall) -> Function:
    """Family of ``linalg.orthogonal_rows``: operand data; results the rotated rows, their norms and the rotations.

    One-sided Jacobi rotations of all pairs of rows, as long as two are not orthogonal. The matrix is divided by its largest
    element first, so that squares are in range.
    """
    (data,) = call.readers
    loops = axes(data.shape[:-2])
    batch = places(loops)
    rows, turns = (_Matrix(call.buffers[k], batch, call.target) for k in (-3, -1))
    norms = call.buffers[-2]
    dtype, (count, length) = rows.dtype, data.shape[-2:]
    row, column = E.var("row"), E.var("column")
    largest, scale, nearly = Cell("largest", dtype), E.Var(dtype, 1, "scale"), E.Var(dtype, 1, "nearly")

    def each(body: Callable[[Expr, Expr], Stmt]) -> Stmt:
        return loop(row, count, loop(column, length, body(row, column)))

    def pair(i: Expr, j: Expr, rotated: Stmt) -> Stmt:
        measure, products = rows.products([(i, i), (j, j), (i, j)], length)
        own, other, both = (E.Var(dtype, 1, name) for name in ("own", "other", "both"))

        def rotate(tangent: Expr, cosine: Expr, sine: Expr) -> Stmt:
            return seq(rows.rotate(i, j, length, cosine, sine), turns.rotate(i, j, count, cosine, sine), rotated)

        unlike = _size(both) > nearly * E.call("sqrt", own) * E.call("sqrt", other)
        values = [Let(v, product) for v, product in zip((own, other, both), products)]
        return seq(measure, values, If(unlike, _rotation(other - own, both, rotate)))

    measure, (square,) = rows.products([(row, row)], length)
    norm = norms.offset(*batch, row)

    def finish(sign: Expr) -> Stmt:
        scaled = rows.store(row, column, rows.load(row, column) * sign * scale)
        return seq(loop(column, length, scaled), store(norms, norm, E.load(norms, norm) * scale))

    body = seq(
        largest.start(0.0),
        each(lambda i, j: largest.set(_larger(largest.value, _size(data.read((*batch, i, j)))))),
        Let(scale, E.select(largest.value.eq(0.0), E.const(1.0, dtype), largest.value)),
        each(lambda i, j: rows.store(i, j, data.read((*batch, i, j)) / scale)),
        turns.set_identity(count),
        Let(nearly, E.call("sqrt", E.cast(length, dtype)) * float(np.finfo(dtype).eps)),
        _sweeps(count, pair),
        loop(row, count, seq(measure, store(norms, norm, E.call("sqrt", square)))),
        _sorted(norms, batch, count, True, lambda i, j: seq(rows.exchange(i, j, length), turns.exchange(i, j, count))),
        loop(row, count, _with_sign(turns, row, count, scale * 0.0, finish)),
    )
    return call.function(parallel_nest(loops, body, count * count * (length + count) * SWEEPS))


@kernel("diagonalize")
def diagonalize(call: KernelCall) -> Function:
    """Family of ``linalg.diagonalize``: operand data, of which one triangle is read; attribute lower.

    Results: eigenvalues; eigenvectors, which are kept as rows until the end; what the rotations leave of data.
    """
    (data,) = call.readers
    values = call.buffers[-3]
    loops = axes(data.shape[:-2])
    batch = places(loops)
    vectors, left = (_Matrix(call.buffers[k], batch, call.target) for k in (-2, -1))
    dtype, count = left.dtype, data.shape[-1]
    row, column = E.var("row"), E.var("column")
    zero = Cell("zero", dtype)  # NaN where an element of the matrix is not finite

    def copy() -> Stmt:
        element = E.Var(dtype, 1, "element")
        read = data.read((*batch, row, column) if call.attrs.lower else (*batch, column, row))
        both = seq(left.store(row, column, element), left.store(column, row, element))
        return loop(row, count, loop(column, row + 1, seq(Let(element, read), both, zero.set(zero.value + element * 0.0))))

    def pair(i: Expr, j: Expr, rotated: Stmt) -> Stmt:
        own, other, both = (E.Var(dtype, 1, name) for name in ("own", "other", "both"))
        k = E.var("k")

        def rotate(tangent: Expr, cosine: Expr, sine: Expr) -> Stmt:
            columns = seq(left.store(k, i, left.load(i, k)), left.store(k, j, left.load(j, k)))
            nothing = E.const(0.0, dtype)
            return seq(
                left.rotate(i, j, count, cosine, sine),
                loop(k, count, columns),
                left.store(i, i, own - tangent * both),
                left.store(j, j, other + tangent * both),
                left.store(i, j, nothing),
                left.store(j, i, nothing),
                vectors.rotate(i, j, count, cosine, sine),
                rotated,
            )

        unlike = _size(both) > E.binary("min", _size(own), _size(other)) * NEGLIGIBLE
        loads = [Let(v, left.load(*place)) for v, place in ((own, (i, i)), (other, (j, j)), (both, (i, j)))]
        return seq(loads, If(unlike, _rotation(other - own, both, rotate)))

    transposed = _exchange(vectors.buffer, vectors.place(row, column), vectors.place(column, row))
    value = values.offset(*batch, row)
    body = seq(
        zero.start(0.0),
        copy(),
        loop(row, count, loop(column, count, left.store(row, column, left.load(row, column) + zero.value))),
        vectors.set_identity(count),
        _sweeps(count, pair),
        loop(row, count, store(values, value, left.load(row, row))),
        _sorted(values, batch, count, False, lambda i, j: vectors.exchange(i, j, count)),
        loop(row, count, _with_sign(vectors, row, count, zero.value, lambda _: seq())),
        loop(row, count, loop(column, row, transposed)),
    )
    return call.function(parallel_nest(loops, body, count * count * count * SWEEPS))
