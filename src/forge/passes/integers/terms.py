"""What is around a sum of products of integers: data of another sign, what zero points add, scales."""

from __future__ import annotations

import numpy as np

from forge import dtypes
from forge.ir.edits.rewrite import RuleBuilder
from forge.ir.nodes import Value
from forge.ops.packed.pairs import MULTIPLE
from forge.passes.integers.operands import Integers


def whole_groups(builder: RuleBuilder, data: Value, matrix: np.ndarray) -> tuple[Value, Value]:
    """Returns the operands of a product, zero-padded along the depth to a multiple of what one dot product sums."""
    spare = -matrix.shape[1] % MULTIPLE
    return longer(builder, data, -1, spare), builder.constant(np.pad(matrix, ((0, 0), (0, spare))))


def longer(builder: RuleBuilder, data: Value, axis: int, spare: int) -> Value:
    """Appends ``spare`` zeros along ``axis``."""
    if not spare:
        return data
    widths = tuple((0, spare if k == axis % data.rank else 0) for k in range(data.rank))
    return builder.call("nn.pad", data, builder.constant(np.zeros((), dtypes.numpy_dtype(data.dtype))), pad_width=widths)


def unsigned(builder: RuleBuilder, data: Value) -> tuple[Value, int]:
    """Returns ``data`` shifted to uint8, and the shift."""
    if data.dtype == "uint8":
        return data, 0
    flipped = builder.call("reinterpret", data, dtype="uint8")
    return builder.call("bitwise_xor", flipped, builder.constant(np.uint8(128))), 128


def signed(builder: RuleBuilder, data: Value) -> tuple[Value, int]:
    """Returns ``data`` shifted to signed integers of as many bits, and the shift."""
    if dtypes.is_signed(data.dtype):
        return data, 0
    half = 1 << (dtypes.bits(data.dtype) - 1)
    flipped = builder.call("bitwise_xor", data, builder.constant(np.asarray(half, dtypes.numpy_dtype(data.dtype))))
    return builder.call("reinterpret", flipped, dtype=data.dtype.removeprefix("u")), -half


def shifted(builder: RuleBuilder, zero: Value, shift: int) -> Value:
    """Returns ``zero + shift`` as int32."""
    return builder.call("add", builder.call("cast", zero, dtype="int32"), builder.constant(np.int32(shift)))


def centred(builder: RuleBuilder, data: Value, zero: Value | None, dtype: str = "int32", shape: tuple[int, ...] = ()) -> Value:
    """Subtracts zero points, of ``shape``: whole numbers of ``dtype`` that are 0 for the real number 0."""
    whole = builder.call("cast", data, dtype=dtype)
    if zero is None:
        return whole
    return builder.call("subtract", whole, builder.call("cast", builder.call("reshape", zero, newshape=shape), dtype=dtype))


def scaled(builder: RuleBuilder, total: Value, data: Integers, scale: np.ndarray | None) -> Value:
    """Multiplies sums by the scales of data and weight, ``scale``; without them they stay integers."""
    if data.scale is None or scale is None:
        return total
    real, factor = total if total.dtype == "float32" else builder.call("cast", total, dtype="float32"), data.scale.constant
    if factor is not None:
        several = (-1, *(1,) * (total.rank - 2))
        return builder.call("multiply", real, builder.constant(factor.reshape(() if factor.size == 1 else several) * scale))
    one = builder.call("reshape", data.scale, newshape=())
    return builder.call("multiply", real, builder.call("multiply", one, builder.constant(scale)))


def without_zero(builder: RuleBuilder, total: Value, zero: Value | None, shift: int, sums: np.ndarray) -> Value:
    """Subtracts from ``total`` what a zero point of the data, ``shift`` more than ``zero``, adds: it times ``sums``."""
    known = np.int32(0) if zero is None else zero.constant
    if known is not None:
        if known.size == 1:
            known = known.reshape(())
        offset = (known.astype(np.int32) + shift) * sums
        return builder.call("subtract", total, builder.constant(offset)) if offset.any() else total
    assert zero is not None
    if zero.size == 1:
        zero = builder.call("reshape", zero, newshape=())
    offset = builder.call("multiply", shifted(builder, zero, shift), builder.constant(sums))
    return builder.call("subtract", total, offset)


def plus_offset(builder: RuleBuilder, total: Value, sums: Value, offset: np.ndarray) -> Value:
    """Adds to ``total`` the ``offset`` of each result's weight times ``sums`` of the data."""
    return builder.call("add", total, builder.call("multiply", sums, builder.constant(offset)))
