"""Householder reflections and Jacobi rotations, one matrix after the other: householder, householder_pivoted,
householder_multiply, hessenberg, orthogonal_rows, diagonalize.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from forge import dtypes, loops
from forge.kernels.cpu.factorization import (
    Matrix,
    as_number,
    batch_loops,
    conjugate,
    each_element,
    find_first,
    magnitude,
    real_dtype,
)
from forge.loops import Accumulators, AxisAccumulators, Cell, RegisterTile, bind, multiply_add, parallel_nest
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
class _Matrix(Matrix):
    """One matrix of ``buffer``, and how its rows are run over in vectors."""

    target: Target

    @property
    def lanes(self) -> int:
        return self.target.lanes(self.dtype)

    @property
    def masked(self) -> bool:
        return loops.supports_masks(self.target, [dtypes.itemsize(self.dtype)])

    def each(self, extent: Expr, body: Callable[[Expr, int, Expr | None], Stmt]) -> Stmt:
        """``body`` (first element, lanes, mask) over ``extent`` elements of rows."""
        return loops.group_loop(extent, self.lanes, lambda at, width, mask, _: body(at, width, mask), 1, self.masked)

    def rotate(self, i: Expr, j: Expr, extent: Expr, cosine: Expr, sine: Expr) -> Stmt:
        """Row i becomes cosine * row i - sine * row j, and row j sine * row i + cosine * row j; both factors are real.

        They are written as what they were and a change, so that rounding errors are relative to the change.
        """
        let, half = bind("half", sine / (cosine + 1.0))

        def vector(at: Expr, width: int, mask: Expr | None) -> Stmt:
            x, y = E.Var(self.dtype, width, "x"), E.Var(self.dtype, width, "y")
            s, t = (E.broadcast(as_number(factor, self.dtype), width) for factor in (sine, half))
            first, second = (E.ramp(self.place(row, at), 1, width) for row in (i, j))
            return seq(
                Let(x, E.load(self.buffer, first, mask)),
                Let(y, E.load(self.buffer, second, mask)),
                store(self.buffer, first, x - s * (y + t * x), mask),
                store(self.buffer, second, y + s * (x - t * y), mask),
            )

        return seq(let, self.each(extent, vector))

    def products(self, pairs: Sequence[tuple[Expr, Expr]], extent: Expr) -> tuple[Stmt, list[Expr]]:
        """Statements, and inner products of the first row of each pair with the second, which is conjugated."""
        sums = [AxisAccumulators(RegisterTile(1, 1, self.lanes, self.dtype), "sum", self.target, self.masked) for _ in pairs]

        def vector(at: Expr, width: int, mask: Expr | None) -> Stmt:
            rows = {row: E.Var(self.dtype, width, "row") for pair in pairs for row in pair}
            loads = [Let(v, E.load(self.buffer, E.ramp(self.place(row, at), 1, width), mask)) for row, v in rows.items()]
            return seq(loads, (total.step(0, width, rows[a] * conjugate(rows[b]), mask) for total, (a, b) in zip(sums, pairs)))

        return seq((total.start() for total in sums), self.each(extent, vector)), [total.total() for total in sums]

    def scale(self, i: Expr, extent: Expr, factor: Expr) -> Stmt:
        column = E.var("column")
        return loop(column, extent, self.store(i, column, self.load(i, column) * factor))

    def set_identity(self, size: Expr) -> Stmt:
        one, zero = E.const(1.0, self.dtype), E.const(0.0, self.dtype)
        return self.fill(size, size, lambda i, j: E.select(i.eq(j), one, zero))

    def reflect(self, step: Expr, rows: Expr, begin: Expr, columns: Expr, vector: Callable[[Expr], Expr], tau: Expr) -> Stmt:
        """The columns from ``begin`` on, ``columns`` of them: 1 - tau v v^H times them.

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
                return sums.set(0, v, multiply_add(E.broadcast(conjugate(element), width), load(row, v), sums.get(0, v)))

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

        return loops.group_loop(columns, self.lanes, group, TOGETHER, self.masked, begin)


