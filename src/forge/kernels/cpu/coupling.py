"""Probabilities of classes from those of pairs: an iteration for every row."""

from __future__ import annotations

from collections.abc import Callable

from forge.loops import Cell, Loop, known, parallel_nest
from forge.loops.contract import KernelCall, kernel
from forge.tir import expr as E
from forge.tir.expr import Buffer, Expr
from forge.tir.stmt import Allocate, Function, If, Let, Stmt, loop, seq, store

ROUNDS, PRECISION = 100, 0.005


@kernel("pairwise_coupling")
def pairwise_coupling(call: KernelCall) -> Function:
    """Family of ``pairwise_coupling``: operand data (rows, k, k) with a constant k. The matrix of the quadratic form is
    Q[t, j] = -data[t, j] data[j, t], and on its diagonal the sum of the squares of column t: only the latter is kept.
    """
    (data,) = call.readers
    (result,) = call.results
    dtype, classes = data.dtype, known(data.shape[1], "pairwise_coupling: the number of classes")
    p, slope, diagonal = (Buffer(name, dtype, (E.const(classes),), scope="local") for name in ("p", "slope", "diagonal"))
    total, error, going = Cell("total", dtype), Cell("error", dtype), Cell("going")
    row = E.var("row")

    def q(t: Expr, j: Expr) -> Expr:
        other = data.read((row, t, j)) * data.read((row, j, t)) * -1.0
        return E.select(t.eq(j), diagonal.load(t), other)

    def each(body: Callable[[Expr], Stmt], name: str = "t") -> Stmt:
        v = E.var(name)
        return loop(v, classes, body(v))

    def add_square(t: Expr, j: Expr) -> Stmt:
        pair = data.read((row, j, t))
        return If(t.ne(j), store(diagonal, t, diagonal.load(t) + pair * pair))

    def begin(t: Expr) -> Stmt:
        starts = [store(p, t, E.const(1 / classes, dtype)), store(diagonal, t, E.const(0.0, dtype))]
        return seq(starts, each(lambda j: add_square(t, j), "j"))

    def add_slope(t: Expr) -> Stmt:
        add = each(lambda j: store(slope, t, slope.load(t) + q(t, j) * p.load(j)), "j")
        return seq(store(slope, t, E.const(0.0, dtype)), add, total.set(total.value + p.load(t) * slope.load(t)))

    def largest_error(t: Expr) -> Stmt:
        return error.set(E.binary("max", error.value, E.call("abs", slope.load(t) - total.value)))

    measure = seq(total.set(0.0), each(add_slope), error.set(0.0), each(largest_error))
    done = error.value < E.const(PRECISION / classes, dtype)
    update = each(lambda t: _update(p, slope, total, t, diagonal.load(t), lambda j: q(t, j), each))
    again = seq(measure, If(done, going.set(0), update))
    body = seq(
        (Allocate(b) for b in (p, slope, diagonal)),
        (cell.allocate() for cell in (total, error, going)),
        each(begin),
        going.set(1),
        loop(E.var("round"), ROUNDS, If(going.value.ne(0), again)),
        each(lambda t: result.write((row, t), p.load(t))),
    )
    return call.function(parallel_nest([Loop(row, data.shape[0])], body, E.const(classes * classes * 20)))


def _update(p: Buffer, slope: Buffer, total: Cell, t: Expr, diagonal: Expr, q: Callable[[Expr], Expr],
            each: Callable[[Callable[[Expr], Stmt], str], Stmt]) -> Stmt:
    """The best probability of class t with the ratios of the others kept."""
    step, scale, own, grown = (E.Var(p.dtype, 1, name) for name in ("step", "scale", "own", "grown"))

    def others(j: Expr) -> Stmt:
        return seq(store(slope, j, (slope.load(j) + step * q(j)) / scale), store(p, j, p.load(j) / scale))

    return seq(
        Let(step, (total.value - slope.load(t)) / diagonal),
        Let(scale, step + 1.0),
        Let(own, step * (step * diagonal + slope.load(t) * 2.0)),
        Let(grown, p.load(t) + step),
        store(p, t, grown),
        total.set((total.value + own) / (scale * scale)),
        each(others, "j"),
    )
