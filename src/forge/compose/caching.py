"""Caches of keys and values."""

from __future__ import annotations

from forge.compose.axes import along, places
from forge.ir.nodes import Value
from forge.ops.core.composer import Composer
from forge.ops.core.term import Term


def cache_update(
    g: Composer, past: Value, update: Value, positions: Value | None = None, *, axis: int = -2, circular: bool = False
) -> Value:
    """``past`` with ``update`` written over it along ``axis``, in sample b from ``positions[b]`` on (absent: from 0).

    What falls outside of the cache is left out. ``circular``: writing goes on at the start of the cache when its end is reached.

    Raises:
        OpAttributeInvalid: the axis is the batch axis, 0.
    """
    axis = g.axis(axis, past.rank)
    if axis == 0:
        raise g.invalid("attribute 'axis': got the batch axis 0; expected another one")
    counts = [along(g, places(g, update, k), k, axis + 1) for k in range(axis + 1)]
    place = Term(g, counts[axis])
    if positions is not None:
        place = place + Term(g, along(g, g.cast(positions, "int64"), 0, axis + 1))
    if circular:
        place = place.floor_mod(Term(g, g.extent(past, axis)))
    indices = [g.call("broadcast_to", v, shape=update.shape[: axis + 1]) for v in (*counts[:axis], place.value)]
    return g.call("scatter_nd", past, g.call("stack", *indices, axis=0), update, out_of_range="drop")
