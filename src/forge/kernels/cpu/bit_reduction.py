"""Reductions of integers by a bit operation."""

from __future__ import annotations

from forge.loops import Loop, nest, parallel_nest, product
from forge.loops.contract import KernelCall, kernel
from forge.tir import expr as E
from forge.tir.expr import Buffer, Expr
from forge.tir.stmt import Allocate, Function, seq, store

OPERATIONS = {"reduce_bitwise_and": ("and", -1), "reduce_bitwise_or": ("or", 0), "reduce_bitwise_xor": ("xor", 0)}


@kernel("bit_reduction")
def bit_reduction(call: KernelCall) -> Function:
    """Family of ``reduce_bitwise_and`` and its kin: operand data; attributes axis, keepdims."""
    (data,), (result,) = call.readers, call.results
    operation, neutral = OPERATIONS[call.operator]
    rank = len(data.shape)
    axes = tuple(range(rank)) if call.attrs.axis is None else tuple(a % rank for a in call.attrs.axis)
    loops = [Loop(E.var(f"i{k}"), extent) for k, extent in enumerate(data.shape)]
    inner = [x for k, x in enumerate(loops) if k in axes]
    outer = [x for k, x in enumerate(loops) if k not in axes]
    total, zero = Buffer("total", data.dtype, (E.const(1),), scope="local"), E.const(0)
    step = store(total, zero, E.binary(operation, E.load(total, zero), data.read([x.var for x in loops])))
    place: list[Expr] = [x.var for x in outer]
    if call.attrs.keepdims:
        place = [zero if k in axes else x.var for k, x in enumerate(loops)]
    start = store(total, zero, E.const(neutral, data.dtype))
    body = seq(Allocate(total), start, nest(inner, step), result.write(place, E.load(total, zero)))
    return call.function(parallel_nest(outer, body, product(x.extent for x in inner)))
