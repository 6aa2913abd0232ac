"""Gaussian elimination with partial pivoting, one matrix after the other."""

from __future__ import annotations

from forge.loops import Loop, parallel_nest
from forge.loops.contract import KernelCall, kernel
from forge.tir import expr as E
from forge.tir.expr import Buffer, Expr
from forge.tir.stmt import Allocate, Function, If, Let, Stmt, loop, seq, store


def _swap(out: Buffer, batch: list[Expr], a: Expr, b: Expr, column: Expr) -> Stmt:
    upper, lower = E.Var(out.dtype, 1, "upper"), E.Var(out.dtype, 1, "lower")
    first, second = out.offset(*batch, a, column), out.offset(*batch, b, column)
    binds = (Let(upper, E.load(out, first)), Let(lower, E.load(out, second)))
    return seq(*binds, store(out, first, lower), store(out, second, upper))


@kernel("eliminate")
def eliminate(call: KernelCall) -> Function:
    """Family of ``linalg.eliminate``: operand data; results the upper triangular matrices, in place, and determinants."""
    data = call.readers[0]
    out, determinants = call.buffers[-2:]
    loops = [Loop(E.var(f"b{k}"), extent) for k, extent in enumerate(data.shape[:-2])]
    batch: list[Expr] = [x.var for x in loops]
    size, zero, dtype = data.shape[-1], E.const(0), out.dtype
    step, row, column = E.var("step"), E.var("row"), E.var("column")
    pivot = Buffer("pivot", "int64", (E.const(1),), scope="local")
    product = Buffer("product", dtype, (E.const(1),), scope="local")
    chosen, top, factor = E.var("chosen"), E.Var(dtype, 1, "top"), E.Var(dtype, 1, "factor")

    def at(i: Expr, j: Expr) -> Expr:
        return E.load(out, out.offset(*batch, i, j))

    larger = E.call("abs", at(row, step)) > E.call("abs", at(E.load(pivot, zero), step))
    below = step + 1
    subtract = store(out, out.offset(*batch, row, column), at(row, column) - factor * at(step, column))
    reduce_row = seq(
        Let(factor, at(row, step) / top),
        loop(column, size - below, subtract, begin=below),
        store(out, out.offset(*batch, row, step), E.const(0.0, dtype)),
    )
    negate = store(product, zero, E.load(product, zero) * -1.0)
    exchange = seq(loop(column, size - step, _swap(out, batch, step, chosen, column), begin=step), negate)
    stage = seq(
        store(pivot, zero, step),
        loop(row, size - step, If(larger, store(pivot, zero, row)), begin=step),
        Let(chosen, E.load(pivot, zero)),
        If(chosen.ne(step), exchange),
        Let(top, at(step, step)),
        store(product, zero, E.load(product, zero) * top),
        If(top.ne(0.0), loop(row, size - below, reduce_row, begin=below)),
    )
    copy = store(out, out.offset(*batch, row, column), data.read((*batch, row, column)))
    body = seq(
        Allocate(pivot),
        Allocate(product),
        loop(row, size, loop(column, size, copy)),
        store(product, zero, E.const(1.0, dtype)),
        loop(step, size, stage),
        store(determinants, determinants.offset(*batch), E.load(product, zero)),
    )
    return call.function(parallel_nest(loops, body, size * size * size))
