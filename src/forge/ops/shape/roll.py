"""Cyclic shifts along axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from forge import te
from forge.dims import Dim
from forge.ir.op import Kind, Operand
from forge.ops.core.inference import fail, normalize_axes, present, tensor
from forge.ops.core.lowering import injective
from forge.ops.core.op import Op, register
from forge.ops.core.signatures import Arrays, Lowered, Regions, Tensors, TensorTypes, Types, Values
from forge.te import Expr


@dataclass(frozen=True)
class RollAttrs:
    shift: tuple[Dim, ...]
    axis: tuple[int, ...]


@register
class Roll(Op[RollAttrs]):
    """data moved by ``shift`` elements along ``axis``, what leaves entering at the other end: out[i] = data[(i - shift) % n]."""

    name = "roll"
    data = Operand()
    kind = Kind.INJECTIVE

    def infer(self, operands: Values, attrs: RollAttrs, regions: Regions = ()) -> Types:
        data = tensor(self.name, operands[0], "data")
        normalize_axes(self.name, attrs.axis, data.rank)
        if len(attrs.shift) != len(attrs.axis):
            raise fail(self.name, "attribute shift", attrs.shift, f"{len(attrs.axis)} numbers, one an axis")
        return [data]

    def reference(self, operands: Arrays, attrs: RollAttrs) -> Arrays:
        return [np.roll(operands[0], attrs.shift, attrs.axis)]  # type: ignore[arg-type]

    def lower(self, operands: Tensors, attrs: RollAttrs, results: TensorTypes) -> Lowered:
        (data,) = present(operands)
        shifts = dict(zip(normalize_axes(self.name, attrs.axis, data.ndim), attrs.shift, strict=True))

        def body(i: Sequence[Expr]) -> Expr:
            return data[tuple((x - te.dim(shifts[k])) % data.shape[k] if k in shifts else x for k, x in enumerate(i))]

        return [injective(self.name, results[0], body)]
