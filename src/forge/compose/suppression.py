"""Boxes that are kept of those that overlap, as many as are wanted, as TensorFlow and TFLite have them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from forge.compose.loops import repeat_while
from forge.ir.nodes import Value
from forge.ops.core.composer import Composer


def kept(g: Composer, boxes: Value, scores: Value, size: int, overlap: Value, least: Value | None) -> Value:
    """Positions, int64, of at most ``size`` boxes by falling scores, all above ``least``."""
    rows = g.call(
        "vision.non_max_suppression", g.call("expand_dims", boxes, axis=0), g.reshape(scores, (1, 1, scores.shape[0])),
        g.constant(size, "int64"), overlap, least)
    return g.call("take", rows, g.constant(2, "int64"), axis=1)


def filled(g: Composer, values: Value, size: int) -> Value:
    """The first ``size`` rows of ``values``, padded with zeros."""
    rest = values.shape[1:]
    zeros = g.call("full", g.constant(0, values.dtype), shape=(size, *rest))
    whole = g.call("concatenate", values, zeros, axis=0)
    first = g.call("strided_slice", whole, begin=(0,), end=(size,), strides=(1,), axes=(0,))
    return g.call("reshape", first, newshape=(size, *rest))


def softly(
    g: Composer, boxes: Value, scores: Value, size: int, least: Value, sigma: float, overlap: Value | None = None
) -> list[Value]:
    """Positions of boxes, int32, and their scores, both filled up with 0, and their number; overlap lowers scores.

    Args:
        sigma: of the Gaussian by which scores are lowered; where ``overlap`` is, boxes that overlap by it or more are left out.
    """
    corners = [g.call("take", boxes, g.constant(k, "int64"), axis=1) for k in range(4)]
    low = [g.call("minimum", corners[k], corners[k + 2]) for k in (0, 1)]
    high = [g.call("maximum", corners[k], corners[k + 2]) for k in (0, 1)]
    area = g.call("multiply", *(g.call("subtract", b, a) for a, b in zip(low, high)))
    start = g.call("where", g.call("less", least, scores), scores, g.constant(-np.inf, "float32"))
    limit = g.constant(np.inf, "float32") if overlap is None else overlap
    first = [
        start, g.constant(0, "int32"), g.call("full", g.constant(0, "int32"), shape=(size,)),
        g.call("full", g.constant(0, "float32"), shape=(size,)), limit, least, area, *low, *high]

    def goes_on(inner: Composer, v: Sequence[Value]) -> Value:
        more = inner.call("less", v[1], inner.constant(size, "int32"))
        return inner.call("logical_and", more, inner.call("less", v[5], inner.call("max", v[0], axis=(0,))))

    def step(inner: Composer, v: Sequence[Value]) -> list[Value]:
        scores, count, places, found, overlap, least, area = v[:7]
        sides = v[7:]
        best = inner.call("argmax", scores, axis=(0,))

        def at(value: Value) -> Value:
            return inner.call("take", value, best, axis=0)

        shared = None
        for k in (0, 1):
            begin, end = inner.call("maximum", sides[k], at(sides[k])), inner.call("minimum", sides[k + 2], at(sides[k + 2]))
            side = inner.call("maximum", inner.call("subtract", end, begin), inner.constant(0, "float32"))
            shared = side if shared is None else inner.call("multiply", shared, side)
        assert shared is not None
        union = inner.call("subtract", inner.call("add", area, at(area)), shared)
        is_some = inner.call("less", inner.constant(0, "float32"), inner.call("minimum", area, at(area)))
        ratio = inner.call("where", is_some, inner.call("divide", shared, union), inner.constant(0, "float32"))
        squared = inner.call("multiply", inner.call("multiply", ratio, ratio), inner.constant(-0.5 / sigma, "float32"))
        lowered = inner.call("multiply", scores, inner.call("exp", squared))
        gone = inner.call("logical_or", inner.call("less_equal", overlap, ratio), inner.call("less_equal", lowered, least))
        is_best = inner.call("equal", inner.constant(np.arange(_count(scores)), "int64"), inner.cast(best, "int64"))
        gone = inner.call("logical_or", gone, is_best)
        here = inner.call("equal", inner.constant(np.arange(size), "int32"), count)
        places = inner.call("where", here, inner.cast(best, "int32"), places)
        found = inner.call("where", here, at(scores), found)
        after = inner.call("where", gone, inner.constant(-np.inf, "float32"), lowered)
        return [after, inner.call("add", count, inner.constant(1, "int32")), places, found, *v[4:]]

    if not isinstance(scores.shape[0], int):
        raise g.unsupported("a number of boxes that is known at run time only, with sigma above 0; expected a constant")
    _, count, places, found, *_ = repeat_while(g, first, goes_on, step)
    return [places, found, count]


def _count(vector: Value) -> int:
    size = vector.shape[0]
    assert isinstance(size, int)
    return size
