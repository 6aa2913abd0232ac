"""Probabilities of classes from those of pairs: an iteration for every row."""

from __future__ import annotations

from collections.abc import Callable

from forge.loops import Loop, parallel_nest
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
    dtype, classes = data.dtype, int(data.shape[1].value)  # type: ignore[attr-defined]
    p, slope, diagonal = (Buffer(name, dtype, (E.const(classes),), scope="local") for name in ("p", "slope", "diagonal"))
    total, error = (Buffer(name, dtype, (E.const(1),), scope="local") for name in ("total", "error"))
    going = Buffer("going", "int64", (E.const(1),), scope="local")
    row, zero = E.var("row"), E.const(0)

    def q(t: Expr, j: Expr) -> Expr:
        other = data.read((row, t, j)) * data.read((row, j, t)) * -1.0
        return E.select(t.eq(j), E.load(diagonal, t), other)

    def each(body: Callable[[Expr], Stmt], name: str = "t") -> Stmt:
        v = E.var(name)
        return loop(v, classes, body(v))

    def add_square(t: Expr, j: Expr) -> Stmt:
        pair = data.read((row, j, t))
        return If(t.ne(j), store(diagonal, t, E.load(diagonal, t) + pair * pair))

    begin = each(lambda t: seq(
        store(p, t, E.const(1 / classes, dtype)),
        store(diagonal, t, E.const(0.0, dtype)),
        each(lambda j: add_square(t, j), "j"),
    ))
    slopes = seq(
        store(total, zero, E.const(0.0, dtype)),
        each(lambda t: seq(
            store(slope, t, E.const(0.0, dtype)),
            each(lambda j: store(slope, t, E.load(slope, t) + q(t, j) * E.load(p, j)), "j"),
            store(total, zero, E.load(total, zero) + E.load(p, t) * E.load(slope, t)),
        )),
    )
    errors = seq(
        store(error, zero, E.const(0.0, dtype)),
        each(lambda t: store(error, zero, E.binary(
            "max", E.load(error, zero), E.call("abs", E.load(slope, t) - E.load(total, zero))
        ))),
    )
    done = E.load(error, zero) < E.const(PRECISION / classes, dtype)
    update = each(lambda t: _update(p, slope, total, t, E.load(diagonal, t), lambda j: q(t, j), each))
    again = seq(slopes, errors, If(done, store(going, zero, zero), update))
    body = seq(
        *(Allocate(b) for b in (p, slope, diagonal, total, error, going)),
        begin,
        store(going, zero, E.const(1)),
        loop(E.var("round"), ROUNDS, If(E.load(going, zero).ne(0), again)),
        each(lambda t: result.write((row, t), E.load(p, t))),
    )
    return call.function(parallel_nest([Loop(row, data.shape[0])], body, E.const(classes * classes * 20)))


def _update(
    p: Buffer, slope: Buffer, total: Buffer, t: Expr, diagonal: Expr, q: Callable[[Expr], Expr],
    each: Callable[[Callable[[Expr], Stmt], str], Stmt],
) -> Stmt:
    """The best probability of class t with the ratios of the others kept."""
    zero = E.const(0)
    step, scale, own, grown = (E.Var(p.dtype, 1, name) for name in ("step", "scale", "own", "grown"))
    return seq(
        Let(step, (E.load(total, zero) - E.load(slope, t)) / diagonal),
        Let(scale, step + 1.0),
        Let(own, step * (step * diagonal + E.load(slope, t) * 2.0)),
        Let(grown, E.load(p, t) + step),
        store(p, t, grown),
        store(total, zero, (E.load(total, zero) + own) / (scale * scale)),
        each(lambda j: seq(
            store(slope, j, (E.load(slope, j) + step * q(j)) / scale),
            store(p, j, E.load(p, j) / scale),
        ), "j"),
    )
