"""Factorisations of matrices and triangular systems, one matrix after the other: cholesky, lu, triangular_solve."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from forge.loops import Loop, parallel_nest
from forge.loops.contract import KernelCall, kernel
from forge.tir import expr as E
from forge.tir.expr import Buffer, Expr
from forge.tir.stmt import Allocate, Function, If, Let, Stmt, loop, seq, store


def _batch(shape: Sequence[Expr]) -> tuple[list[Loop], list[Expr]]:
    """Loops over the matrices, and their variables."""
    loops = [Loop(E.var(f"b{k}"), extent) for k, extent in enumerate(shape[:-2])]
    return loops, [x.var for x in loops]


def _at(out: Buffer, batch: Sequence[Expr]) -> Callable[[Expr, Expr], Expr]:
    """Flat indices into the matrix ``batch`` of ``out``."""
    return lambda i, j: out.offset(*batch, i, j)


@kernel("cholesky")
def cholesky(call: KernelCall) -> Function:
    """Family of ``linalg.cholesky``: operand data, of which one triangle is read; attribute lower. Row by row."""
    (data,) = call.readers
    out, dtype, lower = call.buffers[-1], call.buffers[-1].dtype, call.attrs.lower
    loops, batch = _batch(data.shape)
    size, zero = data.shape[-1], E.const(0)
    i, j, k = E.var("i"), E.var("j"), E.var("k")
    total = Buffer("total", dtype, (E.const(1),), scope="local")

    def place(row: Expr, column: Expr) -> Expr:
        return out.offset(*batch, *((row, column) if lower else (column, row)))

    source = data.read((*batch, i, j) if lower else (*batch, j, i))
    product = E.load(out, place(i, k)) * E.load(out, place(j, k))
    rest = E.load(total, zero)
    element = seq(
        store(total, zero, source),
        loop(k, j, store(total, zero, E.load(total, zero) - product)),
        If(i.eq(j), store(out, place(i, j), E.call("sqrt", rest)), seq(
            store(out, place(i, j), rest / E.load(out, place(j, j))),
            store(out, place(j, i), E.const(0.0, dtype)),
        )),
    )
    body = seq(Allocate(total), loop(i, size, loop(j, i + 1, element)))
    return call.function(parallel_nest(loops, body, size * size * size))


@kernel("triangular_solve")
def triangular_solve(call: KernelCall) -> Function:
    """Family of ``linalg.triangular_solve``: operands a, b; attributes left_side, lower, transpose_a, unit_diagonal.

    From the right, x a = b is solved as (a transposed) (x transposed) = (b transposed), without moving anything.
    """
    a, b = call.readers
    out, attrs = call.buffers[-1], call.attrs
    loops, batch = _batch(b.shape)
    size, others = (b.shape[-2], b.shape[-1]) if attrs.left_side else (b.shape[-1], b.shape[-2])
    turned = attrs.transpose_a == attrs.left_side
    step, solved, other, c0 = E.var("step"), E.var("solved"), E.var("other"), E.var("column")
    factor, pivot = E.Var(out.dtype, 1, "factor"), E.Var(out.dtype, 1, "pivot")

    def matrix(i: Expr, j: Expr) -> Expr:
        return a.read((*batch, j, i) if turned else (*batch, i, j))

    def place(i: Expr, c: Expr) -> Expr:
        return out.offset(*batch, *((i, c) if attrs.left_side else (c, i)))

    def row(number: Expr) -> Expr:
        """The row that is solved ``number``-th."""
        return number if attrs.lower != turned else size - 1 - number

    eliminate = seq(
        Let(factor, matrix(row(step), row(solved))),
        loop(other, others, store(out, place(row(step), other), E.load(out, place(row(step), other))
                                  - factor * E.load(out, place(row(solved), other)))),
    )
    divide = seq(
        Let(pivot, matrix(row(step), row(step))),
        loop(other, others, store(out, place(row(step), other), E.load(out, place(row(step), other)) / pivot)),
    )
    copy = store(out, out.offset(*batch, step, c0), b.read((*batch, step, c0)))
    parts: list[Stmt] = [loop(solved, step, eliminate)]
    if not attrs.unit_diagonal:
        parts.append(divide)
    body = seq(loop(step, b.shape[-2], loop(c0, b.shape[-1], copy)), loop(step, size, seq(*parts)))
    return call.function(parallel_nest(loops, body, size * size * others))


@kernel("lu")
def lu(call: KernelCall) -> Function:
    """Family of ``linalg.lu``: operand data; results both factors in one matrix, in place, and the rows' former places."""
    (data,) = call.readers
    out, places = call.buffers[-2:]
    loops, batch = _batch(data.shape)
    at, size, zero = _at(out, batch), data.shape[-1], E.const(0)
    step, row, column = E.var("step"), E.var("row"), E.var("column")
    chosen = Buffer("chosen", "int64", (E.const(1),), scope="local")
    pivot = E.load(chosen, zero)
    top, factor = E.Var(out.dtype, 1, "top"), E.Var(out.dtype, 1, "factor")
    larger = E.call("abs", E.load(out, at(row, step))) > E.call("abs", E.load(out, at(pivot, step)))
    below = step + 1
    subtract = store(out, at(row, column), E.load(out, at(row, column)) - factor * E.load(out, at(step, column)))
    reduce_row = seq(
        Let(factor, E.load(out, at(row, step)) / top),
        store(out, at(row, step), factor),
        loop(column, size - below, subtract, begin=below),
    )
    place = E.var("place")
    stage = seq(
        store(chosen, zero, step),
        loop(row, size - step, If(larger, store(chosen, zero, row)), begin=step),
        Let(place, pivot),
        If(place.ne(step), seq(
            loop(column, size, _exchange(out, at(step, column), at(place, column), "value")),
            _exchange(places, places.offset(*batch, step), places.offset(*batch, place), "number"),
        )),
        Let(top, E.load(out, at(step, step))),
        If(top.ne(0.0), loop(row, size - below, reduce_row, begin=below)),
    )
    body = seq(
        Allocate(chosen),
        loop(row, size, seq(
            store(places, places.offset(*batch, row), row),
            loop(column, size, store(out, at(row, column), data.read((*batch, row, column)))),
        )),
        loop(step, size, stage),
    )
    return call.function(parallel_nest(loops, body, size * size * size))


def _exchange(buffer: Buffer, a: Expr, b: Expr, name: str) -> Stmt:
    first, second = E.Var(buffer.dtype, 1, f"{name}_a"), E.Var(buffer.dtype, 1, f"{name}_b")
    return seq(Let(first, E.load(buffer, a)), Let(second, E.load(buffer, b)), store(buffer, a, second), store(buffer, b, first))
