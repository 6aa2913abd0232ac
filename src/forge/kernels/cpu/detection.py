"""Detection: averages or maxima over regions of images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from forge.loops import Cell, axes, clamped, parallel_nest, places
from forge.loops.contract import KernelCall, Reader, kernel
from forge.tir import expr as E
from forge.tir.expr import Expr
from forge.tir.stmt import Function, If, Let, Stmt, loop, seq


def _bounded(index: Expr, extent: Expr) -> Expr:
    return clamped(E.cast(index, "int64"), extent)


@dataclass(frozen=True)
class Sampling:
    """Samples of one bin along one axis, in variables."""

    start: Expr
    step: Expr
    count: Expr


def _sampling(call: KernelCall, rois: Reader, roi: Expr, axis: int, bin_: Expr, real: str) -> tuple[list[Stmt], Sampling]:
    """Where the samples of bin ``bin_`` lie along ``axis`` (0: vertical)."""
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
    binds: list[Stmt] = [
        Let(begin, corners[0]),
        Let(size, length / float(bins)),
        Let(count, samples),
        Let(step, size / E.cast(E.binary("max", count, E.const(1)), real)),
        Let(start, begin + E.cast(bin_, real) * size + step * 0.5),
    ]
    return binds, Sampling(start, step, count)


def _taps(position: Expr, extent: Expr, name: str) -> tuple[list[Stmt], list[tuple[Expr, Expr]], Expr]:
    """Two (index, weight) around a position, and whether the position counts."""
    real = position.dtype
    low, place = E.var(f"{name}_low"), E.Var(real, 1, f"{name}_place")
    inside = E.logical_and(position >= -1.0, position <= E.cast(extent, real))
    binds: list[Stmt] = [
        Let(place, E.binary("min", E.binary("max", position, E.const(0.0, real)), E.cast(extent - 1, real))),
        Let(low, _bounded(E.call("floor", place), extent)),
    ]
    fraction = place - E.cast(low, real)
    return binds, [(low, fraction * -1.0 + 1.0), (_bounded(low + 1, extent), fraction)], inside


@kernel("roi_align")
def roi_align(call: KernelCall) -> Function:
    """Family of ``vision.roi_align``: operands data, rois, batch_indices; every element of the result visits its samples."""
    data, rois, batches = call.readers
    result = call.results[0]
    real = "float64" if data.dtype == "float64" else "float32"
    loops = axes(result.shape)
    roi, channel, *bins = places(loops)
    batch, total = E.var("batch"), Cell("total", real)
    numbers = (E.var("y"), E.var("x"))
    binds, samplings = [], []
    for axis in range(2):
        bind, sampling = _sampling(call, rois, roi, axis, bins[axis], real)
        binds += bind
        samplings.append(sampling)
    positions = [s.start + E.cast(n, real) * s.step for s, n in zip(samplings, numbers)]
    visit = _visit(call, data, total, positions, (batch, channel))
    if call.attrs.mode == "max":
        first = E.logical_and(numbers[0].eq(0), numbers[1].eq(0))
        visit = seq(If(first, total.set(float("-inf"))), visit)
    value = total.value
    if call.attrs.mode == "avg":
        samples = E.binary("max", samplings[0].count * samplings[1].count, E.const(1))
        value = value / E.cast(samples, real)
    body = seq(
        total.allocate(),
        Let(batch, _bounded(batches.read((roi,)), data.shape[0])),
        binds,
        total.set(0.0),
        loop(numbers[0], samplings[0].count, loop(numbers[1], samplings[1].count, visit)),
        result.write((roi, channel, *bins), E.cast(value, result.dtype)),
    )
    return call.function(parallel_nest(loops, body, E.const(64)))


def _visit(call: KernelCall, data: Reader, total: Cell, position: Sequence[Expr], outer: Sequence[Expr]) -> Stmt:
    """Adds one sample to ``total``, or its largest weighted neighbour to the maximum; outside of the data it counts as 0."""
    real = total.buffer.dtype
    binds_y, rows, inside_y = _taps(position[0], data.shape[2], "row")
    binds_x, columns, inside_x = _taps(position[1], data.shape[3], "column")
    parts = [E.cast(data.read((*outer, i, j)), real) * (v * w) for i, v in rows for j, w in columns]
    maximum = call.attrs.mode == "max"
    sample = parts[0]
    for part in parts[1:]:
        sample = E.binary("max", sample, part) if maximum else sample + part
    counted = E.Var("bool", 1, "inside")
    added = E.Var(real, 1, "added")
    new = E.binary("max", total.value, added) if maximum else total.value + added
    return seq(
        Let(counted, E.logical_and(inside_y, inside_x)),
        binds_y,
        binds_x,
        Let(added, E.select(counted, sample, E.const(0.0, real))),
        total.set(new),
    )


REAL = "float32"


def rounded(x: Expr) -> Expr:
    """The nearest integer, halves away from 0; within 32 bits."""
    away = E.call("floor", E.call("abs", x) + 0.5)
    return E.cast(E.cast(E.select(x < 0.0, away * -1.0, away), "int32"), "int64")


def _bin(begin: Expr, end: Expr, number: Expr, bins: int, extent: Expr, name: str) -> tuple[list[Stmt], Expr, Expr]:
    """Binds first and last + 1 element of bin ``number`` of the region from ``begin`` to ``end``, cut at the image."""
    size = E.cast(E.binary("max", end - begin + 1, E.const(1)), REAL) / float(bins)
    lower = E.cast(E.call("floor", E.cast(number, REAL) * size), "int64") + begin
    upper = E.cast(E.call("ceil", E.cast(number + 1, REAL) * size), "int64") + begin
    first, last = E.var(f"{name}_first"), E.var(f"{name}_last")

    def cut(x: Expr) -> Expr:
        return E.binary("min", E.binary("max", x, E.const(0)), extent)

    return [Let(first, cut(lower)), Let(last, cut(upper))], first, last


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
    rows, top, bottom = _bin(edge(2), edge(4), row, attrs.pooled_size[0], data.shape[2], "row")
    columns, left, right = _bin(edge(1), edge(3), column, attrs.pooled_size[1], data.shape[3], "column")
    step = best.set(E.binary("max", best.value, data.read((image, channel, y, x))))
    empty = E.binary("or", bottom <= top, right <= left)
    blank = E.select(empty, E.const(0, data.dtype), E.const(float("-inf"), data.dtype))
    scan = loop(y, bottom - top, loop(x, right - left, step, begin=left), begin=top)
    body = seq(
        best.allocate(), rows, columns, best.set(blank), If(E.logical_not(empty), scan),
        result.write((region, channel, row, column), best.value),
    )
    return call.function(parallel_nest(loops, body, E.const(64)))
