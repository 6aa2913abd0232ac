"""Elementwise operators on bounds and conditions: copy, clip, where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from forge import dtypes, te
from forge.ir.builder import Builder
from forge.ir.nodes import Value
from forge.ir.op import Kind, NoAttrs, Operand
from forge.ir.types import TensorType
from forge.ops.core.inference import broadcast_shapes, expect_dtype, fail, same_dtype, tensor
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
from forge.ops.elementwise.rows import apply_dims, broadcast_compute
from forge.te import Expr, Tensor


@register
class Copy(Op[NoAttrs]):
    """data, unchanged."""

    name = "copy"
    data = Operand()
    kind = Kind.ELEMENTWISE
    is_identity = True

    def infer(self, operands: Values, attrs: NoAttrs, regions: Regions = ()) -> Types:
        assert operands[0] is not None
        return [operands[0].type]

    def reference(self, operands: Arrays, attrs: NoAttrs) -> Arrays:
        return [operands[0]]

    def lower(self, operands: Tensors, attrs: NoAttrs, results: TensorTypes) -> Lowered:
        return [broadcast_compute(self.name, operands, results[0], lambda x: x)]

    def evaluate_dims(self, operands: DimArrays, attrs: NoAttrs, types: OperandTypes) -> DimArray:
        return operands[0]

    def flops(self, operands: Sequence[Any], attrs: NoAttrs, results: TensorTypes) -> Any:
        return 0


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
    data, min, max = Operand(), Operand(optional=True), Operand(optional=True)
    kind = Kind.ELEMENTWISE

    def infer(self, operands: Values, attrs: ClipAttrs, regions: Regions = ()) -> Types:
        data = tensor(self.name, operands[0], "data")
        expect_dtype(self.name, data, "data", "numeric")
        for operand, name in zip(operands[1:], ("min", "max")):
            if operand is not None:
                bound = tensor(self.name, operand, name)
                same_dtype(self.name, [data, bound])
                if bound.size != 1:
                    raise fail(self.name, f"operand {name!r}", bound, "one element")
        return [data]

    def reference(self, operands: Arrays, attrs: ClipAttrs) -> Arrays:
        data, low, high = [*operands, None, None][:3]
        low = attrs.a_min if low is None else low.item()
        high = attrs.a_max if high is None else high.item()
        dtype = dtypes.canonical(data.dtype)
        if low is not None:
            data = np.maximum(data, np.asarray(_bound(low, dtype), dtype=data.dtype))
        if high is not None:
            data = np.minimum(data, np.asarray(_bound(high, dtype), dtype=data.dtype))
        return [data]

    def lower(self, operands: Tensors, attrs: ClipAttrs, results: TensorTypes) -> Lowered:
        data, low, high = [*operands, None, None][:3]
        dtype = results[0].dtype

        def limit(x: Expr, op: str, bound: Tensor | None, value: float | None) -> Expr:
            if bound is not None:
                return te.binary(op, x, bound[tuple(te.const(0) for _ in bound.shape)])
            return x if value is None else te.binary(op, x, te.const(_bound(value, dtype), dtype))

        def body(x: Expr) -> Expr:
            return limit(limit(x, "max", low, attrs.a_min), "min", high, attrs.a_max)

        return [broadcast_compute(self.name, [data], results[0], body)]


@register
class Where(Op[NoAttrs]):
    """x where condition holds, else y; all three broadcast."""

    name = "where"
    condition, x, y = Operand(), Operand(), Operand()
    kind = Kind.ELEMENTWISE

    def infer(self, operands: Values, attrs: NoAttrs, regions: Regions = ()) -> Types:
        condition, x, y = (tensor(self.name, v, o.name) for v, o in zip(operands, self.operands))
        expect_dtype(self.name, condition, "condition", "bool")
        dtype = same_dtype(self.name, [x, y])
        return [TensorType(broadcast_shapes(self.name, condition.shape, x.shape, y.shape), dtype)]

    def reference(self, operands: Arrays, attrs: NoAttrs) -> Arrays:
        return [np.where(*operands)]

    def lower(self, operands: Tensors, attrs: NoAttrs, results: TensorTypes) -> Lowered:
        return [broadcast_compute(self.name, operands, results[0], te.select)]

    def evaluate_dims(self, operands: DimArrays, attrs: NoAttrs, types: OperandTypes) -> DimArray:
        condition, x, y = operands
        if condition is None:
            return None
        static = [t.shape for t in types if isinstance(t, TensorType) and t.is_static]
        if len(static) != 3:
            return None
        shape = np.broadcast_shapes(*static)  # type: ignore[arg-type]
        sides = [np.full(shape, None) if a is None else np.broadcast_to(a, shape) for a in (x, y)]
        return apply_dims(lambda c, a, b: a if c else b, np.broadcast_to(condition, shape), *sides)
