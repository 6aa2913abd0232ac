"""Dropout, which is the identity in inference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from forge import te
from forge.ir.op import Accuracy, Kind, Operand
from forge.ir.types import TensorType
from forge.ops.core.op import Op, register
from forge.ops.core.signatures import Array
from forge.te import Tensor

if TYPE_CHECKING:
    pass


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

    def reference(self, attrs: Any, data: Array) -> Sequence[Any]:
        return [data]

    def lower(self, attrs: Any, results: Sequence[TensorType], data: Tensor) -> Sequence[Tensor]:
        return [te.compute(te.shape_of(results[0].shape), lambda *i: data[i], name="dropout")]

    def flops(self, attrs: Any, results: Sequence[TensorType], *_: object) -> Any:
        return 0
