"""Pooling. Data is [N, C, ...] or, without a batch, [C, ...]; indices count the elements of one channel."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from forge import dims, dtypes
from forge.compose import windows
from forge.compose.checks import checked_indices
from forge.dims import Dim
from forge.frontends.torch.context import Context
from forge.frontends.torch.converters.nn.convolution import batched, per_axis, unbatched
from forge.frontends.torch.registry import converts
from forge.ir.nodes import Value
from forge.ops.core.term import Term

Ints = Sequence[int]


def _window(kernel_size: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil_mode: bool, rank: int) -> dict[str, Any]:
    sizes = per_axis(kernel_size, rank)
    return {
        "pool_size": sizes,
        "strides": per_axis(stride, rank) if stride else sizes,
        "padding": per_axis(padding, rank),
        "dilation": per_axis(dilation, rank),
        "ceil_mode": ceil_mode,
    }


def _within_channel(g: Context, indices: Value, spatial: Sequence[Dim]) -> Value:
    """Positions in the whole data as positions in a channel."""
    size = dims.product(spatial)
    count = g.constant(size, "int64") if isinstance(size, int) else g.scope.size(g, size)
    return g.call("floor_mod", indices, count)


def _max_pool(rank: int) -> None:
    @converts(f"max_pool{rank}d.default")
    def max_pool(
        g: Context, self: Value,
        *, kernel_size: Ints, stride: Ints = (), padding: Ints = (0,), dilation: Ints = (1,), ceil_mode: bool = False,
    ) -> Value:
        x, added = batched(g, self, rank)
        window = _window(kernel_size, stride, padding, dilation, ceil_mode, rank)
        return unbatched(g, g.call(f"nn.max_pool{rank}d", x, **window), added)

    @converts(f"max_pool{rank}d_with_indices.default")
    def max_pool_with_indices(
        g: Context, self: Value,
        *, kernel_size: Ints, stride: Ints = (), padding: Ints = (0,), dilation: Ints = (1,), ceil_mode: bool = False,
    ) -> list[Value | None]:
        if not g.wants(1):
            options: dict[str, Any] = {"padding": padding, "dilation": dilation, "ceil_mode": ceil_mode}
            return [max_pool(g, self, kernel_size=kernel_size, stride=stride, **options), None]
        x, added = batched(g, self, rank)
        window = _window(kernel_size, stride, padding, dilation, ceil_mode, rank)
        result, indices = g.multi(f"nn.max_pool{rank}d_with_indices", x, **window)
        return [unbatched(g, result, added), unbatched(g, _within_channel(g, indices, x.shape[2:]), added)]

    @converts(f"avg_pool{rank}d.default")
    def avg_pool(
        g: Context, self: Value,
        *, kernel_size: Ints, stride: Ints = (), padding: Ints = (0,), ceil_mode: bool = False, count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Value:
        x, added = batched(g, self, rank)
        window = _window(kernel_size, stride, padding, (1,), ceil_mode, rank)
        if dtypes.is_integer(x.dtype):
            return unbatched(g, _integer_mean(g, x, window, count_include_pad, divisor_override), added)
        if divisor_override is None:
            return unbatched(g, g.call(f"nn.avg_pool{rank}d", x, **window, count_include_pad=count_include_pad), added)
        mean = g.call(f"nn.avg_pool{rank}d", x, **_complete(x, window, g.shape[-rank:]), count_include_pad=True)
        factor = math.prod(window["pool_size"]) / divisor_override
        return unbatched(g, g.call("multiply", mean, g.scalar(factor, x)), added)


for _rank in (1, 2, 3):
    _max_pool(_rank)


def _complete(x: Value, window: dict[str, Any], shape: Sequence[Dim]) -> dict[str, Any]:
    """``window`` with so much padding at the ends that no window of ``ceil_mode`` overhangs."""
    begins = window["padding"]
    ends = [
        dims.maximum((count - 1) * stride + taps - size - begin, begin)
        for size, count, taps, stride, begin in zip(x.shape[2:], shape, window["pool_size"], window["strides"], begins)
    ]
    return {**window, "padding": (*begins, *ends), "ceil_mode": False}


def _integer_mean(g: Context, x: Value, window: dict[str, Any], with_padding: bool, divisor: int | None) -> Value:
    """Sums of windows over their sizes, rounded towards 0; exact while sums are below 2^52."""
    rank, shape = x.rank - 2, g.shape[-(x.rank - 2) :]
    sizes = list(zip(x.shape[2:], shape))
    wide = g.cast(x, "float64")
    mean = g.call(f"nn.avg_pool{rank}d", wide, **_complete(x, window, shape), count_include_pad=True)
    total = g.call("round", g.call("multiply", mean, g.scalar(math.prod(window["pool_size"]), mean)))
    counts = np.asarray(divisor or 1, np.float64)
    for axis, ((size, count), taps, stride, begin) in enumerate(
        zip(sizes, window["pool_size"], window["strides"], window["padding"]) if divisor is None else ()
    ):
        if not isinstance(size, int) or not isinstance(count, int):
            raise g.unsupported(f"self: got {x.type}; supported: integers of known sizes, or floating point")
        first = np.arange(count) * stride - begin
        last = np.minimum(first + taps, size + begin)
        own = last - first if with_padding else np.minimum(last, size) - np.maximum(first, 0)
        counts = counts * own.reshape([-1 if k == axis else 1 for k in range(rank)])
    return g.cast(g.call("trunc", g.call("divide", total, g.constant(counts, "float64"))), x.dtype)


def _targets(x: Value, output_size: Sequence[Dim], rank: int) -> tuple[Dim, ...]:
    return tuple(own if isinstance(n, int) and n == -1 else n for n, own in zip(per_axis(output_size, rank), x.shape[2:]))


def _adaptive(rank: int) -> None:
    names = (f"adaptive_avg_pool{rank}d.default", f"_adaptive_avg_pool{rank}d.default")

    @converts(*names[: min(rank, 2)])
    def adaptive_avg_pool(g: Context, self: Value, *, output_size: Sequence[Dim]) -> Value:
        x, added = batched(g, self, rank)
        sizes = _targets(x, output_size, rank)
        if sizes == (1,) * rank:
            return unbatched(g, windows.global_pool(g, x, "avg"), added)
        return unbatched(g, g.call(f"nn.adaptive_avg_pool{rank}d", x, output_size=sizes), added)

    @converts(f"adaptive_max_pool{rank}d.default")
    def adaptive_max_pool(g: Context, self: Value, *, output_size: Ints) -> list[Value | None]:
        x, added = batched(g, self, rank)
        sizes = _targets(x, output_size, rank)
        if g.wants(1):
            return [unbatched(g, v, added) for v in _largest_of_cells(g, x, sizes)]
        if sizes == (1,) * rank:
            return [unbatched(g, windows.global_pool(g, x, "max"), added), None]
        return [unbatched(g, g.call(f"nn.adaptive_max_pool{rank}d", x, output_size=sizes), added), None]


for _rank in (1, 2, 3):
    _adaptive(_rank)


def _largest_of_cells(g: Context, x: Value, counts: Sequence[Dim]) -> tuple[Value, Value]:
    """Maximum of every cell, floor(p * size / n) to ceil((p + 1) * size / n), and its place in the channel."""
    sizes = x.shape[2:]
    rank = len(sizes)
    if not all(isinstance(d, int) for d in (*sizes, *counts)):
        raise g.unsupported(f"indices of an input of the symbolic sizes {[str(s) for s in sizes]}; expected numbers")
    if all(size % count == 0 for size, count in zip(sizes, counts) if count):
        cell = tuple(size // (count or 1) for size, count in zip(sizes, counts))
        result, indices = g.multi(f"nn.max_pool{rank}d_with_indices", x, pool_size=cell, strides=cell, **_plain(rank))
        return result, _within_channel(g, indices, sizes)
    places = [_cells(size, count) for size, count in zip(sizes, counts)]  # type: ignore[arg-type]
    return largest_at(g, x, [g.constant(p) for p in places])


def _plain(rank: int) -> dict[str, Any]:
    return {"padding": (0,) * rank, "dilation": (1,) * rank}


def _cells(size: int, count: int) -> np.ndarray:
    """Positions of the elements of each cell, [count, length]; short ones repeat their last element."""
    starts = [p * size // count for p in range(count)]
    lengths = [-(-(p + 1) * size // count) - s for p, s in enumerate(starts)]
    return np.array([[s + min(k, n - 1) for k in range(max(lengths))] for s, n in zip(starts, lengths)], np.int64)


def largest_at(g: Context, x: Value, places: Sequence[Value]) -> tuple[Value, Value]:
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
    result = g.call("squeeze", g.call("gather", rows, best, axis=rows.rank - 1), axis=(rows.rank - 1,))
    wide = g.call("broadcast_to", flat, shape=rows.shape)
    return result, g.call("squeeze", g.call("gather", wide, best, axis=rows.rank - 1), axis=(rows.rank - 1,))


def _fractional(rank: int) -> None:
    @converts(f"fractional_max_pool{rank}d.default")
    def fractional_max_pool(
        g: Context, self: Value, random_samples: Value, *, kernel_size: Ints, output_size: Ints
    ) -> list[Value]:
        """Each channel has windows of its own, which ``random_samples``, [N, C, axes], place, the last axis first in 2D.

        The first starts at 0, the last one ends with the data.
        """
        x, added = batched(g, self, rank)
        lead, spatial = x.shape[:2], x.shape[2:]
        if not all(isinstance(size, int) for size in spatial):
            raise g.unsupported(f"an input of the symbolic sizes {[str(s) for s in spatial]}; expected numbers")
        samples = Term(g, g.reshape(random_samples, (*lead, rank)))
        flat, taps, cells = Term(g, g.constant(0, "int64")), _numbers(kernel_size, rank), _numbers(output_size, rank)
        for axis, (size, count, window) in enumerate(zip(spatial, cells, taps)):
            column = rank - 1 - axis if rank == 2 else axis
            sample = Term(g, g.call("take", samples.value, g.constant([column], "int64"), axis=2))
            starts = _fractional_starts(g, sample, size, count, window)
            shape = [*lead, *[1] * (2 * rank)]
            shape[2 + axis] = count
            offsets = [1] * (2 * rank)
            offsets[rank + axis] = window
            steps = Term(g, g.constant(np.arange(window).reshape(offsets), "int64"))
            flat = flat * size + starts.reshape(*shape) + steps
        result, places = _largest(g, x, flat.reshape(*lead, dims.product((*cells, *taps))).value, math.prod(taps))
        return [unbatched(g, g.reshape(v, (*lead, *cells)), added) for v in (result, places)]


def _numbers(values: Ints, rank: int) -> tuple[int, ...]:
    return tuple(values) * (rank if len(values) == 1 else 1)


def _fractional_starts(g: Context, sample: Term, size: int, count: int, window: int) -> Term:
    """Where windows start, [N, C, count]: floor((k + sample) * step) - floor(sample * step), all but the last."""
    last = size - window
    if count == 1:
        return sample.cast("int64") * 0 + last
    step = (Term(g, g.scalar(last, sample.value)) / (count - 1)).value
    numbers = Term(g, g.constant(np.arange(count), "int64"))
    found = ((numbers.cast(sample.value.dtype) + sample) * Term(g, step)).cast("int64") - (sample * Term(g, step)).cast("int64")
    return numbers.equals(count - 1).where(last, found)


def _largest(g: Context, x: Value, places: Value, taps: int) -> tuple[Value, Value]:
    """The largest of each ``taps`` elements of a channel at ``places``, [N, C, windows * taps], and its place."""
    lead = x.shape[:2]
    rows = g.call("gather", g.reshape(x, (*lead, dims.product(x.shape[2:]))), places, axis=2)
    shape = (*lead, dims.floordiv(places.shape[2], taps), taps)
    rows, places = g.reshape(rows, shape), g.reshape(places, shape)
    best = g.call("argmax", rows, axis=3, keepdims=True)
    value, place = (g.call("squeeze", g.call("gather", v, best, axis=3), axis=(3,)) for v in (rows, places))
    return value, place


for _rank in (2, 3):
    _fractional(_rank)


@converts("max_unpool2d.default", "max_unpool3d.default")
def max_unpool(
    g: Context, self: Value, indices: Value, *, output_size: Sequence[Dim], stride: Ints = (), padding: Ints = ()
) -> Value:
    """Zeros with each element of ``self`` at its place in the channel."""
    rank = len(output_size)
    lead = self.shape[: self.rank - rank]
    rows = (dims.product(lead), dims.product(self.shape[self.rank - rank :]))
    rows_size = dims.product(output_size)
    zeros = g.call("full", g.scalar(0, self), shape=(rows[0], rows_size))
    places = checked_indices(g, g.reshape(indices, rows), rows_size, from_end=False)
    result = g.call("scatter_elements", zeros, places, g.reshape(self, rows), axis=1)
    return g.reshape(result, (*lead, *output_size))
