"""Dropout, which is the identity in inference."""

from __future__ import annotations

from dataclasses import dataclass

from forge import te
from forge.ops.core.op import Kind, Op, Operand, register
from forge.ops.core.signatures import Array, Arrays, Lowered, Tensor, TensorTypes


@dataclass(frozen=True)
class DropoutAttrs:
    rate: float = 0.5


@register
class Dropout(Op[DropoutAttrs]):
    """``out = data``: dropout at inference. ``rate`` is kept for the record."""

    name = "nn.dropout"
    data = Operand()
    keeps_ratios = True
    kind = Kind.ELEMENTWISE
    flops_per_element = 0

    def reference(self, attrs: DropoutAttrs, data: Array) -> Arrays:
        return [data]

    def lower(self, attrs: DropoutAttrs, results: TensorTypes, data: Tensor) -> Lowered:
        return [te.compute(te.shape_of(results[0].shape), lambda *i: data[i], name="dropout")]
