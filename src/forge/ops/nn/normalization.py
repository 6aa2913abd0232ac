"""Normalizations over rows, channels and groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np

from forge import dims, te
from forge.ops.core.inference import broadcast_shapes, fail, normalize_axis, require_equal
from forge.ops.core.layout_change import along_axis as in_layout_along_axis
from forge.ops.core.lowering import wide
from forge.ops.core.op import Accuracy, Category, Kind, Op, Operand, Precision, register
from forge.ops.core.signatures import Array, Arrays, Builder, Dim, Expr, Lowered, Tensor, TensorTypes, Types, Value, Values
from forge.ops.core.window_geometry import compute_dtype


@dataclass(frozen=True)
class LayerNormAttrs:
    axis: int = -1
    epsilon: float = 1e-5
    center: bool = True
    scale: bool = True


@dataclass(frozen=True)
class RmsNormAttrs:
    axis: int = -1
    epsilon: float = 1e-5


T = TypeVar("T")


class _RowNorm(Op[Any]):
    """What normalizations over the last axes share: optional parameters that broadcast with those axes."""

    accuracy = Accuracy.ACCUMULATING
    kind = Kind.ANCHOR
    kernel = "layer_norm"
    read_once = ("data",)
    works_in_rows = True
    precision = Precision.FOLLOWS_IN_RANGE
    category = Category.NORMALIZATION
    flops_per_element = 8
    subtract_mean: ClassVar[bool]

    def infer(self, attrs: Any, data: Value, *parameters: Value | None) -> Types:
        normalized = data.shape[normalize_axis(self.name, attrs.axis, data.rank) :]
        for declared, value in zip(self.operands[1:], parameters):
            if value is not None:
                self._check_parameter(declared.name, value, data.dtype, normalized)
        return [data.type]

    def _check_parameter(self, name: str, parameter: Value, dtype: str, normalized: tuple[Dim, ...]) -> None:
        if parameter.dtype != dtype:
            raise fail(self.name, f"operand {name!r}", parameter.type, f"dtype {dtype}")
        if parameter.rank > len(normalized) or broadcast_shapes(self.name, parameter.shape, normalized) != normalized:
            raise fail(self.name, f"operand {name!r}", parameter.type, f"a shape that broadcasts to {normalized}")

    def _parameters(self, attrs: Any, gamma: T | None = None, beta: T | None = None) -> tuple[T | None, T | None]:
        return gamma if getattr(attrs, "scale", True) else None, beta if getattr(attrs, "center", True) else None

    def reference(self, attrs: Any, data: Array, *parameters: Array | None) -> Arrays:
        x = data.astype(np.float64)
        axes = tuple(range(attrs.axis % x.ndim, x.ndim))
        if self.subtract_mean:
            x = x - np.mean(x, axis=axes, keepdims=True)
        y = x / np.sqrt(np.mean(x * x, axis=axes, keepdims=True) + attrs.epsilon)
        gamma, beta = self._parameters(attrs, *parameters)
        if gamma is not None:
            y = y * gamma.astype(np.float64)
        return [y if beta is None else y + beta.astype(np.float64)]

    def lower(self, attrs: Any, results: TensorTypes, data: Tensor, *parameters: Tensor | None) -> Lowered:
        axis = attrs.axis % data.ndim
        dtype = compute_dtype(data.dtype)
        rest, inner = data.shape[:axis], data.shape[axis:]
        count: Expr = te.const(1)
        for extent in inner:
            count = count * extent
        scale = te.const(1.0, dtype) / te.cast(count, dtype)

        def centred(*i: Expr) -> Expr:
            value = te.cast(data[i], dtype)
            return value - mean[i[:axis]] * scale if mean is not None else value

        mean: Tensor | None = None
        if self.subtract_mean:
            first = [te.reduce_axis(extent, f"r{k}") for k, extent in enumerate(inner)]
            mean = te.compute(rest, lambda *i: te.reduce("sum", te.cast(data[(*i, *(a.var for a in first))], dtype), first),
                              name="norm_sum")
        axes = [te.reduce_axis(extent, f"s{k}") for k, extent in enumerate(inner)]
        squares = te.compute(
            rest, lambda *i: te.reduce("sum", _square(centred(*i, *(a.var for a in axes))), axes), name="norm_squares")
        gamma, beta = self._parameters(attrs, *parameters)

        def result(*i: Expr) -> Expr:
            y = centred(*i) / te.call("sqrt", squares[i[:axis]] * scale + te.const(attrs.epsilon, dtype))
            if gamma is not None:
                y = y * te.cast(te.broadcast_read(gamma, i), dtype)
            if beta is not None:
                y = y + te.cast(te.broadcast_read(beta, i), dtype)
            return te.cast(y, data.dtype)

        return [te.compute(data.shape, result, name="norm")]


def _square(x: Expr) -> Expr:
    return x * x


@register
class LayerNorm(_RowNorm):
    """``out = (data - mean) / sqrt(variance + epsilon) * gamma + beta`` over all axes from ``axis`` to the last.

    Operands: data, gamma and beta (both optional; they broadcast with the normalized axes; ``scale`` and ``center`` turn
    them off). The variance is the biased one. float16 and bfloat16 are computed in float32. Kernel family ``layer_norm``.
    """

    name = "nn.layer_norm"
    data, gamma, beta = Operand(accepts="float"), Operand(optional=True), Operand(optional=True)
    Attrs = LayerNormAttrs
    subtract_mean = True


@register
class RmsNorm(_RowNorm):
    """``out = data / sqrt(mean(data * data) + epsilon) * gamma`` over all axes from ``axis`` to the last.

    Operands: data, gamma (optional, broadcasts with the normalized axes). Kernel family ``layer_norm``.
    """

    name = "nn.rms_norm"
    data, gamma = Operand(accepts="float"), Operand(optional=True)
    Attrs = RmsNormAttrs
    subtract_mean = False


@dataclass(frozen=True)
class BatchNormAttrs:
    axis: int = 1
    epsilon: float = 1e-5
    center: bool = True
    scale: bool = True


def along_axis(builder: Builder, vector: Value, axis: int, rank: int) -> Value:
    """``vector`` shaped to broadcast along ``axis`` of a tensor of ``rank`` dimensions."""
    if axis == rank - 1:
        return vector
    return builder.call("reshape", vector, newshape=(vector.shape[0], *[1] * (rank - 1 - axis)))


class _ChannelNorm(Op[Any]):
    """What normalizations with parameters per channel share."""

    accuracy = Accuracy.ACCUMULATING
    precision = Precision.FOLLOWS_IN_RANGE
    category = Category.NORMALIZATION
    flops_per_element = 4
    Attrs: ClassVar[type[Any]] = BatchNormAttrs

    def infer(self, attrs: Any, data: Value, *parameters: Value) -> Types:
        axis = normalize_axis(self.name, attrs.axis, data.rank)
        for declared, parameter in zip(self.operands[1:], parameters):
            what = f"{declared.name} against axis {axis} of data {data.type}"
            require_equal(self.name, what, parameter.shape[0], data.shape[axis])
            if parameter.dtype != data.dtype:
                raise fail(self.name, f"operand {declared.name!r}", parameter.type, f"dtype {data.dtype}")
        return [data.type]


def _shaped(vector: np.ndarray, axis: int, rank: int) -> np.ndarray:
    return wide(vector).reshape([-1 if k == axis % rank else 1 for k in range(rank)])


def _affine(y: np.ndarray, gamma: np.ndarray, beta: np.ndarray, attrs: Any) -> np.ndarray:
    if attrs.scale:
        y = y * _shaped(gamma, attrs.axis, y.ndim)
    return y + _shaped(beta, attrs.axis, y.ndim) if attrs.center else y


@register
class BatchNorm(_ChannelNorm):
    """``out = (data - mean) / sqrt(variance + epsilon) * gamma + beta`` with one parameter of each kind per index of ``axis``.

    The inference form: mean and variance are operands. ``scale`` and ``center`` turn gamma and beta off.
    """

    name = "nn.batch_norm"
    in_layout = in_layout_along_axis
    data, gamma, beta = Operand(accepts="float"), Operand(rank=1), Operand(rank=1)
    moving_mean, moving_var = Operand(rank=1), Operand(rank=1)
    precision = Precision.WIDE

    def reference(self, attrs: Any, data: Array, gamma: Array, beta: Array, moving_mean: Array, moving_var: Array) -> Arrays:
        rank = data.ndim
        centred = wide(data) - _shaped(moving_mean, attrs.axis, rank)
        y = centred / np.sqrt(_shaped(moving_var, attrs.axis, rank) + centred.dtype.type(attrs.epsilon))
        return [_affine(y, gamma, beta, attrs)]

    def decompose(
        self, builder: Builder, attrs: Any, data: Value, gamma: Value, beta: Value, moving_mean: Value, moving_var: Value
    ) -> Values:
        axis = attrs.axis % data.rank
        epsilon = builder.constant(attrs.epsilon, data.dtype)
        deviation = builder.call("sqrt", builder.call("add", moving_var, epsilon))
        scale = builder.call("divide", builder.constant(1, data.dtype), deviation)
        if attrs.scale:
            scale = builder.call("multiply", gamma, scale)
        shift = builder.call("negative", builder.call("multiply", moving_mean, scale))
        if attrs.center:
            shift = builder.call("add", beta, shift)
        scaled = builder.call("multiply", data, along_axis(builder, scale, axis, data.rank))
        return [builder.call("add", scaled, along_axis(builder, shift, axis, data.rank))]


def _normalize(builder: Builder, data: Value, axes: tuple[int, ...], epsilon: float) -> Value:
    """``(data - mean) / sqrt(variance + epsilon)`` over ``axes``."""
    centred = builder.call("subtract", data, builder.call("mean", data, axis=axes, keepdims=True))
    variance = builder.call("mean", builder.call("multiply", centred, centred), axis=axes, keepdims=True)
    deviation = builder.call("sqrt", builder.call("add", variance, builder.constant(epsilon, data.dtype)))
    return builder.call("divide", centred, deviation)


def _affine_values(builder: Builder, y: Value, gamma: Value, beta: Value, attrs: Any) -> Value:
    axis = attrs.axis % y.rank
    if attrs.scale:
        y = builder.call("multiply", y, along_axis(builder, gamma, axis, y.rank))
    return builder.call("add", y, along_axis(builder, beta, axis, y.rank)) if attrs.center else y


@register
class InstanceNorm(_ChannelNorm):
    """``out = (data - mean) / sqrt(variance + epsilon) * gamma + beta``, mean and variance of every sample and channel.

    They are taken over all axes but 0 and ``axis``; gamma and beta have one number per channel.
    """

    name = "nn.instance_norm"
    data, gamma, beta = Operand(accepts="float"), Operand(rank=1), Operand(rank=1)

    def reference(self, attrs: Any, data: Array, gamma: Array, beta: Array) -> Arrays:
        x = wide(data)
        axes = tuple(k for k in range(1, x.ndim) if k != attrs.axis % x.ndim)
        x = x - np.mean(x, axis=axes, keepdims=True)
        y = x / np.sqrt(np.mean(x * x, axis=axes, keepdims=True) + x.dtype.type(attrs.epsilon))
        return [_affine(y, gamma, beta, attrs)]

    def decompose(self, builder: Builder, attrs: Any, data: Value, gamma: Value, beta: Value) -> Values:
        axes = tuple(k for k in range(1, data.rank) if k != attrs.axis % data.rank)
        return [_affine_values(builder, _normalize(builder, data, axes, attrs.epsilon), gamma, beta, attrs)]


@dataclass(frozen=True)
class GroupNormAttrs:
    num_groups: int = 0
    axis: int = 1
    epsilon: float = 1e-5
    center: bool = True
    scale: bool = True


@register
class GroupNorm(_ChannelNorm):
    """``out = (data - mean) / sqrt(variance + epsilon) * gamma + beta``, mean and variance of every sample and channel group.

    Channels (``axis``, which must be 1) are cut into ``num_groups`` equal groups; gamma and beta have one number per channel.
    """

    name = "nn.group_norm"
    data, gamma, beta = Operand(accepts="float"), Operand(rank=1), Operand(rank=1)
    Attrs = GroupNormAttrs

    def infer(self, attrs: Any, data: Value, *parameters: Value) -> Types:
        super().infer(attrs, data, *parameters)
        if attrs.num_groups < 1 or normalize_axis(self.name, attrs.axis, data.rank) != 1:
            raise fail(self.name, "num_groups and axis", f"{attrs.num_groups} and {attrs.axis}", "a positive number and 1")
        rest = dims.floormod(data.shape[1], attrs.num_groups)
        if dims.different(rest, 0):
            raise fail(self.name, f"channels {data.shape[1]} modulo num_groups", rest, 0)
        return [data.type]

    def reference(self, attrs: Any, data: Array, gamma: Array, beta: Array) -> Arrays:
        x = wide(data)
        grouped = x.reshape(x.shape[0], attrs.num_groups, x.shape[1] // attrs.num_groups, *x.shape[2:])
        axes = tuple(range(2, grouped.ndim))
        grouped = grouped - np.mean(grouped, axis=axes, keepdims=True)
        grouped = grouped / np.sqrt(np.mean(grouped * grouped, axis=axes, keepdims=True) + x.dtype.type(attrs.epsilon))
        return [_affine(grouped.reshape(x.shape), gamma, beta, attrs)]

    def decompose(self, builder: Builder, attrs: Any, data: Value, gamma: Value, beta: Value) -> Values:
        n, channels, *rest = data.shape
        grouped = builder.call("reshape", data, newshape=(n, attrs.num_groups, dims.floordiv(channels, attrs.num_groups), *rest))
        y = _normalize(builder, grouped, tuple(range(2, grouped.rank)), attrs.epsilon)
        parameter = (*grouped.shape[1:3], *[1] * len(rest))
        if attrs.scale:
            y = builder.call("multiply", y, builder.call("reshape", gamma, newshape=parameter))
        if attrs.center:
            y = builder.call("add", y, builder.call("reshape", beta, newshape=parameter))
        return [builder.call("reshape", y, newshape=data.shape)]
