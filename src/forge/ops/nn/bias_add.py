"""Addition of a vector along an axis."""

from __future__ import annotations

from dataclasses import dataclass

from forge import te
from forge.ops.core.inference import fail, normalize_axis, require_equal
from forge.ops.core.layout_change import LayoutChange, along_axis
from forge.ops.core.op import Accuracy, Kind, Op, Operand, Precision, register
from forge.ops.core.signatures import Array, Arrays, Lowered, Tensor, TensorTypes, Types, Value


@dataclass(frozen=True)
class BiasAddAttrs:
    axis: int = 1


@register
class BiasAdd(Op[BiasAddAttrs]):
    """``out[..., c, ...] = data[..., c, ...] + bias[c]``, with c at ``axis``."""

    name = "nn.bias_add"
    data, bias = Operand(accepts="number or bool"), Operand(accepts="number or bool", rank=1)
    accuracy = Accuracy.ROUNDING
    kind = Kind.ELEMENTWISE
    precision = Precision.FOLLOWS
    is_map = False

    def infer(self, attrs: BiasAddAttrs, data: Value, bias: Value) -> Types:
        axis = normalize_axis(self.name, attrs.axis, data.rank)
        require_equal(self.name, f"bias against axis {axis} of data {data.type}", bias.shape[0], data.shape[axis])
        if data.dtype != bias.dtype:
            raise fail(self.name, "dtypes", f"{data.dtype} and {bias.dtype}", "equal ones")
        return [data.type]

    def reference(self, attrs: BiasAddAttrs, data: Array, bias: Array) -> Arrays:
        axis = normalize_axis(self.name, attrs.axis, data.ndim)
        return [data + bias.reshape([-1 if k == axis else 1 for k in range(data.ndim)])]

    def lower(self, attrs: BiasAddAttrs, results: TensorTypes, data: Tensor, bias: Tensor) -> Lowered:
        axis = normalize_axis(self.name, attrs.axis, data.ndim)
        return [te.compute(te.shape_of(results[0].shape), lambda *i: data[i] + bias[i[axis]], name="bias_add")]

    def in_layout(self, change: LayoutChange) -> Value | None:
        """In blocks the bias has two axes, so that it broadcasts in an addition."""
        axis = self.attrs.axis % self.data.rank
        if change.block(axis) == 1:
            return along_axis(self, change)
        bias = change.vector(self.bias, axis, self.data.shape)
        return change.builder.call("add", change.converted(self.data), bias, name=self.node.name)
