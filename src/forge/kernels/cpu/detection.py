"""Detection: greedy suppression of overlapping boxes, and averages or maxima over regions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from forge.loops import Loop, parallel_nest
from forge.loops.contract import KernelCall, Reader, kernel
from forge.tir import expr as E
from forge.tir.expr import Buffer, Expr
from forge.tir.stmt import Allocate, Function, If, Let, Stmt, loop, seq, store


def _local(name: str, dtype: str = "int64") -> Buffer:
    return Buffer(name, dtype, (E.const(1),), scope="local")


def _bounded(index: Expr, extent: Expr) -> Expr:
    return E.binary("max", E.binary("min", E.cast(index, "int64"), extent - 1), E.const(0))


@dataclass(frozen=True)
class Box:
    """Corners, lower before upper, and area."""

    low: tuple[Expr, Expr]
    high: tuple[Expr, Expr]
    area: Expr


def _box(boxes: Reader, batch: Expr, number: Expr, centred: bool, name: str) -> tuple[list[Stmt], Box]:
    """Box ``number`` in variables."""
    binds: list[Stmt] = []

    def bound(what: str, value: Expr) -> Expr:
        variable = E.Var(value.dtype, 1, f"{name}_{what}")
        binds.append(Let(variable, value))
        return variable

    parts = [bound(f"part{k}", boxes.read((batch, number, E.const(k)))) for k in range(4)]
    low, high = [], []
    for k in range(2):
        a, b = (parts[k] - parts[k + 2] * 0.5, parts[k] + parts[k + 2] * 0.5) if centred else (parts[k], parts[k + 2])
        low.append(bound(f"low{k}", E.binary("min", a, b)))
        high.append(bound(f"high{k}", E.binary("max", a, b)))
    area = bound("area", (high[0] - low[0]) * (high[1] - low[1]))
    return binds, Box((low[0], low[1]), (high[0], high[1]), area)


def _overlaps(a: Box, b: Box, threshold: Expr) -> Expr:
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
    loops = [Loop(E.var("batch"), scores.shape[0]), Loop(E.var("class"), scores.shape[1])]
    row = tuple(x.var for x in loops)
    place, earlier, zero = E.var("place"), E.var("earlier"), E.const(0)
    kept, clear = _local("kept"), _local("clear")
    number, other = E.var("number"), E.var("other")
    bind, box = _box(boxes, row[0], number, call.attrs.center_point_box, "box")
    bind_other, rival = _box(boxes, row[0], other, call.attrs.center_point_box, "rival")
    eligible = E.load(kept, zero) < E.cast(limit.read((zero,)), "int64")
    if rest:
        eligible = E.logical_and(eligible, scores.read((*row, number)) > rest[0].read((zero,)))
    limit_of_overlap = threshold.read((zero,))
    compare = seq(
        Let(other, _bounded(order.read((*row, earlier)), extent)),
        *bind_other,
        If(_overlaps(box, rival, limit_of_overlap), store(clear, zero, zero)),
    )
    compared = E.logical_and(E.load(out, out.offset(*row, earlier)).ne(0), E.load(clear, zero).ne(0))
    accept = seq(store(out, out.offset(*row, place), E.const(1)), store(kept, zero, E.load(kept, zero) + 1))
    visit = seq(
        store(out, out.offset(*row, place), zero),
        Let(number, _bounded(order.read((*row, place)), extent)),
        If(eligible, seq(
            *bind,
            store(clear, zero, E.const(1)),
            loop(earlier, place, If(compared, compare)),
            If(E.load(clear, zero).ne(0), accept),
        )),
    )
    body = seq(Allocate(kept), Allocate(clear), store(kept, zero, zero), loop(place, extent, visit))
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
    loops = [Loop(E.var(n), extent) for n, extent in zip(("roi", "channel", "row", "column"), result.shape)]
    roi, channel, *bins = (x.var for x in loops)
    zero, batch = E.const(0), E.var("batch")
    total = _local("total", real)
    numbers = (E.var("y"), E.var("x"))
    binds, samplings = [], []
    for axis in range(2):
        bind, sampling = _sampling(call, rois, roi, axis, bins[axis], real)
        binds += bind
        samplings.append(sampling)
    visit = _visit(call, data, total, [s.start + E.cast(n, real) * s.step for s, n in zip(samplings, numbers)],
                   (batch, channel))
    if call.attrs.mode == "max":
        first = E.logical_and(numbers[0].eq(0), numbers[1].eq(0))
        visit = seq(If(first, store(total, zero, E.const(float("-inf"), real))), visit)
    value = E.load(total, zero)
    if call.attrs.mode == "avg":
        samples = E.binary("max", samplings[0].count * samplings[1].count, E.const(1))
        value = value / E.cast(samples, real)
    body = seq(
        Allocate(total),
        Let(batch, _bounded(batches.read((roi,)), data.shape[0])),
        *binds,
        store(total, zero, E.const(0.0, real)),
        loop(numbers[0], samplings[0].count, loop(numbers[1], samplings[1].count, visit)),
        result.write((roi, channel, *bins), E.cast(value, result.dtype)),
    )
    return call.function(parallel_nest(loops, body, E.const(64)))


def _visit(call: KernelCall, data: Reader, total: Buffer, position: Sequence[Expr], outer: Sequence[Expr]) -> Stmt:
    """Adds one sample to ``total``, or its largest weighted neighbour to the maximum; outside of the data it counts as 0."""
    zero, real = E.const(0), total.dtype
    binds_y, rows, inside_y = _taps(position[0], data.shape[2], "row")
    binds_x, columns, inside_x = _taps(position[1], data.shape[3], "column")
    parts = [E.cast(data.read((*outer, i, j)), real) * (v * w) for i, v in rows for j, w in columns]
    maximum = call.attrs.mode == "max"
    sample = parts[0]
    for part in parts[1:]:
        sample = E.binary("max", sample, part) if maximum else sample + part
    counted = E.Var("bool", 1, "inside")
    added = E.Var(real, 1, "added")
    new = E.binary("max", E.load(total, zero), added) if maximum else E.load(total, zero) + added
    return seq(
        Let(counted, E.logical_and(inside_y, inside_x)),
        *binds_y,
        *binds_x,
        Let(added, E.select(counted, sample, E.const(0.0, real))),
        store(total, zero, new),
    )
