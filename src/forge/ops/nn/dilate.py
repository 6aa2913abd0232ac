"""Insertion of padding between elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from forge import te
from forge.ops.core.inference import fail, same_dtype
from forge.ops.core.lowering import injective, scalar
from forge.ops.core.op import Kind, Op, Operand, register
from forge.ops.core.signatures import Array, Arrays, Expr, Lowered, Tensor, TensorType, TensorTypes, Types, Value
from forge.ops.reduce.window import Ints, dilated, spread_out


@dataclass(frozen=True)
class DilateAttrs:
    strides: Ints
    dilation_value: float = 0.0


@register
class Dilate(Op[DilateAttrs]):
    """data with ``strides[k]`` - 1 elements between neighbours of dimension k; they hold ``dilation_value``, or operand value."""

    name = "nn.dilate"
    data, value = Operand(), Operand(optional=True)
    kind = Kind.INJECTIVE

    def infer(self, attrs: DilateAttrs, data: Value, value: Value | None) -> Types:
        if len(attrs.strides) != data.rank or any(s < 1 for s in attrs.strides):
            raise fail(self.name, "attribute strides", attrs.strides, f"{data.rank} positive numbers")
        if value is not None:
            same_dtype(self.name, [data, value])
        shape = tuple(dilated(d, s) for d, s in zip(data.shape, attrs.strides, strict=True))
        return [TensorType(shape, data.dtype)]

    def reference(self, attrs: DilateAttrs, data: Array, value: Array | None) -> Arrays:
        return [spread_out(data, attrs.strides, attrs.dilation_value if value is None else value.reshape(()))]

    def lower(self, attrs: DilateAttrs, results: TensorTypes, data: Tensor, value: Tensor | None) -> Lowered:
        fill = te.const(attrs.dilation_value, data.dtype) if value is None else scalar(value)

        def body(i: Sequence[Expr]) -> Expr:
            on: Expr = te.const(True, "bool")
            for x, stride in zip(i, attrs.strides, strict=True):
                on = te.logical_and(on, (x % stride).eq(0)) if stride > 1 else on
            return te.select(on, data[tuple(x // s for x, s in zip(i, attrs.strides, strict=True))], fill)

        return [injective(self.name, results[0], body)]
