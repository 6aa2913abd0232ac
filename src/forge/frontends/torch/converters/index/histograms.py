"""Histograms."""

from __future__ import annotations

from collections.abc import Sequence

from forge import dims, dtypes
from forge.frontends.torch.context import Context
from forge.frontends.torch.converters.index.along import flat
from forge.frontends.torch.converters.shape.full import spaced
from forge.frontends.torch.registry import converts
from forge.ir.nodes import Value
from forge.ops.core.term import Term

Range = Sequence[float] | None


@converts("histc.default")
def histc(g: Context, self: Value, *, bins: int = 100, min: float = 0, max: float = 0) -> Value:  # noqa: A002
    """Numbers in ``bins`` equal intervals from ``min`` to ``max``, which belongs to the last.

    Where the two are equal, they stand for the least and the largest of the data.
    """
    data = flat(g, self)
    wide = data if dtypes.is_float(data.dtype) else g.cast(data, "float32")
    low, high = (g.constant(v, wide.dtype) for v in (min, max))
    if min == max:
        if 0 not in self.shape:
            low, high = g.call("min", wide), g.call("max", wide)
        same, one = g.call("equal", low, high), g.constant(1, wide.dtype)
        low, high = (g.call("where", same, g.call(op, v, one), v) for op, v in (("subtract", low), ("add", high)))
    from_low = g.call("multiply", g.call("subtract", wide, low), g.constant(bins, wide.dtype))
    place = g.call("floor", g.call("divide", from_low, g.call("subtract", high, low)))
    inside = g.call("logical_and", g.call("greater_equal", wide, low), g.call("less_equal", wide, high))
    place = g.cast(g.call("where", inside, place, g.constant(0, wide.dtype)), "int64")
    place = g.call("minimum", place, g.constant(bins - 1, "int64"))
    zeros = g.call("zeros", shape=(bins,), dtype=g.dtype)
    return g.call("scatter_elements", zeros, place, g.cast(inside, g.dtype), axis=0, reduction="add")


def _edges(g: Context, column: Value, bins: int, low: float | None, high: float | None) -> Value:
    """The ends of ``bins`` equal intervals of a vector; without ends from its least to its largest element, or 0 to 1."""
    if low is not None and high is not None:
        return g.cast(spaced(g, low, high, bins + 1), column.dtype)
    if column.shape == (0,):
        return g.cast(spaced(g, 0, 1, bins + 1), column.dtype)
    first, last = (Term(g, g.call(op, column)) for op in ("min", "max"))
    same = first.equals(last)
    first, last = same.where(first - 0.5, first), same.where(last + 0.5, last)
    return g.cast(spaced(g, first.value, last.value, bins + 1), column.dtype)


def _counted(g: Context, columns: Sequence[Value], edges: Sequence[Value], weight: Value | None, density: bool) -> Value:
    """How many rows, or the sum of their weights, lie in each cell between ``edges``; the last ones belong to the last cell.

    Rows outside of all cells do not count. ``density``: divided by their sum and by the volumes of the cells.
    """
    dtype = edges[0].dtype
    sizes = tuple(e.shape[0] - 1 for e in edges)
    place, inside = Term(g, g.constant(0, "int64")), Term(g, g.constant(True))
    for column, ends, size in zip(columns, edges, sizes):
        last = Term(g, g.tensor(size, "int64"))
        found = Term(g, g.call("searchsorted", ends, column, right=True, dtype="int64")) - 1
        low, high = (Term(g, g.call("take", ends, g.constant(k, "int64"), axis=0)) for k in (0, -1))
        x = Term(g, column)
        inside = inside.both((x >= low).both(x <= high))
        place = place * last + found.minimum(last - 1)
    counts = g.constant(1, dtype) if weight is None else g.cast(flat(g, weight), dtype)
    updates = inside.where(Term(g, counts), 0).value
    count = dims.product(sizes)
    zeros = g.call("broadcast_to", g.constant(0, dtype), shape=(count,))
    total = g.call("scatter_elements", zeros, inside.where(place, 0).value, updates, axis=0, reduction="add")
    hist = Term(g, g.reshape(total, sizes))
    if density:
        hist = hist / Term(g, g.call("sum", hist.value, axis=None, keepdims=False))
        for axis, ends in enumerate(edges):
            shape = [1] * len(edges)
            shape[axis] = -1
            hist = hist / Term(g, g.call("reshape", _widths(g, ends), newshape=tuple(shape)))
    return hist.value


def _widths(g: Context, edges: Value) -> Value:
    size = edges.shape[0] - 1
    a, b = (g.call("strided_slice", edges, begin=(k,), end=(size + k,), strides=(1,), axes=(0,)) for k in (0, 1))
    return g.call("subtract", b, a)


@converts("histogram.bin_ct")
def histogram(
    g: Context, self: Value, weight: Value | None = None,
    *, bins: int = 100, range: Range = None, density: bool = False,  # noqa: A002
) -> list[Value]:
    """The counts, and the ends of the intervals."""
    low, high = (None, None) if range is None else range
    edges = _edges(g, flat(g, self), bins, low, high)
    return [_counted(g, [flat(g, self)], [edges], weight, density), edges]


@converts("histogram.bins_tensor")
def histogram_between(
    g: Context, self: Value, bins: Value, weight: Value | None = None, *, density: bool = False
) -> list[Value]:
    return [_counted(g, [flat(g, self)], [bins], weight, density), bins]


def _columns(g: Context, points: Value) -> list[Value]:
    """The coordinates of points, which the last axis has."""
    count = points.shape[-1]
    if not isinstance(count, int):
        raise g.unsupported(f"the number of coordinates is symbolic, {count}; expected a number")
    return [flat(g, g.call("take", points, g.constant(k, "int64"), axis=points.rank - 1)) for k in range(count)]


def _edges_of_points(g: Context, points: Value, bins: Sequence[int], ends: Range) -> list[Value]:
    pairs = [(None, None)] * len(bins) if ends is None else list(zip(ends[::2], ends[1::2]))
    return [_edges(g, column, count, *pair) for column, count, pair in zip(_columns(g, points), bins, pairs)]


@converts("_histogramdd_bin_edges.default")
def edges_of_points(
    g: Context, self: Value, weight: Value | None = None,
    *, bins: Sequence[int], range: Range = None, density: bool = False,  # noqa: A002
) -> list[Value]:
    return _edges_of_points(g, self, bins, range)


@converts("_histogramdd_from_bin_cts.default")
def histogram_of_points(
    g: Context, self: Value, weight: Value | None = None,
    *, bins: Sequence[int], range: Range = None, density: bool = False,  # noqa: A002
) -> Value:
    return _counted(g, _columns(g, self), _edges_of_points(g, self, bins, range), weight, density)


@converts("_histogramdd_from_bin_tensors.default")
def histogram_of_points_between(
    g: Context, self: Value, bins: Sequence[Value], weight: Value | None = None, *, density: bool = False
) -> Value:
    return _counted(g, _columns(g, self), bins, weight, density)
