"""Triangular parts of matrices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from forge import te
from forge.ir.op import Kind, Operand
from forge.ops.core.inference import expect_dtype, fail, tensor
from forge.ops.core.lowering import injective, optional_operand, scalar
from forge.ops.core.op import Op, register
from forge.ops.core.signatures import Arrays, Lowered, Regions, Tensors, TensorTypes, Types, Values
from forge.ops.shape.full import one_element
from forge.te import Expr


@dataclass(frozen=True)
class TriluAttrs:
    upper: bool = True


@register
class Trilu(Op[TriluAttrs]):
    """The upper (column - row >= k) or lower (column - row <= k) triangle of the last two dimensions, else 0; k is 0
    if absent.
    """

    name = "trilu"
    data, k = Operand(), Operand(optional=True)
    kind = Kind.INJECTIVE

    def infer(self, operands: Values, attrs: TriluAttrs, regions: Regions = ()) -> Types:
        data = tensor(self.name, operands[0], "data")
        if data.rank < 2:
            raise fail(self.name, "rank of data", data.rank, "at least 2")
        if (k := optional_operand(operands, 1)) is not None:
            expect_dtype(self.name, one_element(self.name, k, "k"), "k", "index")
        return [data]

    def reference(self, operands: Arrays, attrs: TriluAttrs) -> Arrays:
        data, k = [*operands, None][:2]
        offset = 0 if k is None else int(k.reshape(()))
        rows, columns = np.arange(data.shape[-2])[:, None], np.arange(data.shape[-1])
        kept = columns - rows >= offset if attrs.upper else columns - rows <= offset
        return [np.where(kept, data, np.zeros((), data.dtype))]

    def lower(self, operands: Tensors, attrs: TriluAttrs, results: TensorTypes) -> Lowered:
        data, k = operands[0], optional_operand(operands, 1)
        assert data is not None
        offset = te.const(0) if k is None else te.cast(scalar(k), "int64")

        def body(i: Sequence[Expr]) -> Expr:
            distance = i[-1] - i[-2]
            kept = distance >= offset if attrs.upper else distance <= offset
            return te.select(kept, data[tuple(i)], te.const(0, data.dtype))

        return [injective(self.name, results[0], body)]
