"""Flat indices to coordinates, and the inverse of a permutation: unravel_index, invert_permutation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from forge import te
from forge.ir.builder import Builder
from forge.ir.nodes import Value
from forge.ir.op import Kind, NoAttrs, Operand
from forge.ir.types import TensorType
from forge.ops.core.inference import expect_dtype, expect_rank, present, static_length, tensor
from forge.ops.core.lowering import element, injective
from forge.ops.core.op import Op, register
from forge.ops.core.signatures import Arrays, Lowered, Regions, Tensors, TensorTypes, Types, Values
from forge.ops.shape.repeat import count_up
from forge.te import Expr


@register
class UnravelIndex(Op[NoAttrs]):
    """The indices, one row a dimension, of flat row-major positions in a tensor of ``shape``, a vector of known length."""

    name = "unravel_index"
    indices, shape = Operand(), Operand()
    kind = Kind.INJECTIVE

    def infer(self, operands: Values, attrs: NoAttrs, regions: Regions = ()) -> Types:
        indices, shape = tensor(self.name, operands[0], "indices"), tensor(self.name, operands[1], "shape")
        for type_, name in ((indices, "indices"), (shape, "shape")):
            expect_dtype(self.name, type_, name, "index")
        return [TensorType((static_length(self.name, operands[1], "shape"), *indices.shape), indices.dtype)]

    def reference(self, operands: Arrays, attrs: NoAttrs) -> Arrays:
        rest, rows = operands[0].astype(np.int64), []
        for extent in reversed(operands[1].reshape(-1).tolist()):
            rows.append(rest % extent if extent else np.zeros_like(rest))
            rest = rest // extent if extent else np.zeros_like(rest)
        return [np.stack(rows[::-1]).astype(operands[0].dtype)]

    def lower(self, operands: Tensors, attrs: NoAttrs, results: TensorTypes) -> Lowered:
        indices, shape = present(operands)
        count = int(results[0].shape[0])  # type: ignore[arg-type]

        def body(i: Sequence[Expr]) -> Expr:
            rest = te.cast(indices[tuple(i[1:])], "int64")
            chosen: Expr = te.const(0)
            for k in reversed(range(count)):
                extent = element(shape, k)
                chosen = te.select(i[0].eq(k), rest % extent, chosen)
                rest = rest // extent
            return te.cast(chosen, indices.dtype)

        return [injective(self.name, results[0], body)]


@register
class InvertPermutation(Op[NoAttrs]):
    """out[data[i]] = i, of a permutation of 0 .. n - 1."""

    name = "invert_permutation"
    data = Operand()

    def infer(self, operands: Values, attrs: NoAttrs, regions: Regions = ()) -> Types:
        data = tensor(self.name, operands[0], "data")
        expect_dtype(self.name, data, "data", "index")
        expect_rank(self.name, data, "data", 1)
        return [data]

    def reference(self, operands: Arrays, attrs: NoAttrs) -> Arrays:
        (data,) = operands
        result = np.zeros_like(data)
        result[data.astype(np.int64)] = np.arange(len(data))
        return [result]

    def decompose(self, builder: Builder, operands: Values, attrs: NoAttrs) -> Sequence[Value]:
        (data,) = operands
        assert data is not None
        places = count_up(builder, data)
        blank = builder.call("zeros_like", data)
        updates = builder.call("cast", places, dtype=data.dtype)
        return [builder.call("scatter_elements", blank, builder.call("cast", data, dtype="int64"), updates, axis=0)]
