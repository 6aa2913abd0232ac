"""Repetition of elements along an axis: repeat, repeat_interleave."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from forge.ops.core.inference import fail, fresh_dims, normalize_axis, unify_dim
from forge.ops.core.layout_change import along_axis
from forge.ops.core.lowering import injective, replaced
from forge.ops.core.op import AxisAttrs, Kind, Op, Operand, register
from forge.ops.core.signatures import Array, Arrays, Builder, Dim, Lowered, Tensor, TensorType, TensorTypes, Types, Value, Values


@dataclass(frozen=True)
class RepeatAttrs:
    repeats: int
    axis: int | None = None


@register
class Repeat(Op[RepeatAttrs]):
    """Every element ``repeats`` times in a row along ``axis``: out[i] = data[i // repeats]."""

    name = "repeat"
    in_layout = along_axis
    data = Operand()
    kind = Kind.INJECTIVE
    is_selection = True

    def infer(self, attrs: RepeatAttrs, data: Value) -> Types:
        if attrs.axis is None:
            raise fail(self.name, "attribute axis", None, "an axis", "flatten with reshape first")
        axis = normalize_axis(self.name, attrs.axis, data.rank)
        return [TensorType(_resized(data.shape, axis, data.shape[axis] * attrs.repeats), data.dtype)]

    def reference(self, attrs: RepeatAttrs, data: Array) -> Arrays:
        return [np.repeat(data, attrs.repeats, axis=attrs.axis)]

    def lower(self, attrs: RepeatAttrs, results: TensorTypes, data: Tensor) -> Lowered:
        axis = (attrs.axis or 0) % data.ndim
        return [injective(self.name, results[0], lambda i: data[replaced(i, axis, i[axis] // attrs.repeats)])]


def _resized(shape: Sequence[Dim], axis: int, extent: Dim) -> tuple[Dim, ...]:
    return (*shape[:axis], extent, *shape[axis + 1 :])


@register
class RepeatInterleave(Op[AxisAttrs]):
    """Element k of data along ``axis`` repeats[k] times in a row; negative numbers count as 0."""

    name = "repeat_interleave"
    data, repeats = Operand(), Operand(accepts="index", rank=1)

    def infer(self, attrs: AxisAttrs, data: Value, repeats: Value) -> Types:
        axis = normalize_axis(self.name, attrs.axis, data.rank)
        unify_dim(self.name, repeats.shape[0], data.shape[axis], "length of repeats")
        return [TensorType((*data.shape[:axis], *fresh_dims("repeated", 1), *data.shape[axis + 1 :]), data.dtype)]

    def reference(self, attrs: AxisAttrs, data: Array, repeats: Array) -> Arrays:
        return [np.repeat(data, np.maximum(repeats.astype(np.int64), 0), attrs.axis)]

    def decompose(self, builder: Builder, attrs: AxisAttrs, data: Value, repeats: Value) -> Values:
        zero, one = (builder.constant(v, "int64") for v in (0, 1))
        counts = builder.call("maximum", builder.call("cast", repeats, dtype="int64"), zero)
        ends = builder.call("cumsum", counts, axis=0)
        places = builder.call("arange", zero, builder.call("sum", counts), one)
        sources = builder.call("searchsorted", ends, places, right=True)
        return [builder.call("take", data, sources, axis=attrs.axis, mode="clip")]


def count_up(builder: Builder, vector: Value) -> Value:
    """0, 1, 2 .. as many as ``vector`` has elements."""
    zero, one = (builder.constant(v, "int64") for v in (0, 1))
    places = builder.call("arange", zero, builder.call("ndarray_size", vector), one)
    return builder.call("reshape", places, newshape=vector.shape, allowzero=True)
