"""Sums of elements at given places: what sampling at positions consists of, once these are known.

Positions are the same for all channels of an image, so that they are computed once, and channels are gathered together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from forge import dims, dtypes, te
from forge.dims import Dim
from forge.ops.core import scalar_math as numeric
from forge.ops.core.inference import fail, unify_dim
from forge.ops.core.lowering import cast_result
from forge.ops.core.op import Accuracy, Category, Kind, Op, Operand, register
from forge.ops.core.signatures import Array, Arrays, Builder, Expr, Lowered, Tensor, TensorType, TensorTypes, Types, Value
from forge.ops.core.window_geometry import compute_dtype

MANY_CHANNELS = 8
"""Channels from which on they are read as vectors."""

MORE_ELEMENTS = 8
"""Elements of an image over those that are read: a larger image is not worth reordering."""


@dataclass(frozen=True)
class GatherTapsAttrs:
    channels_last: bool = True


@register
class GatherTaps(Op[GatherTapsAttrs]):
    """out[n, p, c] = the sum over taps t of data[n, indices[n, t, p], c] * weights[n, t, p].

    What lies outside of the data is 0. Without weights there is one tap. Not ``channels_last``: data[n, c, index], out[n, c, p].
    """

    name = "image.gather_taps"
    data, indices = Operand(rank=3), Operand(accepts="index", rank=3)
    weights = Operand(optional=True, accepts="float", rank=3)
    kind = Kind.ANCHOR
    accuracy = Accuracy.ACCUMULATING
    category = Category.MOVEMENT
    flops_per_element = 8

    def infer(self, attrs: GatherTapsAttrs, data: Value, indices: Value, weights: Value | None) -> Types:
        batch, taps, places = indices.shape
        unify_dim(self.name, batch, data.shape[0], "batch of data and indices")
        if weights is None:
            unify_dim(self.name, taps, 1, "taps without weights")
        else:
            for k, (size, expected) in enumerate(zip(weights.shape, indices.shape, strict=True)):
                unify_dim(self.name, size, expected, f"dimension {k} of weights")
            if not dtypes.is_float(dtypes.canonical(data.dtype)):
                raise fail(self.name, "type of data with weights", data.dtype, "a float")
        shape = (data.shape[0], places, data.shape[2]) if attrs.channels_last else (*data.shape[:2], places)
        return [TensorType(shape, data.dtype)]

    def reference(self, attrs: GatherTapsAttrs, data: Array, indices: Array, weights: Array | None) -> Arrays:
        rows = data if attrs.channels_last else data.swapaxes(1, 2)
        images, _, places = indices.shape
        out = np.zeros((images, places, rows.shape[2]), data.dtype if weights is None else np.float64)
        for n, t, p in np.argwhere((indices >= 0) & (indices < rows.shape[1])):
            if weights is None:
                out[n, p] = rows[n, indices[n, t, p]]
            else:
                out[n, p] += numeric.widest(rows[n, indices[n, t, p]]) * numeric.widest(weights[n, t, p])
        return [(out if attrs.channels_last else out.swapaxes(1, 2)).astype(data.dtype)]

    def lower(
        self, attrs: GatherTapsAttrs, results: TensorTypes, data: Tensor, indices: Tensor, weights: Tensor | None
    ) -> Lowered:
        extent = data.shape[1] if attrs.channels_last else data.shape[2]
        shape = te.shape_of(results[0].shape)

        def tap(i: Sequence[Expr], number: Expr) -> tuple[Expr, Expr, tuple[Expr, Expr, Expr]]:
            """Whether the element is there, its value, and the place of its weight."""
            n, place, channel = i if attrs.channels_last else (i[0], i[2], i[1])
            index = te.cast(indices[n, number, place], "int64")
            clamped = te.clamp(index, extent)
            value = data[(n, clamped, channel) if attrs.channels_last else (n, channel, clamped)]
            return te.logical_and(index >= 0, index < extent), value, (n, number, place)

        if weights is None:

            def element(*i: Expr) -> Expr:
                inside, value, _ = tap(i, te.const(0))
                return te.select(inside, value, te.const(False if data.dtype == "bool" else 0, data.dtype))

            return [te.compute(shape, element, "gather_taps", data.dtype)]
        real, weight = compute_dtype(data.dtype), weights
        axis = te.reduce_axis(indices.shape[1], "tap")

        def body(*i: Expr) -> Expr:
            inside, value, place = tap(i, axis.var)
            part = te.cast(value, real) * te.cast(weight[place], real)
            return te.reduce("sum", te.select(inside, part, te.const(0.0, real)), [axis])

        return [cast_result(te.compute(shape, body, "gather_taps"), data.dtype)]


def gathered(builder: Builder, data: Value, indices: Value, weights: Value | None) -> Value:
    """[N, C, P] of data [N, C, ..]; channels are read as vectors if there are many and the image is not much larger."""
    batch, channels = data.shape[:2]
    extent = dims.product(data.shape[2:])
    flat = builder.call("reshape", data, newshape=(batch, channels, extent), allowzero=True)
    last = _are_vectors(channels, extent, dims.product(indices.shape[1:]))
    if last:
        flat = builder.call("transpose", flat, axes=(0, 2, 1))
    found = builder.call("image.gather_taps", flat, indices, weights, channels_last=last)
    return builder.call("transpose", found, axes=(0, 2, 1)) if last else found


def _are_vectors(channels: Dim, extent: Dim, reads: Dim) -> bool:
    if not isinstance(channels, int) or channels < MANY_CHANNELS:
        return False
    return not (isinstance(extent, int) and isinstance(reads, int) and extent > MORE_ELEMENTS * reads)
