"""Softmax and its logarithm."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from forge import te
from forge.ops.core.inference import normalize_axis
from forge.ops.core.layout_change import along_axis as in_layout_along_axis
from forge.ops.core.lowering import wide
from forge.ops.core.op import Accuracy, Category, Kind, Op, Operand, Precision, register
from forge.ops.core.signatures import Array, Arrays, Expr, Lowered, Tensor, TensorTypes, Types, Value
from forge.ops.core.window_geometry import compute_dtype


@dataclass(frozen=True)
class SoftmaxAttrs:
    axis: int = -1


class _Softmax(Op[SoftmaxAttrs]):
    in_layout = in_layout_along_axis
    data = Operand(accepts="float")
    accuracy = Accuracy.ACCUMULATING
    kind = Kind.ANCHOR
    kernel = "softmax"
    read_once = ("data",)
    works_in_rows = True
    precision = Precision.SENSITIVE
    category = Category.NORMALIZATION
    flops_per_element = 5
    logarithm: ClassVar[bool]

    def infer(self, attrs: SoftmaxAttrs, data: Value) -> Types:
        normalize_axis(self.name, attrs.axis, data.rank)
        return [data.type]

    def reference(self, attrs: SoftmaxAttrs, data: Array) -> Arrays:
        x = wide(data)
        if x.size == 0:
            return [x]
        shifted = x - np.max(x, axis=attrs.axis, keepdims=True)
        total = np.sum(np.exp(shifted), axis=attrs.axis, keepdims=True)
        return [shifted - np.log(total) if self.logarithm else np.exp(shifted) / total]

    def lower(self, attrs: SoftmaxAttrs, results: TensorTypes, data: Tensor) -> Lowered:
        axis = attrs.axis % data.ndim
        dtype = compute_dtype(data.dtype)
        rest = [extent for k, extent in enumerate(data.shape) if k != axis]
        r = te.reduce_axis(data.shape[axis], "r")

        def value(i: Sequence[Expr], at: Expr) -> Expr:
            return te.cast(data[(*i[:axis], at, *i[axis:])], dtype)

        def without(i: Sequence[Expr]) -> tuple[Expr, ...]:
            return tuple(e for k, e in enumerate(i) if k != axis)

        largest = te.compute(rest, lambda *i: te.reduce("max", value(i, r.var), [r]), name="softmax_max")
        s = te.reduce_axis(data.shape[axis], "s")
        total = te.compute(
            rest, lambda *i: te.reduce("sum", te.call("exp", value(i, s.var) - largest[i]), [s]), name="softmax_sum")

        def result(*i: Expr) -> Expr:
            shifted = te.cast(data[i], dtype) - largest[without(i)]
            y = shifted - te.call("log", total[without(i)]) if self.logarithm else te.call("exp", shifted) / total[without(i)]
            return te.cast(y, data.dtype)

        return [te.compute(data.shape, result, name="softmax")]


@register
class Softmax(_Softmax):
    """``out = exp(data - max) / sum(exp(data - max))``, max and sum along ``axis``. Kernel family ``softmax``: operand data."""

    name = "nn.softmax"
    logarithm = False


@register
class LogSoftmax(_Softmax):
    """``out = data - max - log(sum(exp(data - max)))``, max and sum along ``axis``. Kernel family ``softmax``: operand data."""

    name = "nn.log_softmax"
    logarithm = True
