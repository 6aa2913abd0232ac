"""Running sums and products along one axis."""

from __future__ import annotations

from collections.abc import Sequence

from forge.kernels.contract import KernelCall, kernel
from forge.schedule.loops import Loop, parallel_nest
from forge.tir import expr as E
from forge.tir.expr import Buffer, Expr
from forge.tir.stmt import Allocate, Function, loop, seq, store

OPERATIONS = {"cumsum": ("add", 0), "cumprod": ("mul", 1)}


@kernel("cumulative", complex_numbers=True)
def cumulative(call: KernelCall) -> Function:
    """Family of ``cumsum`` and ``cumprod``: operand data; attributes axis and exclusive. Rows are independent of one another."""
    (data, *_), (result,) = call.operands, call.results
    assert data is not None
    operation, neutral = OPERATIONS[call.operator]
    axis = call.attrs.axis % len(data.shape)
    loops = [Loop(E.var(f"i{k}"), extent) for k, extent in enumerate(data.shape) if k != axis]
    outer: Sequence[Expr] = [x.var for x in loops]
    place, zero = E.var("place"), E.const(0)
    indices = (*outer[:axis], place, *outer[axis:])
    total = Buffer("total", result.dtype, (E.const(1),), scope="local")
    value = E.cast(data.read(indices), result.dtype)
    step = store(total, zero, E.binary(operation, E.load(total, zero), value))
    write = result.write(indices, E.load(total, zero))
    body = seq(
        Allocate(total),
        store(total, zero, E.const(neutral, result.dtype)),
        loop(place, data.shape[axis], seq(write, step) if call.attrs.exclusive else seq(step, write)),
    )
    return call.function(parallel_nest(loops, body, data.shape[axis] * 4))
