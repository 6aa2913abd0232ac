"""Operations of ``keras.ops`` that read and write at indices."""


from __future__ import annotations

import math
from typing import Any

import numpy as np

from forge import dims
from forge.compose import axes as of_axes
from forge.compose import indexing
from forge.compose.checks import checked_indices
from forge.dims import Dim
from forge.frontends.keras.context import Context
from forge.frontends.keras.converters.ops_shape import known_sizes
from forge.frontends.keras.promotion import together, value
from forge.frontends.keras.registry import OPS, converts
from forge.ir.nodes import Value


@converts("Take", domain=OPS)
def take(g: Context, x: Any, indices: Any, *, axis: Any = None) -> Value:
    data, places = value(g, x), value(g, indices)
    data = of_axes.ravel(g, data) if axis is None else data
    place = g.axis(0 if axis is None else axis, data.rank)
    places = g.cast(places, "int64" if places.dtype in ("int64", "uint32", "uint64") else "int32")
    return g.call("take", data, checked_indices(g, places, data.shape[place]), axis=place)


@converts("TakeAlongAxis", domain=OPS)
def take_along_axis(g: Context, x: Any, indices: Any, *, axis: Any = None) -> Value:
    data, places = value(g, x), value(g, indices)
    if axis is None:
        data, places = of_axes.ravel(g, data), of_axes.ravel(g, places)
    place = g.axis(0 if axis is None else axis, data.rank)
    return indexing.take_along_axis(g, data, checked_indices(g, g.cast(places, "int64"), data.shape[place]), place)


@converts("GetItem", domain=OPS)
def get_item(g: Context, x: Any, key: Any) -> Value:
    data = value(g, x)
    keys = list(key) if isinstance(key, list | tuple) else [key]
    used = sum(1 for k in keys if k is not None and k is not Ellipsis)
    if Ellipsis in [k for k in keys if not isinstance(k, Value | np.ndarray)]:
        at = next(n for n, k in enumerate(keys) if k is Ellipsis)
        keys[at : at + 1] = [slice(None)] * (data.rank - used)
    axis, gathered = 0, 0
    for k in keys:
        if k is None:
            data, axis = g.call("expand_dims", data, axis=axis), axis + 1
        elif isinstance(k, slice):
            data, axis = _sliced(g, data, k, axis), axis + 1
        elif isinstance(k, int):
            data = g.call("take", data, g.constant(_place(g, k, data.shape[axis]), "int64"), axis=axis)
        else:
            gathered += 1
            if gathered > 1:
                raise g.unsupported("got several tensors as indices; supported: one")
            places = value(g, k)
            if places.dtype == "bool":
                raise g.unsupported("got a mask as an index: the sizes of the result are known at run time only")
            data = g.call("take", data, checked_indices(g, g.cast(places, "int64"), data.shape[axis]), axis=axis)
            axis += places.rank
    return data


def _place(g: Context, index: int, size: Dim) -> int:
    if isinstance(size, int) and not -size <= index < size:
        raise g.invalid(f"got index {index} for {size} elements")
    return index + size if index < 0 and isinstance(size, int) else index


def _sliced(g: Context, data: Value, k: slice, axis: int) -> Value:
    parts: list[Any] = [(g.ints(p) or (p,))[0] if isinstance(p, Value) else p for p in (k.start, k.stop, k.step)]
    if any(p is not None and not isinstance(p, int) for p in parts):
        raise g.unsupported(f"got the slice {k}; expected numbers")
    start, stop, step = parts
    step = 1 if step is None else step
    size = data.shape[axis]
    if start is None and stop is None and step == 1:
        return data
    if step < 1:
        if not isinstance(size, int):
            raise g.unsupported(f"got the step {step} along an axis of {size} elements; expected a known size")
        return g.call("take", data, g.constant(np.arange(size)[k], "int64"), axis=axis)
    begin = 0 if start is None else start
    end = math.inf if stop is None else stop
    if isinstance(size, int):
        begin, end, _ = slice(start, stop, step).indices(size)
        return of_axes.part(g, data, axis, begin, max(begin, end), step)
    low: Dim = dims.maximum(size + begin, 0) if begin < 0 else dims.minimum(begin, size)
    high: Dim = size if end == math.inf else dims.maximum(size + end, 0) if end < 0 else dims.minimum(int(end), size)
    return of_axes.part(g, data, axis, low, dims.maximum(low, high), step)


@converts("Slice", domain=OPS)
def slice_(g: Context, inputs: Any, start_indices: Any, *, shape: Any) -> Value:
    data = value(g, inputs)
    begins = known_sizes(g, start_indices)
    sizes = known_sizes(g, shape)
    for axis, (begin, size) in enumerate(zip(begins, sizes)):
        data = of_axes.part(g, data, axis, begin, data.shape[axis] if size == -1 else begin + size)
    return data


@converts("SliceUpdate", domain=OPS)
def slice_update(g: Context, inputs: Any, start_indices: Any, updates: Any) -> Value:
    data, new = value(g, inputs), value(g, updates)
    starts = g.cast(value(g, start_indices), "int64")
    return g.call("dynamic_update_slice", data, g.cast(new, data.dtype), starts)


@converts("Scatter", domain=OPS)
def scatter(g: Context, indices: Any, values: Any, *, shape: Any) -> Value:
    new = value(g, values)
    return _scattered(g, g.full(known_sizes(g, shape), 0, new.dtype), value(g, indices), new, "add")


@converts("ScatterUpdate", domain=OPS)
def scatter_update(g: Context, inputs: Any, indices: Any, updates: Any, *, reduction: Any = None) -> Value:
    data = value(g, inputs)
    return _scattered(g, data, value(g, indices), g.cast(value(g, updates), data.dtype), reduction or "update")


def _scattered(g: Context, data: Value, places: Value, new: Value, mode: str) -> Value:
    order = (places.rank - 1, *range(places.rank - 1))
    return g.call("scatter_nd", data, g.moved(g.cast(places, "int64"), order), new, mode=mode)


@converts("SearchSorted", domain=OPS)
def searchsorted(g: Context, sorted_sequence: Any, values: Any, *, side: str = "left") -> Value:
    row, wanted = together(g, sorted_sequence, values)
    return g.call("searchsorted", row, wanted, right=side == "right", dtype="int32")


@converts("Digitize", domain=OPS)
def digitize(g: Context, x: Any, bins: Any) -> Value:
    data, edges = together(g, x, np.asarray(bins, np.float32) if isinstance(bins, list | tuple) else bins)
    return g.call("searchsorted", edges, data, right=True, dtype="int32")


@converts("IsIn", domain=OPS)
def is_in(g: Context, x1: Any, x2: Any, *, assume_unique: bool = False, invert: bool = False) -> Value:
    found = indexing.isin(g, *together(g, x1, x2))
    return g.call("logical_not", found) if invert else found
