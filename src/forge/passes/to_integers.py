"""Matrix products of quantised numbers are summed as integers.

``nn.dense(qnn.dequantize(%x, s, z), qnn.dequantize(w, t))`` -->
``multiply(cast(subtract(nn.dense(%u, w, out_dtype="int32"), z * sum(w))), s * t)``, where ``%u`` is ``%x`` as uint8, and the same
for products of ``subtract(cast(%x, int32), z)`` with constants. Sums of integers are exact, so that no rounding point moves: the
result is rounded once where sums of floats are rounded at each step. The products run on all CPUs with the same integers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from forge import dtypes
from forge.ir.edits.rewrite import Declined, RuleBuilder, rule
from forge.ir.nodes import Node, Value
from forge.ops.elementwise.cast import Cast
from forge.ops.nn.matmul import Dense, Matmul
from forge.ops.packed.pairs import GROUPS
from forge.ops.quantized.quantize import Dequantize
from forge.passes.base import rewriting
from forge.passes.matching import made_by, operand

BYTES = ("uint8", "int8")
LONGEST = (1 << 31) // (255 * 128)
"""Sums of more products may not fit into 32 bits."""


@dataclass(frozen=True)
class _Integers:
    """What ``(data - zero) * scale`` is made of; ``scale`` is None for integers that are no quantised numbers.

    ``axis`` is that of the data along which vectors of scales and zero points lie, where they do not broadcast.
    """

    data: Value
    zero: Value | None
    scale: Value | None = None
    axis: int | None = None


@rule("nn.dense", "nn.matmul")
def to_integers(builder: RuleBuilder, node: Node) -> Value | Declined | None:
    swapped = _weight_is_swapped(node)
    data, weight = (_integers(operand(node, k)) for k in (0, 1))
    if data is None or weight is None or swapped is None or (data.scale is None) != (weight.scale is None):
        return None
    if node.result.dtype != ("int32" if data.scale is None else "float32"):
        return Declined("sums of another type are asked for")
    found = _packable(weight, swapped)
    if isinstance(found, Declined):
        return found
    if any(v is not None and v.size != 1 for v in (data.scale, data.zero if data.scale is not None else None)):
        return Declined("the data have several scales")
    if data.zero is not None and data.zero.size != 1 and data.zero.shape[-1] != 1:
        return Declined("the zero points of the data differ along the depth")
    matrix, scale = found
    return _product(builder, node, data, matrix, scale)


def _weight_is_swapped(node: Node) -> bool | None:
    """Whether the second operand is ``[K, N]``; None: it is no matrix, or the first is transposed."""
    if Dense.of(node) is not None:
        return False
    product = Matmul.of(node)
    if product is None or product.attrs.transpose_a or product.b.rank != 2:
        return None
    return not product.attrs.transpose_b


def _integers(value: Value) -> _Integers | None:
    """``value`` as integers of 8 bits."""
    found = Dequantize.of(value.producer)
    if found is not None:
        if found.attrs.block_size or found.data.dtype not in BYTES:
            return None
        return _Integers(found.data, found.zero_point, found.scale, found.attrs.axis % max(1, found.data.rank))
    difference = made_by(value, "subtract")
    whole, zero = (value, None) if difference is None else (operand(difference), operand(difference, 1))
    cast = Cast.of(whole.producer)
    if cast is None or value.dtype != "int32" or cast.data.dtype not in BYTES:
        return None
    return _Integers(cast.data, zero) if zero is None or zero.rank <= cast.data.rank else None


def _packable(weight: _Integers, swapped: bool) -> tuple[np.ndarray, np.ndarray | None] | Declined:
    """The weight ``[N, K]`` of int8 without zero point, and its scales: of one element, or N."""
    data, zero, scale = (None if v is None else v.constant for v in (weight.data, weight.zero, weight.scale))
    if data is None or (zero is None) != (weight.zero is None) or (scale is None) != (weight.scale is None):
        return Declined("the weight is not constant")
    axis = 1 if swapped else 0
    for parameter in (zero, scale):
        if parameter is not None and parameter.size != 1 and _axis(parameter, weight.axis, data.ndim) != axis:
            return Declined("the weight's scales or zero points are not those of columns of the result")
    whole = data.astype(np.int32)
    if zero is not None:
        column = zero.astype(np.int32).reshape(-1)
        whole = whole - (column.reshape((1, -1) if swapped else (-1, 1)))
    low, high = dtypes.integer_range("int8")
    matrix = whole.T if swapped else whole
    if matrix.size == 0 or matrix.min() < low or matrix.max() > high:
        return Declined("the weight without its zero point is no int8")
    depth = matrix.shape[1]
    if depth % GROUPS['int8'] or depth > LONGEST:
        return Declined(f"the depth is {depth}; expected a multiple of {GROUPS['int8']}, at most {LONGEST}")
    return matrix.astype(np.int8), None if scale is None else scale.reshape(-1)


def _axis(parameter: np.ndarray, axis: int | None, rank: int) -> int | None:
    """The axis of the weight along which a parameter of several elements lies, if it is one."""
    if axis is not None:
        return axis
    long = [k for k in range(parameter.ndim) if parameter.shape[k] != 1]
    return long[0] - parameter.ndim + rank if len(long) == 1 else None


def _product(builder: RuleBuilder, node: Node, data: _Integers, matrix: np.ndarray, scale: np.ndarray | None) -> Value:
    sums = matrix.sum(axis=1, dtype=np.int32)
    source, shift = data.data, 0
    if source.dtype == "int8":
        flipped = builder.call("reinterpret", source, dtype="uint8")
        source, shift = builder.call("bitwise_xor", flipped, builder.constant(np.uint8(128))), 128
    total = builder.call("nn.dense", source, builder.constant(matrix), name=node.name, out_dtype="int32")
    total = _centred(builder, total, data.zero, shift, sums)
    if data.scale is None or scale is None:
        return total
    real, factor = builder.call("cast", total, dtype="float32"), data.scale.constant
    if factor is not None:
        return builder.call("multiply", real, builder.constant(factor.reshape(-1) * scale))
    return builder.call("multiply", real, builder.call("multiply", data.scale, builder.constant(scale)))


def _centred(builder: RuleBuilder, total: Value, zero: Value | None, shift: int, sums: np.ndarray) -> Value:
    """``total`` without what a zero point of the data, ``shift`` more than ``zero``, adds to it."""
    known = np.int32(0) if zero is None else zero.constant
    if known is not None:
        offset = (known.astype(np.int32) + shift) * sums
        return builder.call("subtract", total, builder.constant(offset)) if offset.any() else total
    assert zero is not None
    wide = builder.call("add", builder.call("cast", zero, dtype="int32"), builder.constant(np.int32(shift)))
    return builder.call("subtract", total, builder.call("multiply", wide, builder.constant(sums)))


run = rewriting(to_integers)