def _size(x: Expr) -> Expr:
    return E.call("abs", x, dtype=real_dtype(x.dtype))


def real_part(x: Expr) -> Expr:
    """Returns the real part of ``x``."""
    return E.real_part(x) if dtypes.is_complex(x.dtype) else x


def squared(x: Expr) -> Expr:
    """Returns the square of the size of ``x``."""
    if not dtypes.is_complex(x.dtype):
        return x * x
    return E.real_part(x) * E.real_part(x) + E.imaginary_part(x) * E.imaginary_part(x)


class Reflection:
    """A map that makes a column of a matrix 0 below an element, and leaves a vector v there: 1 - tau v v^H, v being 1 at the
    element. The element becomes real, of the sign that its real part has not.
    """

    def __init__(self, out: _Matrix, rows: Expr, taus: Buffer) -> None:
        self.out, self.rows, self.taus = out, rows, Matrix(taus, out.batch)
        kind = real_dtype(out.dtype)
        self.largest, self.total = Cell("largest", kind), Cell("total", kind)
        self.tau = E.Var(out.dtype, 1, "tau")

    def allocate(self) -> Stmt:
        """Allocates the cells that `make` computes with."""
        return seq(self.largest.allocate(), self.total.allocate())

    def make(self, top: Expr, column: Expr, apply: Callable[[Expr], Stmt]) -> Stmt:
        """Stores tau, 0 where nothing is to do; else ``apply`` follows with its conjugate."""
        out, largest, total, tau, row = self.out, self.largest, self.total, self.tau, E.var("row")
        alpha, divisor, ratio = (E.Var(out.dtype, 1, name) for name in ("alpha", "divisor", "ratio"))
        beta = E.Var(total.buffer.dtype, 1, "beta")
        scale = as_number(largest.value, out.dtype)
        relative = out.load(row, column) / scale  # so that squares, and quotients of subnormal numbers, are in range
        norm = E.call("sqrt", total.value)
        reflect = seq(
            largest.set(E.binary("max", largest.value, magnitude(out.load(top, column)))),
            Let(alpha, out.load(top, column) / scale),
            total.set(0.0),
            loop(row, self.rows - top, seq(Let(ratio, relative), total.set(total.value + squared(ratio))), begin=top),
            Let(beta, E.select(real_part(alpha) < 0.0, norm, E.negate(norm))),
            Let(tau, (as_number(beta, out.dtype) - alpha) / as_number(beta, out.dtype)),
            Let(divisor, alpha - as_number(beta, out.dtype)),
            loop(row, self.rows - top - 1, out.store(row, column, relative / divisor), begin=top + 1),
            out.store(top, column, as_number(beta * largest.value, out.dtype)),
            self.taus.store(column, tau),
            apply(conjugate(tau)),
        )
        below = largest.set(E.binary("max", largest.value, magnitude(out.load(row, column))))  # NaN where there is one
        needed = largest.value.ne(0.0)
        if dtypes.is_complex(out.dtype):
            needed = needed | E.imaginary_part(out.load(top, column)).ne(0.0)
        return seq(
            largest.set(0.0),
            loop(row, self.rows - top - 1, below, begin=top + 1),
            If(needed, reflect, self.taus.store(column, E.const(0.0, out.dtype))),
        )


def _reflected(out: _Matrix, made: Reflection, step: Expr, columns: Expr) -> Stmt:
    """Column ``step`` becomes 0 below the diagonal."""
    return made.make(step, step, lambda tau: out.reflect(
        step, made.rows, step + 1, columns - step - 1, lambda i: out.load(i, step), tau))


