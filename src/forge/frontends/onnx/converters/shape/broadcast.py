"""Expand and Tile."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from forge.dims import Dim
from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.converters.shape.reshape import is_value
from forge.frontends.onnx.registry import converts


@converts("Expand", since=8)
def expand(g: Context, x: Value, shape: Value) -> Value:
    known = g.dims(shape)
    if known is None:
        return g.call("broadcast_to", x, shape, shape=None)
    target = broadcast_target(x.shape, known)
    return x if target == x.shape else g.call("broadcast_to", x, shape=target)


def broadcast_target(shape: Sequence[Dim], wanted: Sequence[Dim]) -> tuple[Dim, ...]:
    """Both shapes broadcast against each other; where nothing is proven, the wanted size holds."""
    rank = max(len(shape), len(wanted))
    own, other = ((*(1,) * (rank - len(s)), *s) for s in (shape, wanted))
    pairs = zip(own, other)
    return tuple(a if is_value(b, 1) or (isinstance(a, int) and a > 1 and not isinstance(b, int)) else b for a, b in pairs)


@converts("Tile", since=1)
def tile_1(g: Context, x: Value, tiles: Value, axis: Value) -> Value:
    """``tiles`` and ``axis`` hold one number each, of the data's element type."""
    positions, one = g.constant(np.arange(x.rank), "int64"), g.constant(1, "int64")
    count, place = (g.reshape(g.cast(v, "int64"), ()) for v in (tiles, axis))
    return tile(g, x, g.call("where", g.call("equal", positions, place), count, one))


@converts("Tile", since=6)
def tile(g: Context, x: Value, repeats: Value) -> Value:
    known = g.dims(repeats)
    return g.call("tile", x, repeats, reps=None) if known is None else g.call("tile", x, reps=known)
