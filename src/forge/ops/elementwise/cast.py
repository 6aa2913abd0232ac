"""Conversions of element types: cast, cast_like, reinterpret."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from forge import dtypes, te
from forge.ir.builder import Builder
from forge.ir.op import Range
from forge.ir.types import TensorType
from forge.ops.core import scalar_math as numeric
from forge.ops.core.inference import fail
from forge.ops.core.op import Kind, NoAttrs, Op, Operand, Precision, register
from forge.ops.core.ranges import lies_within
from forge.ops.core.signatures import Array, Arrays, DimArray, Lowered, OperandTypes, Tensor, TensorTypes, Types, Value, Values
from forge.ops.elementwise.arithmetic import decide, negated
from forge.ops.elementwise.rows import apply_dims, broadcast_compute
from forge.te import Expr


def lower_cast(x: Expr, dtype: str, saturate: bool = True) -> Expr:
    """``x`` as ``dtype``; to bool: whether it is not 0; to float8 and float4 with ``saturate``: not beyond the finite values."""
    if x.dtype == dtype:
        return x
    if dtype == "bool":
        return te.compare("ne", x, te.const(0, x.dtype))
    if saturate and numeric.is_tiny_float(dtype):
        limit = numeric.largest_finite(dtype)
        x = te.binary("max", te.binary("min", te.cast(x, "float32"), limit), -limit)
    return te.cast(x, dtype)


def _cast_dims(array: DimArray, dtype: str) -> DimArray:
    if array is None or not (dtypes.is_integer(dtype) or dtype == "bool"):
        return None
    if dtype == "bool":
        differs = negated(decide("equal"))
        return apply_dims(lambda d: differs(d, 0), array)
    return array


def _cast_type(op: str, data: Value, dtype: str) -> TensorType:
    """The type of ``data`` as ``dtype``.

    Raises:
        TypeInferenceError: one is complex, the other a string: no format defines the text.
    """
    if "string" in (data.dtype, dtype) and (dtypes.is_complex(data.dtype) or dtypes.is_complex(dtype)):
        raise fail(op, "complex numbers have no text", f"{data.dtype} to {dtype}", "real numbers", "cast to a real type first")
    return TensorType(data.shape, dtype)


@dataclass(frozen=True)
class CastAttrs:
    dtype: str
    saturate: bool = True


@register
class Cast(Op[CastAttrs]):
    """data as ``dtype``. Float to integer saturates, NaN -> 0; integers wrap; to bool: data != 0; complex to real: the real
    part; ``saturate`` concerns float8 results only: overflow gives the largest finite value instead of infinity or NaN.
    """

    name = "cast"
    data = Operand()
    kind = Kind.ELEMENTWISE
    unpacks = True

    def infer(self, attrs: CastAttrs, data: Value) -> Types:
        if attrs.dtype not in dtypes.NAMES:
            raise fail(self.name, "attribute dtype", repr(attrs.dtype), f"one of {', '.join(dtypes.NAMES)}")
        return [_cast_type(self.name, data, attrs.dtype)]

    def element_range(
        self, attrs: CastAttrs, results: Types, ranges: Sequence[Range | None], *operands: Value | None
    ) -> Sequence[Range | None]:
        if not dtypes.is_integer(attrs.dtype):
            return [None]
        low, high = dtypes.integer_range(attrs.dtype)
        fits = attrs.dtype == "int64" or lies_within(ranges[0], low, high)
        return [ranges[0] if fits else None]

    def reference(self, attrs: CastAttrs, data: Array) -> Arrays:
        return [numeric.convert(data, attrs.dtype, attrs.saturate)]

    def lower(self, attrs: CastAttrs, results: TensorTypes, data: Tensor) -> Lowered:
        return [broadcast_compute(self.name, results[0], lambda x: lower_cast(x, attrs.dtype, attrs.saturate), data)]

    def decompose(self, builder: Builder, attrs: CastAttrs, data: Value) -> Values | None:
        return cast_strings(builder, data, attrs.dtype, attrs.saturate)

    def evaluate_dims(self, attrs: CastAttrs, types: OperandTypes, data: DimArray) -> DimArray:
        return _cast_dims(data, attrs.dtype)


@register
class CastLike(Op[NoAttrs]):
    """data as the element type of dtype_like."""

    name = "cast_like"
    data, dtype_like = Operand(), Operand()
    kind = Kind.ELEMENTWISE

    def infer(self, attrs: NoAttrs, data: Value, dtype_like: Value) -> Types:
        return [_cast_type(self.name, data, dtype_like.dtype)]

    def reference(self, attrs: NoAttrs, data: Array, dtype_like: Array) -> Arrays:
        return [numeric.convert(data, dtypes.canonical(dtype_like.dtype))]

    def lower(self, attrs: NoAttrs, results: TensorTypes, data: Tensor, dtype_like: Tensor) -> Lowered:
        return [broadcast_compute(self.name, results[0], lambda x: lower_cast(x, results[0].dtype), data)]

    def decompose(self, builder: Builder, attrs: NoAttrs, data: Value, dtype_like: Value) -> Values | None:
        return cast_strings(builder, data, dtype_like.dtype)

    def evaluate_dims(self, attrs: NoAttrs, types: OperandTypes, data: DimArray, dtype_like: DimArray) -> DimArray:
        return _cast_dims(data, types[1].dtype) if isinstance(types[1], TensorType) else None


@register
class Reinterpret(Op[CastAttrs]):
    """The bits of data read as ``dtype``, which has the same width."""

    name = "reinterpret"
    data = Operand()
    kind = Kind.ELEMENTWISE
    precision = Precision.WIDE

    def infer(self, attrs: CastAttrs, data: Value) -> Types:
        if dtypes.bits(data.dtype) != dtypes.bits(attrs.dtype):
            raise fail(self.name, "element widths differ", f"{data.dtype} and {attrs.dtype}", "equal widths")
        return [_cast_type(self.name, data, attrs.dtype)]

    def reference(self, attrs: CastAttrs, data: Array) -> Arrays:
        return [np.ascontiguousarray(data).view(dtypes.numpy_dtype(attrs.dtype)).reshape(data.shape)]

    def lower(self, attrs: CastAttrs, results: TensorTypes, data: Tensor) -> Lowered:
        return [broadcast_compute(self.name, results[0], lambda x: te.call("reinterpret", x, dtype=attrs.dtype), data)]


def cast_strings(builder: Builder, data: Value | None, dtype: str, saturate: bool = True) -> Values | None:
    """What ``cast`` to or from strings is made of; None for other casts."""
    assert data is not None
    if "string" not in (data.dtype, dtype) or data.dtype == dtype:
        return None
    if dtype == "string":
        return [_formatted(builder, data)]
    if dtypes.is_integer(dtype):
        wide = "uint64" if dtype == "uint64" else "int64"
        numbers = builder.call("string.to_number", data, dtype=wide, within="int64" if dtype == "uint64" else dtype)
    else:
        numbers = builder.call("string.to_number", data, dtype="float64")
    return [numbers if numbers.dtype == dtype else builder.call("cast", numbers, dtype=dtype, saturate=saturate)]


def _formatted(builder: Builder, data: Value) -> Value:
    if dtypes.is_float(data.dtype):
        wide, digits = "float64", 8 if dtypes.bits(data.dtype) <= 32 else 17
    else:
        wide, digits = data.dtype if data.dtype in ("bool", "uint64") else "int64", 17
    numbers = data if data.dtype == wide else builder.call("cast", data, dtype=wide)
    return builder.call("string.from_number", numbers, digits=digits)