@kernel("householder", complex_numbers=True)
def householder(call: KernelCall) -> Function:
    """Family of ``linalg.householder``: operand data; results the factors, in place, and the numbers tau. Column by column."""
    (data,) = call.readers
    outer, batch = batch_loops(data.shape)
    out = _Matrix(call.buffers[-2], batch, call.target)
    (rows, columns), step = data.shape[-2:], E.var("step")
    made = Reflection(out, rows, call.buffers[-1])
    stage = _reflected(out, made, step, columns)
    body = seq(made.allocate(), out.copy(data), loop(step, E.binary("min", rows, columns), stage))
    return call.function(parallel_nest(outer, body, rows * columns * columns))


@kernel("householder_pivoted", complex_numbers=True)
def householder_pivoted(call: KernelCall) -> Function:
    """Family of ``linalg.householder_pivoted``: operand data; results the factors, in place, the numbers tau, and the order."""
    (data,) = call.readers
    outer, batch = batch_loops(data.shape)
    out = _Matrix(call.buffers[-3], batch, call.target)
    (rows, columns), step, column, row, place = data.shape[-2:], *(E.var(name) for name in ("step", "column", "row", "place"))
    made, order = Reflection(out, rows, call.buffers[-2]), Matrix(call.buffers[-1], batch)
    scale = Cell("scale", made.total.buffer.dtype)
    chosen, best = Cell("chosen"), Cell("best", made.total.buffer.dtype)
    ratio = out.load(row, column) / as_number(scale.value, out.dtype)
    measure = seq(
        made.total.set(0.0),
        loop(row, rows - step, made.total.set(made.total.value + squared(ratio)), begin=step),
        If(made.total.value > best.value, seq(best.set(made.total.value), chosen.set(column))),
    )
    exchange = seq(loop(row, rows, out.swap((row, step), (row, place))), order.swap((step,), (place,)))
    stage = seq(
        chosen.set(step), best.set(0.0),
        loop(column, columns - step, measure, begin=step),
        Let(place, chosen.value),
        If(place.ne(step), exchange),
        _reflected(out, made, step, columns),
    )
    body = seq(
        made.allocate(), scale.start(0.0), chosen.allocate(), best.allocate(),
        out.copy(data),
        each_element(rows, columns, lambda i, j: scale.set(E.binary("max", scale.value, magnitude(out.load(i, j))))),
        If(scale.value.eq(0.0), scale.set(1.0)),
        loop(column, columns, order.store(column, column)),
        loop(step, E.binary("min", rows, columns), stage),
    )
    return call.function(parallel_nest(outer, body, rows * columns * columns))


@kernel("hessenberg", complex_numbers=True)
def hessenberg(call: KernelCall) -> Function:
    """Family of ``linalg.hessenberg``: operand data; results the factors, in place, and the numbers tau."""
    (data,) = call.readers
    outer, batch = batch_loops(data.shape)
    out, size = _Matrix(call.buffers[-2], batch, call.target), data.shape[-1]
    step, row, column = E.var("step"), E.var("row"), E.var("column")
    made = Reflection(out, size, call.buffers[-1])
    product, top = Cell("product", out.dtype), step + 1

    def vector(i: Expr) -> Expr:
        return out.load(i, step)

    def from_the_right(tau: Expr) -> Stmt:
        def rest(body: Stmt) -> Stmt:
            return loop(column, size - top - 1, body, begin=top + 1)

        changed = out.load(row, column) - product.value * conjugate(vector(column))
        each = seq(
            product.set(out.load(row, top)),
            rest(product.set(product.value + out.load(row, column) * vector(column))),
            product.set(product.value * tau),
            out.store(row, top, out.load(row, top) - product.value),
            rest(out.store(row, column, changed)),
        )
        return loop(row, size, each)

    stage = made.make(top, step, lambda tau: seq(
        from_the_right(conjugate(tau)), out.reflect(top, size, top, size - top, vector, tau)))
    body = seq(made.allocate(), product.allocate(), out.copy(data), loop(step, call.buffers[-1].shape[-1], stage))
    return call.function(parallel_nest(outer, body, size * size * size))


