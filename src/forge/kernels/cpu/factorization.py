"""Factorizations of matrices and triangular systems, one matrix after the other.

Families: cholesky, triangular_solve, lu, permutation, eliminate, tridiagonal_solve.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from forge import dtypes
from forge.loops import Cell, Loop, axes, clamped, parallel_nest, places
from forge.loops.contract import KernelCall, kernel
from forge.tir import expr as E
from forge.tir.expr import Buffer, Expr
from forge.tir.stmt import Function, If, Let, Stmt, loop, seq, store


@dataclass(frozen=True)
class Matrix:
    """One matrix of ``buffer``, or that matrix transposed."""

    buffer: Buffer
    batch: Sequence[Expr]
    transposed: bool = False

    def place(self, i: Expr, j: Expr) -> Expr:
        """Returns the index of an element in its buffer."""
        return self.buffer.offset(*self.batch, *((j, i) if self.transposed else (i, j)))

    def load(self, i: Expr, j: Expr) -> Expr:
        """Loads an element."""
        return E.load(self.buffer, self.place(i, j))

    def store(self, i: Expr, j: Expr, value: Expr) -> Stmt:
        """Stores an element."""
        return store(self.buffer, self.place(i, j), value)


def batch_loops(shape: Sequence[Expr]) -> tuple[list[Loop], list[Expr]]:
    """Loops over the matrices, and their variables."""
    loops = axes(shape[:-2])
    return loops, places(loops)


@kernel("cholesky", complex_numbers=True)
def cholesky(call: KernelCall) -> Function:
    """Family of ``linalg.cholesky``: operand data, of which one triangle is read; attribute lower. Row by row."""
    (data,) = call.readers
    lower = call.attrs.lower
    loops, batch = batch_loops(data.shape)
    out, size = Matrix(call.buffers[-1], batch, transposed=not lower), data.shape[-1]
    i, j, k = E.var("i"), E.var("j"), E.var("k")
    dtype = out.buffer.dtype
    total = Cell("total", dtype)
    source = data.read((*batch, i, j) if lower else (*batch, j, i))
    divided = seq(out.store(i, j, total.value / out.load(j, j)), out.store(j, i, E.const(0, dtype)))
    product, root = out.load(i, k) * conjugate(out.load(j, k)), E.call("sqrt", total.value)
    if dtypes.is_complex(dtype):
        root = E.call("sqrt", E.real_part(total.value))
        root = E.complex_of(root, E.const(0.0, root.dtype))
    element = seq(total.set(source), loop(k, j, total.set(total.value - product)), If(i.eq(j), out.store(i, j, root), divided))
    body = seq(total.allocate(), loop(i, size, loop(j, i + 1, element)))
    return call.function(parallel_nest(loops, body, size * size * size))


@kernel("triangular_solve", complex_numbers=True)
def triangular_solve(call: KernelCall) -> Function:
    """Family of ``linalg.triangular_solve``: operands a, b; attributes left_side, lower, transpose_a, unit_diagonal.

    From the right, x a = b is solved as (a transposed) (x transposed) = (b transposed), without moving anything.
    """
    a, b = call.readers
    buffer, attrs = call.buffers[-1], call.attrs
    loops, batch = batch_loops(b.shape)
    out = Matrix(buffer, batch, transposed=not attrs.left_side)
    size, others = (b.shape[-2], b.shape[-1]) if attrs.left_side else (b.shape[-1], b.shape[-2])
    turned = attrs.transpose_a == attrs.left_side
    step, solved, other, c0 = E.var("step"), E.var("solved"), E.var("other"), E.var("column")
    factor, pivot = E.Var(buffer.dtype, 1, "factor"), E.Var(buffer.dtype, 1, "pivot")

    def matrix(i: Expr, j: Expr) -> Expr:
        return a.read((*batch, j, i) if turned else (*batch, i, j))

    def row(number: Expr) -> Expr:
        """The row that is solved ``number``-th."""
        return number if attrs.lower != turned else size - 1 - number

    subtracted = out.load(row(step), other) - factor * out.load(row(solved), other)
    eliminate = seq(Let(factor, matrix(row(step), row(solved))), loop(other, others, out.store(row(step), other, subtracted)))
    divide = seq(
        Let(pivot, matrix(row(step), row(step))),
        loop(other, others, out.store(row(step), other, out.load(row(step), other) / pivot)),
    )
    copy = store(buffer, buffer.offset(*batch, step, c0), b.read((*batch, step, c0)))
    solve = seq(loop(solved, step, eliminate), () if attrs.unit_diagonal else divide)
    body = seq(loop(step, b.shape[-2], loop(c0, b.shape[-1], copy)), loop(step, size, solve))
    return call.function(parallel_nest(loops, body, size * size * others))


@kernel("lu", complex_numbers=True)
def lu(call: KernelCall) -> Function:
    """Family of ``linalg.lu``: operand data; results both factors in one matrix, in place, and the exchanges."""
    (data,) = call.readers
    exchanges = call.buffers[-1]
    loops, batch = batch_loops(data.shape)
    out, rows, columns = Matrix(call.buffers[-2], batch), data.shape[-2], data.shape[-1]
    row, column, chosen = E.var("row"), E.var("column"), Cell("chosen")
    steps = exchanges.shape[-1]

    def exchange(step: Expr, place: Expr) -> Stmt:
        return loop(column, columns, exchange_elements(out.buffer, out.place(step, column), out.place(place, column)))

    def note(step: Expr, place: Expr) -> Stmt:
        return store(exchanges, exchanges.offset(*batch, step), place)

    copy = loop(row, rows, loop(column, columns, out.store(row, column, data.read((*batch, row, column)))))
    body = seq(chosen.allocate(), copy, _eliminate(out, data.shape[-2:], steps, chosen, exchange, note, keeps_factors=True))
    return call.function(parallel_nest(loops, body, rows * columns * steps))


@kernel("permutation")
def permutation(call: KernelCall) -> Function:
    """Family of ``linalg.permutation``: operand exchanges; result the numbers that they leave in each place."""
    (exchanges,) = call.readers
    out = call.buffers[-1]
    loops = axes(exchanges.shape[:-1])
    batch, size = places(loops), out.shape[-1]
    place, step, other = E.var("place"), E.var("step"), E.var("other")
    swap = seq(
        Let(other, clamped(E.cast(exchanges.read((*batch, step)), E.INDEX), size)),
        exchange_elements(out, out.offset(*batch, step), out.offset(*batch, other)),
    )
    body = seq(
        loop(place, size, store(out, out.offset(*batch, place), place)),
        loop(step, E.binary("min", exchanges.shape[-1], size), swap),
    )
    return call.function(parallel_nest(loops, body, size))


@kernel("eliminate", complex_numbers=True)
def eliminate(call: KernelCall) -> Function:
    """Family of ``linalg.eliminate``: operand data; results the upper triangular matrices, in place, and determinants."""
    data = call.readers[0]
    determinants = call.buffers[-1]
    loops, batch = batch_loops(data.shape)
    out, size = Matrix(call.buffers[-2], batch), data.shape[-1]
    row, column = E.var("row"), E.var("column")
    chosen, product = Cell("chosen"), Cell("product", out.buffer.dtype)

    def exchange(step: Expr, place: Expr) -> Stmt:
        elements = exchange_elements(out.buffer, out.place(step, column), out.place(place, column))
        return seq(loop(column, size - step, elements, begin=step), product.set(product.value * -1.0))

    def use_pivot(step: Expr, place: Expr) -> Stmt:
        return product.set(product.value * out.load(step, step))

    copy = out.store(row, column, data.read((*batch, row, column)))
    body = seq(
        chosen.allocate(),
        product.allocate(),
        loop(row, size, loop(column, size, copy)),
        product.set(1.0),
        _eliminate(out, (size, size), size, chosen, exchange, use_pivot, keeps_factors=False),
        store(determinants, determinants.offset(*batch), product.value),
    )
    return call.function(parallel_nest(loops, body, size * size * size))


@kernel("tridiagonal_solve", complex_numbers=True)
def tridiagonal_solve(call: KernelCall) -> Function:
    """Family of ``linalg.tridiagonal_solve``: operands lower, diagonal, upper, b; results what is left of them, and x."""
    left, middle, right, b = call.readers
    second, pivots, first, solution = call.buffers[-4:]
    loops, batch = batch_loops(b.shape)
    out = Matrix(solution, batch)
    size, columns = b.shape[-2:]
    dtype = solution.dtype
    i, column, row, factor = E.var("i"), E.var("column"), E.var("row"), E.Var(dtype, 1, "factor")
    zero = E.const(0, dtype)

    def at(buffer: Buffer, k: Expr) -> Expr:
        return E.load(buffer, buffer.offset(*batch, k))

    def put(buffer: Buffer, k: Expr, value: Expr) -> Stmt:
        return store(buffer, buffer.offset(*batch, k), value)

    def below() -> Expr:
        return left.read((*batch, i + 1))

    def beyond() -> Expr:
        return E.select(i + 2 < size, at(first, i + 1), zero)

    kept, moved = E.Var(dtype, 1, "kept"), E.Var(dtype, 1, "moved")
    plain = seq(
        Let(factor, below() / at(pivots, i)),
        put(pivots, i + 1, at(pivots, i + 1) - factor * at(first, i)),
        loop(column, columns, out.store(i + 1, column, out.load(i + 1, column) - factor * out.load(i, column))),
        put(second, i, zero),
    )
    exchanged = seq(
        Let(factor, at(pivots, i) / below()),
        Let(kept, at(pivots, i + 1)),
        Let(moved, beyond()),
        put(pivots, i, below()),
        put(pivots, i + 1, at(first, i) - factor * kept),
        put(first, i, kept),
        put(second, i, moved),
        If(i + 2 < size, put(first, i + 1, E.negate(factor * moved))),
        loop(column, columns, seq(
            exchange_elements(solution, out.place(i, column), out.place(i + 1, column)),
            out.store(i + 1, column, out.load(i + 1, column) - factor * out.load(i, column)))),
    )
    value = out.load(row, column)
    value = value - E.select(row + 1 < size, at(first, row) * out.load(clamped(row + 1, size), column), zero)
    value = value - E.select(row + 2 < size, at(second, row) * out.load(clamped(row + 2, size), column), zero)
    back = loop(column, columns, out.store(row, column, value / at(pivots, row)))
    body = seq(
        loop(i, size, seq(
            put(pivots, i, middle.read((*batch, i))), put(first, i, right.read((*batch, i))), put(second, i, zero),
            loop(column, columns, out.store(i, column, b.read((*batch, i, column)))))),
        loop(i, size - 1, If(magnitude(at(pivots, i)) >= magnitude(below()), plain, exchanged)),
        loop(i, size, seq(Let(row, size - 1 - i), back)),
    )
    return call.function(parallel_nest(loops, body, size * columns))


def _eliminate(out: Matrix, shape: Sequence[Expr], steps: Expr, chosen: Cell, exchange: Callable[[Expr, Expr], Stmt],
               use_pivot: Callable[[Expr, Expr], Stmt], *, keeps_factors: bool) -> Stmt:
    """Gaussian elimination with partial pivoting of a matrix of ``shape``, in place.

    ``exchange(step, row)`` swaps two rows, and ``use_pivot(step, row)`` follows every step's exchange. Below the diagonal stay
    the factors, or zeros.
    """
    step, row, column, place = E.var("step"), E.var("row"), E.var("column"), E.var("place")
    top, factor = E.Var(out.buffer.dtype, 1, "top"), E.Var(out.buffer.dtype, 1, "factor")
    larger = magnitude(out.load(row, step)) > magnitude(out.load(chosen.value, step))
    rows, columns = shape
    below = step + 1
    subtract = out.store(row, column, out.load(row, column) - factor * out.load(step, column))
    others = loop(column, columns - below, subtract, begin=below)
    left = out.store(row, step, factor if keeps_factors else E.const(0, out.buffer.dtype))
    reduce_row = seq(Let(factor, out.load(row, step) / top), [left, others] if keeps_factors else [others, left])
    stage = seq(
        chosen.set(step),
        loop(row, rows - step, If(larger, chosen.set(row)), begin=step),
        Let(place, chosen.value),
        If(place.ne(step), exchange(step, place)),
        use_pivot(step, place),
        Let(top, out.load(step, step)),
        If(top.ne(0.0), loop(row, rows - below, reduce_row, begin=below)),
    )
    return loop(step, steps, stage)


def magnitude(value: Expr) -> Expr:
    """By what pivots are chosen: of complex numbers the sum of the sizes of both parts, as in LAPACK."""
    if not dtypes.is_complex(value.dtype):
        return E.call("abs", value)
    return E.call("abs", E.real_part(value)) + E.call("abs", E.imaginary_part(value))


def conjugate(value: Expr) -> Expr:
    """Returns the complex conjugate of ``x``; real numbers as they are."""
    if not dtypes.is_complex(value.dtype):
        return value
    return E.complex_of(E.real_part(value), E.negate(E.imaginary_part(value)))


def exchange_elements(buffer: Buffer, a: Expr, b: Expr) -> Stmt:
    """Exchanges two elements of a buffer."""
    first, second = E.Var(buffer.dtype, 1, "first"), E.Var(buffer.dtype, 1, "second")
    return seq(Let(first, E.load(buffer, a)), Let(second, E.load(buffer, b)), store(buffer, a, second), store(buffer, b, first))
