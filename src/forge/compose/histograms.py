"""Histograms."""

from __future__ import annotations

from collections.abc import Sequence

from forge import dims, dtypes
from forge.compose.axes import along, broadcast, neighbours
from forge.ir.nodes import Value
from forge.ops.core.composer import Composer
from forge.ops.core.term import Term


def histc(g: Composer, x: Value, bins: int, low: float, high: float, dtype: str) -> Value:
    """How many elements of a vector lie in each of ``bins`` equal intervals from ``low`` to ``high``, which belongs to the last.

    Where the two are equal, they stand for the least and the largest of the elements. The counts are of type ``dtype``.
    """
    wide = x if dtypes.is_float(x.dtype) else g.cast(x, "float32")
    first, last = (g.constant(v, wide.dtype) for v in (low, high))
    if low == high:
        if x.shape != (0,):
            first, last = g.call("min", wide), g.call("max", wide)
        same, one = g.call("equal", first, last), g.constant(1, wide.dtype)
        first, last = (g.call("where", same, g.call(op, v, one), v) for op, v in (("subtract", first), ("add", last)))
    from_first = g.call("multiply", g.call("subtract", wide, first), g.constant(bins, wide.dtype))
    place = g.call("floor", g.call("divide", from_first, g.call("subtract", last, first)))
    inside = g.call("logical_and", g.call("greater_equal", wide, first), g.call("less_equal", wide, last))
    place = g.cast(g.call("where", inside, place, g.constant(0, wide.dtype)), "int64")
    place = g.call("minimum", place, g.constant(bins - 1, "int64"))
    zeros = g.call("zeros", shape=(bins,), dtype=dtype)
    return g.call("scatter_elements", zeros, place, g.cast(inside, dtype), axis=0, reduction="add")


def bincount(g: Composer, x: Value, weights: Value | None, minlength: Value, dtype: str) -> Value:
    """How often each of 0, 1, .. occurs in an int64 vector, or the sum of its ``weights``; ``minlength`` or more results."""
    longest = g.call("concatenate", g.reshape(minlength, (1,)), g.call("add", x, g.constant(1, "int64")), axis=0)
    wide = dtypes.WIDER.get(dtype, dtype)
    zeros = g.call("zeros", g.call("max", longest, axis=(0,), keepdims=True), dtype=wide)
    updates = broadcast(g, g.constant(1, wide), x.shape) if weights is None else g.cast(weights, wide)
    return g.cast(g.call("scatter_elements", zeros, x, updates, axis=0, reduction="add"), dtype)


def widened_range(g: Composer, x: Value) -> tuple[Value, Value]:
    """The least and the largest element of a vector; 0.5 below and above where they are equal, as NumPy's histograms have it."""
    first, last = (Term(g, g.call(op, x)) for op in ("min", "max"))
    same = first.equals(last)
    return same.where(first - 0.5, first).value, same.where(last + 0.5, last).value


def histogramdd(
    g: Composer, columns: Sequence[Value], edges: Sequence[Value], weights: Value | None = None, *, density: bool = False
) -> Value:
    """How many points, or the sum of their ``weights``, lie in each cell between ``edges``; the last edges belong to a cell, too.

    ``columns`` are the coordinates of the points, vectors ``[N]``, ``edges`` vectors ``[size + 1]`` for each axis. Points outside
    of all cells do not count. ``density``: divided by the sum of all cells and by the volumes of the cells.
    """
    dtype = edges[0].dtype
    sizes = tuple(e.shape[0] - 1 for e in edges)
    place, inside = Term(g, g.constant(0, "int64")), Term(g, g.constant(True))
    for column, ends in zip(columns, edges):
        cells = Term(g, g.extent(ends, 0)) - 1
        found = Term(g, g.call("searchsorted", ends, column, right=True, dtype="int64")) - 1
        low, high = (Term(g, g.call("take", ends, g.constant(k, "int64"), axis=0)) for k in (0, -1))
        x = Term(g, column)
        inside = inside.both((x >= low).both(x <= high))
        place = place * cells + found.minimum(cells - 1)
    counts = g.constant(1, dtype) if weights is None else g.cast(weights, dtype)
    updates = inside.where(Term(g, counts), 0).value
    zeros = g.call("broadcast_to", g.constant(0, dtype), shape=(dims.product(sizes),))
    total = g.call("scatter_elements", zeros, inside.where(place, 0).value, updates, axis=0, reduction="add")
    hist = Term(g, g.reshape(total, sizes))
    if density:
        hist = hist / Term(g, g.call("sum", hist.value, axis=None, keepdims=False))
        for axis, ends in enumerate(edges):
            below, above = neighbours(g, ends, 0)
            hist = hist / Term(g, along(g, g.call("subtract", above, below), axis, len(edges)))
    return hist.value
