"""Reductions of integers by a bit operation."""

from __future__ import annotations

from forge.loops import Cell, axes, nest, parallel_nest, places, product
from forge.loops.contract import KernelCall, kernel
from forge.tir import expr as E
from forge.tir.stmt import Function, seq

OPERATIONS = {"reduce_bitwise_and": ("and", -1), "reduce_bitwise_or": ("or", 0), "reduce_bitwise_xor": ("xor", 0)}


@kernel("bit_reduction")
def bit_reduction(call: KernelCall) -> Function:
    """Family of ``reduce_bitwise_and`` and its kin: operand data; attributes axis, keepdims."""
    (data,), (result,) = call.readers, call.results
    operation, neutral = OPERATIONS[call.operator]
    rank = len(data.shape)
    reduced = tuple(range(rank)) if call.attrs.axis is None else tuple(a % rank for a in call.attrs.axis)
    loops = axes(data.shape)
    inner = [x for k, x in enumerate(loops) if k in reduced]
    outer = [x for k, x in enumerate(loops) if k not in reduced]
    total = Cell("total", data.dtype)
    step = total.set(E.binary(operation, total.value, data.read(places(loops))))
    place = places(outer)
    if call.attrs.keepdims:
        place = [E.const(0) if k in reduced else x.var for k, x in enumerate(loops)]
    body = seq(total.start(neutral), nest(inner, step), result.write(place, total.value))
    return call.function(parallel_nest(outer, body, product(x.extent for x in inner)))
