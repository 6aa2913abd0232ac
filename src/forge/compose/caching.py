"""Caches of keys and values."""

from __future__ import annotations

from forge.ir.nodes import Value
from forge.ops.core.composer import Composer
from forge.ops.core.term import Term


def cache_update(
    g: Composer, past: Value, update: Value, positions: Value | None = None, *, axis: int = -2, circular: bool = False
) -> Value:
    """``past`` with ``update`` written over it along ``axis``, in sample b from ``positions[b]`` on (absent: from 0).

    Every place of the cache reads the update, if one falls on it, else what it held. ``circular``: writing goes on at the start
    of the cache when its end is reached.

    Raises:
        OpAttributeInvalid: the axis is the batch axis, 0.
    """
    axis = g.axis(axis, past.rank)
    if axis == 0:
        raise g.invalid("attribute 'axis': got the batch axis 0; expected another one")
    size = g.extent(past, axis)
    shape = tuple(past.shape[axis] if k == axis else 1 for k in range(past.rank))
    distance = Term(g, g.reshape(g.count(size), shape))
    if positions is not None:
        distance = distance - Term(g, g.reshape(g.cast(positions, "int64"), (past.shape[0], *[1] * (past.rank - 1))))
    if circular:
        distance = distance.floor_mod(Term(g, size))
    written = Term(g, g.extent(update, axis))
    chosen = (distance >= 0).both(distance < written).value
    inside = distance.maximum(0).minimum(written - 1).value
    read = g.call("gather", update, g.call("broadcast_to", inside, shape=past.shape), axis=axis)
    return g.call("where", g.call("broadcast_to", chosen, shape=past.shape), read, past)
