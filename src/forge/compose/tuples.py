"""Reads and writes at index tuples, which are along the last dimension of ``indices``, as TensorFlow and TFLite have them."""

from __future__ import annotations

import numpy as np

from forge.ir.nodes import Value
from forge.ops.core.composer import Composer


def along_first(g: Composer, indices: Value) -> Value:
    """The tuples along the first dimension, as Forge's operators have them."""
    order = (indices.rank - 1, *range(indices.rank - 1))
    return g.call("transpose", indices, axes=order) if indices.rank > 1 else indices


def gathered(g: Composer, x: Value, indices: Value, batch_dims: int = 0) -> Value:
    """Slices of ``x`` at tuples for its first dimensions, after those that both go through together."""
    return g.call("gather_nd", x, along_first(g, indices), batch_dims=batch_dims, index_rank=_length(g, indices))


def _length(g: Composer, indices: Value) -> int:
    length = indices.shape[-1] if indices.rank else None
    if not isinstance(length, int):
        raise g.unsupported(f"got indices {indices.type}; expected tuples of a known length")
    return length


def updated(g: Composer, x: Value, indices: Value, updates: Value, mode: str = "update") -> Value:
    """``x`` with slices at tuples replaced, or with what ``mode`` ("add", "max", "min") makes of both."""
    return g.call("scatter_nd", x, along_first(g, indices), updates, mode=mode)


def scattered(g: Composer, shape: Value, indices: Value, updates: Value) -> Value:
    """Zeros of ``shape`` with ``updates`` at tuples; those of one place are added, of bools whether any holds."""
    start = filled(g, shape, g.constant(0, updates.dtype))
    if start.dtype == "bool":
        return g.cast(updated(g, g.cast(start, "uint8"), indices, g.cast(updates, "uint8"), "max"), "bool")
    return updated(g, start, indices, updates, "add")


def filled(g: Composer, shape: Value, value: Value) -> Value:
    """A tensor of ``shape``, whose elements are all ``value``."""
    known = g.dims(shape)
    return g.call("full", value, g.cast(shape, "int64")) if known is None else g.call("full", value, shape=known)


def dense(g: Composer, indices: Value, shape: Value, values: Value, default: Value) -> Value:
    """A tensor of ``shape`` with ``values``, or one value, at tuples, or at numbers in a vector, and ``default`` elsewhere."""
    places = g.reshape(indices, (1, 1)) if indices.rank == 0 else indices
    places = g.reshape(places, (places.shape[0], 1)) if places.rank == 1 else places
    updates = values if values.rank else g.call("broadcast_to", values, shape=(places.shape[0],))
    return updated(g, filled(g, shape, g.reshape(default, ())), places, updates)


def one_hot(g: Composer, indices: Value, depth: Value, on: Value, off: Value, axis: int) -> Value:
    """Indices out of range, also those below 0, are of no element."""
    known = g.dims(depth)
    if known is None:
        raise g.unsupported("the depth is computed at run time; expected a constant")
    if indices.dtype not in ("int32", "int64"):
        indices = g.cast(indices, "int32")
    below = g.call("less", indices, g.scalar(0, indices))
    inside = g.call("where", below, g.scalar(np.iinfo(np.int32).max, indices), indices)
    return g.call("one_hot", inside, g.reshape(on, ()), g.reshape(off, ()), depth=known[0], axis=axis)
