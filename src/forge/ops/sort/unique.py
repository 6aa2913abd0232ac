"""Distinct elements, and positions of elements that are not zero: unique, argwhere."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from forge import dims, dtypes, te
from forge.ops.core import scalar_math as numeric
from forge.ops.core.inference import fail, fresh_dims, normalize_axis
from forge.ops.core.lowering import new_symbols, scalar
from forge.ops.core.op import NoAttrs, Op, Operand, register
from forge.ops.core.signatures import Array, Arrays, Builder, Symbols, Tensor, TensorType, TensorTypes, Types, Value, Values


@dataclass(frozen=True)
class UniqueAttrs:
    axis: int = 0
    sorted: bool = True


@register
class Unique(Op[UniqueAttrs]):
    """The different slices of data along ``axis``, ascending or (``sorted`` False) in order of first appearance.

    Results: the slices, the position where each appears first, for every slice of data its number, how often each
    appears.
    """

    name = "unique"
    data = Operand()

    def infer(self, attrs: UniqueAttrs, data: Value) -> Types:
        if dtypes.is_complex(data.dtype):
            raise fail(self.name, "operand 'data' has the wrong element type", data.dtype, "a type with an order")
        axis = normalize_axis(self.name, attrs.axis, data.rank)
        (count,) = fresh_dims("unique", 1)
        slices = TensorType((*data.shape[:axis], count, *data.shape[axis + 1 :]), data.dtype)
        numbers = TensorType((count,), "int64")
        return [slices, numbers, TensorType((data.shape[axis],), "int64"), numbers]

    def reference(self, attrs: UniqueAttrs, data: Array) -> Arrays:
        slices = np.moveaxis(numeric.widen(data), attrs.axis, 0)
        columns = slices.reshape(len(slices), math.prod(slices.shape[1:])).T
        places = [np.unique(column, return_inverse=True)[1] for column in columns]
        ranks = np.array(places, np.int64).reshape(len(columns), len(slices)).T
        _, first, number, count = np.unique(ranks, return_index=True, return_inverse=True, return_counts=True, axis=0)
        order = np.arange(len(first)) if attrs.sorted else np.argsort(first, kind="stable")
        place = np.argsort(order, kind="stable")
        slices = np.take(data, first[order], axis=attrs.axis)
        return [slices, first[order], place[number.reshape(-1)], count[order]]

    def decompose(self, builder: Builder, attrs: UniqueAttrs, data: Value) -> Values | None:
        """Neighbours in ascending order are compared; strings by their ranks."""
        if data.dtype == "string":
            ranks = builder.call("string.rank", data)
            _, first, inverse, count = builder.call_multi(self, ranks, axis=attrs.axis, sorted=attrs.sorted)
            return [builder.call("take", data, first, axis=attrs.axis), first, inverse, count]
        if data.dtype == "bool":
            numbers = builder.call("cast", data, dtype="uint8")
            _, first, inverse, count = builder.call_multi(self, numbers, axis=attrs.axis, sorted=attrs.sorted)
            return [builder.call("take", data, first, axis=attrs.axis), first, inverse, count]
        rest = tuple(k for k in range(data.rank) if k != attrs.axis % data.rank)
        moved = builder.call("transpose", data, axes=(attrs.axis % data.rank, *rest))
        size = dims.product(data.shape[k] for k in rest)
        rows = builder.call("reshape", moved, newshape=(data.shape[attrs.axis], size))
        first, inverse, count = _unique_rows(builder, rows, attrs.sorted)
        return [builder.call("take", data, first, axis=attrs.axis), first, inverse, count]


def _differ(builder: Builder, a: Value, b: Value) -> Value:
    """Whether rows differ; NaN equals NaN."""
    differ = builder.call("not_equal", a, b)
    if dtypes.is_float(a.dtype):
        both = builder.call("logical_and", builder.call("isnan", a), builder.call("isnan", b))
        differ = builder.call("logical_and", differ, builder.call("logical_not", both))
    return builder.call("any", differ, axis=(1,))


def _first_of_run(builder: Builder, ordered: Value) -> Value:
    """Whether each row differs from the one before it."""
    zero, one = (builder.constant(v, "int64") for v in (0, 1))
    length = builder.call("take", builder.call("shape_of", ordered), zero, axis=0)
    place = builder.call("reshape", builder.call("arange", zero, length, one), newshape=ordered.shape[:1])
    previous = builder.call("maximum", builder.call("subtract", place, one), zero)
    differ = _differ(builder, ordered, builder.call("take", ordered, previous, axis=0))
    return builder.call("logical_or", builder.call("equal", place, zero), differ)


def _unique_rows(builder: Builder, rows: Value, ascending: bool) -> tuple[Value, Value, Value]:
    """For the different rows: where each appears first, for every row its number, how often each appears."""
    is_column = isinstance(rows.shape[1], int) and rows.shape[1] == 1
    order = builder.call("argsort", builder.call("squeeze", rows, axis=(1,))) if is_column else builder.call("argsort_rows", rows)
    starts = _first_of_run(builder, builder.call("take", rows, order, axis=0))
    counted = builder.call("cumsum", builder.call("cast", starts, dtype="int64"), axis=0)
    number = builder.call("subtract", counted, builder.constant(1, "int64"))
    place = builder.call("squeeze", builder.call("argwhere", starts), axis=(1,))
    first = builder.call("take", order, place, axis=0)
    ones = builder.call("ones_like", order)
    count = builder.call("scatter_elements", builder.call("zeros_like", first), number, ones, reduction="add")
    inverse = builder.call("scatter_elements", builder.call("zeros_like", order), order, number)
    if ascending:
        return first, inverse, count
    appearance = builder.call("argsort", first)
    inverse = builder.call("take", builder.call("argsort", appearance), inverse, axis=0)
    first, count = (builder.call("take", v, appearance, axis=0) for v in (first, count))
    return first, inverse, count


@register
class ArgWhere(Op[NoAttrs]):
    """The indices of the elements that are not 0, one row each, in row-major order.

    Operand count, the number of such elements, is added by the decomposition.
    """

    name = "argwhere"
    condition, count = Operand(accepts="number or bool"), Operand(optional=True, holds="integer")
    kernel = "argwhere"

    def infer(self, attrs: NoAttrs, condition: Value, count: Value | None) -> Types:
        return [TensorType((*fresh_dims("found", 1), condition.rank), "int64")]

    def reference(self, attrs: NoAttrs, condition: Array, count: Array | None) -> Arrays:
        return [np.argwhere(numeric.widen(condition))]

    def define_symbols(self, attrs: NoAttrs, results: TensorTypes, condition: Tensor, count: Tensor | None) -> Symbols:
        if count is None:
            return {}
        return new_symbols(TensorType(results[0].shape[:1], "int64"), [te.cast(scalar(count), "int64")])

    def decompose(self, builder: Builder, attrs: NoAttrs, condition: Value, count: Value | None) -> Values | None:
        if count is not None:
            return None
        if condition.dtype != "bool":
            condition = builder.call("not_equal", condition, builder.constant(0, condition.dtype))
        count = builder.call("sum", builder.call("cast", condition, dtype="int64"))
        return [builder.call(self, condition, count)]
