"""Pools without an operator: means of integers, powers, cells and windows with the places of their elements, and back.

Data is ``[N, C, ...]``. ``window`` are the attributes of Forge's pools: ``pool_size``, ``strides``, ``padding``, ``dilation`` and
``ceil_mode``; ``counts`` are the sizes of the result, one for each spatial axis.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from forge import dims, dtypes
from forge.compose.checks import checked_indices
from forge.compose.windows import element
from forge.dims import Dim
from forge.errors import option
from forge.ir.nodes import Value
from forge.ops.core.composer import Composer
from forge.ops.core.term import Term


def spatial_axes(x: Value) -> tuple[int, ...]:
    """All axes but batch and channels, which come first."""
    return tuple(range(2, x.rank))


def global_pool(g: Composer, x: Value, kind: str) -> Value:
    """The mean (``kind`` "avg") or largest ("max") element of each channel; spatial axes stay with size 1."""
    if x.rank == 4:
        return g.call(f"nn.global_{kind}_pool2d", x)
    return g.call("mean" if kind == "avg" else "max", x, axis=spatial_axes(x), keepdims=True)


def global_lp_pool(g: Composer, x: Value, p: float) -> Value:
    """``(sum of |x|^p over the spatial axes) ^ (1 / p)``."""
    return _root(g, g.call("sum", _powered(g, x, p), axis=spatial_axes(x), keepdims=True), p)


def lp_pool(g: Composer, x: Value, p: float, **window: Any) -> Value:
    """``(sum of |x|^p over each window) ^ (1 / p)``; ``window`` are the attributes of the average pool."""
    op = f"nn.avg_pool{x.rank - 2}d"
    if window.get("ceil_mode"):  # windows that overhang the end are whole ones over zeros
        window = _with_overhang(x, g.call(op, x, **window).shape[2:], window)
    mean = g.call(op, _powered(g, x, p), **window, count_include_pad=True)
    return _root(g, g.call("multiply", mean, g.scalar(float(math.prod(window["pool_size"])), x)), p)


def _with_overhang(x: Value, counts: Sequence[Dim], window: Mapping[str, Any]) -> dict[str, Any]:
    """``window`` with so much padding at the ends that none of ``counts`` windows of ``ceil_mode`` overhangs."""
    padding, rank = tuple(window["padding"]), x.rank - 2
    after = []
    for axis, (size, count) in enumerate(zip(x.shape[2:], counts)):
        width = (window["pool_size"][axis] - 1) * window["dilation"][axis] + 1
        missing = (count - 1) * window["strides"][axis] + width - size - padding[axis]
        after.append(dims.maximum(missing, padding[axis - rank]))
    return {**window, "padding": (*padding[:rank], *after), "ceil_mode": False}


def _powered(g: Composer, x: Value, p: float) -> Value:
    if p == 1:
        return g.call("abs", x)
    return g.call("multiply", x, x) if p == 2 else g.call("power", g.call("abs", x), g.scalar(p, x))


def _root(g: Composer, x: Value, p: float) -> Value:
    if p == 1:
        return x
    return g.call("sqrt", x) if p == 2 else g.call("power", x, g.scalar(1 / p, x))


def avg_pool(
    g: Composer, x: Value, window: Mapping[str, Any], counts: Sequence[Dim], *, count_include_pad: bool = True,
    divisor: int | None = None,
) -> Value:
    """Sums of windows over the number of their elements, or over ``divisor``; those of integers are rounded towards 0."""
    op = f"nn.avg_pool{x.rank - 2}d"
    if dtypes.is_integer(x.dtype):
        return _integer_mean(g, x, window, counts, count_include_pad, divisor)
    if divisor is None:
        return g.call(op, x, **window, count_include_pad=count_include_pad)
    mean = g.call(op, x, **_with_overhang(x, counts, window), count_include_pad=True)
    return g.call("multiply", mean, g.scalar(math.prod(window["pool_size"]) / divisor, x))


def _integer_mean(
    g: Composer, x: Value, window: Mapping[str, Any], counts: Sequence[Dim], with_padding: bool, divisor: int | None
) -> Value:
    """Exact while sums are below 2^52."""
    rank = x.rank - 2
    wide = g.cast(x, "float64")
    mean = g.call(f"nn.avg_pool{rank}d", wide, **_with_overhang(x, counts, window), count_include_pad=True)
    total = g.call("round", g.call("multiply", mean, g.scalar(math.prod(window["pool_size"]), mean)))
    elements = np.asarray(divisor or 1, np.float64)
    for axis, (size, count, taps, stride, begin) in enumerate(
        zip(x.shape[2:], counts, *(window[name] for name in ("pool_size", "strides", "padding"))) if divisor is None else ()
    ):
        if not isinstance(size, int) or not isinstance(count, int):
            raise g.unsupported(f"got {x.type}; supported: integers of known sizes, or floating point")
        first = np.arange(count) * stride - begin
        last = np.minimum(first + taps, size + begin)
        own = last - first if with_padding else np.minimum(last, size) - np.maximum(first, 0)
        elements = elements * own.reshape([-1 if k == axis else 1 for k in range(rank)])
    return g.cast(g.call("trunc", g.call("divide", total, g.constant(elements, "float64"))), x.dtype)


def max_pool_with_indices(g: Composer, x: Value, window: Mapping[str, Any]) -> tuple[Value, Value]:
    """The largest element of each window, and its place among the elements of its channel."""
    result, indices = g.multi(f"nn.max_pool{x.rank - 2}d_with_indices", x, **window)
    return result, g.call("floor_mod", indices, g.size(dims.product(x.shape[2:])))


def adaptive_max_pool_with_indices(g: Composer, x: Value, counts: Sequence[Dim]) -> tuple[Value, Value]:
    """The largest element of each cell, floor(p * size / n) to ceil((p + 1) * size / n), and its place in the channel.

    Raises:
        OpAttributeUnimplemented: sizes are symbolic.
    """
    sizes = x.shape[2:]
    if not all(isinstance(d, int) for d in (*sizes, *counts)):
        raise g.unsupported(f"indices of an input of the symbolic sizes {[str(s) for s in sizes]}; expected numbers")
    if all(size % count == 0 for size, count in zip(sizes, counts) if count):
        cell, ones = tuple(size // (count or 1) for size, count in zip(sizes, counts)), (1,) * len(sizes)
        window = {"pool_size": cell, "strides": cell, "padding": (0,) * len(sizes), "dilation": ones}
        return max_pool_with_indices(g, x, window)
    return _largest_at(g, x, [g.constant(_cells(size, count)) for size, count in zip(sizes, counts)])  # type: ignore[arg-type]


def _cells(size: int, count: int) -> np.ndarray:
    """Positions of the elements of each cell, [count, length]; short ones repeat their last element."""
    starts = [p * size // count for p in range(count)]
    lengths = [-(-(p + 1) * size // count) - s for p, s in enumerate(starts)]
    return np.array([[s + min(k, n - 1) for k in range(max(lengths))] for s, n in zip(starts, lengths)], np.int64)


def _largest_at(g: Composer, x: Value, places: Sequence[Value]) -> tuple[Value, Value]:
    """The largest element of windows, and its place in the channel; ``places``, [n, taps], are positions along each axis."""
    rank = len(places)
    counts, taps = [p.shape[0] for p in places], [p.shape[1] for p in places]
    flat = g.constant(0, "int64")
    for axis, place in enumerate(places):
        shape = [1] * (2 * rank)
        shape[axis], shape[rank + axis] = place.shape
        flat = g.call("add", g.call("multiply", flat, g.constant(x.shape[2 + axis], "int64")), g.reshape(place, shape))
    flat = g.reshape(flat, (*counts, dims.product(taps)))
    rows = g.call("take", g.reshape(x, (*x.shape[:2], dims.product(x.shape[2:]))), flat, axis=2)
    best = g.call("argmax", rows, axis=rows.rank - 1, keepdims=True)
    result = _last(g, rows, best)
    return result, _last(g, g.call("broadcast_to", flat, shape=rows.shape), best)


def _last(g: Composer, rows: Value, places: Value) -> Value:
    """The element at one place of each row."""
    return g.call("squeeze", g.call("gather", rows, places, axis=rows.rank - 1), axis=(rows.rank - 1,))


def fractional_max_pool(
    g: Composer, x: Value, samples: Value, *, pool_size: Sequence[int], counts: Sequence[int], columns: Sequence[int]
) -> list[Value]:
    """The largest elements of windows at random distances, and their places (Graham, "Fractional Max-Pooling", 2015).

    Each channel has windows of its own, which ``samples``, [N, C, axes] in [0, 1), place: the first one starts at 0, the last one
    ends with the data. Those of axis k are in column ``columns[k]``.
    """
    lead, spatial, rank = x.shape[:2], x.shape[2:], x.rank - 2
    if not all(isinstance(size, int) for size in spatial):
        raise g.unsupported(f"an input of the symbolic sizes {[str(s) for s in spatial]}; expected numbers")
    columns_of = Term(g, g.reshape(samples, (*lead, rank)))
    flat = Term(g, g.constant(0, "int64"))
    for axis, (size, count, taps) in enumerate(zip(spatial, counts, pool_size)):
        sample = Term(g, g.call("take", columns_of.value, g.constant([columns[axis]], "int64"), axis=2))
        starts = _fractional_starts(g, sample, size, count, taps)
        shape, offsets = [*lead, *[1] * (2 * rank)], [1] * (2 * rank)
        shape[2 + axis], offsets[rank + axis] = count, taps
        steps = Term(g, g.constant(np.arange(taps).reshape(offsets), "int64"))
        flat = flat * size + starts.reshape(*shape) + steps
    windows, taps = dims.product(counts), math.prod(pool_size)
    places = flat.reshape(*lead, windows * taps).value
    rows = g.call("gather", g.reshape(x, (*lead, dims.product(spatial))), places, axis=2)
    rows, places = (g.reshape(v, (*lead, windows, taps)) for v in (rows, places))
    best = g.call("argmax", rows, axis=3, keepdims=True)
    found = [_last(g, v, best) for v in (rows, places)]
    return [g.reshape(v, (*lead, *counts)) for v in found]


def _fractional_starts(g: Composer, sample: Term, size: int, count: int, taps: int) -> Term:
    """Where windows start, [N, C, count]: floor((k + sample) * step) - floor(sample * step), all but the last."""
    last = size - taps
    if count == 1:
        return sample.cast("int64") * 0 + last
    step = Term(g, g.scalar(last, sample.value)) / (count - 1)
    numbers = Term(g, g.constant(np.arange(count), "int64"))
    found = ((numbers.cast(sample.value.dtype) + sample) * step).cast("int64") - (sample * step).cast("int64")
    return numbers.equals(count - 1).where(last, found)


def placed(
    g: Composer, x: Value, indices: Value, shape: Sequence[Dim], rank: int, *, reduction: str = "update", checked: bool = True
) -> Value:
    """Zeros of ``shape`` with each element of ``x`` at its place among the elements of its channel, the last ``rank`` axes.

    With the ``reduction`` "add", elements of one place are added; ``checked``: a call with a place out of range fails.
    """
    rows, size = dims.product(shape[:-rank]), dims.product(shape[-rank:])
    by_channel = (rows, dims.product(x.shape[x.rank - rank :]))
    zeros = g.call("full", g.scalar(0, x), shape=(rows, size))
    places = g.reshape(indices, by_channel)
    if checked:
        places = checked_indices(g, places, size, from_end=False)
    result = g.call("scatter_elements", zeros, places, g.reshape(x, by_channel), axis=1, reduction=reduction)
    return g.reshape(result, shape)


def max_unpool(
    g: Composer, x: Value, indices: Value, shape: Sequence[Dim], wanted: Value | None = None, *, moves: bool = False
) -> Value:
    """Zeros of ``shape``, or of the sizes ``wanted``, with the elements of ``x`` at ``indices``, which count its elements in
    row-major order.

    With ``moves`` they count those of ``shape``, and ``wanted``, sizes that are at least as large, adds zeros at the ends.
    """
    known = g.dims(wanted)
    if known is not None and not moves:
        shape, wanted = known, None
    if wanted is None or moves:
        indices = checked_indices(g, indices, dims.product(shape), from_end=False)
    updates = g.call("reshape", x, newshape=(-1,))
    if wanted is None:
        zeros = g.call("full", g.scalar(0, x), shape=(dims.product(shape),))
        places = g.call("reshape", indices, newshape=(-1,))
        return g.reshape(g.call("scatter_elements", zeros, places, updates, axis=0), shape)
    count = g.reshape(g.call("prod", wanted), (1,))
    zeros = g.call("full", g.scalar(0, x), count, shape=None)
    places = g.call("reshape", _moved(g, indices, shape, wanted) if moves else indices, newshape=(-1,))
    return g.call("reshape", g.call("scatter_elements", zeros, places, updates, axis=0), wanted, newshape=None)


def _moved(g: Composer, indices: Value, shape: Sequence[Dim], wanted: Value) -> Value:
    """Flat positions in a tensor of ``shape`` as flat positions in one of the shape ``wanted``."""
    rest, scale = Term(g, indices), Term(g, g.constant(1, "int64"))
    position = rest * 0
    for axis in reversed(range(len(shape))):
        size = shape[axis]
        if not isinstance(size, int):
            raise g.unsupported(f"axis {axis} has the symbolic size {size}; expected a number; fix it with {option('shape=')}")
        position = position + rest.floor_mod(size) * scale
        scale = scale * element(g, wanted, axis)
        rest = rest.floor_divide(size)
    return position.value
