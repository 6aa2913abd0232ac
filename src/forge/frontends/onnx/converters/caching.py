"""Caches of keys and values."""

from __future__ import annotations

from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.registry import converts
from forge.ops.compose.term import Term


def extent(g: Context, x: Value, axis: int) -> Value:
    """A size as an int64 scalar."""
    size = x.shape[axis]
    if isinstance(size, int):
        return g.constant(size, "int64")
    return g.call("take", g.call("shape_of", x), g.constant(axis, "int64"), axis=0)


@converts("TensorScatter", since=24)
def tensor_scatter(
    g: Context, past: Value, update: Value, write_indices: Value | None = None, *, axis: int = -2, mode: str = "linear"
) -> Value:
    """Every place of the cache reads the update, if one falls on it, else what it held."""
    if mode not in ("linear", "circular"):
        raise g.invalid(f"attribute 'mode': got {mode!r}; expected linear or circular")
    axis = g.axis(axis, past.rank)
    if axis == 0:
        raise g.invalid("attribute 'axis': got the batch axis 0; expected another one")
    size = extent(g, past, axis)
    places = g.call("arange", g.constant(0, "int64"), size, g.constant(1, "int64"))
    places = g.reshape(places, tuple(past.shape[axis] if k == axis else 1 for k in range(past.rank)))
    distance = Term(g, places)
    if write_indices is not None:
        distance = distance - Term(g, g.reshape(g.cast(write_indices, "int64"), (past.shape[0], *[1] * (past.rank - 1))))
    if mode == "circular":
        distance = distance.floor_mod(Term(g, size))
    written = Term(g, extent(g, update, axis))
    chosen = g.call("logical_and", (distance >= 0).value, (distance < written).value)
    inside = distance.maximum(0).minimum(written - 1).value
    read = g.call("gather", update, g.call("broadcast_to", inside, shape=past.shape), axis=axis)
    return g.call("where", g.call("broadcast_to", chosen, shape=past.shape), read, past)