@kernel("householder_multiply", complex_numbers=True)
def householder_multiply(call: KernelCall) -> Function:
    """Family of ``linalg.householder_multiply``: operands factors, tau, other; attribute transpose."""
    factors, taus, other = call.readers
    outer, batch = batch_loops(other.shape)
    out = _Matrix(call.buffers[-1], batch, call.target)
    (rows, columns), count = other.shape[-2:], taus.shape[-1]
    number, step = E.var("number"), E.var("step")
    tau = E.Var(out.dtype, 1, "tau")
    stage = seq(
        Let(step, number if call.attrs.transpose else count - 1 - number),
        Let(tau, conjugate(taus.read((*batch, step))) if call.attrs.transpose else taus.read((*batch, step))),
        out.reflect(step, rows, E.const(0), columns, lambda i: factors.read((*batch, i, step)), tau),
    )
    return call.function(parallel_nest(outer, seq(out.copy(other), loop(number, count, stage)), rows * columns * count))


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


def _sorted(values: Matrix, count: Expr, descending: bool, exchange: Callable[[Expr, Expr], Stmt]) -> Stmt:
    """Sorts ``values``; ``exchange`` moves what belongs to two of them."""
    i, j, chosen, place = E.var("i"), E.var("j"), Cell("chosen"), E.var("place")
    value, best = values.load(j), values.load(chosen.value)
    better = value > best if descending else value < best
    search = seq(chosen.set(i), loop(j, count - i - 1, If(better, chosen.set(j)), begin=i + 1), Let(place, chosen.value))
    moved = seq(values.swap((i,), (place,)), exchange(i, place))
    return seq(chosen.allocate(), loop(i, count, seq(search, If(place.ne(i), moved))))


def _with_sign(vectors: _Matrix, row: Expr, count: Expr, zero: Expr, use: Callable[[Expr], Stmt]) -> Stmt:
    """``use`` with the factor that makes the first one of the largest elements of a row positive; NaN where ``zero`` is."""
    chosen, sign, first = Cell("largest"), *(E.Var(vectors.dtype, 1, name) for name in ("sign", "first"))
    one = E.const(1.0, vectors.dtype)
    if dtypes.is_complex(vectors.dtype):
        factor = conjugate(first) / as_number(_size(first), vectors.dtype)
    else:
        factor = E.select(first < 0.0, E.negate(one), one)
    return seq(
        chosen.allocate(),
        find_first(chosen, 0, count, lambda a, b: _size(vectors.load(row, a)) > _size(vectors.load(row, b))),
        Let(first, vectors.load(row, chosen.value)),
        Let(sign, factor + as_number(zero, vectors.dtype)),
        vectors.scale(row, count, sign),
        use(sign),
    )


