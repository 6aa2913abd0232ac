"""Flat indices to coordinates, and the inverse of a permutation: unravel_index, invert_permutation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from forge import te
from forge.ops.core.inference import static_length
from forge.ops.core.lowering import element, injective
from forge.ops.core.op import Kind, NoAttrs, Op, Operand, register
from forge.ops.core.signatures import Array, Arrays, Builder, Expr, Lowered, Tensor, TensorType, TensorTypes, Types, Value, Values
from forge.ops.shape.repeat import count_up


@register
class UnravelIndex(Op[NoAttrs]):
    """The indices, one row a dimension, of flat row-major positions in a tensor of ``shape``, a vector of known length."""

    name = "unravel_index"
    indices, shape = Operand(accepts="index"), Operand(accepts="index")
    kind = Kind.INJECTIVE

    def infer(self, attrs: NoAttrs, indices: Value, shape: Value) -> Types:
        return [TensorType((static_length(self.name, shape, "shape"), *indices.shape), indices.dtype)]

    def reference(self, attrs: NoAttrs, indices: Array, shape: Array) -> Arrays:
        rest, rows = indices.astype(np.int64), []
        for extent in reversed(shape.reshape(-1).tolist()):
            rows.append(rest % extent if extent else np.zeros_like(rest))
            rest = rest // extent if extent else np.zeros_like(rest)
        return [np.stack(rows[::-1]).astype(indices.dtype)]

    def lower(self, attrs: NoAttrs, results: TensorTypes, indices: Tensor, shape: Tensor) -> Lowered:
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
    data = Operand(accepts="index", rank=1)

    def reference(self, attrs: NoAttrs, data: Array) -> Arrays:
        result = np.zeros_like(data)
        result[data.astype(np.int64)] = np.arange(len(data))
        return [result]

    def decompose(self, builder: Builder, attrs: NoAttrs, data: Value) -> Values:
        places = count_up(builder, data)
        blank = builder.call("zeros_like", data)
        updates = builder.call("cast", places, dtype=data.dtype)
        return [builder.call("scatter_elements", blank, builder.call("cast", data, dtype="int64"), updates, axis=0)]
