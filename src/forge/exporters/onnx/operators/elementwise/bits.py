"""Operators on the bits of integers, which are unpacked along a new axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from forge import dtypes
from forge.exporters.onnx.emitter import Emitter, Ref
from forge.exporters.onnx.registry import computes, exports
from forge.ops.reduce.bits import BitReduction, ReduceAnd, ReduceOr, ReduceXor


def _masks(g: Emitter, dtype: str) -> Ref:
    """The powers of two that the type has, the lowest first."""
    unsigned = np.left_shift(np.uint64(1), np.arange(dtypes.bits(dtype), dtype=np.uint64))
    return g.const(unsigned.astype(dtypes.numpy_dtype(dtype)))


def _unpacked(g: Emitter, x: Ref) -> Ref:
    """Whether each bit is set, along a new last axis."""
    masked = g.op("BitwiseAnd", g.unsqueeze(x, -1), _masks(g, x.dtype))
    return g.op("Not", g.op("Equal", masked, g.like(0, x)))


def _last_axis(g: Emitter, x: Ref) -> Ref:
    """The axis that `_unpacked` adds: the rank of ``x``, if it is known, helps onnxruntime with tensors of nothing."""
    return g.ints([g.document.ranks.get(x.name, -1)])


@computes("popcount")
def popcount(g: Emitter, x: Ref) -> Ref:
    """The number of bits that are 1."""
    return g.cast(g.op("ReduceSum", g.cast(_unpacked(g, x), "int32"), _last_axis(g, x), keepdims=0), x.dtype)


@computes("count_leading_zeros")
def count_leading_zeros(g: Emitter, x: Ref) -> Ref:
    """The width less the position after the highest bit that is set."""
    width = dtypes.bits(x.dtype)
    places = g.const(np.arange(1, width + 1, dtype=np.int32))
    found = g.op("Mul", g.cast(_unpacked(g, x), "int32"), places)
    return g.cast(g.op("Sub", g.const(width, "int32"), g.op("ReduceMax", found, _last_axis(g, x), keepdims=0)), x.dtype)


@exports(ReduceAnd, ReduceOr, ReduceXor)
def bit_reduction(g: Emitter, op: BitReduction, x: Ref) -> Any:
    attrs = op.attrs
    rank = len(op.data.shape)
    axes = g.ints(range(rank)) if attrs.axis is None else g.ints(a % rank for a in attrs.axis)
    keep = 1 if attrs.keepdims else 0
    is_bool = x.dtype == "bool"
    if attrs.axis == ():
        return x
    flags = g.cast(x if is_bool else _unpacked(g, x), "int32")
    if op.name == "reduce_bitwise_xor":
        reduced = g.op("Mod", g.op("ReduceSum", flags, axes, keepdims=keep), g.const(2, "int32"))
    else:
        reduced = g.op("ReduceMin" if op.name == "reduce_bitwise_and" else "ReduceMax", flags, axes, keepdims=keep)
    held = g.op("Greater", reduced, g.const(0, "int32"))
    if is_bool:
        return held
    return _packed(g, g.op("Where", held, _masks(g, x.dtype), g.const(0, x.dtype)))


def _packed(g: Emitter, bits: Ref) -> Ref:
    """The numbers whose bits stand along the last axis: halves of it are joined until one place is left."""
    count = dtypes.bits(bits.dtype)
    while count > 1:
        count //= 2
        halves = (g.slice(bits, -1, 0, count), g.slice(bits, -1, count, 2 * count))
        bits = g.op("BitwiseOr", *halves)
    return g.squeeze(bits, -1)
