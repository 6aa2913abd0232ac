"""Positions of extremes: argmax, argmin."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from forge import dtypes, te
from forge.errors import ExecutionError
from forge.ir.op import Range
from forge.ops.core import scalar_math as numeric
from forge.ops.core.inference import at_most, fail, required
from forge.ops.core.lowering import as_dim
from forge.ops.core.op import Category, Kind, Op, Operand, register
from forge.ops.core.signatures import (
    Array,
    Arrays,
    Builder,
    Conditions,
    Dim,
    Lowered,
    Tensor,
    TensorType,
    TensorTypes,
    Types,
    Value,
    Values,
)  # fmt: skip
from forge.ops.reduce.reduction import reduce_compute, reduced_axes, reduced_shape, spread
from forge.te import Expr

_NOTHING = "got no elements along the axis; expected at least one"


@dataclass(frozen=True)
class ArgReduceAttrs:
    axis: int | tuple[int, ...] | None = None
    keepdims: bool = False
    select_last_index: bool = False
    exclude: bool = False


class ArgReduction(Op[ArgReduceAttrs]):
    """The position of an extreme element along one axis, or in row-major order over all dimensions if ``axis`` is None.

    Of no elements there is none: the run fails.
    """

    data = Operand(accepts="numeric")
    kind = Kind.ANCHOR
    category = Category.REDUCTION
    te_kind: str

    def _axis(self, attrs: ArgReduceAttrs, rank: int) -> int | None:
        if attrs.axis is None:
            return None
        axes = reduced_axes(self.name, attrs, rank)
        if len(axes) != 1:
            raise fail(self.name, "attribute axis", attrs.axis, "one axis, or None for all")
        return axes[0]

    def infer(self, attrs: ArgReduceAttrs, data: Value) -> Types:
        axis = self._axis(attrs, data.rank)
        axes = range(data.rank) if axis is None else (axis,)
        return [TensorType(reduced_shape(data.shape, axes, attrs.keepdims), "int64")]

    def reference(self, attrs: ArgReduceAttrs, data: Array) -> Arrays:
        data = numeric.widen(data)
        axis = self._axis(attrs, data.ndim)
        if not (data.size if axis is None else data.shape[axis]):
            raise ExecutionError(f"{self.name}: {_NOTHING}")
        choose = np.argmax if self.te_kind == "max" else np.argmin
        if not attrs.select_last_index:
            return [choose(data, axis=axis, keepdims=attrs.keepdims)]
        extent = data.size if axis is None else data.shape[axis]
        return [extent - 1 - choose(np.flip(data, axis), axis=axis, keepdims=attrs.keepdims)]

    def requires(self, attrs: ArgReduceAttrs, results: TensorTypes, data: TensorType) -> Conditions:
        axis = self._axis(attrs, data.rank)
        count = data.size if axis is None else data.shape[axis]
        return required(at_most(1, count), partial(operator.ge, te.dim(count), 1), _NOTHING)

    def element_range(
        self, attrs: ArgReduceAttrs, results: Types, ranges: Sequence[Range | None], data: Value
    ) -> Sequence[Range | None]:
        axis = self._axis(attrs, data.rank)
        return [(0, (data.tensor_type.size if axis is None else data.shape[axis]) - 1)]

    def lower(self, attrs: ArgReduceAttrs, results: TensorTypes, data: Tensor) -> Lowered:
        """Two stages: the extreme value, then the first (or last) position that has it."""
        axis = self._axis(attrs, data.ndim)
        if axis is None:
            raise NotImplementedError("argmax over all dimensions is decomposed first")
        extent = data.shape[axis]
        kept = TensorType(reduced_shape(tuple(as_dim(e) for e in data.shape), (axis,), True), data.dtype)
        best = reduce_compute(f"{self.name}_value", data, (axis,), True, self.te_kind, kept)
        place = te.reduce_axis(extent, "r")
        known = as_dim(extent)
        index = "int32" if isinstance(known, int) and known <= dtypes.integer_range("int32")[1] else "int64"

        def body(*i: Expr) -> Expr:
            at = list(i) if attrs.keepdims else spread(i, (axis,), data.ndim)
            value = data[tuple(place.var if k == axis else x for k, x in enumerate(at))]
            top = best[tuple(te.const(0) if k == axis else x for k, x in enumerate(at))]
            hit = value.eq(top)
            if dtypes.is_float(value.dtype):
                hit = te.binary("or", hit, te.call("isnan", value))
            miss = te.const(0) if attrs.select_last_index else extent - 1
            found = te.select(hit, te.cast(place.var, index), te.cast(miss, index))
            return te.reduce("max" if attrs.select_last_index else "min", found, [place])

        number = te.compute(results[0].shape, body, self.name, index)
        if index == "int64":
            return [number]
        return [te.compute(results[0].shape, lambda *i: te.cast(number[i], "int64"), f"{self.name}_wide", "int64")]

    def decompose(self, builder: Builder, attrs: ArgReduceAttrs, data: Value) -> Values | None:
        if attrs.axis is not None:
            return None
        flat = builder.call("reshape", data, newshape=(-1,))
        place = builder.call(self, flat, axis=0, select_last_index=attrs.select_last_index)
        return [builder.call("reshape", place, newshape=(1,) * data.rank) if attrs.keepdims else place]

    def flops(self, attrs: ArgReduceAttrs, results: TensorTypes, data: Value) -> Dim:
        return data.size


@register
class ArgMax(ArgReduction):
    """The position of the largest element: the first, or the last if ``select_last_index``; NaN is larger than all."""

    name = "argmax"
    te_kind = "max"


@register
class ArgMin(ArgReduction):
    """The position of the smallest element: the first, or the last if ``select_last_index``; NaN is smaller than all."""

    name = "argmin"
    te_kind = "min"