@kernel("orthogonal_rows", complex_numbers=True)
def orthogonal_rows(call: KernelCall) -> Function:
    """Family of ``linalg.orthogonal_rows``: operand data; results the rotated rows, their norms and the rotations.

    One-sided Jacobi rotations of all pairs of rows, as long as two are not orthogonal; of complex rows one is first turned so
    that their product is real. The matrix is divided by its largest element first, so that squares are in range.
    """
    (data,) = call.readers
    outer, batch = batch_loops(data.shape)
    rows, turns = (_Matrix(call.buffers[k], batch, call.target) for k in (-3, -1))
    norms, row = Matrix(call.buffers[-2], batch), E.var("row")
    dtype, kind, (count, length) = rows.dtype, norms.dtype, data.shape[-2:]
    largest, scale, nearly = Cell("largest", kind), E.Var(kind, 1, "scale"), E.Var(kind, 1, "nearly")

    def element(i: Expr, j: Expr) -> Expr:
        return data.read((*batch, i, j))

    def pair(i: Expr, j: Expr, rotated: Stmt) -> Stmt:
        measure, products = rows.products([(i, i), (j, j), (i, j)], length)
        own, other, size = (E.Var(kind, 1, name) for name in ("own", "other", "size"))
        both, turn = E.Var(dtype, 1, "both"), E.Var(dtype, 1, "turn")

        def rotate(tangent: Expr, cosine: Expr, sine: Expr) -> Stmt:
            return seq(rows.rotate(i, j, length, cosine, sine), turns.rotate(i, j, count, cosine, sine), rotated)

        change = _rotation(other - own, size, rotate)
        if dtypes.is_complex(dtype):
            change = seq(
                Let(turn, both / as_number(size, dtype)), rows.scale(j, length, turn), turns.scale(j, count, turn), change)
        values = [Let(v, product) for v, product in zip((own, other, both), (*map(real_part, products[:2]), products[2]))]
        real = dtype == kind
        unlike = _size(size) > nearly * E.call("sqrt", own) * E.call("sqrt", other)
        return seq(measure, values, Let(size, both if real else _size(both)), If(unlike, change))

    measure, (square,) = rows.products([(row, row)], length)

    def finish(sign: Expr) -> Stmt:
        return seq(rows.scale(row, length, sign * as_number(scale, dtype)), norms.store(row, norms.load(row) * scale))

    body = seq(
        largest.start(0.0),
        each_element(count, length, lambda i, j: largest.set(E.binary("max", largest.value, magnitude(element(i, j))))),
        Let(scale, E.select(largest.value.eq(0.0), E.const(1.0, kind), largest.value)),
        rows.fill(count, length, lambda i, j: element(i, j) / as_number(scale, dtype)),
        turns.set_identity(count),
        Let(nearly, E.call("sqrt", E.cast(length, kind)) * float(np.finfo(kind).eps)),
        _sweeps(count, pair),
        loop(row, count, seq(measure, norms.store(row, E.call("sqrt", real_part(square))))),
        _sorted(norms, count, True, lambda i, j: seq(rows.exchange(i, j, length), turns.exchange(i, j, count))),
        loop(row, count, _with_sign(turns, row, count, scale * 0.0, finish)),
    )
    return call.function(parallel_nest(outer, body, count * count * (length + count) * SWEEPS))


@kernel("diagonalize")
def diagonalize(call: KernelCall) -> Function:
    """Family of ``linalg.diagonalize``: operand data, of which one triangle is read; attribute lower.

    Results: eigenvalues; eigenvectors, which are kept as rows until the end; what the rotations leave of data.
    """
    (data,) = call.readers
    outer, batch = batch_loops(data.shape)
    values, (vectors, left) = Matrix(call.buffers[-3], batch), (_Matrix(b, batch, call.target) for b in call.buffers[-2:])
    dtype, count = left.dtype, data.shape[-1]
    row, column = E.var("row"), E.var("column")
    zero = Cell("zero", dtype)  # NaN where an element of the matrix is not finite

    lets, element = bind("element", data.read((*batch, row, column) if call.attrs.lower else (*batch, column, row)))
    both = seq(left.store(row, column, element), left.store(column, row, element))
    copy = loop(row, count, loop(column, row + 1, seq(lets, both, zero.set(zero.value + element * 0.0))))

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

    body = seq(
        zero.start(0.0),
        copy,
        left.fill(count, count, lambda i, j: left.load(i, j) + zero.value),
        vectors.set_identity(count),
        _sweeps(count, pair),
        loop(row, count, values.store(row, left.load(row, row))),
        _sorted(values, count, False, lambda i, j: vectors.exchange(i, j, count)),
        loop(row, count, _with_sign(vectors, row, count, zero.value, lambda _: seq())),
        loop(row, count, loop(column, row, vectors.swap((row, column), (column, row)))),
    )
    return call.function(parallel_nest(outer, body, count * count * count * SWEEPS))
