"""Maxima of the bins of regions of images."""

from __future__ import annotations

from forge.loops import Loop, parallel_nest
from forge.loops.contract import KernelCall, kernel
from forge.tir import expr as E
from forge.tir.expr import Buffer, Expr
from forge.tir.stmt import Allocate, Function, If, Let, Stmt, loop, seq, store

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
    region, channel, row, column, y, x = (E.var(n) for n in ("region", "channel", "row", "column", "y", "x"))
    loops = [Loop(v, e) for v, e in zip((region, channel, row, column), result.shape, strict=True)]
    zero = E.const(0)

    def edge(number: int) -> Expr:
        return rounded(E.cast(rois.read((region, E.const(number))), REAL) * attrs.spatial_scale)

    image = E.cast(rois.read((region, zero)), "int64")
    image = E.binary("max", E.binary("min", image, data.shape[0] - 1), zero)
    rows, top, bottom = _bin(edge(2), edge(4), row, attrs.pooled_size[0], data.shape[2], "row")
    columns, left, right = _bin(edge(1), edge(3), column, attrs.pooled_size[1], data.shape[3], "column")
    best = Buffer("best", data.dtype, (E.const(1),), scope="local")
    value = data.read((image, channel, y, x))
    step = store(best, zero, E.binary("max", E.load(best, zero), value))
    empty = E.binary("or", bottom <= top, right <= left)
    blank = E.select(empty, E.const(0, data.dtype), E.const(float("-inf"), data.dtype))
    scan = loop(y, bottom - top, loop(x, right - left, step, begin=left), begin=top)
    body = seq(
        Allocate(best), *rows, *columns, store(best, zero, blank), If(E.logical_not(empty), scan),
        result.write((region, channel, row, column), E.load(best, zero)),
    )
    return call.function(parallel_nest(loops, body, E.const(64)))
