"""Detection: averages or maxima over regions of images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from forge.loops import Cell, axes, bound, clamped, guard, parallel_nest, places
from forge.loops.contract import KernelCall, Reader, kernel
from forge.tir import expr as E
from forge.tir.expr import Expr
from forge.tir.stmt import Function, If, Let, Stmt, loop, seq

# Up to this many samples of a bin along each axis are written out.
FEW_SAMPLES: Final = 2


def _bounded(index: Expr, extent: Expr) -> Expr:
    return clamped(E.cast(index, "int64"), extent)


@dataclass(frozen=True)
class Sampling:
    """Samples of one bin along one axis, in variables."""

    start: Expr
    step: Expr
    count: Expr


def _sampling(
    call: KernelCall, rois: Reader, roi: Expr, axis: int, bin_: Expr, real: str, binds: list[Stmt]
) -> Sampling:
    """Where the samples of bin ``bin_`` lie along ``axis`` (0: vertical); ``binds`` gets what binds them."""
    attrs, name = call.attrs, "yx"[axis]
    shift = 0.5 if attrs.aligned else 0.0
    corners = [E.cast(rois.read((roi, E.const(1 - axis + k))), real) * attrs.spatial_scale - shift for k in (0, 2)]
    bins = attrs.pooled_size[axis]
    begin, size, step, start = (E.Var(real, 1, f"{name}_{what}") for what in ("begin", "size", "step", "start"))
    count = E.var(f"{name}_count")
    length = corners[1] - corners[0]
    if not attrs.aligned:
        length = E.binary("max", length, E.const(1.0, real))
    samples: Expr = E.const(attrs.sample_ratio)
    if attrs.sample_ratio <= 0:
        samples = E.binary("max", E.cast(E.call("ceil", size), "int64"), E.const(0))
    binds += [
        Let(begin, corners[0]),
        Let(size, length / float(bins)),
        Let(count, samples),
        Let(step, size / E.cast(E.binary("max", count, E.const(1)), real)),
        Let(start, begin + E.cast(bin_, real) * size + step * 0.5),
    ]
    return Sampling(start, step, count)


def _taps(position: Expr, extent: Expr, name: str, binds: list[Stmt]) -> tuple[list[tuple[Expr, Expr]], Expr]:
    """Two (index, weight) around a position, and whether the position counts; ``binds`` gets what binds them."""
    real = position.dtype
    inside = E.logical_and(position >= -1.0, position <= E.cast(extent, real))
    place = E.binary("min", E.binary("max", position, E.const(0.0, real)), E.cast(extent - 1, real))
    place = bound(place, binds, f"{name}_place")
    low = bound(_bounded(E.call("floor", place), extent), binds, f"{name}_low")
    fraction = place - E.cast(low, real)
    return [(low, fraction * -1.0 + 1.0), (_bounded(low + 1, extent), fraction)], inside


@kernel("roi_align")
def roi_align(call: KernelCall) -> Function:
    """Family of ``vision.roi_align``: operands data, rois, batch_indices. Where the samples of a bin are few and their number is
    known, their places and weights are computed once for all channels; else every element of the result visits its samples.
    """
    data, rois, batches = call.readers
    result, attrs = call.results[0], call.attrs
    real = "float64" if data.dtype == "float64" else "float32"
    loops = axes(result.shape)
    roi, channel, *bins = places(loops)
    batch, total = E.var("batch"), Cell("total", real)
    binds: list[Stmt] = [Let(batch, _bounded(batches.read((roi,)), data.shape[0]))]
    samplings = [_sampling(call, rois, roi, axis, bins[axis], real, binds) for axis in range(2)]
    samples = E.cast(E.binary("max", samplings[0].count * samplings[1].count, E.const(1)), real)
    mean = total.value / samples if attrs.mode == "avg" else total.value
    write = result.write((roi, channel, *bins), E.cast(mean, result.dtype))
    begin = total.start(0.0)

    def sample(numbers: Sequence[Expr]) -> _Sample:
        return _Sample(call, data, [s.start + E.cast(n, real) * s.step for s, n in zip(samplings, numbers, strict=True)])

    def add(one: _Sample, is_first: Expr) -> Stmt:
        if attrs.mode == "avg":
            return total.set(total.value + one.value(batch, channel))
        return seq(guard(is_first, total.set(float("-inf"))), total.set(E.binary("max", total.value, one.value(batch, channel))))

    if 0 < attrs.sample_ratio <= FEW_SAMPLES:
        ratio = range(attrs.sample_ratio)
        few = [sample((E.const(y), E.const(x))) for y in ratio for x in ratio]
        each = seq(begin, (add(one, E.const(value=k == 0)) for k, one in enumerate(few)), write)
        body = seq(binds, (bind for one in few for bind in one.binds), loop(loops[1].var, loops[1].extent, each))
        return call.function(parallel_nest([loops[0], *loops[2:]], body, loops[1].extent * 16))
    numbers = (E.var("y"), E.var("x"))
    one = sample(numbers)
    visit = seq(one.binds, add(one, E.logical_and(numbers[0].eq(0), numbers[1].eq(0))))
    visits = loop(numbers[0], samplings[0].count, loop(numbers[1], samplings[1].count, visit))
    return call.function(parallel_nest(loops, seq(binds, begin, visits, write), E.const(64)))


class _Sample:
    """A sample at a position of the images: what it needs but for the channel is bound by ``binds``."""

    def __init__(self, call: KernelCall, data: Reader, position: Sequence[Expr]) -> None:
        self.data, self.maximum, self.real = data, call.attrs.mode == "max", position[0].dtype
        self.binds: list[Stmt] = []
        rows, inside_y = _taps(position[0], data.shape[2], "row", self.binds)
        columns, inside_x = _taps(position[1], data.shape[3], "column", self.binds)
        self.counted = bound(E.logical_and(inside_y, inside_x), self.binds, "inside")
        self.taps = [(i, j, bound(v * w, self.binds, "weight")) for i, v in rows for j, w in columns]

    def value(self, batch: Expr, channel: Expr) -> Expr:
        """The sum of its weighted neighbours, or the largest; outside of the data it counts as 0."""
        parts = [E.cast(self.data.read((batch, channel, i, j)), self.real) * weight for i, j, weight in self.taps]
        found = parts[0]
        for part in parts[1:]:
            found = E.binary("max", found, part) if self.maximum else found + part
        return E.select(self.counted, found, E.const(0.0, self.real))


REAL = "float32"


def rounded(x: Expr) -> Expr:
    """Returns the nearest integer, halves away from 0; within 32 bits."""
    away = E.call("floor", E.call("abs", x) + 0.5)
    return E.cast(E.cast(E.select(x < 0.0, away * -1.0, away), "int32"), "int64")


def _bin(
    begin: Expr, end: Expr, number: Expr, bins: int, extent: Expr, name: str, binds: list[Stmt]
) -> tuple[Expr, Expr]:
    """Binds first and last + 1 element of bin ``number`` of the region from ``begin`` to ``end``, cut at the image."""
    size = E.cast(E.binary("max", end - begin + 1, E.const(1)), REAL) / float(bins)
    lower = E.cast(E.call("floor", E.cast(number, REAL) * size), "int64") + begin
    upper = E.cast(E.call("ceil", E.cast(number + 1, REAL) * size), "int64") + begin
    first, last = (E.binary("min", E.binary("max", x, E.const(0)), extent) for x in (lower, upper))
    return bound(first, binds, f"{name}_first"), bound(last, binds, f"{name}_last")


@kernel("roi_pool")
def roi_pool(call: KernelCall) -> Function:
    """Family of ``vision.roi_pool``: operands data, rois; attributes pooled_size, spatial_scale."""
    data, rois = call.readers
    (result,), attrs = call.results, call.attrs
    loops = axes(result.shape)
    region, channel, row, column = places(loops)
    y, x, best = E.var("y"), E.var("x"), Cell("best", data.dtype)

    def edge(number: int) -> Expr:
        return rounded(E.cast(rois.read((region, E.const(number))), REAL) * attrs.spatial_scale)

    image = _bounded(rois.read((region, E.const(0))), data.shape[0])
    binds: list[Stmt] = []
    top, bottom = _bin(edge(2), edge(4), row, attrs.pooled_size[0], data.shape[2], "row", binds)
    left, right = _bin(edge(1), edge(3), column, attrs.pooled_size[1], data.shape[3], "column", binds)
    step = best.set(E.binary("max", best.value, data.read((image, channel, y, x))))
    empty = E.binary("or", bottom <= top, right <= left)
    blank = E.select(empty, E.const(0, data.dtype), E.const(float("-inf"), data.dtype))
    scan = loop(y, bottom - top, loop(x, right - left, step, begin=left), begin=top)
    body = seq(
        best.allocate(), binds, best.set(blank), If(E.logical_not(empty), scan),
        result.write((region, channel, row, column), best.value),
    )
    return call.function(parallel_nest(loops, body, E.const(64)))
