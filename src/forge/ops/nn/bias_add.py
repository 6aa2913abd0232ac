"""Addition of a vector along an axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from forge import te
from forge.ir.op import Accuracy, Kind, Operand, Precision
from forge.ir.types import TensorType
from forge.ops.core.inference import fail, normalize_axis, require_equal, tensor_type
from forge.ops.core.layout_change import LayoutChange, along_axis
from forge.ops.core.op import Op, register
from forge.te import Tensor

if TYPE_CHECKING:
    from forge.ir.nodes import Graph, Value


@dataclass(frozen=True)
class BiasAddAttrs:
    axis: int = 1


@register
class BiasAdd(Op[BiasAddAttrs]):
    """``out[..., c, ...] = data[..., c, ...] + bias[c]``, with c at ``axis``."""

    name = "nn.bias_add"
    data, bias = Operand(), Operand()
    accuracy = Accuracy.ROUNDING
    kind = Kind.ELEMENTWISE
    precision = Precision.FOLLOWS
    is_map = False

    def infer(self, operands: Sequence[Value | None], attrs: Any, regions: Sequence[Graph] = ()) -> Sequence[TensorType]:
        data, bias = tensor_type(self.name, "data", operands[0]), tensor_type(self.name, "bias", operands[1], 1)
        axis = normalize_axis(self.name, attrs.axis, data.rank)
        require_equal(self.name, f"bias against axis {axis} of data {data}", bias.shape[0], data.shape[axis])
        if data.dtype != bias.dtype:
            raise fail(self.name, "dtypes", f"{data.dtype} and {bias.dtype}", "equal ones")
        return [data]

    def reference(self, operands: Sequence[Any], attrs: Any) -> Sequence[Any]:
        data, bias = operands
        axis = normalize_axis(self.name, attrs.axis, data.ndim)
        return [data + bias.reshape([-1 if k == axis else 1 for k in range(data.ndim)])]

    def lower(self, operands: tuple[Tensor, ...], attrs: Any, results: Sequence[TensorType]) -> Sequence[Tensor]:
        data, bias = operands
        axis = normalize_axis(self.name, attrs.axis, data.ndim)
        return [te.compute(te.shape_of(results[0].shape), lambda *i: data[i] + bias[i[axis]], name="bias_add")]

    def in_layout(self, change: LayoutChange) -> Value | None:
        """In blocks the bias has two axes, so that it broadcasts in an addition."""
        axis = self.attrs.axis % self.data.rank
        if change.block(axis) == 1:
            return along_axis(self, change)
        bias = change.vector(self.bias, axis, self.data.shape)
        return change.builder.call("add", change.converted(self.data), bias, name=self.node.name)
