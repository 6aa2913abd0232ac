"""Quantized tensors: in the graph they are their integers; what computes with them computes with the numbers they stand for."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from forge import dims, dtypes
from forge.frontends.registry import as_list
from forge.frontends.stablehlo import regions
from forge.frontends.stablehlo.module import Operation, QuantizedType, TensorType, Type
from forge.ir.nodes import Value

if TYPE_CHECKING:
    from forge.frontends.stablehlo.context import Context

ON_INTEGERS = frozenset(
    f"stablehlo.{name}" for name in (
        "bitcast_convert", "broadcast_in_dim", "concatenate", "constant", "dynamic_broadcast_in_dim", "dynamic_gather",
        "dynamic_reshape", "dynamic_slice", "dynamic_update_slice", "gather", "get_dimension_size", "optimization_barrier", "pad",
        "reshape", "reverse", "select", "slice", "sort", "transpose")
)
"""Operations that move elements, or compare them with each other, as long as all stand for the same numbers."""

BY_THEMSELVES = frozenset(
    f"stablehlo.{name}" for name in (
        "case", "get_tuple_element", "if", "tuple", "uniform_dequantize", "uniform_quantize", "while")
) | {"func.call"}
"""Operations that get and give the integers."""

GIVE_NAN = frozenset(
    f"stablehlo.{name}" for name in (
        "acos", "cosine", "divide", "log", "log_plus_one", "logistic", "power", "remainder", "rsqrt", "sine", "sqrt", "tan",
        "batch_norm_inference", "batch_norm_training", "batch_norm_grad", "uniform_quantize", "convert")
)
"""Operations that may give NaN, of the finite numbers that integers stand for or of others."""


def quantization(type_: Type) -> QuantizedType | None:
    return type_.quantized if isinstance(type_, TensorType) else None


def converted(g: Context, operands: Sequence[Any], convert: Callable[[Sequence[Any]], Any]) -> Any:
    """What ``convert`` makes of ``operands``, on numbers in the place of quantized integers."""
    given = [quantization(value.type) for value in g.operation.operands]
    wanted = [quantization(value.type) for value in g.operation.results]
    if not any((*given, *wanted)) or _takes_integers(g.operation, [how for how in (*given, *wanted) if how is not None]):
        return convert(operands)
    g.computes_numbers = True
    results = as_list(convert([v if q is None else dequantize(g, v, q) for v, q in zip(operands, given)]))
    return [v if q is None or v is None else quantize(g, v, q) for v, q in zip(results, wanted)]


def _takes_integers(operation: Operation, types: Sequence[QuantizedType]) -> bool:
    """Whether an operation is done on the integers; bodies without a name convert what they get by themselves."""
    if operation.name in ON_INTEGERS:
        return len({frozenset(zip(how.scales, how.zero_points)) for how in types}) == 1
    return operation.name in BY_THEMSELVES or any(regions.combinations(body) is None for body in operation.regions)


def dequantize(g: Context, value: Value, how: QuantizedType) -> Value:
    """The numbers that integers stand for."""
    return g.call("qnn.dequantize", value, *_parameters(g, value, how), out_dtype=how.expressed, axis=how.axis or 0)


def moved(g: Context, numbers: Value, order: Sequence[int]) -> Value:
    """What `dequantize` gave, transposed: the integers are."""
    producer = numbers.producer
    if producer is None or producer.op != "qnn.dequantize":
        return g.moved(numbers, order)
    integers, *parameters = producer.operands
    assert integers is not None
    axis, known = order.index(producer.attrs.axis), integers.constant
    turned = g.moved(integers, order) if known is None else g.constant(np.ascontiguousarray(known.transpose(order)))
    return g.call("qnn.dequantize", turned, *parameters, out_dtype=numbers.dtype, axis=axis)


def quantize(g: Context, value: Value, how: QuantizedType) -> Value:
    """The integers that stand for numbers: numbers over scales plus zero points, rounded half to even; NaN is the integer 0.

    Adding an even integer before or after rounding is the same, and an operator does that.
    """
    axis = how.axis or 0
    scales, zero_points = _parameters(g, value, how)
    if any(z % 2 for z in how.zero_points):
        found = _rounded(g, value, scales, g.cast(zero_points, how.expressed), how)
    else:
        found = g.call("qnn.quantize", value, scales, zero_points, out_dtype=how.storage, axis=axis)
        if (how.low, how.high) != dtypes.integer_range(how.storage):
            found = g.call("clip", found, a_min=how.low, a_max=how.high)
    if g.operation.name not in GIVE_NAN:
        return found
    return g.call("where", g.call("isnan", value), g.constant(0, how.storage), found)


def _rounded(g: Context, value: Value, scales: Value, zero_points: Value, how: QuantizedType) -> Value:
    if how.axis is not None:
        shape = [-1 if k == how.axis else 1 for k in range(value.rank)]
        scales, zero_points = (g.call("reshape", v, newshape=tuple(shape)) for v in (scales, zero_points))
    moved = g.call("add", g.call("divide", value, scales), zero_points)
    low, high = (g.constant(number, how.expressed) for number in (how.low, how.high))
    return g.cast(g.call("round", g.call("minimum", g.call("maximum", moved, low), high)), how.storage)


def _parameters(g: Context, value: Value, how: QuantizedType) -> tuple[Value, Value]:
    low, high = dtypes.integer_range(how.storage)
    if not low <= how.low <= how.high <= high or any(not how.low <= z <= how.high for z in how.zero_points):
        raise g.invalid(f"got integers from {how.low} to {how.high} with the zero points {how.zero_points[:8]}; expected those "
                        f"of {how.storage}, zero points among them")
    if not all(0 < scale < math.inf for scale in how.scales) or not dtypes.is_float(how.expressed):
        raise g.invalid(f"got the scales {how.scales[:8]} of {how.expressed}; expected positive floats")
    if how.axis is None:
        return g.constant(how.scales[0], how.expressed), g.constant(how.zero_points[0], how.storage)
    if not 0 <= how.axis < value.rank or dims.different(value.shape[how.axis], len(how.scales)):
        raise g.invalid(f"got {len(how.scales)} scales along dimension {how.axis} of {value.type}; expected one for each index")
    return g.constant(how.scales, how.expressed), g.constant(how.zero_points, how.storage)
