"""Arithmetic with scales and zero points: parameters of axes and blocks, exact integer contractions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from forge import dims, dtypes
from forge.ir.builder import Builder
from forge.ir.nodes import Value
from forge.ops.core.composer import Composer
from forge.ops.quantized.unpack import packed_bytes

MIN_PACKED = 256
"""Fewest elements of a sub-byte weight that is kept packed."""


def weight(builder: Builder, array: np.ndarray, name: str = "") -> Value:
    """A constant; one of a type below a byte several to a byte, where rows are whole bytes."""
    packed = packed_bytes(array) if array.size >= MIN_PACKED else None
    if packed is None:
        return builder.constant(array, name=name)
    return builder.call("qnn.unpack", builder.constant(packed, name=name), out_dtype=array.dtype.name)


def difference(g: Composer, x: Value, zero_point: Value | None, dtype: str) -> Value:
    """x - zero_point without overflow."""
    if zero_point is None:
        return g.cast(x, dtype)
    if not dtypes.is_integer(x.dtype):
        return g.call("subtract", g.cast(x, dtype), g.cast(zero_point, dtype))
    wide = "int32" if dtypes.bits(x.dtype) <= 16 else "int64"
    return g.cast(g.call("subtract", g.cast(x, wide), g.cast(zero_point, wide)), dtype)


def spread(g: Composer, parameter: Value, x: Value, axis: int, block_size: int) -> Value:
    """A scale or zero point in a shape that broadcasts against ``x``."""
    if parameter.rank == 0 or (parameter.rank == 1 and parameter.shape == (1,) and not block_size):
        return g.reshape(parameter, ())
    place = g.axis(axis, x.rank)
    if block_size:
        return _repeated(g, parameter, x, place, block_size)
    if parameter.rank != 1:
        raise g.invalid(f"scale: got rank {parameter.rank}; expected 0 or 1, or a block_size")
    shape = [1] * x.rank
    return g.reshape(parameter, [*shape[:place], parameter.shape[0], *shape[place + 1 :]])


def _repeated(g: Composer, parameter: Value, x: Value, axis: int, block_size: int) -> Value:
    """Each element ``block_size`` times along ``axis``, cut to the size of ``x``."""
    whole = g.call("repeat", parameter, repeats=block_size, axis=axis)
    if dims.equal(whole.shape[axis], x.shape[axis]):
        return whole
    return g.call("strided_slice", whole, begin=(0,), end=(x.shape[axis],), strides=(1,), axes=(axis,))


def centred(g: Composer, x: Value, zero_point: Value | None) -> Value:
    """x - zero_point in 32 bits."""
    wide = g.cast(x, "int32")
    return wide if zero_point is None else g.call("subtract", wide, g.cast(zero_point, "int32"))


def centred_rows(g: Composer, x: Value, zero_point: Value | None) -> Value:
    """A zero point for each row of a matrix is a vector."""
    if zero_point is not None and zero_point.rank == 1 and zero_point.shape != (1,):
        zero_point = g.reshape(zero_point, (*zero_point.shape, 1))
    return centred(g, x, zero_point)


def requantized(g: Composer, total: Value, scales: Sequence[Value], y_scale: Value, y_zero_point: Value) -> Value:
    """round(total * scales / y_scale) + y_zero_point, saturated."""
    factor = g.call("multiply", *(g.cast(s, "float32") for s in scales))
    real = g.call("multiply", g.cast(total, "float32"), g.call("divide", factor, g.cast(y_scale, "float32")))
    rounded = g.call("add", g.call("round", real), g.cast(y_zero_point, "float32"))
    low, high = dtypes.integer_range(y_zero_point.dtype)
    return g.cast(g.call("clip", rounded, a_min=low, a_max=high), y_zero_point.dtype)


def per_channel(g: Composer, parameter: Value | None, weight: Value) -> Value | None:
    """One number for each output channel of a weight, in a shape that broadcasts against it."""
    if parameter is None or parameter.rank == 0 or parameter.shape == (1,):
        return parameter
    return g.reshape(parameter, (*parameter.shape, *[1] * (weight.rank - 1)))


def rounded_by_block(g: Composer, x: Value, block_size: int) -> Value:
    """``x`` as int8 with a scale for each block of its last axis, whose largest magnitude is 127, and back to float32."""
    wide = g.cast(x, "float32")
    blocks = dims.ceildiv(x.shape[-1], block_size)
    by_block = g.reshape(wide, (*x.shape[:-1], blocks, block_size))
    largest = g.call("max", g.call("abs", by_block), axis=(x.rank,), keepdims=True)
    scale = g.call("multiply", largest, g.scalar(1 / 127, largest))
    whole = g.call("qnn.quantize", by_block, scale, axis=-1, block_size=block_size, out_dtype="int8")
    codes = g.reshape(whole, x.shape)
    return g.call("qnn.dequantize", codes, g.reshape(scale, (*x.shape[:-1], blocks)), axis=-1, block_size=block_size)
