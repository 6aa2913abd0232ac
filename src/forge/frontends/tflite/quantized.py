"""Quantised tensors: in the graph they are their integers; what computes with them computes with the numbers they stand for."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from forge import dtypes
from forge.frontends.converter import Converter
from forge.frontends.registry import as_list
from forge.frontends.tflite import registry
from forge.frontends.tflite.model import Quantization, Tensor
from forge.ir.nodes import Value

if TYPE_CHECKING:
    from forge.frontends.tflite.context import Context

NUMBERS = frozenset({"int2", "int4", "uint4", "int8", "uint8", "int16", "uint16"})
"""Types of quantised tensors. Wider integers with scales are biases, which converters of products read by `bias`."""


def quantization(tensor: Tensor | None) -> Quantization | None:
    """How the numbers of a tensor are quantised; None where its elements are the numbers."""
    return tensor.quantization if tensor is not None and tensor.dtype in NUMBERS else None


def converted(
    g: Context, row: Converter, operands: Sequence[Value | None], convert: Callable[[Sequence[Value | None]], Any]
) -> Any:
    """What ``convert`` makes of ``operands``, on numbers in the place of quantised integers."""
    given = [quantization(g.tensor(k)) for k in range(len(operands))]
    wanted = [quantization(g.result(k)) if g.wants(k) else None for k in range(g.num_outputs)]
    if registry.is_of_integers(row.function) or not any((*given, *wanted)):
        return convert(operands)
    if registry.is_moving(row.function) and _all_same([how for how in (*given, *wanted) if how is not None]):
        return convert(operands)
    numbers = [v if how is None or v is None else dequantize(g, v, how) for v, how in zip(operands, given)]
    results = as_list(convert(numbers))
    return [
        v if how is None or v is None or not dtypes.is_float(v.dtype) else quantize(g, v, how, g.result(k).dtype)
        for k, (v, how) in enumerate(zip(results, wanted))]


def _all_same(given: Sequence[Quantization]) -> bool:
    return all(given[0].same(other) for other in given[1:])


def dequantize(g: Context, value: Value, how: Quantization) -> Value:
    """The numbers that integers stand for."""
    scales, zero_points = _parameters(g, value.dtype, how)
    return g.call("qnn.dequantize", value, scales, zero_points, axis=how.axis or 0)


def quantize(g: Context, value: Value, how: Quantization, dtype: str) -> Value:
    """The integers that stand for numbers, rounded to the nearest, saturated."""
    scales, zero_points = _parameters(g, dtype, how)
    return g.call("qnn.quantize", g.cast(value, "float32"), scales, zero_points, out_dtype=dtype, axis=how.axis or 0)


def requantized(g: Context, value: Value, given: Quantization | None, wanted: Quantization | None, dtype: str) -> Value:
    """Integers with one quantisation as those with another."""
    if given is None or wanted is None or given.same(wanted) and value.dtype == dtype:
        return value
    return quantize(g, dequantize(g, value, given), wanted, dtype)


def bias(g: Context, position: int, value: Value | None, *factors: int) -> Value | None:
    """A bias as float32: integers are multiples of their scales, or of the product of those of the inputs ``factors``."""
    tensor = g.tensor(position)
    if value is None or tensor is None or not dtypes.is_integer(value.dtype):
        return value
    how = tensor.quantization
    if how is None:
        given = [g.quantization(k) for k in factors]
        if not all(given):
            return g.cast(value, "float32")
        scales = math.prod((q.scales.astype(np.float64) for q in given if q is not None), start=np.float64(1))
        count = np.size(scales)
        how = Quantization(np.asarray(scales, np.float32), np.zeros(count, np.int64), 0 if count > 1 else None)
    known = value.constant
    if known is not None:
        return g.constant((known.astype(np.float64) * how.scales.astype(np.float64)).astype(np.float32))
    scale = g.constant(how.scales if how.axis is not None else how.scales[0], "float32")
    return g.call("multiply", g.cast(value, "float32"), scale)


def _parameters(g: Context, dtype: str, how: Quantization) -> tuple[Value, Value | None]:
    low, high = dtypes.integer_range(dtype)
    if not (np.isfinite(how.scales) & (how.scales > 0)).all() or ((how.zero_points < low) | (how.zero_points > high)).any():
        raise g.invalid(f"got scales {how.scales[:4]} and zero points {how.zero_points[:4]}; expected positive scales, and zero "
                        f"points of {dtype}")
    zero_points = None if how.is_symmetric else how.zero_points
    if how.axis is None:
        return g.constant(how.scales[0], "float32"), None if zero_points is None else g.constant(int(zero_points[0]), dtype)
    return g.constant(how.scales, "float32"), None if zero_points is None else g.constant(zero_points, dtype)
