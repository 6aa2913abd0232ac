"""Slices whose start is a tensor, and writing into slices: dynamic_slice, dynamic_update_slice, strided_set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from forge import te
from forge.ops.core.inference import (
    at_most,
    expect_rank,
    fail,
    normalize_axes,
    required,
    same_dtype,
    unify_dim,
)
from forge.ops.core.lowering import element, injective, shape_of
from forge.ops.core.op import Kind, Op, Operand, Part, register
from forge.ops.core.signatures import Array, Arrays, Conditions, Dim, Expr, Lowered, Tensor, TensorType, TensorTypes, Types, Value
from forge.ops.shape.slice import slice_range


def _starts(start: Tensor, room: Sequence[Expr]) -> list[Expr]:
    """The elements of ``start``, moved into [0, room]."""
    return [te.binary("max", te.binary("min", element(start, k), r), te.const(0)) for k, r in enumerate(room)]


def _place(start: Array, shape: Sequence[int], sizes: Sequence[int]) -> tuple[slice, ...]:
    """The slices that dynamic_slice and dynamic_update_slice mean."""
    begins = [min(max(int(s), 0), e - n) for s, e, n in zip(start.reshape(-1), shape, sizes, strict=True)]
    return tuple(slice(b, b + n) for b, n in zip(begins, sizes, strict=True))


def _fits(op: str, sizes: Sequence[Dim], shape: Sequence[Dim]) -> None:
    for k, (size, extent) in enumerate(zip(sizes, shape, strict=True)):
        if isinstance(size, int) and isinstance(extent, int) and not 0 <= size <= extent:
            raise fail(op, f"size of the slice in dimension {k}", size, f"0 to {extent}")


def _fits_at_run_time(sizes: Sequence[Dim], shape: Sequence[Dim]) -> Conditions:
    found: Conditions = []
    for size, extent in zip(sizes, shape, strict=True):
        why = f"the slice has {size} elements; expected at most {extent}"
        found += required(at_most(size, extent), lambda s=size, e=extent: te.dim(s) <= te.dim(e), why)  # type: ignore[misc]
    return found


@dataclass(frozen=True)
class DynamicSliceAttrs:
    slice_sizes: tuple[Dim, ...]


@register
class DynamicSlice(Op[DynamicSliceAttrs]):
    """The ``slice_sizes`` elements of data from start on; start is moved so that the slice lies inside of data."""

    name = "dynamic_slice"
    data, start = Operand(), Operand(accepts="index", rank=1)
    kind = Kind.INJECTIVE

    def infer(self, attrs: DynamicSliceAttrs, data: Value, start: Value) -> Types:
        unify_dim(self.name, start.shape[0], data.rank, "length of start")
        if len(attrs.slice_sizes) != data.rank:
            raise fail(self.name, "attribute slice_sizes", attrs.slice_sizes, f"{data.rank} sizes")
        _fits(self.name, attrs.slice_sizes, data.shape)
        return [TensorType(attrs.slice_sizes, data.dtype)]

    def reference(self, attrs: DynamicSliceAttrs, data: Array, start: Array) -> Arrays:
        _fits(self.name, attrs.slice_sizes, data.shape)
        return [data[_place(start, data.shape, attrs.slice_sizes)]]  # type: ignore[arg-type, index]

    def lower(self, attrs: DynamicSliceAttrs, results: TensorTypes, data: Tensor, start: Tensor) -> Lowered:
        room = [e - te.dim(s) for e, s in zip(data.shape, attrs.slice_sizes, strict=True)]
        begins = _starts(start, room)
        return [injective(self.name, results[0], lambda i: data[tuple(x + b for x, b in zip(i, begins, strict=True))])]

    def requires(self, attrs: DynamicSliceAttrs, results: TensorTypes, data: TensorType, start: TensorType) -> Conditions:
        return _fits_at_run_time(attrs.slice_sizes, data.shape)


@register
class DynamicUpdateSlice(Op[object]):
    """data with update in the place of the elements from start on; start is moved so that update lies inside of data."""

    name = "dynamic_update_slice"
    data, update, start = Operand(), Operand(), Operand(accepts="index", rank=1)
    kind = Kind.INJECTIVE

    def infer(self, attrs: object, data: Value, update: Value, start: Value) -> Types:
        unify_dim(self.name, start.shape[0], data.rank, "length of start")
        expect_rank(self.name, update.tensor_type, "update", data.rank)
        same_dtype(self.name, [data, update])
        _fits(self.name, update.shape, data.shape)
        return [data.type]

    def reference(self, attrs: object, data: Array, update: Array, start: Array) -> Arrays:
        _fits(self.name, update.shape, data.shape)
        result = data.copy()
        result[_place(start, data.shape, update.shape)] = update
        return [result]

    def lower(self, attrs: object, results: TensorTypes, data: Tensor, update: Tensor, start: Tensor) -> Lowered:
        if any(te.is_const(e, 0) for e in update.shape):
            return [injective(self.name, results[0], lambda i: data[tuple(i)])]
        begins = _starts(start, [e - u for e, u in zip(data.shape, update.shape, strict=True)])

        def body(i: Sequence[Expr]) -> Expr:
            inner = [x - b for x, b in zip(i, begins, strict=True)]
            return _overlaid(data, update, i, inner)

        return [injective(self.name, results[0], body)]

    def is_update(self, attrs: object, rank: int) -> bool:
        return True

    def written(self, attrs: object, results: TensorTypes, data: Tensor, update: Tensor, start: Tensor) -> Part:
        begin = _starts(start, [e - u for e, u in zip(data.shape, update.shape, strict=True)])
        return Part(1, begin, [1] * len(begin))

    def requires(
        self, attrs: object, results: TensorTypes, data: TensorType, update: TensorType, start: TensorType
    ) -> Conditions:
        return _fits_at_run_time(update.shape, data.shape)


def _overlaid(data: Tensor, update: Tensor, at: Sequence[Expr], inner: Sequence[Expr], hit: Expr | None = None) -> Expr:
    """``update`` at ``inner`` where that is in bounds (and ``hit``), else ``data`` at ``at``.

    Where ``update`` is empty, what is read in its place is discarded.
    """
    inside = te.const(True, "bool") if hit is None else hit
    for x, extent in zip(inner, update.shape, strict=True):
        inside = te.logical_and(inside, te.logical_and(x >= 0, x < extent))
    safe = tuple(te.clamp(x, extent) for x, extent in zip(inner, update.shape, strict=True))
    return te.select(inside, update[safe], data[tuple(at)])


@dataclass(frozen=True)
class StridedSetAttrs:
    begin: tuple[Dim, ...]
    end: tuple[Dim, ...]
    strides: tuple[int, ...] | None = None
    axes: tuple[int, ...] | None = None


@register
class StridedSet(Op[StridedSetAttrs]):
    """data with the slice begin:end:strides along ``axes`` (the first ones if None) replaced by updates.

    Bounds mean what they mean for strided_slice; updates has the shape of that slice.
    """

    name = "strided_set"
    data, updates = Operand(), Operand()
    kind = Kind.INJECTIVE

    def infer(self, attrs: StridedSetAttrs, data: Value, updates: Value) -> Types:
        same_dtype(self.name, [data, updates])
        expect_rank(self.name, updates.tensor_type, "updates", data.rank)
        for k, (_, count, _) in enumerate(self._steps(attrs, data.shape)):
            unify_dim(self.name, updates.shape[k], count, f"dimension {k} of updates")
        return [data.type]

    def _steps(self, attrs: StridedSetAttrs, shape: Sequence[Dim]) -> list[tuple[Dim, Dim, int]]:
        """First index, number of elements and stride along every dimension."""
        strides = attrs.strides or (1,) * len(attrs.begin)
        axes = normalize_axes(self.name, tuple(range(len(attrs.begin))) if attrs.axes is None else attrs.axes, len(shape))
        lengths = {len(attrs.begin), len(attrs.end), len(strides), len(axes)}
        if len(lengths) != 1:
            raise fail(self.name, "numbers of begin, end, strides and axes", sorted(lengths), "equal numbers")
        if 0 in strides:
            raise fail(self.name, "strides", strides, "no 0")
        steps: list[tuple[Dim, Dim, int]] = [(0, extent, 1) for extent in shape]
        for axis, begin, end, stride in zip(axes, attrs.begin, attrs.end, strides, strict=True):
            steps[axis] = (*slice_range(shape[axis], begin, end, stride), stride)
        return steps

    def reference(self, attrs: StridedSetAttrs, data: Array, updates: Array) -> Arrays:
        result = data.copy()
        places = [int(first) + int(stride) * np.arange(int(count)) for first, count, stride in self._steps(attrs, data.shape)]  # type: ignore[arg-type]
        result[np.ix_(*places)] = updates
        return [result]

    def lower(self, attrs: StridedSetAttrs, results: TensorTypes, data: Tensor, updates: Tensor) -> Lowered:
        if any(te.is_const(e, 0) for e in updates.shape):
            return [injective(self.name, results[0], lambda i: data[tuple(i)])]
        steps = self._steps(attrs, shape_of(data))

        def body(i: Sequence[Expr]) -> Expr:
            hit: Expr = te.const(True, "bool")
            inner = []
            for x, (first, _, stride) in zip(i, steps, strict=True):
                distance = x - te.dim(first) if stride > 0 else te.dim(first) - x
                hit = te.logical_and(hit, (distance % abs(stride)).eq(0))
                inner.append(distance // abs(stride))
            return _overlaid(data, updates, i, inner, hit)

        return [injective(self.name, results[0], body)]

    def is_update(self, attrs: StridedSetAttrs, rank: int) -> bool:
        return True

    def written(self, attrs: StridedSetAttrs, results: TensorTypes, data: Tensor, updates: Tensor) -> Part:
        steps = self._steps(attrs, shape_of(data))
        return Part(1, [te.dim(first) for first, _, _ in steps], [step for _, _, step in steps])
