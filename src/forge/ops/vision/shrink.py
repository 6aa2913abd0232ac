"""image.shrink: an axis of which every k-th element is kept, with what lies around it."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from forge import dims, te
from forge.ops.core.inference import fail, normalize_axis
from forge.ops.core.lowering import injective
from forge.ops.core.op import Accuracy, Kind, Op, Operand, Precision, register
from forge.ops.core.signatures import Array, Arrays, Dim, Expr, Lowered, Tensor, TensorType, TensorTypes, Types, Value


@dataclass(frozen=True)
class ShrinkAttrs:
    axis: int = -1
    step: int = 2
    first: int = 0
    weights: tuple[float, ...] = (1.0,)
    exclude_outside: bool = False


@register
class Shrink(Op[ShrinkAttrs]):
    """out[i] = sum over k of ``weights[k]`` * data[i * step + first + k] along ``axis``, which has floor(extent / step) elements.

    Outside of the data are the elements at its ends; with ``exclude_outside`` their weights go to the others.
    """

    name = "image.shrink"
    data = Operand(accepts="float")
    kind = Kind.INJECTIVE
    accuracy = Accuracy.ACCUMULATING
    precision = Precision.FOLLOWS_IN_RANGE

    def infer(self, attrs: ShrinkAttrs, data: Value) -> Types:
        axis = normalize_axis(self.name, attrs.axis, data.rank)
        if attrs.step < 1 or not attrs.weights:
            raise fail(self.name, "attributes step and weights", (attrs.step, attrs.weights), "a positive step, and a weight")
        shape = (*data.shape[:axis], dims.floordiv(data.shape[axis], attrs.step), *data.shape[axis + 1 :])
        return [TensorType(shape, data.dtype)]

    def reference(self, attrs: ShrinkAttrs, data: Array) -> Arrays:
        moved = np.moveaxis(data.astype(np.float64), attrs.axis, -1)
        extent = moved.shape[-1]
        at = (np.arange(extent // attrs.step) * attrs.step)[:, None] + attrs.first + np.arange(len(attrs.weights))
        weights = np.broadcast_to(np.asarray(attrs.weights), at.shape)
        if attrs.exclude_outside:
            weights = np.where((at >= 0) & (at < extent), weights, 0)
            weights = weights * (sum(attrs.weights) / weights.sum(-1, keepdims=True))
        out = (moved[..., np.clip(at, 0, max(extent - 1, 0))] * weights).sum(-1)
        return [np.moveaxis(out, -1, attrs.axis).astype(data.dtype)]

    def lower(self, attrs: ShrinkAttrs, results: TensorTypes, data: Tensor) -> Lowered:
        axis = attrs.axis % data.ndim
        extent, real = data.shape[axis], "float64" if data.dtype == "float64" else "float32"

        def body(i: Sequence[Expr]) -> Expr:
            values, shares = [], []
            for k, weight in enumerate(attrs.weights):
                place = attrs.first + k
                at = i[axis] * attrs.step + place
                is_inside = 0 <= place < attrs.step
                value = data[(*i[:axis], at if is_inside else te.clamp(at, extent), *i[axis + 1 :])]
                share: Expr = te.const(weight, real)
                if attrs.exclude_outside and not is_inside:
                    share = te.select(te.logical_and(at >= 0, at < extent), share, te.const(0.0, real))
                values.append(te.cast(value, real) * share)
                shares.append(share)
            total = reduce(operator.add, values)
            if attrs.exclude_outside and any(not te.is_const(share) for share in shares):
                total = total * (te.const(sum(attrs.weights), real) / reduce(operator.add, shares))
            return te.cast(total, data.dtype)

        return [injective(self.name, results[0], body)]

    def flops(self, attrs: ShrinkAttrs, results: TensorTypes, *_: object) -> Dim:
        return 2 * len(attrs.weights) * results[0].size
