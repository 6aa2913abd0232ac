"""Triangular parts of matrices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from forge import te
from forge.ops.core.lowering import injective, scalar
from forge.ops.core.op import Kind, Op, Operand, register
from forge.ops.core.signatures import Array, Arrays, Expr, Lowered, Tensor, TensorTypes


@dataclass(frozen=True)
class TriluAttrs:
    upper: bool = True


@register
class Trilu(Op[TriluAttrs]):
    """The upper (column - row >= k) or lower (column - row <= k) triangle of the last two dimensions, else 0; k is 0
    if absent.
    """

    name = "trilu"
    data, k = Operand(min_rank=2), Operand(optional=True, accepts="index", single=True)
    kind = Kind.INJECTIVE

    def reference(self, attrs: TriluAttrs, data: Array, k: Array | None) -> Arrays:
        offset = 0 if k is None else int(k.reshape(()))
        rows, columns = np.arange(data.shape[-2])[:, None], np.arange(data.shape[-1])
        kept = columns - rows >= offset if attrs.upper else columns - rows <= offset
        return [np.where(kept, data, np.zeros((), data.dtype))]

    def lower(self, attrs: TriluAttrs, results: TensorTypes, data: Tensor, k: Tensor | None) -> Lowered:
        offset = te.const(0) if k is None else te.cast(scalar(k), "int64")

        def body(i: Sequence[Expr]) -> Expr:
            distance = i[-1] - i[-2]
            kept = distance >= offset if attrs.upper else distance <= offset
            return te.select(kept, data[tuple(i)], te.const(0, data.dtype))

        return [injective(self.name, results[0], body)]
