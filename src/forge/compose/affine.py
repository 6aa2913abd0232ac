"""Affine quantization, ``real = (code - zero_point) * scale``, with parameters for tensors, indices of an axis, or blocks of one.

Data is multiplied by the reciprocal of a scale before it is rounded, as PyTorch does; dividing by the scale may give a neighbour.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from forge import dims, dtypes
from forge.compose import quantized
from forge.compose.products import dense
from forge.dims import Dim
from forge.ir.nodes import Value
from forge.ops.core.composer import Composer


@dataclass(frozen=True)
class Spread:
    """What a scale or a zero point has an element for: the tensor, each index of ``axis``, or each block of ``axis``.

    Attributes:
        shape: of scales and zero points.
    """

    shape: tuple[Dim, ...] = ()
    axis: int = -1
    block_size: int = 0

    def over(self, g: Composer, parameter: Value, x: Value) -> Value:
        """``parameter`` in a shape of as many axes as ``x`` that broadcasts against it."""
        spread = quantized.spread(g, g.reshape(parameter, self.shape), x, self.axis, self.block_size)
        return spread if spread.rank else g.reshape(spread, (1,) * x.rank)


def along(g: Composer, x: Value, axis: int) -> Spread:
    """One parameter for each index of ``axis``."""
    place = g.axis(axis, x.rank)
    return Spread((x.shape[place],), place)


def blocks_of_last(g: Composer, x: Value, size: Dim) -> Spread:
    """One for each block of ``size`` elements of the last axis.

    Raises:
        OpAttributeUnimplemented: blocks do not fill the axis, or ``size`` is symbolic.
    """
    *front, last = x.shape
    if not isinstance(size, int) or isinstance(last, int) and last % size:
        raise g.unsupported(f"blocks of {size} along the last axis of {x.type}; supported: blocks of a known size that fill it")
    return Spread((*front, dims.floordiv(last, size)), x.rank - 1, size)


def blocks(g: Composer, x: Value, block_size: Sequence[Dim]) -> Spread:
    """One for each block, of which a size is given for each axis of ``x``.

    Raises:
        OpAttributeUnimplemented: several axes are cut, and more than one of them into more than single elements.
    """
    cut = [k for k, (size, d) in enumerate(zip(block_size, x.shape)) if not dims.equal(size, d)]
    if not cut:
        return Spread()
    if len(cut) == 1 and block_size[cut[0]] == 1:
        return along(g, x, cut[0])
    long = [k for k, size in enumerate(block_size) if size != 1] or [x.rank - 1]
    axis, size = long[0], block_size[long[0]]
    if len(long) > 1 or not isinstance(size, int):
        raise g.unsupported(f"block_size: got {list(block_size)} for {x.type}; supported: blocks of a known size along one axis")
    shape = [dims.floordiv(d, size) if k == axis else d for k, d in enumerate(x.shape)]
    return Spread(tuple(shape), axis, size)


def inverse(g: Composer, scale: Value) -> Value:
    return g.call("divide", g.scalar(1.0, scale), scale)


def quantize(
    g: Composer, scaled: Value, zero_point: Value | None, spread: Spread, dtype: str, low: int, high: int
) -> Value:
    """``round(scaled) + zero_point``, limited to ``[low, high]``, as ``dtype``."""
    wide = g.cast(scaled, "float64" if scaled.dtype == "float64" else "float32")
    ones = g.scalar(1.0, wide)
    if zero_point is not None and spread.shape:
        ones = g.call("full", ones, shape=spread.shape)
    place = {"axis": spread.axis, "block_size": spread.block_size} if ones.rank else {"axis": -1, "block_size": 0}
    result = g.call("qnn.quantize", wide, ones, zero_point, out_dtype=dtype, **place)
    least, most = dtypes.integer_range(dtype)
    return result if low <= least and high >= most else g.call("clip", result, a_min=low, a_max=high)


def dequantize(g: Composer, x: Value, scale: Value, zero_point: Value | None, spread: Spread) -> Value:
    """``(x - zero_point) * scale`` in the type of the scale."""
    scale = g.reshape(scale, spread.shape)
    if zero_point is not None and zero_point.shape != scale.shape:
        zero_point = g.call("broadcast_to", zero_point, shape=scale.shape)
    return g.call("qnn.dequantize", x, scale, zero_point, out_dtype=scale.dtype, axis=spread.axis, block_size=spread.block_size)


def fake_quantize(g: Composer, x: Value, scale: Value, zero_point: Value, low: int, high: int) -> Value:
    """``x`` rounded to codes in ``[low, high]`` and back; parameters broadcast, and are real numbers, too."""
    rounded = g.call("add", g.call("round", g.call("multiply", x, inverse(g, scale))), zero_point)
    limited = g.call("clip", rounded, a_min=float(low), a_max=float(high))
    return g.call("multiply", g.call("subtract", limited, zero_point), scale)


def whole_zero_point(g: Composer, value: Value | None, dtype: str, spread: Spread) -> Value | None:
    """A zero point in the type of the integers; None where it is known to be 0.

    Raises:
        OpAttributeUnimplemented: it may be no integer, or one that ``dtype`` lacks.
    """
    if value is None:
        return None
    known = g.array(value)
    if known is not None:
        low, high = dtypes.integer_range(dtype)
        if np.any(known != np.rint(known)) or np.any(known < low) or np.any(known > high):
            raise g.unsupported(f"zero_point: got numbers that {dtype} lacks; supported: integers from {low} to {high}")
        if not known.any():
            return None
    elif not dtypes.is_integer(value.dtype):
        raise g.unsupported(f"zero_point: got {value.type}; supported: integers, or constants that are whole numbers")
    return g.cast(g.reshape(value, spread.shape), dtype)


def narrowed(g: Composer, x: Value, zero_point: Value | None, low: int | None, high: int | None) -> Value:
    """A constant of int8 whose integers and zero points have four bits, as the limits say, as one of int4."""
    if x.dtype != "int8" or low is None or high is None or low < -8 or high > 7:
        return x
    codes = x.constant
    zeros = np.zeros(1) if zero_point is None else g.array(zero_point)
    if codes is None or zeros is None or any(v.size and (v.min() < -8 or v.max() > 7) for v in (codes, zeros)):
        return x
    return quantized.weight(g.builder, codes.astype(dtypes.numpy_dtype("int4")))


def range_with_zero(g: Composer, x: Value, axes: tuple[int, ...], keepdims: bool) -> tuple[Value, Value]:
    """The smallest and the largest element, or 0 where all are on one side of it."""
    zero = g.scalar(0, x)
    low = g.call("minimum", g.call("min", x, axis=axes, keepdims=keepdims), zero)
    return low, g.call("maximum", g.call("max", x, axis=axes, keepdims=keepdims), zero)


def range_of_blocks(g: Composer, x: Value, block_size: Sequence[Dim]) -> tuple[Value, Value]:
    """`range_with_zero` of each block, of which a size is given for each axis."""
    shape: list[Dim] = []
    axes: list[int] = []
    for size, d in zip(block_size, x.shape):
        if not dims.equal(size, d) and size != 1:
            shape.append(dims.floordiv(d, size))
            d = size
        if size != 1:
            axes.append(len(shape))
        shape.append(d)
    return range_with_zero(g, g.reshape(x, shape), tuple(axes), True)


def asymmetric_parameters(g: Composer, low: Value, high: Value, least: int, most: int, epsilon: float) -> tuple[Value, Value]:
    """Scale, at least ``epsilon``, and zero point, a real number, with which codes ``[least, most]`` span ``[low, high]``."""
    scale = _over_codes(g, g.call("subtract", high, low), float(most - least), epsilon)
    rounded = g.call("round", g.call("divide", low, scale))
    return scale, g.call("clip", g.call("subtract", g.scalar(least, rounded), rounded), a_min=least, a_max=most)


def symmetric_scale(g: Composer, low: Value, high: Value, least: int, most: int, epsilon: float) -> Value:
    """The scale with which codes ``[least, most]`` around their middle span ``[low, high]``."""
    return _over_codes(g, g.call("maximum", g.call("negative", low), high), (most - least) / 2, epsilon)


def one_sided_scale(g: Composer, low: Value, high: Value, least: int, most: int, epsilon: float) -> Value:
    """The scale with which ``[least, 0]`` spans ``low``, and ``[0, most]`` spans ``high``."""
    sides = (g.call("divide", v, g.scalar(float(limit), v)) for v, limit in ((low, least), (high, most)))
    scale = g.call("maximum", *sides)
    return g.call("maximum", scale, g.scalar(epsilon, scale))


def _over_codes(g: Composer, span: Value, count: float, epsilon: float) -> Value:
    scale = g.call("divide", span, g.scalar(count, span))
    return g.call("maximum", scale, g.scalar(epsilon, scale))


def zero_point_of_least_error(g: Composer, low: Value, high: Value) -> Value:
    """The zero point of int8, a real number, with which one end is exact, that with less error; both are divided by the scale."""
    least, most = g.scalar(-128.0, low), g.scalar(127.0, low)
    errors = g.call("add", g.call("add", least, low), g.call("add", most, high))
    is_more = g.call("greater", errors, g.scalar(0.0, errors))
    zero_point = g.call("where", is_more, g.call("subtract", least, low), g.call("subtract", most, high))
    return g.call("round", g.call("clip", zero_point, a_min=-128.0, a_max=127.0))


def rounded_rows(g: Composer, x: Value) -> Value:
    """Rows of ``x``, ``[M, K]``, rounded to int8 that spans them and 0, as real numbers again; halves are rounded away from 0."""
    low, high = range_with_zero(g, x, (1,), True)
    span, zero, one = g.call("subtract", high, low), g.scalar(0.0, x), g.scalar(1.0, x)
    factor = g.call("where", g.call("equal", span, zero), one, g.call("divide", g.scalar(255.0, x), span))
    zero_point = zero_point_of_least_error(g, g.call("multiply", low, factor), g.call("multiply", high, factor))
    scaled = g.call("multiply", x, factor)
    whole = g.call("trunc", scaled)
    half = g.call("greater_equal", g.call("abs", g.call("subtract", scaled, whole)), g.scalar(0.5, x))
    whole = g.call("add", whole, g.call("where", half, g.call("sign", scaled), zero))
    codes = g.call("clip", g.call("add", whole, zero_point), a_min=-128.0, a_max=127.0)
    return g.call("multiply", g.call("subtract", codes, zero_point), g.call("divide", one, factor))


def product_of_blocks(
    g: Composer, x: Value, codes: np.ndarray, scales: np.ndarray, block_size: int, offsets: np.ndarray | None = None
) -> Value:
    """``x @ (codes * scales + offsets).T`` in float32, for codes of four bits.

    x is ``[M, K]``, codes are ``[N, K]``, scales and offsets ``[N, K / block_size]``. Offsets are the same for all columns of a
    block, so that they are multiplied by its sum.
    """
    weight = quantized.weight(g.builder, codes.astype(dtypes.numpy_dtype("int4")))
    real = g.call("qnn.dequantize", weight, g.constant(scales, "float32"), axis=1, block_size=block_size)
    product = dense(g, x, real)
    if offsets is None or not offsets.any():
        return product
    sums = g.call("sum", g.reshape(x, (x.shape[0], offsets.shape[1], block_size)), axis=(2,))
    return g.call("add", product, dense(g, sums, g.constant(offsets, "float32")))
