"""Factorizations of matrices and triangular systems, one matrix after the other.

Families: cholesky, triangular_solve, lu, permutation, eliminate, tridiagonal_solve.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from forge import dtypes
from forge.loops import Cell, Loop, axes, clamped, parallel_nest, places
from forge.loops.contract import KernelCall, Reader, kernel
from forge.tir import expr as E
from forge.tir.expr import Buffer, Expr, ExprLike
from forge.tir.stmt import Function, If, Let, Stmt, loop, seq, store


@dataclass(frozen=True)
class Matrix:
    """A matrix of ``buffer``, or that matrix transposed."""

    buffer: Buffer
    batch: Sequence[Expr]

    @property
    def dtype(self) -> str:
        return self.buffer.dtype

    def place(self, *at: Expr) -> Expr:
        """Returns the index of an element in its buffer."""
        return self.buffer.offset(*self.batch, *at)

    def load(self, *at: Expr) -> Expr:
        """Loads an element."""
        return E.load(self.buffer, self.place(*at))

    def store(self, *at_and_value: Expr) -> Stmt:
        """Stores an element, given its indices and then the value."""
        *at, value = at_and_value
        return store(self.buffer, self.place(*at), value)

    def swap(self, a: Sequence[Expr], b: Sequence[Expr]) -> Stmt:
        """Exchanges two elements."""
        first, second = E.Var(self.dtype, 1, "first"), E.Var(self.dtype, 1, "second")
        places = self.place(*a), self.place(*b)
        loads = [Let(v, E.load(self.buffer, place)) for v, place in zip((first, second), places)]
        return seq(loads, (store(self.buffer, place, v) for v, place in zip((second, first), places)))

    def exchange(self, i: Expr, j: Expr, columns: Expr, begin: ExprLike = 0) -> Stmt:
        """Exchanges two rows, from column ``begin`` on."""
        column = E.var("column")
        return loop(column, columns, self.swap((i, column), (j, column)), begin=begin)

    def fill(self, rows: Expr, columns: Expr, element: Callable[[Expr, Expr], Expr]) -> Stmt:
        """Sets all elements to ``element(row, column)``."""
        return each_element(rows, columns, lambda i, j: self.store(i, j, element(i, j)))

    def copy(self, data: Reader) -> Stmt:
        """Copies the matrix of ``data``."""
        return self.fill(data.shape[-2], data.shape[-1], lambda i, j: data.read((*self.batch, i, j)))


@dataclass(frozen=True)
class _Transposed(Matrix):
    """One matrix of ``buffer`` with rows as columns, where it is ``turned``."""

    turned: bool

    def place(self, *at: Expr) -> Expr:
        return super().place(*(reversed(at) if self.turned else at))


def find_first(chosen: Cell, begin: ExprLike, count: Expr, better: Callable[[Expr, Expr], Expr]) -> Stmt:
    """Sets ``chosen`` to the first of the best of ``count`` indices from ``begin`` on, as ``better(index, best so far)`` says."""
    index = E.var("index")
    return seq(chosen.set(begin), loop(index, count, If(better(index, chosen.value), chosen.set(index)), begin=begin))


def each_element(rows: Expr, columns: Expr, body: Callable[[Expr, Expr], Stmt]) -> Stmt:
    """Runs ``body(row, column)`` for all elements of a matrix."""
    row, column = E.var("row"), E.var("column")
    return loop(row, rows, loop(column, columns, body(row, column)))


def batch_loops(shape: Sequence[Expr]) -> tuple[list[Loop], list[Expr]]:
    """Makes loops over the matrices, and their variables."""
    loops = axes(shape[:-2])
    return loops, places(loops)


@kernel("cholesky", complex_numbers=True)
def cholesky(call: KernelCall) -> Function:
    """Family of ``linalg.cholesky``: operand data, of which one triangle is read; attribute lower. Row by row."""
    (data,) = call.readers
    lower = call.attrs.lower
    loops, batch = batch_loops(data.shape)
    out, size = _Transposed(call.buffers[-1], batch, turned=not lower), data.shape[-1]
    i, j, k = E.var("i"), E.var("j"), E.var("k")
    total = Cell("total", out.dtype)
    source = data.read((*batch, i, j) if lower else (*batch, j, i))
    divided = seq(out.store(i, j, total.value / out.load(j, j)), out.store(j, i, E.const(0, out.dtype)))
    product, root = out.load(i, k) * conjugate(out.load(j, k)), E.call("sqrt", total.value)
    if dtypes.is_complex(out.dtype):
        root = as_number(E.call("sqrt", E.real_part(total.value)), out.dtype)
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
    out = _Transposed(buffer, batch, turned=not attrs.left_side)
    size, others = (b.shape[-2], b.shape[-1]) if attrs.left_side else (b.shape[-1], b.shape[-2])
    turned = attrs.transpose_a == attrs.left_side
    step, solved, other = E.var("step"), E.var("solved"), E.var("other")
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
    solve = seq(loop(solved, step, eliminate), () if attrs.unit_diagonal else divide)
    body = seq(Matrix(buffer, batch).copy(b), loop(step, size, solve))
    return call.function(parallel_nest(loops, body, size * size * others))


@kernel("lu", complex_numbers=True)
def lu(call: KernelCall) -> Function:
    """Family of ``linalg.lu``: operand data; results both factors in one matrix, in place, and the exchanges."""
    (data,) = call.readers
    loops, batch = batch_loops(data.shape)
    out, exchanges = (Matrix(buffer, batch) for buffer in call.buffers[-2:])
    (rows, columns), steps, chosen = data.shape[-2:], exchanges.buffer.shape[-1], Cell("chosen")

    def exchange(step: Expr, place: Expr) -> Stmt:
        return out.exchange(step, place, columns)

    eliminated = _eliminate(out, (rows, columns), steps, chosen, exchange, exchanges.store, keeps_factors=True)
    body = seq(chosen.allocate(), out.copy(data), eliminated)
    return call.function(parallel_nest(loops, body, rows * columns * steps))


@kernel("permutation")
def permutation(call: KernelCall) -> Function:
    """Family of ``linalg.permutation``: operand exchanges; result the numbers that they leave in each place."""
    (exchanges,) = call.readers
    loops = axes(exchanges.shape[:-1])
    batch = places(loops)
    out, size = Matrix(call.buffers[-1], batch), call.buffers[-1].shape[-1]
    place, step, other = E.var("place"), E.var("step"), E.var("other")
    swap = seq(
        Let(other, clamped(E.cast(exchanges.read((*batch, step)), E.INDEX), size)),
        out.swap((step,), (other,)),
    )
    body = seq(
        loop(place, size, out.store(place, place)),
        loop(step, E.binary("min", exchanges.shape[-1], size), swap),
    )
    return call.function(parallel_nest(loops, body, size))


@kernel("eliminate", complex_numbers=True)
def eliminate(call: KernelCall) -> Function:
    """Family of ``linalg.eliminate``: operand data; results the upper triangular matrices, in place, and determinants."""
    data = call.readers[0]
    loops, batch = batch_loops(data.shape)
    (out, determinants), size = (Matrix(buffer, batch) for buffer in call.buffers[-2:]), data.shape[-1]
    chosen, product = Cell("chosen"), Cell("product", out.dtype)

    def exchange(step: Expr, place: Expr) -> Stmt:
        return seq(out.exchange(step, place, size - step, step), product.set(product.value * -1.0))

    def use_pivot(step: Expr, place: Expr) -> Stmt:
        return product.set(product.value * out.load(step, step))

    body = seq(
        chosen.allocate(),
        product.allocate(),
        out.copy(data),
        product.set(1.0),
        _eliminate(out, (size, size), size, chosen, exchange, use_pivot, keeps_factors=False),
        determinants.store(product.value),
    )
    return call.function(parallel_nest(loops, body, size * size * size))


@kernel("tridiagonal_solve", complex_numbers=True)
def tridiagonal_solve(call: KernelCall) -> Function:
    """Family of ``linalg.tridiagonal_solve``: operands lower, diagonal, upper, b; results what is left of them, and x."""
    left, middle, right, b = call.readers
    loops, batch = batch_loops(b.shape)
    second, pivots, first, out = (Matrix(buffer, batch) for buffer in call.buffers[-4:])
    size, columns = b.shape[-2:]
    i, column, row, zero = E.var("i"), E.var("column"), E.var("row"), E.const(0, out.dtype)
    factor, kept, moved = (E.Var(out.dtype, 1, name) for name in ("factor", "kept", "moved"))
    below = left.read((*batch, i + 1))
    plain = seq(
        Let(factor, below / pivots.load(i)),
        pivots.store(i + 1, pivots.load(i + 1) - factor * first.load(i)),
        loop(column, columns, out.store(i + 1, column, out.load(i + 1, column) - factor * out.load(i, column))),
        second.store(i, zero),
    )
    exchanged = seq(
        Let(factor, pivots.load(i) / below),
        Let(kept, pivots.load(i + 1)),
        Let(moved, E.select(i + 2 < size, first.load(i + 1), zero)),
        pivots.store(i, below),
        pivots.store(i + 1, first.load(i) - factor * kept),
        first.store(i, kept),
        second.store(i, moved),
        If(i + 2 < size, first.store(i + 1, E.negate(factor * moved))),
        loop(column, columns, seq(
            out.swap((i, column), (i + 1, column)),
            out.store(i + 1, column, out.load(i + 1, column) - factor * out.load(i, column)))),
    )
    value = out.load(row, column)
    value = value - E.select(row + 1 < size, first.load(row) * out.load(clamped(row + 1, size), column), zero)
    value = value - E.select(row + 2 < size, second.load(row) * out.load(clamped(row + 2, size), column), zero)
    back = loop(column, columns, out.store(row, column, value / pivots.load(row)))
    body = seq(
        loop(i, size, seq(
            pivots.store(i, middle.read((*batch, i))), first.store(i, right.read((*batch, i))), second.store(i, zero),
            loop(column, columns, out.store(i, column, b.read((*batch, i, column)))))),
        loop(i, size - 1, If(magnitude(pivots.load(i)) >= magnitude(below), plain, exchanged)),
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
    top, factor = E.Var(out.dtype, 1, "top"), E.Var(out.dtype, 1, "factor")
    rows, columns = shape
    below = step + 1
    subtract = out.store(row, column, out.load(row, column) - factor * out.load(step, column))
    others = loop(column, columns - below, subtract, begin=below)
    left = out.store(row, step, factor if keeps_factors else E.const(0, out.dtype))
    reduce_row = seq(Let(factor, out.load(row, step) / top), [left, others] if keeps_factors else [others, left])
    stage = seq(
        find_first(chosen, step, rows - step, lambda a, b: magnitude(out.load(a, step)) > magnitude(out.load(b, step))),
        Let(place, chosen.value),
        If(place.ne(step), exchange(step, place)),
        use_pivot(step, place),
        Let(top, out.load(step, step)),
        If(top.ne(0.0), loop(row, rows - below, reduce_row, begin=below)),
    )
    return loop(step, steps, stage)


def magnitude(value: Expr) -> Expr:
    """Returns the number by which pivots are chosen: of complex ones the sum of the sizes of both parts, as in LAPACK."""
    if not dtypes.is_complex(value.dtype):
        return E.call("abs", value)
    return E.call("abs", E.real_part(value)) + E.call("abs", E.imaginary_part(value))


def conjugate(value: Expr) -> Expr:
    """Returns the complex conjugate of ``x``; real numbers as they are."""
    if not dtypes.is_complex(value.dtype):
        return value
    return E.complex_of(E.real_part(value), E.negate(E.imaginary_part(value)))


def as_number(x: Expr, dtype: str) -> Expr:
    """Returns the real ``x`` as a number of the kind ``dtype``."""
    return E.complex_of(x, E.const(0.0, x.dtype)) if dtypes.is_complex(dtype) else x


def real_dtype(dtype: str) -> str:
    """Returns the dtype of the parts of complex numbers; that of real ones."""
    return dtypes.part(dtype) if dtypes.is_complex(dtype) else dtype
