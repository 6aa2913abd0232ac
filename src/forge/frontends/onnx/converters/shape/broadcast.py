"""Expand and Tile."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from forge.compose.checks import check_that
from forge.dims import Dim
from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.converters.shape.reshape import is_value
from forge.frontends.onnx.registry import converts
from forge.ops.core.term import Term


@converts("Expand", since=8)
def expand(g: Context, x: Value, shape: Value) -> Value:
    known = g.dims(shape)
    if known is None:
        return g.call("broadcast_to", x, _fitting(g, x, shape), shape=None)
    target = broadcast_target(x.shape, known)
    return x if target == x.shape else g.call("broadcast_to", x, shape=target)


def _fitting(g: Context, x: Value, shape: Value) -> Value:
    """``shape``, of contents unknown yet; a call in which a size is neither 1 nor that of ``x``, where it is known, fails."""
    length = shape.shape[0]
    if not isinstance(length, int):
        return shape
    sizes = {length - x.rank + k: d for k, d in enumerate(x.shape) if isinstance(d, int) and d != 1 and length - x.rank + k >= 0}
    if not sizes:
        return shape
    given = Term(g, g.call("take", shape, g.constant(list(sizes), "int64"), axis=0))
    wanted = Term(g, g.constant(list(sizes.values()), shape.dtype))
    fits = given.equals(wanted).either(given.equals(1))
    check_that(g, g.call("all", fits.value, axis=None), f"{x.type} does not broadcast to the sizes of 'shape'")
    return shape


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
