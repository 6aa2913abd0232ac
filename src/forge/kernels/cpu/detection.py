"""Detection: greedy suppression of overlapping boxes, and averages or maxima over regions of images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from forge.loops import Cell, axes, bound, clamped, parallel_nest, places
from forge.loops.contract import KernelCall, Reader, kernel
from forge.tir import expr as E
from forge.tir.expr import Expr
from forge.tir.stmt import Function, If, Let, Stmt, loop, seq, store


def _bounded(index: Expr, extent: Expr) -> Expr:
    return clamped(E.cast(index, "int64"), extent)


@dataclass(frozen=True)
class Corners:
    """Corners, lower before upper, and area."""

    low: tuple[Expr, Expr]
    high: tuple[Expr, Expr]
    area: Expr


def _box(boxes: Reader, batch: Expr, number: Expr, centred: bool) -> tuple[list[Stmt], Corners]:
    """Box ``number`` in variables."""
    binds: list[Stmt] = []
    parts = [bound(boxes.read((batch, number, E.const(k))), binds, "part") for k in range(4)]
    low, high = [], []
    for k in range(2):
        a, b = (parts[k] - parts[k + 2] * 0.5, parts[k] + parts[k + 2] * 0.5) if centred else (parts[k], parts[k + 2])
        low.append(bound(E.binary("min", a, b), binds, "low"))
        high.append(bound(E.binary("max", a, b), binds, "high"))
    area = bound((high[0] - low[0]) * (high[1] - low[1]), binds, "area")
    return binds, Corners((low[0], low[1]), (high[0], high[1]), area)


def _overlaps(a: Corners, b: Corners, threshold: Expr) -> Expr:
    """Whether intersection over union exceeds the threshold; boxes without area overlap nothing."""
    zero = E.const(0.0, a.area.dtype)
    sides = [
        E.binary("max", E.binary("min", a.high[k], b.high[k]) - E.binary("max", a.low[k], b.low[k]), zero) for k in range(2)
    ]
    common = sides[0] * sides[1]
    union = a.area + b.area - common
    safe = E.select(union > 0.0, union, E.const(1.0, a.area.dtype))
    return E.logical_and(union > 0.0, common / safe > threshold)


@kernel("box_suppression")
def box_suppression(call: KernelCall) -> Function:
    """Family of ``vision.box_suppression``: operands boxes, scores, order, limit, iou_threshold, score_threshold (optional);
    attribute center_point_box. One row for each batch and class; every box is compared with those kept before it.
    """
    boxes, scores, order, limit, threshold, *rest = call.readers
    out, extent = call.buffers[-1], scores.shape[2]
    loops = axes(scores.shape[:2])
    row = places(loops)
    place, earlier = E.var("place"), E.var("earlier")
    kept, clear = Cell("kept"), Cell("clear")
    number, other = E.var("number"), E.var("other")
    bind, box = _box(boxes, row[0], number, call.attrs.center_point_box)
    bind_other, rival = _box(boxes, row[0], other, call.attrs.center_point_box)
    first = (E.const(0),)
    eligible = kept.value < E.cast(limit.read(first), "int64")
    if rest:
        eligible = E.logical_and(eligible, scores.read((*row, number)) > rest[0].read(first))
    compare = seq(
        Let(other, _bounded(order.read((*row, earlier)), extent)),
        bind_other,
        If(_overlaps(box, rival, threshold.read(first)), clear.set(0)),
    )
    compared = E.logical_and(out.load(*row, earlier).ne(0), clear.value.ne(0))
    accept = seq(store(out, out.offset(*row, place), E.const(1)), kept.set(kept.value + 1))
    examine = seq(bind, clear.set(1), loop(earlier, place, If(compared, compare)), If(clear.value.ne(0), accept))
    visit = seq(
        store(out, out.offset(*row, place), E.const(0)),
        Let(number, _bounded(order.read((*row, place)), extent)),
        If(eligible, examine),
    )
    body = seq(kept.allocate(), clear.allocate(), kept.set(0), loop(place, extent, visit))
    return call.function(parallel_nest(loops, body, extent * extent))


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
