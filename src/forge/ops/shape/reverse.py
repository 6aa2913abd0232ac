"""Elements in another order along an axis: reverse, reverse_sequence, roll."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from forge import te
from forge.ops.core.inference import fail, normalize_axes, unify_dim
from forge.ops.core.lowering import injective, replaced
from forge.ops.core.op import Kind, Op, Operand, register
from forge.ops.core.signatures import Array, Arrays, Dim, DimArray, Expr, Lowered, OperandTypes, Tensor, TensorTypes, Types, Value


@dataclass(frozen=True)
class ReverseAttrs:
    axis: int | tuple[int, ...]


@register
class Reverse(Op[ReverseAttrs]):
    """data backwards along ``axis``: out[i] = data[extent - 1 - i]."""

    name = "reverse"
    data = Operand()
    kind = Kind.INJECTIVE

    def infer(self, attrs: ReverseAttrs, data: Value) -> Types:
        normalize_axes(self.name, attrs.axis, data.rank)
        return [data.type]

    def reference(self, attrs: ReverseAttrs, data: Array) -> Arrays:
        return [np.flip(data, attrs.axis)]

    def lower(self, attrs: ReverseAttrs, results: TensorTypes, data: Tensor) -> Lowered:
        axes = normalize_axes(self.name, attrs.axis, data.ndim)

        def body(i: Sequence[Expr]) -> Expr:
            return data[tuple(data.shape[k] - 1 - x if k in axes else x for k, x in enumerate(i))]

        return [injective(self.name, results[0], body)]

    def evaluate_dims(self, attrs: ReverseAttrs, types: OperandTypes, data: DimArray) -> DimArray:
        return None if data is None else np.flip(data, attrs.axis)


@dataclass(frozen=True)
class ReverseSequenceAttrs:
    seq_axis: int = 1
    batch_axis: int = 0


@register
class ReverseSequence(Op[ReverseSequenceAttrs]):
    """For every b along ``batch_axis`` the first seq_lengths[b] elements along ``seq_axis`` backwards, the others unchanged."""

    name = "reverse_sequence"
    data, seq_lengths = Operand(), Operand(rank=1, accepts="index")
    kind = Kind.INJECTIVE

    def infer(self, attrs: ReverseSequenceAttrs, data: Value, seq_lengths: Value) -> Types:
        _, batch = normalize_axes(self.name, (attrs.seq_axis, attrs.batch_axis), data.rank)
        unify_dim(self.name, seq_lengths.shape[0], data.shape[batch], "batch size")
        return [data.type]

    def reference(self, attrs: ReverseSequenceAttrs, data: Array, seq_lengths: Array) -> Arrays:
        moved = np.moveaxis(data, (attrs.batch_axis, attrs.seq_axis), (0, 1))
        result = moved.copy()
        for b, count in enumerate(seq_lengths):
            result[b, :count] = moved[b, :count][::-1]
        return [np.moveaxis(result, (0, 1), (attrs.batch_axis, attrs.seq_axis))]

    def lower(self, attrs: ReverseSequenceAttrs, results: TensorTypes, data: Tensor, seq_lengths: Tensor) -> Lowered:
        seq, batch = attrs.seq_axis % data.ndim, attrs.batch_axis % data.ndim

        def body(i: Sequence[Expr]) -> Expr:
            count = te.cast(seq_lengths[i[batch]], "int64")
            index = te.select(i[seq] < count, count - 1 - i[seq], i[seq])
            return data[replaced(i, seq, te.clamp(index, data.shape[seq]))]

        return [injective(self.name, results[0], body)]


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
