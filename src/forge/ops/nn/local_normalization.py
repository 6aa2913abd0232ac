"""Local response normalization and L2 normalization."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from forge import te
from forge.ops.core.inference import fail, normalize_axes, normalize_axis
from forge.ops.core.lowering import wide
from forge.ops.core.op import Accuracy, Category, Kind, Op, Operand, register
from forge.ops.core.signatures import Array, Arrays, Builder, Expr, Lowered, Tensor, TensorTypes, Types, Value, Values
from forge.ops.core.window_geometry import compute_dtype


@dataclass(frozen=True)
class LRNAttrs:
    size: int = 5
    axis: int = 1
    bias: float = 2.0
    alpha: float = 0.0001
    beta: float = 0.75


@register
class LRN(Op[LRNAttrs]):
    """``out = data / (bias + alpha / size * s) ** beta``, s = the sum of squares over ``size`` neighbours along ``axis``.

    The window of element c is ``c - floor((size - 1) / 2)`` to ``c + ceil((size - 1) / 2)``, cut at the ends.
    """

    name = "nn.lrn"
    data = Operand(accepts="float")
    accuracy = Accuracy.ACCUMULATING
    kind = Kind.REDUCTION
    category = Category.NORMALIZATION

    def infer(self, attrs: LRNAttrs, data: Value) -> Types:
        normalize_axis(self.name, attrs.axis, data.rank)
        if attrs.size < 1:
            raise fail(self.name, "size", attrs.size, "at least 1")
        return [data.type]

    def reference(self, attrs: LRNAttrs, data: Array) -> Arrays:
        x = np.moveaxis(wide(data), attrs.axis, 0)
        total = np.zeros_like(x)
        for c in range(x.shape[0]):
            first = max(0, c - (attrs.size - 1) // 2)
            total[c] = np.sum(x[first : c + attrs.size // 2 + 1] ** 2, axis=0)
        y = x / (attrs.bias + attrs.alpha / attrs.size * total) ** attrs.beta
        return [np.moveaxis(y, 0, attrs.axis)]

    def lower(self, attrs: LRNAttrs, results: TensorTypes, data: Tensor) -> Lowered:
        axis, dtype = attrs.axis % data.ndim, compute_dtype(data.dtype)
        r = te.reduce_axis(attrs.size, "r")

        def squares(*i: Expr) -> Expr:
            at = i[axis] + r.var - (attrs.size - 1) // 2
            value = te.cast(data[(*i[:axis], te.clamp(at, data.shape[axis]), *i[axis + 1 :])], dtype)
            inside = te.logical_and(at >= 0, at < data.shape[axis])
            return te.reduce("sum", te.select(inside, value * value, 0.0), [r])

        total = te.compute(data.shape, squares, name="lrn_squares")

        def result(*i: Expr) -> Expr:
            base = total[i] * (attrs.alpha / attrs.size) + attrs.bias
            return te.cast(te.cast(data[i], dtype) / _power(base, attrs), data.dtype)

        return [te.compute(data.shape, result, name="lrn")]

    def flops(self, attrs: LRNAttrs, results: TensorTypes, *_: object) -> Any:
        return (2 * attrs.size + 4) * results[0].size


def _power(base: Expr, attrs: LRNAttrs) -> Expr:
    """``base ** beta``; the usual 0.75 by square roots, where the base is above 0."""
    if attrs.beta != 0.75 or attrs.bias <= 0 or attrs.alpha < 0:
        return te.call("pow", base, attrs.beta)
    root = te.call("sqrt", base)
    return root * te.call("sqrt", root)


@dataclass(frozen=True)
class L2NormalizeAttrs:
    eps: float
    axis: tuple[int, ...] | None = None


@register
class L2Normalize(Op[L2NormalizeAttrs]):
    """``out = data / sqrt(max(sum(data * data), eps))``, the sum over ``axis`` (None: all axes)."""

    name = "nn.l2_normalize"
    data = Operand(accepts="float")
    accuracy = Accuracy.ACCUMULATING
    category = Category.NORMALIZATION

    def infer(self, attrs: L2NormalizeAttrs, data: Value) -> Types:
        normalize_axes(self.name, attrs.axis, data.rank)
        return [data.type]

    def reference(self, attrs: L2NormalizeAttrs, data: Array) -> Arrays:
        x = wide(data)
        total = np.sum(x * x, axis=attrs.axis, keepdims=True)
        return [x / np.sqrt(np.maximum(total, x.dtype.type(attrs.eps)))]

    def decompose(self, builder: Builder, attrs: L2NormalizeAttrs, data: Value) -> Values:
        total = builder.call("sum", builder.call("multiply", data, data), axis=attrs.axis, keepdims=True)
        floor = builder.call("maximum", total, builder.constant(attrs.eps, data.dtype))
        return [builder.call("divide", data, builder.call("sqrt", floor))]
