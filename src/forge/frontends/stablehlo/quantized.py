"""Quantised tensors: in the graph they are their integers; what computes with them computes with the numbers they stand for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from forge import dtypes
from forge.frontends.registry import as_list
from forge.frontends.stablehlo.module import QuantizedType, TensorType, Type
from forge.ir.nodes import Value

if TYPE_CHECKING:
    from forge.frontends.stablehlo.context import Context

ON_INTEGERS = frozenset(
    f"stablehlo.{name}" for name in (
        "bitcast_convert", "broadcast_in_dim", "concatenate", "constant", "dynamic_broadcast_in_dim", "dynamic_gather",
        "dynamic_reshape", "dynamic_slice", "dynamic_update_slice", "gather", "optimization_barrier", "reshape", "reverse",
        "select", "slice", "transpose", "uniform_dequantize", "uniform_quantize", "while", "if", "case", "tuple",
        "get_tuple_element", "get_dimension_size")
) | {"func.call"}
"""Operations that move elements, or convert them by themselves."""


def quantization(type_: Type) -> QuantizedType | None:
    return type_.quantized if isinstance(type_, TensorType) else None


def converted(g: Context, operands: Sequence[Any], convert: Callable[[Sequence[Any]], Any]) -> Any:
    """What ``convert`` makes of ``operands``, on numbers in the place of quantised integers."""
    given = [quantization(value.type) for value in g.operation.operands]
    wanted = [quantization(value.type) for value in g.operation.results]
    if g.operation.name in ON_INTEGERS or not any((*given, *wanted)):
        return convert(operands)
    g.computes_numbers = True
    results = as_list(convert([v if q is None else dequantize(g, v, q) for v, q in zip(operands, given)]))
    return [v if q is None or v is None else quantize(g, v, q) for v, q in zip(results, wanted)]


def dequantize(g: Context, value: Value, how: QuantizedType) -> Value:
    """The numbers that integers stand for."""
    return g.call("qnn.dequantize", value, *_parameters(g, how), out_dtype=how.expressed, axis=how.axis or 0)


def quantize(g: Context, value: Value, how: QuantizedType) -> Value:
    """The integers that stand for numbers."""
    found = g.call("qnn.quantize", value, *_parameters(g, how), out_dtype=how.storage, axis=how.axis or 0)
    if (how.low, how.high) == dtypes.integer_range(how.storage):
        return found
    return g.call("clip", found, a_min=how.low, a_max=how.high)


def _parameters(g: Context, how: QuantizedType) -> tuple[Value, Value]:
    scales, zero_points = (how.scales, how.zero_points) if how.axis is not None else (how.scales[0], how.zero_points[0])
    return g.constant(scales, how.expressed), g.constant(zero_points, how.storage)
