"""Operators that order elements: sort, argsort, topk, unique, argwhere; cumulative sums and products.

Orders are stable: equal elements keep their order. NaN counts as larger than every number. The lowerings of sort,
argsort and topk count for every element how many come before it, which is quadratic; the kernel families named here
replace them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from forge import dims, dtypes, te
from forge.dims import Dim
from forge.ir.builder import Builder
from forge.ir.nodes import Value
from forge.ir.shapes import known_dims
from forge.ir.types import TensorType
from forge.ops import numeric
from forge.ops.base import Accuracy, Category, Kind, NoAttrs, Op, Operand, register
from forge.ops.creation import one_element
from forge.ops.infer_helpers import at_most, expect_dtype, fail, fresh_dims, normalize_axis, required, tensor
from forge.ops.lower_helpers import injective, new_symbols, replaced, scalar
from forge.ops.movement import present
from forge.ops.shape_ops import optional_operand
from forge.ops.signatures import Array, Arrays, Lowered, Regions, Tensors, TensorTypes, Types, Values
from forge.te import Expr, Tensor


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
    operands = (Operand("data"),)
    Attrs = SortAttrs
    kind = Kind.OPAQUE
    kernel = "sort"

    def infer(self, operands: Values, attrs: SortAttrs, regions: Regions = ()) -> Types:
        data = tensor(self.name, operands[0], "data")
        expect_dtype(self.name, data, "data", "numeric")
        normalize_axis(self.name, attrs.axis, data.rank)
        return [data]

    def reference(self, operands: Arrays, attrs: SortAttrs) -> Arrays:
        order = stable_order(operands[0], attrs.axis, attrs.is_ascend)
        return [np.take_along_axis(operands[0], order, attrs.axis)]

    def lower(self, operands: Tensors, attrs: SortAttrs, results: TensorTypes) -> Lowered:
        (data,) = present(operands)
        axis = attrs.axis % data.ndim
        order = lower_order(self.name, data, axis, attrs.is_ascend, results[0].shape[axis])
        return [_taken_along(self.name, data, order, axis, results[0])]


@register
class ArgSort(Op[SortAttrs]):
    """The positions of the elements along ``axis`` in ascending or descending order."""

    name = "argsort"
    operands = (Operand("data"),)
    Attrs = SortAttrs
    kind = Kind.OPAQUE
    kernel = "argsort"

    def infer(self, operands: Values, attrs: SortAttrs, regions: Regions = ()) -> Types:
        data = tensor(self.name, operands[0], "data")
        expect_dtype(self.name, data, "data", "numeric")
        normalize_axis(self.name, attrs.axis, data.rank)
        return [TensorType(data.shape, attrs.dtype or "int64")]

    def reference(self, operands: Arrays, attrs: SortAttrs) -> Arrays:
        return [stable_order(operands[0], attrs.axis, attrs.is_ascend)]

    def lower(self, operands: Tensors, attrs: SortAttrs, results: TensorTypes) -> Lowered:
        (data,) = present(operands)
        axis = attrs.axis % data.ndim
        order = lower_order(self.name, data, axis, attrs.is_ascend, results[0].shape[axis])
        return [injective(self.name, results[0], lambda i: te.cast(order[tuple(i)], results[0].dtype))]


@register
class TopK(Op[TopKAttrs]):
    """The k (attribute or operand) largest elements along ``axis`` in descending order, or the smallest in ascending order.

    ``ret_type``: both (elements, positions), values or indices.
    """

    name = "topk"
    operands = (Operand("data"), Operand("k", optional=True, holds="integer"))
    Attrs = TopKAttrs
    kind = Kind.OPAQUE
    kernel = "topk"

    def infer(self, operands: Values, attrs: TopKAttrs, regions: Regions = ()) -> Types:
        data = tensor(self.name, operands[0], "data")
        expect_dtype(self.name, data, "data", "numeric")
        axis = normalize_axis(self.name, attrs.axis, data.rank)
        if attrs.ret_type not in ("both", "values", "indices"):
            raise fail(self.name, "attribute ret_type", repr(attrs.ret_type), "both, values or indices")
        count = self._count(operands, attrs)
        if dims.bounds(count - data.shape[axis])[0] is not None and dims.different(count, dims.minimum(count, data.shape[axis])):
            raise fail(self.name, "k", count, f"at most {data.shape[axis]}")
        shape = (*data.shape[:axis], count, *data.shape[axis + 1 :])
        return _selected(attrs, TensorType(shape, data.dtype), TensorType(shape, attrs.dtype or "int64"))

    def _count(self, operands: Values, attrs: TopKAttrs) -> Dim:
        if attrs.k is not None:
            return attrs.k
        operand = optional_operand(operands, 1)
        one_element(self.name, operand, "k")
        known = known_dims(operand)
        count: Dim = fresh_dims("k", 1)[0] if known is None else known.reshape(-1)[0]
        return count

    def requires(self, operands: Sequence[TensorType | None], attrs: TopKAttrs, results: TensorTypes) -> list[tuple[Expr, str]]:
        data = operands[0]
        assert data is not None
        extent, count = data.shape[attrs.axis], results[0].shape[attrs.axis]
        why = f"k is {count}; expected at most {extent}"
        return required(at_most(count, extent), lambda: te.dim(count) <= te.dim(extent), why)

    def reference(self, operands: Arrays, attrs: TopKAttrs) -> Arrays:
        data = operands[0]
        count = attrs.k if attrs.k is not None else int(operands[1].reshape(()))
        order = np.take(stable_order(data, attrs.axis, attrs.is_ascend), np.arange(count), axis=attrs.axis)  # type: ignore[arg-type]
        return _selected(attrs, np.take_along_axis(data, order, attrs.axis), order)

    def lower(self, operands: Tensors, attrs: TopKAttrs, results: TensorTypes) -> Lowered:
        data = present(operands)[0]
        axis = attrs.axis % data.ndim
        order = lower_order(self.name, data, axis, attrs.is_ascend, results[0].shape[axis])
        values = _taken_along(self.name, data, order, axis, TensorType(results[0].shape, data.dtype))
        dtype = results[-1].dtype
        positions = injective(self.name, TensorType(results[-1].shape, dtype), lambda i: te.cast(order[tuple(i)], dtype))
        return _selected(attrs, values, positions)

    def define_symbols(self, operands: Tensors, attrs: TopKAttrs, results: TensorTypes) -> Mapping[str, Expr]:
        count = optional_operand(operands, 1)
        if attrs.k is not None or count is None:
            return {}
        axis = attrs.axis % results[0].rank
        return new_symbols(TensorType((results[0].shape[axis],), "int64"), [te.cast(scalar(count), "int64")])


def _selected(attrs: TopKAttrs, values: Any, positions: Any) -> list[Any]:
    return {"both": [values, positions], "values": [values], "indices": [positions]}[attrs.ret_type]


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
    operands = (Operand("data"),)
    Attrs = UniqueAttrs
    kind = Kind.OPAQUE

    def infer(self, operands: Values, attrs: UniqueAttrs, regions: Regions = ()) -> Types:
        data = tensor(self.name, operands[0], "data")
        if dtypes.is_complex(data.dtype):
            raise fail(self.name, "operand 'data' has the wrong element type", data.dtype, "a type with an order")
        axis = normalize_axis(self.name, attrs.axis, data.rank)
        (count,) = fresh_dims("unique", 1)
        slices = TensorType((*data.shape[:axis], count, *data.shape[axis + 1 :]), data.dtype)
        numbers = TensorType((count,), "int64")
        return [slices, numbers, TensorType((data.shape[axis],), "int64"), numbers]

    def reference(self, operands: Arrays, attrs: UniqueAttrs) -> Arrays:
        slices = np.moveaxis(numeric.widen(operands[0]), attrs.axis, 0)
        columns = slices.reshape(len(slices), math.prod(slices.shape[1:])).T
        places = [np.unique(column, return_inverse=True)[1] for column in columns]
        ranks = np.array(places, np.int64).reshape(len(columns), len(slices)).T
        _, first, number, count = np.unique(ranks, return_index=True, return_inverse=True, return_counts=True, axis=0)
        order = np.arange(len(first)) if attrs.sorted else np.argsort(first, kind="stable")
        place = np.argsort(order, kind="stable")
        slices = np.take(operands[0], first[order], axis=attrs.axis)
        return [slices, first[order], place[number.reshape(-1)], count[order]]

    def decompose(self, builder: Builder, operands: Values, attrs: UniqueAttrs) -> Sequence[Value] | None:
        """Neighbours in ascending order are compared; strings by their ranks.

        Slices of unknown or large size have no native code.
        """
        (data,) = operands
        assert data is not None
        if data.dtype == "string":
            ranks = builder.call("string.rank", data)
            _, first, inverse, count = builder.call_multi(self, ranks, axis=attrs.axis, sorted=attrs.sorted)
            return [builder.call("take", data, first, axis=attrs.axis), first, inverse, count]
        if data.dtype == "bool":
            numbers = builder.call("cast", data, dtype="uint8")
            _, first, inverse, count = builder.call_multi(self, numbers, axis=attrs.axis, sorted=attrs.sorted)
            return [builder.call("take", data, first, axis=attrs.axis), first, inverse, count]
        rest = tuple(k for k in range(data.rank) if k != attrs.axis % data.rank)
        size = dims.product(data.shape[k] for k in rest)
        if not isinstance(size, int) or size > LARGEST_SLICE:
            return None
        if size:
            moved = builder.call("transpose", data, axes=(attrs.axis % data.rank, *rest))
            rows = builder.call("reshape", moved, newshape=(data.shape[attrs.axis], size))
        else:
            rows = builder.call("broadcast_to", builder.constant(np.zeros((1, 1), np.int64)), shape=(data.shape[attrs.axis], 1))
        first, inverse, count = _unique_rows(builder, rows, attrs.sorted)
        return [builder.call("take", data, first, axis=attrs.axis), first, inverse, count]


LARGEST_SLICE = 64
"""Elements of a slice that unique orders in native code, one sort each."""


def _differ(builder: Builder, a: Value, b: Value) -> Value:
    """Whether rows differ; NaN equals NaN."""
    differ = builder.call("not_equal", a, b)
    if dtypes.is_float(a.dtype):
        both = builder.call("logical_and", builder.call("isnan", a), builder.call("isnan", b))
        differ = builder.call("logical_and", differ, builder.call("logical_not", both))
    return builder.call("any", differ, axis=(1,))


def _ascending_order(builder: Builder, rows: Value) -> Value:
    """Positions of the rows in lexicographic order: stable sorts by every column, the last one first."""
    last, *others = (
        builder.call("take", rows, builder.constant(k, "int64"), axis=1) for k in reversed(range(rows.shape[1]))
    )
    order = builder.call("argsort", last)
    for keys in others:
        order = builder.call("take", order, builder.call("argsort", builder.call("take", keys, order, axis=0)), axis=0)
    return order


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
    order = _ascending_order(builder, rows)
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
    operands = (Operand("condition"), Operand("count", optional=True, holds="integer"))
    kind = Kind.OPAQUE
    kernel = "argwhere"

    def infer(self, operands: Values, attrs: NoAttrs, regions: Regions = ()) -> Types:
        condition = tensor(self.name, operands[0], "condition")
        expect_dtype(self.name, condition, "condition", "number or bool")
        return [TensorType((*fresh_dims("found", 1), condition.rank), "int64")]

    def reference(self, operands: Arrays, attrs: NoAttrs) -> Arrays:
        return [np.argwhere(numeric.widen(operands[0]))]

    def define_symbols(self, operands: Tensors, attrs: NoAttrs, results: TensorTypes) -> Mapping[str, Expr]:
        count = optional_operand(operands, 1)
        if count is None:
            return {}
        return new_symbols(TensorType(results[0].shape[:1], "int64"), [te.cast(scalar(count), "int64")])

    def decompose(self, builder: Builder, operands: Values, attrs: NoAttrs) -> Sequence[Value] | None:
        if optional_operand(operands, 1) is not None:
            return None
        condition = operands[0]
        assert condition is not None
        if condition.dtype != "bool":
            condition = builder.call("not_equal", condition, builder.constant(0, condition.dtype))
        count = builder.call("sum", builder.call("cast", condition, dtype="int64"))
        return [builder.call(self, condition, count)]


@dataclass(frozen=True)
class ScanopAttrs:
    axis: int | None = None
    dtype: str | None = None
    exclusive: bool = False


class Cumulative(Op[ScanopAttrs]):
    """cumsum and cumprod."""

    operands = (Operand("data"), Operand("axis", optional=True, holds="integer"))
    Attrs = ScanopAttrs
    kind = Kind.ANCHOR
    kernel = "cumulative"
    read_once = ("data",)
    accuracy = Accuracy.ACCUMULATING
    category = Category.REDUCTION
    te_kind: str
    neutral: int

    def infer(self, operands: Values, attrs: ScanopAttrs, regions: Regions = ()) -> Types:
        data = tensor(self.name, operands[0], "data")
        expect_dtype(self.name, data, "data", "number or bool" if attrs.dtype else "numeric or complex")
        if attrs.axis is not None:
            normalize_axis(self.name, attrs.axis, data.rank)
        elif optional_operand(operands, 1) is not None:
            one_element(self.name, operands[1], "axis")
        else:
            return [TensorType((data.size,), attrs.dtype or data.dtype)]
        return [TensorType(data.shape, attrs.dtype or data.dtype)]

    def reference(self, operands: Arrays, attrs: ScanopAttrs) -> Arrays:
        data, given = [*operands, None][:2]
        data = data if attrs.dtype is None else numeric.convert(data, attrs.dtype)
        axis = attrs.axis if given is None else int(given.reshape(()))
        if axis is None:
            data, axis = data.reshape(-1), 0
        wide = numeric.widest(data)
        running = (np.cumsum if self.te_kind == "sum" else np.cumprod)(wide, axis=axis, dtype=wide.dtype)
        if not attrs.exclusive:
            return [running]
        shifted = np.full_like(running, self.neutral)
        target, source = ([slice(None)] * data.ndim for _ in range(2))
        target[axis], source[axis] = slice(1, None), slice(None, -1)
        shifted[tuple(target)] = running[tuple(source)]
        return [shifted]

    def lower(self, operands: Tensors, attrs: ScanopAttrs, results: TensorTypes) -> Lowered:
        """One reduction an element, over all elements along the axis; those behind it count as neutral."""
        data = present(operands)[0]
        if attrs.axis is None:
            raise NotImplementedError("an axis at run time is decomposed first")
        axis, dtype = attrs.axis % data.ndim, results[0].dtype
        other = te.reduce_axis(data.shape[axis], "r")

        def body(*i: Expr) -> Expr:
            value = te.cast(data[replaced(i, axis, other.var)], dtype)
            counts = other.var < i[axis] if attrs.exclusive else other.var <= i[axis]
            return te.reduce(self.te_kind, te.select(counts, value, te.const(self.neutral, dtype)), [other])

        return [te.compute(data.shape, body, self.name, dtype)]

    def decompose(self, builder: Builder, operands: Values, attrs: ScanopAttrs) -> Sequence[Value] | None:
        data, place = operands[0], optional_operand(operands, 1)
        assert data is not None
        options: dict[str, Any] = {"dtype": attrs.dtype, "exclusive": attrs.exclusive}
        if attrs.axis is None and place is None:
            return [builder.call(self, builder.call("reshape", data, newshape=(-1,)), axis=0, **options)]
        if attrs.axis is None:
            return [self._choose(builder, data, place, options)]
        if (attrs.dtype or data.dtype) not in ("float16", "bfloat16"):
            return None
        wide = builder.call("cast", data, dtype="float32")
        result = builder.call(self, wide, axis=attrs.axis, exclusive=attrs.exclusive)
        return [builder.call("cast", result, dtype=attrs.dtype or data.dtype)]

    def _choose(self, builder: Builder, data: Value, place: Value, options: dict[str, Any]) -> Value:
        """The result along every axis, and a choice among them."""
        scalar_place = builder.call("reshape", builder.call("cast", place, dtype="int64"), newshape=())
        rank = builder.constant(data.rank, "int64")
        wrapped = builder.call("floor_mod", scalar_place, rank)
        result = builder.call(self, data, axis=data.rank - 1, **options)
        for axis in range(data.rank - 1):
            chosen = builder.call("equal", wrapped, builder.constant(axis, "int64"))
            result = builder.call("where", chosen, builder.call(self, data, axis=axis, **options), result)
        return result

    def flops(self, operands: Sequence[Any], attrs: ScanopAttrs, results: TensorTypes) -> Any:
        return results[0].size


@register
class CumSum(Cumulative):
    """The sum of the elements up to each one along ``axis`` (attribute or operand; None: of all, as a vector);
    ``exclusive``: before it.
    """

    name = "cumsum"
    te_kind = "sum"
    neutral = 0


@register
class CumProd(Cumulative):
    """The product of the elements up to each one along ``axis`` (attribute or operand); ``exclusive``: before it."""

    name = "cumprod"
    te_kind = "prod"
    neutral = 1


__all__ = ["ArgSort", "ArgWhere", "CumProd", "CumSum", "Sort", "TopK", "Unique", "stable_order"]
