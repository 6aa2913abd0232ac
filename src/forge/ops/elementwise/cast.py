"""Conversions of element types: cast, cast_like, reinterpret."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from forge import dtypes, te
from forge.ir.builder import Builder
from forge.ir.nodes import Value
from forge.ir.op import Kind, NoAttrs, Operand, Precision
from forge.ir.types import TensorType
from forge.ops.core import scalar_math as numeric
from forge.ops.core.inference import fail, tensor
from forge.ops.core.op import Op, register
from forge.ops.core.signatures import (
    Arrays,
    DimArray,
    DimArrays,
    Lowered,
    OperandTypes,
    Regions,
    Tensors,
    TensorTypes,
    Types,
    Values,
)
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

    def infer(self, operands: Values, attrs: CastAttrs, regions: Regions = ()) -> Types:
        if attrs.dtype not in dtypes.NAMES:
            raise fail(self.name, "attribute dtype", repr(attrs.dtype), f"one of {', '.join(dtypes.NAMES)}")
        return [TensorType(tensor(self.name, operands[0], "data").shape, attrs.dtype)]

    def reference(self, operands: Arrays, attrs: CastAttrs) -> Arrays:
        return [numeric.convert(operands[0], attrs.dtype, attrs.saturate)]

    def lower(self, operands: Tensors, attrs: CastAttrs, results: TensorTypes) -> Lowered:
        return [broadcast_compute(self.name, operands, results[0], lambda x: lower_cast(x, attrs.dtype, attrs.saturate))]

    def decompose(self, builder: Builder, operands: Values, attrs: CastAttrs) -> Sequence[Value] | None:
        return cast_strings(builder, operands[0], attrs.dtype, attrs.saturate)

    def evaluate_dims(self, operands: DimArrays, attrs: CastAttrs, types: OperandTypes) -> DimArray:
        return _cast_dims(operands[0], attrs.dtype)


@register
class CastLike(Op[NoAttrs]):
    """data as the element type of dtype_like."""

    name = "cast_like"
    data, dtype_like = Operand(), Operand()
    kind = Kind.ELEMENTWISE

    def infer(self, operands: Values, attrs: NoAttrs, regions: Regions = ()) -> Types:
        like = tensor(self.name, operands[1], "dtype_like")
        return [TensorType(tensor(self.name, operands[0], "data").shape, like.dtype)]

    def reference(self, operands: Arrays, attrs: NoAttrs) -> Arrays:
        return [numeric.convert(operands[0], dtypes.canonical(operands[1].dtype))]

    def lower(self, operands: Tensors, attrs: NoAttrs, results: TensorTypes) -> Lowered:
        return [broadcast_compute(self.name, operands[:1], results[0], lambda x: lower_cast(x, results[0].dtype))]

    def decompose(self, builder: Builder, operands: Values, attrs: NoAttrs) -> Sequence[Value] | None:
        assert operands[1] is not None
        return cast_strings(builder, operands[0], operands[1].dtype)

    def evaluate_dims(self, operands: DimArrays, attrs: NoAttrs, types: OperandTypes) -> DimArray:
        return _cast_dims(operands[0], types[1].dtype) if isinstance(types[1], TensorType) else None


@register
class Reinterpret(Op[CastAttrs]):
    """The bits of data read as ``dtype``, which has the same width."""

    name = "reinterpret"
    data = Operand()
    kind = Kind.ELEMENTWISE
    precision = Precision.WIDE

    def infer(self, operands: Values, attrs: CastAttrs, regions: Regions = ()) -> Types:
        data = tensor(self.name, operands[0], "data")
        if dtypes.bits(data.dtype) != dtypes.bits(attrs.dtype):
            raise fail(self.name, "element widths differ", f"{data.dtype} and {attrs.dtype}", "equal widths")
        return [TensorType(data.shape, attrs.dtype)]

    def reference(self, operands: Arrays, attrs: CastAttrs) -> Arrays:
        return [np.ascontiguousarray(operands[0]).view(dtypes.numpy_dtype(attrs.dtype)).reshape(operands[0].shape)]

    def lower(self, operands: Tensors, attrs: CastAttrs, results: TensorTypes) -> Lowered:
        dtype = attrs.dtype
        return [broadcast_compute(self.name, operands, results[0], lambda x: te.call("reinterpret", x, dtype=dtype))]


def cast_strings(builder: Builder, data: Value | None, dtype: str, saturate: bool = True) -> Sequence[Value] | None:
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
