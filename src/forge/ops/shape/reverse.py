"""Reversal along an axis: reverse, reverse_sequence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from forge import te
from forge.ir.op import Kind, Operand
from forge.ops.core.inference import expect_dtype, expect_rank, normalize_axes, present, tensor, unify_dim
from forge.ops.core.lowering import injective, replaced
from forge.ops.core.op import Op, register
from forge.ops.core.signatures import (
    Arrays,
    DimArray,
    DimArrays,
    Lowered,
    OperandTypes,
    Regions,
    Tensors,
    TensorTypes,
    Types,
    Values,
)
from forge.te import Expr


@dataclass(frozen=True)
class ReverseAttrs:
    axis: int | tuple[int, ...]


@register
class Reverse(Op[ReverseAttrs]):
    """data backwards along ``axis``: out[i] = data[extent - 1 - i]."""

    name = "reverse"
    data = Operand()
    kind = Kind.INJECTIVE

    def infer(self, operands: Values, attrs: ReverseAttrs, regions: Regions = ()) -> Types:
        data = tensor(self.name, operands[0], "data")
        normalize_axes(self.name, attrs.axis, data.rank)
        return [data]

    def reference(self, operands: Arrays, attrs: ReverseAttrs) -> Arrays:
        return [np.flip(operands[0], attrs.axis)]

    def lower(self, operands: Tensors, attrs: ReverseAttrs, results: TensorTypes) -> Lowered:
        (data,) = present(operands)
        axes = normalize_axes(self.name, attrs.axis, data.ndim)

        def body(i: Sequence[Expr]) -> Expr:
            return data[tuple(data.shape[k] - 1 - x if k in axes else x for k, x in enumerate(i))]

        return [injective(self.name, results[0], body)]

    def evaluate_dims(self, operands: DimArrays, attrs: ReverseAttrs, types: OperandTypes) -> DimArray:
        return None if operands[0] is None else np.flip(operands[0], attrs.axis)


@dataclass(frozen=True)
class ReverseSequenceAttrs:
    seq_axis: int = 1
    batch_axis: int = 0


@register
class ReverseSequence(Op[ReverseSequenceAttrs]):
    """For every b along ``batch_axis`` the first seq_lengths[b] elements along ``seq_axis`` backwards, the others unchanged."""

    name = "reverse_sequence"
    data, seq_lengths = Operand(), Operand()
    kind = Kind.INJECTIVE

    def infer(self, operands: Values, attrs: ReverseSequenceAttrs, regions: Regions = ()) -> Types:
        data, lengths = tensor(self.name, operands[0], "data"), tensor(self.name, operands[1], "seq_lengths")
        _, batch = normalize_axes(self.name, (attrs.seq_axis, attrs.batch_axis), data.rank)
        expect_rank(self.name, lengths, "seq_lengths", 1)
        expect_dtype(self.name, lengths, "seq_lengths", "index")
        unify_dim(self.name, lengths.shape[0], data.shape[batch], "batch size")
        return [data]

    def reference(self, operands: Arrays, attrs: ReverseSequenceAttrs) -> Arrays:
        data, lengths = operands
        moved = np.moveaxis(data, (attrs.batch_axis, attrs.seq_axis), (0, 1))
        result = moved.copy()
        for b, count in enumerate(lengths):
            result[b, :count] = moved[b, :count][::-1]
        return [np.moveaxis(result, (0, 1), (attrs.batch_axis, attrs.seq_axis))]

    def lower(self, operands: Tensors, attrs: ReverseSequenceAttrs, results: TensorTypes) -> Lowered:
        data, lengths = present(operands)
        seq, batch = attrs.seq_axis % data.ndim, attrs.batch_axis % data.ndim

        def body(i: Sequence[Expr]) -> Expr:
            count = te.cast(lengths[i[batch]], "int64")
            index = te.select(i[seq] < count, count - 1 - i[seq], i[seq])
            return data[replaced(i, seq, te.clamp(index, data.shape[seq]))]

        return [injective(self.name, results[0], body)]
