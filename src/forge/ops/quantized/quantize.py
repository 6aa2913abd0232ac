"""Conversion between real numbers and integers with scale and zero point."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from forge import dtypes, te
from forge.ops.core.inference import fail, normalize_axis, require_equal
from forge.ops.core.layout_change import LayoutChange
from forge.ops.core.op import Accuracy, Category, Kind, Op, Operand, Precision, register
from forge.ops.core.signatures import Array, Arrays, Expr, Lowered, Tensor, TensorType, TensorTypes, Value
from forge.tir.expr import binary


@dataclass(frozen=True)
class QuantizeAttrs:
    """How numbers are quantized.

    Attributes:
        away: how far numbers below 0, and others, are moved away from 0 before they are rounded, in steps: what fixed-point
            arithmetic that rounds twice does to numbers just below half a step. Empty: not at all.
    """

    out_dtype: str = "int8"
    axis: int = -1
    block_size: int = 0
    away: tuple[float, ...] = ()


@dataclass(frozen=True)
class DequantizeAttrs:
    out_dtype: str = "float32"
    axis: int = -1
    block_size: int = 0


class _Conversion(Op[Any]):
    """Both conversions: parameters are scalars (or have one element), or vectors along ``axis``.

    With a ``block_size``, they have the shape of data but for ``axis``, where one element holds for a block of that many elements
    of data; the last block may be shorter.
    """

    kind = Kind.ELEMENTWISE
    precision = Precision.WIDE
    category = Category.QUANTIZATION
    is_map = False

    def in_layout(self, change: LayoutChange) -> Value | None:
        node = self.node
        if self.attrs.block_size or any(v is not None and v.size != 1 for v in node.operands[1:]):
            return None
        return change.on_first(node, axis=-1)

    def check_parameters(self, attrs: Any, data: Value, *parameters: Value | None) -> None:
        if attrs.block_size < 0:
            raise fail(self.name, "block_size", attrs.block_size, "a positive size, or 0 for none")
        for declared, value in zip(self.operands[1:], parameters):
            if value is None:
                continue
            if attrs.block_size:
                self._check_blocks(attrs, data, declared.name, value)
            elif value.rank > 1:
                raise fail(self.name, f"operand {declared.name!r}", value.type, "rank 0 or 1, or a block_size")
            elif value.rank == 1 and value.shape[0] != 1:
                axis = normalize_axis(self.name, attrs.axis, data.rank)
                what = f"{declared.name} against axis {axis} of {data.type}"
                require_equal(self.name, what, value.shape[0], data.shape[axis])

    def _check_blocks(self, attrs: Any, data: Value, name: str, value: Value) -> None:
        if value.rank != data.rank:
            raise fail(self.name, f"operand {name!r}", value.type, f"rank {data.rank}, as data has, for a block_size")
        split = normalize_axis(self.name, attrs.axis, data.rank)
        for axis, (own, size) in enumerate(zip(value.shape, data.shape)):
            what = f"{name} against axis {axis} of {data.type} in blocks of {attrs.block_size if axis == split else 1}"
            if axis == split and isinstance(size, int):
                size = -(-size // attrs.block_size)
            elif axis == split:
                own = own * attrs.block_size
            require_equal(self.name, what, own, size)

    def shaped(self, parameter: np.ndarray, data: np.ndarray, attrs: Any) -> np.ndarray:
        """``parameter`` so that it broadcasts with ``data``."""
        if attrs.block_size:
            axis = normalize_axis(self.name, attrs.axis, data.ndim)
            spread: np.ndarray = np.take(parameter, np.arange(data.shape[axis]) // attrs.block_size, axis)
            return spread
        if parameter.size == 1:
            return parameter.reshape(())
        axis = normalize_axis(self.name, attrs.axis, data.ndim)
        return parameter.reshape([-1 if k == axis else 1 for k in range(data.ndim)])

    def read(self, parameter: Tensor, indices: Sequence[Expr], attrs: Any) -> Expr:
        if parameter.ndim == 0:
            return parameter[()]
        if attrs.block_size:
            axis = attrs.axis % len(indices)
            return parameter[tuple(i // attrs.block_size if k == axis else i for k, i in enumerate(indices))]
        if getattr(parameter.shape[0], "value", None) == 1:
            return parameter[te.const(0)]
        return parameter[indices[attrs.axis % len(indices)]]


@register
class Quantize(_Conversion):
    """``out = saturate(round(data / scale) + zero_point)``, rounding half to even; NaN counts as 0.

    With ``away``, two numbers of less than half a step, what is rounded is ``data / scale - away[0]`` below 0, and
    ``data / scale + away[1]`` from 0 on.

    Operands: data, scale, zero_point (of ``out_dtype``; absent: 0).
    """

    name = "qnn.quantize"
    data, scale, zero_point = Operand(accepts="float"), Operand(), Operand(optional=True)
    Attrs = QuantizeAttrs
    flops_per_element = 3

    def infer(self, attrs: Any, data: Value, scale: Value, zero_point: Value | None) -> TensorTypes:
        if scale.dtype != data.dtype:
            raise fail(self.name, "operand 'scale'", scale.type, f"dtype {data.dtype}")
        if not dtypes.is_integer(attrs.out_dtype) or dtypes.bits(attrs.out_dtype) > 32:
            raise fail(self.name, "out_dtype", attrs.out_dtype, "an integer type of at most 32 bits")
        if attrs.away and not (len(attrs.away) == 2 and all(abs(step) < 0.5 for step in attrs.away)):
            raise fail(self.name, "away", attrs.away, "two numbers of less than half a step")
        if zero_point is not None and zero_point.dtype != attrs.out_dtype:
            raise fail(self.name, "operand 'zero_point'", zero_point.type, f"dtype {attrs.out_dtype}")
        self.check_parameters(attrs, data, scale, zero_point)
        return [TensorType(data.shape, attrs.out_dtype)]

    def reference(self, attrs: Any, data: Array, scale: Array, zero_point: Array | None) -> Arrays:
        narrow = data.dtype.itemsize < 4
        x = data.astype(np.float32) if narrow else data
        steps = x / self.shaped(scale, data, attrs).astype(x.dtype)
        if attrs.away:
            steps = steps + np.where(steps < 0, -attrs.away[0], attrs.away[1]).astype(x.dtype)
        quotient = np.rint(steps).astype(np.float64)
        quotient = np.where(np.isnan(quotient), 0.0, quotient)
        if zero_point is not None:
            quotient = quotient + self.shaped(zero_point, data, attrs).astype(np.float64)
        low, high = dtypes.integer_range(attrs.out_dtype)
        return [np.clip(quotient, low, high).astype(np.int64).astype(dtypes.numpy_dtype(attrs.out_dtype))]

    def lower(self, attrs: Any, results: TensorTypes, data: Tensor, scale: Tensor, zero_point: Tensor | None) -> Lowered:
        real = data.dtype if data.dtype in ("float32", "float64") else "float32"
        wide = real if dtypes.bits(attrs.out_dtype) <= 16 else "float64"
        low, high = dtypes.integer_range(attrs.out_dtype)

        def body(*i: Expr) -> Expr:
            steps = te.cast(data[i], real) / te.cast(self.read(scale, i, attrs), real)
            if attrs.away:
                steps = steps + te.select(steps < 0.0, te.const(-attrs.away[0], real), te.const(attrs.away[1], real))
            quotient = te.call("round", steps)
            quotient = te.cast(te.select(te.call("isnan", quotient), te.const(0, real), quotient), wide)
            if zero_point is not None:
                quotient = quotient + te.cast(self.read(zero_point, i, attrs), wide)
            return te.cast(binary("max", binary("min", quotient, high), low), attrs.out_dtype)

        return [te.compute(te.shape_of(results[0].shape), body, name="quantize")]


@register
class Dequantize(_Conversion):
    """``out = (data - zero_point) * scale``; the difference is exact.

    Operands: data, scale, zero_point (of the dtype of data; absent: 0). ``out_dtype`` is the dtype of scale.
    """

    name = "qnn.dequantize"
    data, scale, zero_point = Operand(accepts="integer"), Operand(), Operand(optional=True)
    Attrs = DequantizeAttrs
    accuracy = Accuracy.ROUNDING
    flops_per_element = 2
    unpacks = True

    def infer(self, attrs: Any, data: Value, scale: Value, zero_point: Value | None) -> TensorTypes:
        if scale.dtype != attrs.out_dtype:
            raise fail(self.name, "operand 'scale'", scale.type, f"dtype {attrs.out_dtype} as out_dtype says")
        if zero_point is not None and zero_point.dtype != data.dtype:
            raise fail(self.name, "operand 'zero_point'", zero_point.type, f"dtype {data.dtype}")
        self.check_parameters(attrs, data, scale, zero_point)
        return [TensorType(data.shape, attrs.out_dtype)]

    def reference(self, attrs: Any, data: Array, scale: Array, zero_point: Array | None) -> Arrays:
        difference = data.astype(np.int64)
        if zero_point is not None:
            difference = difference - self.shaped(zero_point, data, attrs).astype(np.int64)
        real = np.float64 if attrs.out_dtype == "float64" else np.float32
        return [difference.astype(real) * self.shaped(scale, data, attrs).astype(real)]

    def lower(self, attrs: Any, results: TensorTypes, data: Tensor, scale: Tensor, zero_point: Tensor | None) -> Lowered:
        real = "float64" if attrs.out_dtype == "float64" else "float32"
        exact = "int32" if dtypes.bits(data.dtype) <= 16 else "int64"

        def body(*i: Expr) -> Expr:
            difference = te.cast(data[i], exact)
            if zero_point is not None:
                difference = difference - te.cast(self.read(zero_point, i, attrs), exact)
            return te.cast(te.cast(difference, real) * te.cast(self.read(scale, i, attrs), real), attrs.out_dtype)

        return [te.compute(te.shape_of(results[0].shape), body, name="dequantize")]
