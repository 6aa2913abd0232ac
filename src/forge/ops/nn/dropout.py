"""Dropout, which is the identity in inference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from forge import te
from forge.ir.op import Accuracy, Kind, Operand
from forge.ir.types import TensorType
from forge.ops.core.inference import tensor
from forge.ops.core.op import Op, register
from forge.te import Tensor

if TYPE_CHECKING:
    from forge.ir.nodes import Graph, Value


@dataclass(frozen=True)
class DropoutAttrs:
    rate: float = 0.5


@register
class Dropout(Op[DropoutAttrs]):
    """``out = data``: dropout at inference. ``rate`` is kept for the record."""

    name = "nn.dropout"
    data = Operand()
    accuracy = Accuracy.EXACT
    kind = Kind.ELEMENTWISE

    def infer(self, operands: Sequence[Value | None], attrs: Any, regions: Sequence[Graph] = ()) -> Sequence[TensorType]:
        return [tensor(self.name, operands[0], "data")]

    def reference(self, operands: Sequence[Any], attrs: Any) -> Sequence[Any]:
        return [operands[0]]

    def lower(self, operands: tuple[Tensor, ...], attrs: Any, results: Sequence[TensorType]) -> Sequence[Tensor]:
        (data,) = operands
        return [te.compute(te.shape_of(results[0].shape), lambda *i: data[i], name="dropout")]

    def flops(self, operands: Sequence[Any], attrs: Any, results: Sequence[TensorType]) -> Any:
        return 0
