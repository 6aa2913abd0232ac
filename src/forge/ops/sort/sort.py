"""Sorting: sort, argsort, topk, argsort_rows.

Orders are stable: equal elements keep their order. NaN counts as larger than every number. The lowerings count for every element
how many come before it, which is quadratic; the kernel families named here replace them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from forge import dims, dtypes, te
from forge.dims import Dim
from forge.ir.op import Range
from forge.ops.core import scalar_math as numeric
from forge.ops.core.inference import at_most, fail, given_number, normalize_axis, number_of, required
from forge.ops.core.lowering import injective, new_symbols, replaced, scalar
from forge.ops.core.op import NoAttrs, Op, Operand, register
from forge.ops.core.ranges import kept
from forge.ops.core.signatures import Array, Arrays, Conditions, Lowered, Symbols, Tensor, TensorType, TensorTypes, Types, Value
from forge.te import Expr


@dataclass(frozen=True)
class SortAttrs:
    axis: int = -1
    is_ascend: bool = True
    dtype: str | None = None


@dataclass(frozen=True)
class TopKAttrs:
    k: Dim | None = None
    axis: int = -1
    ret_type: str = "both"
    is_ascend: bool = False
    dtype: str | None = None


def stable_order(data: Array, axis: int, ascending: bool) -> Array:
    """Positions along ``axis`` in the order of the elements; equal ones by position."""
    keys = numeric.widen(data)
    if ascending:
        return np.argsort(keys, axis=axis, kind="stable")
    backwards = np.argsort(np.flip(keys, axis), axis=axis, kind="stable")
    return np.asarray(keys.shape[axis] - 1 - np.flip(backwards, axis))


def _precedes(a: Expr, b: Expr, ascending: bool) -> Expr:
    """Whether ``a`` comes strictly before ``b``."""
    smaller, larger = (a, b) if ascending else (b, a)
    if not dtypes.is_float(a.dtype):
        return smaller < larger
    both_numbers = te.binary("or", smaller < larger, te.call("isnan", larger))
    return te.logical_and(both_numbers, te.logical_not(te.call("isnan", smaller)))


def lower_order(name: str, data: Tensor, axis: int, ascending: bool, count: Dim) -> Tensor:
    """The first ``count`` positions along ``axis`` in the order of the elements.

    Two stages: the place of every element in the order, then for every place the element that has it.
    """
    extent = data.shape[axis]
    other, place = te.reduce_axis(extent, "other"), te.reduce_axis(extent, "place")

    def before(*i: Expr) -> Expr:
        mine, theirs = data[i], data[replaced(i, axis, other.var)]
        tied = te.logical_and(te.logical_not(_precedes(mine, theirs, ascending)), other.var < i[axis])
        earlier = te.binary("or", _precedes(theirs, mine, ascending), tied)
        return te.reduce("sum", te.select(earlier, te.const(1), te.const(0)), [other])

    places = te.compute(data.shape, before, f"{name}_place", "int64")

    def position(*i: Expr) -> Expr:
        hit = places[replaced(i, axis, place.var)].eq(i[axis])
        return te.reduce("sum", te.select(hit, place.var, te.const(0)), [place])

    shape = [te.dim(count) if k == axis else e for k, e in enumerate(data.shape)]
    return te.compute(shape, position, f"{name}_order", "int64")


def _taken_along(name: str, data: Tensor, order: Tensor, axis: int, result: TensorType) -> Tensor:
    return injective(name, result, lambda i: data[replaced(i, axis, te.clamp(order[tuple(i)], data.shape[axis]))])


@register
class Sort(Op[SortAttrs]):
    """The elements along ``axis`` in ascending or descending order."""

    name = "sort"
    data = Operand(accepts="numeric")
    kernel = "sort"
    element_range = kept

    def infer(self, attrs: SortAttrs, data: Value) -> Types:
        normalize_axis(self.name, attrs.axis, data.rank)
        return [data.type]

    def reference(self, attrs: SortAttrs, data: Array) -> Arrays:
        order = stable_order(data, attrs.axis, attrs.is_ascend)
        return [np.take_along_axis(data, order, attrs.axis)]

    def lower(self, attrs: SortAttrs, results: TensorTypes, data: Tensor) -> Lowered:
        axis = attrs.axis % data.ndim
        order = lower_order(self.name, data, axis, attrs.is_ascend, results[0].shape[axis])
        return [_taken_along(self.name, data, order, axis, results[0])]


@register
class ArgSort(Op[SortAttrs]):
    """The positions of the elements along ``axis`` in ascending or descending order."""

    name = "argsort"
    data = Operand(accepts="numeric")
    kernel = "argsort"

    def infer(self, attrs: SortAttrs, data: Value) -> Types:
        normalize_axis(self.name, attrs.axis, data.rank)
        return [TensorType(data.shape, attrs.dtype or "int64")]

    def element_range(
        self, attrs: SortAttrs, results: Types, ranges: Sequence[Range | None], data: Value
    ) -> Sequence[Range | None]:
        return [(0, data.shape[attrs.axis] - 1)]

    def reference(self, attrs: SortAttrs, data: Array) -> Arrays:
        return [stable_order(data, attrs.axis, attrs.is_ascend)]

    def lower(self, attrs: SortAttrs, results: TensorTypes, data: Tensor) -> Lowered:
        axis = attrs.axis % data.ndim
        order = lower_order(self.name, data, axis, attrs.is_ascend, results[0].shape[axis])
        return [injective(self.name, results[0], lambda i: te.cast(order[tuple(i)], results[0].dtype))]


@register
class ArgSortRows(Op[NoAttrs]):
    """The positions of the rows of a matrix in ascending lexicographic order: by column 0, then by column 1, and so on."""

    name = "argsort_rows"
    data = Operand(accepts="numeric", rank=2)
    kernel = "argsort_rows"

    def infer(self, attrs: NoAttrs, data: Value) -> Types:
        return [TensorType(data.shape[:1], "int64")]

    def element_range(
        self, attrs: NoAttrs, results: Types, ranges: Sequence[Range | None], data: Value
    ) -> Sequence[Range | None]:
        return [(0, data.shape[0] - 1)]

    def reference(self, attrs: NoAttrs, data: Array) -> Arrays:
        order = np.arange(len(data))
        for column in reversed(numeric.widen(data).T):
            order = order[np.argsort(column[order], kind="stable")]
        return [order]


@register
class TopK(Op[TopKAttrs]):
    """The k (attribute or operand) largest elements along ``axis`` in descending order, or the smallest in ascending order.

    ``ret_type``: both (elements, positions), values or indices.
    """

    name = "topk"
    data, k = Operand(accepts="numeric"), Operand(optional=True, holds="integer")
    kernel = "topk"

    def infer(self, attrs: TopKAttrs, data: Value, k: Value | None) -> Types:
        axis = normalize_axis(self.name, attrs.axis, data.rank)
        if attrs.ret_type not in ("both", "values", "indices"):
            raise fail(self.name, "attribute ret_type", repr(attrs.ret_type), "both, values or indices")
        count = number_of(self.name, "k", attrs.k, k)
        if dims.bounds(count - data.shape[axis])[0] is not None and dims.different(count, dims.minimum(count, data.shape[axis])):
            raise fail(self.name, "k", count, f"at most {data.shape[axis]}")
        shape = (*data.shape[:axis], count, *data.shape[axis + 1 :])
        return _selected(attrs, TensorType(shape, data.dtype), TensorType(shape, attrs.dtype or "int64"))

    def element_range(
        self, attrs: TopKAttrs, results: Types, ranges: Sequence[Range | None], data: Value, k: Value | None = None
    ) -> Sequence[Range | None]:
        return _selected(attrs, ranges[0], (0, data.shape[attrs.axis] - 1))

    def requires(self, attrs: TopKAttrs, results: TensorTypes, data: TensorType, k: TensorType | None) -> Conditions:
        extent, count = data.shape[attrs.axis], results[0].shape[attrs.axis]
        why = f"k is {count}; expected at most {extent}"
        return required(at_most(count, extent), lambda: te.dim(count) <= te.dim(extent), why)

    def reference(self, attrs: TopKAttrs, data: Array, k: Array | None) -> Arrays:
        count = given_number(attrs.k, k)
        order = np.take(stable_order(data, attrs.axis, attrs.is_ascend), np.arange(count), axis=attrs.axis)
        return _selected(attrs, np.take_along_axis(data, order, attrs.axis), order)

    def lower(self, attrs: TopKAttrs, results: TensorTypes, data: Tensor, k: Tensor | None) -> Lowered:
        axis = attrs.axis % data.ndim
        order = lower_order(self.name, data, axis, attrs.is_ascend, results[0].shape[axis])
        values = _taken_along(self.name, data, order, axis, TensorType(results[0].shape, data.dtype))
        dtype = results[-1].dtype
        positions = injective(self.name, TensorType(results[-1].shape, dtype), lambda i: te.cast(order[tuple(i)], dtype))
        return _selected(attrs, values, positions)

    def define_symbols(self, attrs: TopKAttrs, results: TensorTypes, data: Tensor, k: Tensor | None) -> Symbols:
        if attrs.k is not None or k is None:
            return {}
        axis = attrs.axis % results[0].rank
        return new_symbols(TensorType((results[0].shape[axis],), "int64"), [te.cast(scalar(k), "int64")])


def _selected(attrs: TopKAttrs, values: Any, positions: Any) -> list[Any]:
    return {"both": [values, positions], "values": [values], "indices": [positions]}[attrs.ret_type]
