"""Cyclic shifts along axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from forge import te
from forge.ops.core.inference import fail, normalize_axes
from forge.ops.core.lowering import injective
from forge.ops.core.op import Kind, Op, Operand, register
from forge.ops.core.signatures import Array, Arrays, Dim, Expr, Lowered, Tensor, TensorTypes, Types, Value


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

    def infer(self, attrs: RollAttrs, data: Value) -> Types:
        normalize_axes(self.name, attrs.axis, data.rank)
        if len(attrs.shift) != len(attrs.axis):
            raise fail(self.name, "attribute shift", attrs.shift, f"{len(attrs.axis)} numbers, one an axis")
        return [data.type]

    def reference(self, attrs: RollAttrs, data: Array) -> Arrays:
        return [np.roll(data, attrs.shift, attrs.axis)]  # type: ignore[arg-type]

    def lower(self, attrs: RollAttrs, results: TensorTypes, data: Tensor) -> Lowered:
        shifts = dict(zip(normalize_axes(self.name, attrs.axis, data.ndim), attrs.shift, strict=True))

        def body(i: Sequence[Expr]) -> Expr:
            return data[tuple((x - te.dim(shifts[k])) % data.shape[k] if k in shifts else x for k, x in enumerate(i))]

        return [injective(self.name, results[0], body)]
