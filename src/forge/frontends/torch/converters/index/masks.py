"""Reads and writes by masks, and the places of elements that are not 0."""

from __future__ import annotations

from forge.compose import indexing
from forge.compose.axes import at_least, broadcast, broadcast_arrays, part, ravel
from forge.compose.checks import check_that
from forge.dims import Dim
from forge.frontends.torch.context import Context, Operand
from forge.frontends.torch.registry import converts
from forge.ir.nodes import Value


@converts("masked_fill.Scalar", "masked_fill.Tensor")
def masked_fill(g: Context, self: Value, mask: Value, value: Operand) -> Value:
    return g.call("where", g.cast(mask, "bool"), g.tensor(value, self.dtype), self)


@converts("masked_select.default")
def masked_select(g: Context, self: Value, mask: Value) -> Value:
    data, chosen = (ravel(g, v) for v in broadcast_arrays(g, self, mask))
    return g.call("take", data, indexing.nonzero(g, chosen)[0], axis=0)


@converts("masked_scatter.default")
def masked_scatter(g: Context, self: Value, mask: Value, source: Value) -> Value:
    marks = g.cast(mask, "bool")
    count = g.call("sum", g.cast(g.call("broadcast_to", marks, shape=g.shape), "int64"), axis=None)
    enough = g.call("indices_in_range", count, sizes=(source.size + 1,), from_end=False)
    check_that(g, enough, "the source has fewer elements than the mask marks")
    return g.call("masked_scatter", broadcast(g, self, g.shape), marks, g.cast(source, self.dtype))


@converts("nonzero.default", "argwhere.default")
def nonzero(g: Context, self: Value) -> Value:
    """One row for each element; that of a tensor without axes is empty."""
    found = g.call("argwhere", at_least(g, self, 1))
    return found if self.rank else part(g, found, 1, 0, 0)


@converts("nonzero_numpy.default", "where.default")
def nonzero_by_axis(g: Context, self: Value | None = None, condition: Value | None = None) -> list[Value]:
    value = self if self is not None else condition
    assert value is not None
    return indexing.nonzero(g, at_least(g, value, 1))


@converts("nonzero_static.default")
def nonzero_static(g: Context, self: Value, *, size: Dim, fill_value: int = -1) -> Value:
    """The first ``size`` ones; ``fill_value`` where there are fewer."""
    found = nonzero(g, self)
    rest = g.call("broadcast_to", g.constant(fill_value, "int64"), shape=(size, self.rank))
    both = g.call("concatenate", found, rest, axis=0)
    first = part(g, both, 0, 0, size)
    return g.call("broadcast_to", first, shape=(size, self.rank), exact=True) if first.shape != rest.shape else first
