"""Operands of products: integers of 8 or 16 bits, with zero points and scales, as quantized models have them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from forge import dtypes
from forge.ir.edits.rewrite import Declined, RuleBuilder
from forge.ir.nodes import Node, Value
from forge.ops.elementwise.cast import Cast
from forge.ops.quantized.quantize import Dequantize
from forge.passes.matching import made_by, operand

BYTES = ("uint8", "int8")
MULTIPLIED = ("uint8", "int8")
"""Data and weight that kernels multiply; bytes of other signs become these, with what is then to be subtracted."""
WIDE = ("uint16", "int16")
MAX_SUM = 1 << 30
"""Sums of products, and a bias of this size, fit into 32 bits."""
LONGEST = MAX_SUM // (255 * 128)
"""Sums of more products, and a bias, may not fit into 32 bits."""
SEVERAL = "the data have several scales"
NINE_BITS = "the weight without its zero point does not fit into int8"
"""A reason: sums of the data, by which the rest of the weight is multiplied, would be needed for each group or phase."""


@dataclass(frozen=True)
class Integers:
    """Integers that stand for ``(data - zero) * scale``; ``scale`` is None where they are not quantized numbers.

    ``axis`` is that of the data along which vectors of scales and zero points lie, where they do not broadcast.
    """

    data: Value
    zero: Value | None
    scale: Value | None = None
    axis: int | None = None

    @property
    def has_one_zero(self) -> bool:
        """Whether one number is the zero point of all data, so that padding may be it."""
        return self.zero is None or self.zero.size == 1

    @property
    def is_byte(self) -> bool:
        """Whether the zero point is of the type of the data, so that padding may hold it."""
        if self.zero is None or self.zero.dtype == self.data.dtype:
            return True
        low, high = dtypes.integer_range(self.data.dtype)
        if self.zero.constant is not None:
            return low <= int(self.zero.constant.reshape(())) <= high
        cast = Cast.of(self.zero.producer)
        return cast is not None and cast.data.dtype == self.data.dtype

    def with_one_zero(self, builder: RuleBuilder) -> Integers:
        """Returns the same data with one zero point, if all of theirs are the same."""
        known = None if self.zero is None else self.zero.constant
        if known is None or known.size < 2 or (known != known.flat[0]).any():
            return self
        return replace(self, zero=builder.constant(np.asarray(known.flat[0])))


@dataclass(frozen=True)
class Weight:
    """A weight without its zero points: ``array + offset``, integers of 8 bits and a number for each of the results.

    ``scale``: one, or one for each of the results; None for integers that are not quantized numbers.
    """

    array: np.ndarray
    offset: np.ndarray
    scale: np.ndarray | None

    @property
    def is_plain(self) -> bool:
        return not self.offset.any()

    @property
    def longest(self) -> int:
        """The number of products that may be summed: with an offset, numbers of 9 bits, half of those without it."""
        return LONGEST if self.is_plain else LONGEST // 2


def operands_of(node: Node, channels: bool = False) -> tuple[Integers, Integers] | Declined | None:
    """Returns data and weight of a product of integers, if it is one. Data may have constant scales for ``channels``, axis 1."""
    data, weight = _bytes_of(node) or (integers_of(operand(node)), integers_of(operand(node, 1)))
    if weight is None and operand(node, 1).constant is not None and operand(node, 1).dtype == "int32":
        weight = Integers(operand(node, 1), None)  # small weights are folded when they are imported
    if data is None or weight is None or (data.scale is None) != (weight.scale is None):
        return None
    if node.result.dtype != ("int32" if data.scale is None else "float32"):
        return Declined("sums of another type are asked for")
    parameters = [v for v in (data.scale, data.zero if data.scale is not None else None) if v is not None and v.size != 1]
    if parameters and not (channels and data.axis == 1 and all(v.constant is not None for v in parameters)):
        return Declined(SEVERAL)
    return data, weight


def _bytes_of(node: Node) -> tuple[Integers, Integers] | None:
    """Returns data and weight of a product that sums bytes as they are, unless kernels multiply bytes of these signs."""
    data, weight = operand(node), operand(node, 1)
    signs = (data.dtype, weight.dtype)
    if node.result.dtype != "int32" or not set(signs) <= set(BYTES) or signs == MULTIPLIED:
        return None
    return Integers(data, None), Integers(weight, None)


def integers_of(value: Value) -> Integers | None:
    """Returns ``value`` as integers of 8 bits, or quantized ones of 16."""
    found = Dequantize.of(value.producer)
    if found is not None:
        if found.attrs.block_size or found.data.dtype not in (*BYTES, *WIDE):
            return None
        return Integers(found.data, found.zero_point, found.scale, found.attrs.axis % max(1, found.data.rank))
    difference = made_by(value, "subtract")
    whole, zero = (value, None) if difference is None else (operand(difference), operand(difference, 1))
    cast = Cast.of(whole.producer)
    if cast is None or value.dtype != "int32" or cast.data.dtype not in BYTES:
        return None
    return Integers(cast.data, zero) if zero is None or zero.rank <= cast.data.rank else None


def weight_of(weight: Integers, axis: int) -> Weight | Declined:
    """Returns the weight without zero point, with scales: one, or one for each of the results along ``axis``."""
    data, zero, scale = (None if v is None else _constant(v) for v in (weight.data, weight.zero, weight.scale))
    if data is None or (zero is None) != (weight.zero is None) or (scale is None) != (weight.scale is None):
        return Declined("the weight is not constant")
    for parameter in (zero, scale):
        if parameter is not None and parameter.size != 1 and _axis(parameter, weight.axis, data.ndim) != axis:
            return Declined("the weight's scales or zero points are not those of columns of the result")
    whole = data.astype(np.int32)
    view = [-1 if k == axis else 1 for k in range(data.ndim)]
    if zero is not None:
        whole = whole - zero.astype(np.int32).reshape(view)
    if whole.size == 0 or np.any(whole > 255) or np.any(whole < -255):
        return Declined("the weight without its zero point has no elements, or numbers of more than 9 bits")
    low, high = dtypes.integer_range("int8")
    others = tuple(k for k in range(data.ndim) if k != axis)
    least, most = whole.min(axis=others), whole.max(axis=others)
    offset = np.where((least < low) | (most > high), least - low, 0).astype(np.int32)
    if np.any(most - offset > high):
        return Declined("the weight without its zero point has numbers of more than 8 bits")
    array = (whole - offset.reshape(view)).astype(np.int8)
    return Weight(array, offset, None if scale is None else scale.reshape(-1))


def _constant(value: Value) -> np.ndarray | None:
    """What a constant holds, or a cast of one: importers leave those of many elements."""
    cast = Cast.of(value.producer)
    if cast is None:
        return value.constant
    known = cast.data.constant
    return None if known is None else known.astype(dtypes.numpy_dtype(value.dtype))


def _axis(parameter: np.ndarray, axis: int | None, rank: int) -> int | None:
    """The axis of the weight along which a parameter of several elements lies, if it is one."""
    if axis is not None:
        return axis
    long = [k for k in range(parameter.ndim) if parameter.shape[k] != 1]
    return long[0] - parameter.ndim + rank if len(long) == 1 else None
