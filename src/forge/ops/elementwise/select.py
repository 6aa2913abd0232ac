"""Elementwise operators on bounds and conditions: copy, clip, where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from forge import dtypes, te
from forge.ir.builder import Builder
from forge.ir.op import Range
from forge.ops.core.inference import broadcast_shapes, same_dtype
from forge.ops.core.op import Kind, NoAttrs, Op, Operand, register
from forge.ops.core.ranges import union
from forge.ops.core.signatures import Array, Arrays, DimArray, Lowered, OperandTypes, TensorType, TensorTypes, Types, Value
from forge.ops.elementwise.rows import apply_dims, broadcast_compute
from forge.te import Expr, Tensor


@register
class Copy(Op[NoAttrs]):
    """data, unchanged."""

    name = "copy"
    data = Operand(any_type=True)
    kind = Kind.ELEMENTWISE
    is_identity = True
    flops_per_element = 0

    def reference(self, attrs: NoAttrs, data: Array) -> Arrays:
        return [data]

    def lower(self, attrs: NoAttrs, results: TensorTypes, data: Tensor) -> Lowered:
        return [broadcast_compute(self.name, results[0], lambda x: x, data)]

    def evaluate_dims(self, attrs: NoAttrs, types: OperandTypes, data: DimArray) -> DimArray:
        return data


def copied(builder: Builder, value: Value) -> Value:
    """A copy of ``value``."""
    return builder.call("copy", value)


@dataclass(frozen=True)
class ClipAttrs:
    a_min: float | None = None
    a_max: float | None = None


def _bound(value: float, dtype: str) -> float | int:
    """A bound in the range of ``dtype``."""
    if not dtypes.is_integer(dtype):
        return float(value)
    low, high = dtypes.integer_range(dtype)
    return int(min(max(value, low), high))


@register
class Clip(Op[ClipAttrs]):
    """min(max(data, a_min), a_max); a missing bound is none. Scalar operands take the place of missing attributes. NaN stays."""

    name = "clip"
    is_clamp = True
    data = Operand(accepts="numeric")
    min, max = Operand(optional=True, single=True), Operand(optional=True, single=True)
    kind = Kind.ELEMENTWISE

    def infer(self, attrs: ClipAttrs, data: Value, low: Value | None, high: Value | None) -> Types:
        same_dtype(self.name, [v for v in (data, low, high) if v is not None])
        return [data.type]

    def element_range(
        self, attrs: ClipAttrs, results: Types, ranges: Sequence[Range | None], *operands: Value | None
    ) -> Sequence[Range | None]:
        if len(operands) > 1 or attrs.a_min is None or attrs.a_max is None or attrs.a_min > attrs.a_max:
            return [None]
        dtype = getattr(results[0], "dtype", "")
        return [(int(_bound(attrs.a_min, dtype)), int(_bound(attrs.a_max, dtype)))] if dtypes.is_integer(dtype) else [None]

    def reference(self, attrs: ClipAttrs, data: Array, low: Array | None, high: Array | None) -> Arrays:
        least = attrs.a_min if low is None else low.item()
        most = attrs.a_max if high is None else high.item()
        dtype = dtypes.canonical(data.dtype)
        if least is not None:
            data = np.maximum(data, np.asarray(_bound(least, dtype), dtype=data.dtype))
        if most is not None:
            data = np.minimum(data, np.asarray(_bound(most, dtype), dtype=data.dtype))
        return [data]

    def lower(self, attrs: ClipAttrs, results: TensorTypes, data: Tensor, low: Tensor | None, high: Tensor | None) -> Lowered:
        dtype = results[0].dtype

        def limit(x: Expr, op: str, bound: Tensor | None, value: float | None) -> Expr:
            if bound is not None:
                return te.binary(op, x, bound[tuple(te.const(0) for _ in bound.shape)])
            return x if value is None else te.binary(op, x, te.const(_bound(value, dtype), dtype))

        def body(x: Expr) -> Expr:
            return limit(limit(x, "max", low, attrs.a_min), "min", high, attrs.a_max)

        return [broadcast_compute(self.name, results[0], body, data)]


@register
class Where(Op[NoAttrs]):
    """x where condition holds, else y; all three broadcast."""

    name = "where"
    condition, x, y = Operand(accepts="bool"), Operand(), Operand()
    kind = Kind.ELEMENTWISE

    def element_range(
        self, attrs: NoAttrs, results: Types, ranges: Sequence[Range | None], *operands: Value | None
    ) -> Sequence[Range | None]:
        return [union(ranges[1:])]

    def infer(self, attrs: NoAttrs, condition: Value, x: Value, y: Value) -> Types:
        return [TensorType(broadcast_shapes(self.name, condition.shape, x.shape, y.shape), same_dtype(self.name, [x, y]))]

    def reference(self, attrs: NoAttrs, condition: Array, x: Array, y: Array) -> Arrays:
        return [np.where(condition, x, y)]

    def lower(self, attrs: NoAttrs, results: TensorTypes, condition: Tensor, x: Tensor, y: Tensor) -> Lowered:
        return [broadcast_compute(self.name, results[0], te.select, condition, x, y)]

    def evaluate_dims(self, attrs: NoAttrs, types: OperandTypes, condition: DimArray, x: DimArray, y: DimArray) -> DimArray:
        if condition is None:
            return None
        static = [t.shape for t in types if isinstance(t, TensorType) and t.is_static]
        if len(static) != 3:
            return None
        shape = np.broadcast_shapes(*static)  # type: ignore[arg-type]
        sides = [np.full(shape, None) if a is None else np.broadcast_to(a, shape) for a in (x, y)]
        return apply_dims(lambda c, a, b: a if c else b, np.broadcast_to(condition, shape), *sides)
