"""Histograms."""

from __future__ import annotations

from collections.abc import Sequence

from forge.compose import histograms
from forge.compose.axes import ravel
from forge.frontends.torch.context import Context
from forge.frontends.torch.converters.shape.full import spaced
from forge.frontends.torch.registry import converts
from forge.ir.nodes import Value

Range = Sequence[float] | None


@converts("histc.default")
def histc(g: Context, self: Value, *, bins: int = 100, min: float = 0, max: float = 0) -> Value:  # noqa: A002
    return histograms.histc(g, ravel(g, self), bins, min, max, g.dtype)


def _edges(g: Context, column: Value, bins: int, low: float | None, high: float | None) -> Value:
    """The ends of ``bins`` equal intervals of a vector; without ends from its least to its largest element, or 0 to 1."""
    if low is not None and high is not None:
        found = spaced(g, low, high, bins + 1)
    elif column.shape == (0,):
        found = spaced(g, 0, 1, bins + 1)
    else:
        found = spaced(g, *histograms.widened_range(g, column), bins + 1)
    return g.cast(found, column.dtype)


def _counted(g: Context, columns: Sequence[Value], edges: Sequence[Value], weight: Value | None, density: bool) -> Value:
    return histograms.histogramdd(g, columns, edges, None if weight is None else ravel(g, weight), density=density)


@converts("histogram.bin_ct")
def histogram(
    g: Context, self: Value, weight: Value | None = None,
    *, bins: int = 100, range: Range = None, density: bool = False,  # noqa: A002
) -> list[Value]:
    """The counts, and the ends of the intervals."""
    low, high = (None, None) if range is None else range
    return histogram_between(g, self, _edges(g, ravel(g, self), bins, low, high), weight, density=density)


@converts("histogram.bins_tensor")
def histogram_between(
    g: Context, self: Value, bins: Value, weight: Value | None = None, *, density: bool = False
) -> list[Value]:
    return [_counted(g, [ravel(g, self)], [bins], weight, density), bins]


def _columns(g: Context, points: Value) -> list[Value]:
    """The coordinates of points, which the last axis has."""
    count = points.shape[-1]
    if not isinstance(count, int):
        raise g.unsupported(f"the number of coordinates is symbolic, {count}; expected a number")
    return [ravel(g, g.call("take", points, g.constant(k, "int64"), axis=points.rank - 1)) for k in range(count)]


@converts("_histogramdd_bin_edges.default")
def edges_of_points(
    g: Context, self: Value, weight: Value | None = None,
    *, bins: Sequence[int], range: Range = None, density: bool = False,  # noqa: A002
) -> list[Value]:
    pairs = [(None, None)] * len(bins) if range is None else list(zip(range[::2], range[1::2]))
    return [_edges(g, column, count, *pair) for column, count, pair in zip(_columns(g, self), bins, pairs)]


@converts("_histogramdd_from_bin_cts.default")
def histogram_of_points(
    g: Context, self: Value, weight: Value | None = None,
    *, bins: Sequence[int], range: Range = None, density: bool = False,  # noqa: A002
) -> Value:
    return _counted(g, _columns(g, self), edges_of_points(g, self, bins=bins, range=range), weight, density)


@converts("_histogramdd_from_bin_tensors.default")
def histogram_of_points_between(
    g: Context, self: Value, bins: Sequence[Value], weight: Value | None = None, *, density: bool = False
) -> Value:
    return _counted(g, _columns(g, self), bins, weight, density)
