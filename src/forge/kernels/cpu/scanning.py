"""Running extremes with their positions, and running log-sums of exponentials, along one axis."""

from __future__ import annotations

from forge import dtypes
from forge.loops import Loop, parallel_nest
from forge.loops.contract import KernelCall, Reader, kernel
from forge.tir import expr as E
from forge.tir.expr import Buffer, Expr
from forge.tir.stmt import Allocate, Function, If, Let, Stmt, loop, seq, store


def _rows(call: KernelCall, data: Reader) -> tuple[list[Loop], Expr, tuple[Expr, ...]]:
    """Loops over the rows, the place in a row, and the indices of that element."""
    axis, place = call.attrs.axis % len(data.shape), E.var("place")
    loops = [Loop(E.var(f"i{k}"), extent) for k, extent in enumerate(data.shape) if k != axis]
    outer = [x.var for x in loops]
    return loops, place, (*outer[:axis], place, *outer[axis:])


def _local(name: str, dtype: str) -> Buffer:
    return Buffer(name, dtype, (E.const(1),), scope="local")


@kernel("running_extreme")
def running_extreme(call: KernelCall) -> Function:
    """Family of ``cummax`` and ``cummin``: operand data; attribute axis; results the extremes and their positions."""
    (data,) = call.readers
    values, places = call.results
    loops, place, indices = _rows(call, data)
    zero, value = E.const(0), E.Var(data.dtype, 1, "value")
    best, where = _local("best", data.dtype), _local("where", "int64")
    old = E.load(best, zero)
    better = value >= old if call.operator == "cummax" else value <= old
    if dtypes.is_float(data.dtype):
        better = E.binary("or", better, E.call("isnan", value))
    better = E.binary("or", better, place.eq(0))
    step = seq(
        Let(value, data.read(indices)),
        If(better, seq(store(best, zero, value), store(where, zero, place))),
        values.write(indices, E.load(best, zero)),
        places.write(indices, E.load(where, zero)),
    )
    start = store(best, zero, E.const(0, data.dtype))
    body = seq(Allocate(best), Allocate(where), start, store(where, zero, zero), _along(call, data, place, step))
    return call.function(parallel_nest(loops, body, _extent(call, data) * 4))


def _extent(call: KernelCall, data: Reader) -> Expr:
    axis: int = call.attrs.axis % len(data.shape)
    return data.shape[axis]


def _along(call: KernelCall, data: Reader, place: Expr, step: Stmt) -> Stmt:
    assert isinstance(place, E.Var)
    return loop(place, _extent(call, data), step)


@kernel("running_logsumexp")
def running_logsumexp(call: KernelCall) -> Function:
    """Family of ``logcumsumexp``: operand data; attribute axis."""
    (data,), (result,) = call.readers, call.results
    loops, place, indices = _rows(call, data)
    zero, value = E.const(0), E.Var(data.dtype, 1, "value")
    total = _local("total", data.dtype)
    step = seq(
        Let(value, data.read(indices)),
        store(total, zero, _log_of_sum(E.load(total, zero), value)),
        result.write(indices, E.load(total, zero)),
    )
    start = store(total, zero, E.const(float("-inf"), data.dtype))
    body = seq(Allocate(total), start, _along(call, data, place, step))
    return call.function(parallel_nest(loops, body, _extent(call, data) * 24))


def _log_of_sum(a: Expr, b: Expr) -> Expr:
    """ln(exp(a) + exp(b)); the larger one where it is infinite."""
    larger, smaller = E.binary("max", a, b), E.binary("min", a, b)
    infinite = E.compare("eq", E.call("abs", larger), float("inf"))
    result = larger + E.call("log1p", E.call("exp", smaller - larger))
    return E.select(infinite, larger, result)
