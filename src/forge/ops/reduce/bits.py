"""Reductions of integers by a bit operation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from forge.ops.core.inference import normalize_axes
from forge.ops.core.op import Category, Op, Operand, register
from forge.ops.core.signatures import Array, Arrays, Dim, TensorType, TensorTypes, Types, Value
from forge.ops.reduce.reduction import reduced_shape


@dataclass(frozen=True)
class BitReductionAttrs:
    axis: tuple[int, ...] | None = None
    keepdims: bool = False


class BitReduction(Op[BitReductionAttrs]):
    """reduce_bitwise_and, reduce_bitwise_or, reduce_bitwise_xor; ``axis`` None means all dimensions."""

    data = Operand(accepts="index")
    kernel = "bit_reduction"
    category = Category.REDUCTION
    combine: np.ufunc

    def infer(self, attrs: BitReductionAttrs, data: Value) -> Types:
        axes = normalize_axes(self.name, attrs.axis, data.rank)
        return [TensorType(reduced_shape(data.shape, axes, attrs.keepdims), data.dtype)]

    def reference(self, attrs: BitReductionAttrs, data: Array) -> Arrays:
        axes = normalize_axes(self.name, attrs.axis, data.ndim)
        return [np.asarray(self.combine.reduce(data, axis=axes, keepdims=attrs.keepdims, dtype=data.dtype))]

    def flops(self, attrs: BitReductionAttrs, results: TensorTypes, data: Value) -> Dim:
        return data.size


@register
class ReduceAnd(BitReduction):
    """The bits that all elements have; all bits of nothing. ``axis`` None means all dimensions."""

    name = "reduce_bitwise_and"
    combine = np.bitwise_and


@register
class ReduceOr(BitReduction):
    """The bits that an element has. ``axis`` None means all dimensions."""

    name = "reduce_bitwise_or"
    combine = np.bitwise_or


@register
class ReduceXor(BitReduction):
    """The bits that an odd number of elements have. ``axis`` None means all dimensions."""

    name = "reduce_bitwise_xor"
    combine = np.bitwise_xor
