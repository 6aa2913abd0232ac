"""Operators that read and write by index, sort and search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from forge import dims, dtypes
from forge.dims import Dim
from forge.exporters.onnx.emitter import Emitter, Ref
from forge.exporters.onnx.operators.shape.reshape import INT64_MAX
from forge.exporters.onnx.registry import exports
from forge.ir.nodes import Node
from forge.ops.core.op import Op
from forge.ops.index.gather import Gather, GatherNd, Take
from forge.ops.index.scatter import ScatterElements, ScatterNd
from forge.ops.shape.dynamic_slice import DynamicSlice
from forge.ops.sort.searchsorted import SearchSorted
from forge.ops.sort.sort import ArgSort, Sort, SortAttrs, TopK
from forge.ops.sort.unique import Unique

_INDEX = ("int32", "int64")
_REDUCTIONS = {"update": None, "add": "add", "mul": "mul", "min": "min", "max": "max"}


def _indices(g: Emitter, x: Ref) -> Ref:
    return x if x.dtype in _INDEX else g.cast(x, "int64")


@exports(Take)
def take(g: Emitter, op: Take, x: Ref, indices: Ref) -> Any:
    """ONNX counts negative indices from the end; those out of range are errors at run time, where Forge moves them inside."""
    attrs = op.attrs
    if attrs.axis is None and len(op.data.shape) != 1:
        x = g.op("Reshape", x, g.ints([-1]))
    axis = 0 if attrs.axis is None else attrs.axis % len(op.data.shape)
    extent = dims.product(op.data.shape) if attrs.axis is None else op.data.shape[axis]
    places = _indices(g, indices)
    if not _inside(g.known(indices), extent, attrs.mode):
        size = g.cast(g.scalar(g.size(extent)), places.dtype)
        if attrs.mode == "wrap":
            places = g.op("Mod", places, size)
        else:
            places = g.op("Clip", places, g.like(0, places), g.op("Sub", size, g.like(1, places)))
    if attrs.batch_dims:
        return _batched(g, op, x, places, axis)
    return g.op("Gather", x, places, axis=axis)


def _inside(known: np.ndarray | None, extent: Dim, mode: str) -> bool:
    """Whether indices need no change."""
    if known is None or not isinstance(extent, int):
        return mode == "wrap_negative"
    return mode == "wrap_negative" or bool(np.all((known >= 0) & (known < extent)))


def _batched(g: Emitter, op: Take, x: Ref, places: Ref, axis: int) -> Ref:
    """GatherND takes slices at the end: the axes between the batch and the indexed one move after it."""
    batch, rank, after = op.attrs.batch_dims, len(op.data.shape), len(op.indices.shape)
    order = [*range(batch), axis, *range(batch, axis), *range(axis + 1, rank)]
    taken = g.op("GatherND", g.transpose(x, order), g.unsqueeze(g.cast(places, "int64"), after), batch_dims=batch)
    rest = after + axis - batch
    return g.transpose(taken, [*range(batch), *range(after, rest), *range(batch, after), *range(rest, rank - 1 + after - batch)])


@exports(Gather)
def gather(g: Emitter, op: Gather, x: Ref, indices: Ref) -> Ref:
    return g.op("GatherElements", x, _indices(g, indices), axis=op.attrs.axis)


def _vectors_last(g: Emitter, op: GatherNd | ScatterNd, indices: Ref) -> Ref:
    """ONNX keeps an index vector in the last axis, the operator in the first."""
    return g.transpose(g.cast(indices, "int64"), [*range(1, len(op.indices.shape)), 0])


@exports(GatherNd)
def gather_nd(g: Emitter, op: GatherNd, x: Ref, indices: Ref) -> Ref:
    return g.op("GatherND", x, _vectors_last(g, op, indices), batch_dims=op.attrs.batch_dims or None)


def _dropping(g: Emitter, op: str, x: Ref, places: Ref, updates: Ref, axes: range, rank: int, **attributes: Any) -> Ref:
    """``op``, where one element more along ``axes`` takes the updates whose places are out of range, and is cut off again."""
    counts = g.extent(x, axes.start, len(axes))
    fill = g.const(np.array("", object)) if x.dtype == "string" else None
    grown = g.op("Pad", x, g.ints([*[0] * rank, *(int(k in axes) for k in range(rank))]), fill)
    places = g.cast(places, "int64")
    inside = g.op("And", g.op("GreaterOrEqual", places, g.const(np.int64(0))), g.op("Less", places, counts))
    made = g.op(op, grown, g.op("Where", inside, places, counts), updates, **attributes)
    return g.op("Slice", made, g.ints([0] * len(axes)), counts, g.ints(axes))


@exports(ScatterElements)
def scatter_elements(g: Emitter, op: ScatterElements, x: Ref, indices: Ref, updates: Ref) -> Any:
    attrs, rank = op.attrs, op.result.rank
    if attrs.reduction not in _REDUCTIONS:
        return NotImplemented
    axis, reduction = attrs.axis % rank, _REDUCTIONS[attrs.reduction]
    if attrs.out_of_range == "drop":
        along = range(axis, axis + 1)
        return _dropping(g, "ScatterElements", x, indices, updates, along, rank, axis=axis, reduction=reduction)
    return g.op("ScatterElements", x, _indices(g, indices), updates, axis=attrs.axis, reduction=reduction)


@exports(ScatterNd)
def scatter_nd(g: Emitter, op: ScatterNd, x: Ref, indices: Ref, updates: Ref) -> Any:
    if op.attrs.mode not in _REDUCTIONS:
        return NotImplemented
    places, reduction = _vectors_last(g, op, indices), _REDUCTIONS[op.attrs.mode]
    depth = op.indices.shape[0]
    if op.attrs.out_of_range == "drop" and isinstance(depth, int):
        return _dropping(g, "ScatterND", x, places, updates, range(depth), op.result.rank, reduction=reduction)
    return g.op("ScatterND", x, places, updates, reduction=reduction)


@exports(DynamicSlice)
def dynamic_slice(g: Emitter, op: DynamicSlice, x: Ref, start: Ref) -> Ref:
    sizes = g.dims(op.attrs.slice_sizes)
    first = _start(g, x, start, sizes)
    return g.op("Slice", x, first, g.op("Add", first, sizes))


def _start(g: Emitter, x: Ref, start: Ref, sizes: Ref) -> Ref:
    """The start moved so that ``sizes`` elements from it lie inside of ``x``."""
    room = g.op("Sub", g.shape(x), sizes)
    return g.op("Max", g.op("Min", g.cast(start, "int64"), room), g.const(0, "int64"))


@exports("dynamic_update_slice")
def dynamic_update_slice(g: Emitter, node: Node, x: Ref, update: Ref, start: Ref) -> Ref:
    """What lies before and after the update is put around it, one axis at a time."""
    first = _start(g, x, start, g.shape(update))
    return replaced(g, x, update, [g.slice(first, 0, k, k + 1) for k in range(node.result.rank)])


def replaced(g: Emitter, x: Ref, update: Ref, starts: Sequence[Ref]) -> Ref:
    """``x`` with ``update`` in the place of the elements from ``starts`` on (a vector of one element for each axis)."""
    around: list[tuple[Ref, Ref]] = []
    window = x
    for axis, begin in enumerate(starts):
        end = g.op("Add", begin, g.extent(update, axis))
        along = g.ints([axis])
        around.append((g.op("Slice", window, g.ints([0]), begin, along), g.op("Slice", window, end, g.ints([INT64_MAX]), along)))
        window = g.op("Slice", window, begin, end, along)
    for axis in reversed(range(len(starts))):
        before, after = around[axis]
        update = g.concat([before, update, after], axis)
    return update


@exports(Sort, ArgSort)
def sort(g: Emitter, op: Op[SortAttrs], x: Ref) -> Ref:
    """All elements are the greatest, or the least, in order; of equal ones the first comes first."""
    axis = op.attrs.axis % op.result.rank
    count, largest = g.size(op.result.shape[axis]), 0 if op.attrs.is_ascend else None
    values, places = g.multi("TopK", [x, count], 2, axis=axis, largest=largest)
    return values if isinstance(op, Sort) else places


@exports(TopK)
def topk(g: Emitter, op: TopK, x: Ref, k: Ref | None = None) -> Any:
    attrs = op.attrs
    axis = attrs.axis % op.results[0].rank
    count = g.op("Reshape", g.required(attrs.k, k), g.ints([1])) if attrs.k is None else g.dims([attrs.k])
    values, places = g.multi("TopK", [x, count], 2, axis=axis, largest=0 if attrs.is_ascend else None)
    return {"both": [values, places], "values": [values], "indices": [places]}[attrs.ret_type]


@exports(Unique)
def unique(g: Emitter, op: Unique, x: Ref) -> list[Ref]:
    return g.multi("Unique", [x], 4, axis=op.attrs.axis, sorted=1 if op.attrs.sorted else 0)


@exports(SearchSorted)
def searchsorted(g: Emitter, op: SearchSorted, ordered: Ref, values: Ref) -> Ref:
    """How many elements come before each value; NaN comes after all numbers."""
    rank = len(op.values.shape)
    each = g.unsqueeze(values, rank)
    rows = ordered if len(op.sorted.shape) == 1 else g.unsqueeze(ordered, rank - 1)
    before = g.op("LessOrEqual" if op.attrs.right else "Less", rows, each)
    if dtypes.is_float(values.dtype):
        nan_row, nan_value = (g.op("IsNaN", v) for v in (rows, each))
        before = g.op("Or", before, nan_value if op.attrs.right else g.op("And", nan_value, g.op("Not", nan_row)))
    return g.op("ReduceSum", g.cast(before, "int64"), g.ints([rank]), keepdims=0)


@exports("unravel_index")
def unravel_index(g: Emitter, node: Node, indices: Ref, shape: Ref) -> Ref:
    """The quotients by the numbers of elements after each dimension, modulo its size."""
    count = node.result.shape[0]
    rest, sizes = g.cast(indices, "int64"), g.cast(shape, "int64")
    rows: list[Ref] = []
    for axis in reversed(range(int(count))):
        size = g.scalar(g.slice(sizes, 0, axis, axis + 1))
        rows.insert(0, g.unsqueeze(g.op("Mod", rest, size), 0) if axis else g.unsqueeze(rest, 0))
        rest = g.op("Div", rest, size) if axis else rest
    return g.concat(rows, 0)
