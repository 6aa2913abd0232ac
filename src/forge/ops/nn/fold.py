"""Sums of overlapping patches, the transpose of taking them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from forge import dims, te
from forge.ops.core import scalar_math as numeric
from forge.ops.core.inference import fail, unify_dim
from forge.ops.core.lowering import cast_result
from forge.ops.core.op import Accuracy, Kind, Op, Operand, register
from forge.ops.core.signatures import Array, Arrays, Dim, Expr, Lowered, Tensor, TensorType, TensorTypes, Types, Value
from forge.ops.core.window_geometry import Window, compute_dtype, windows

Ints = tuple[int, ...]


@dataclass(frozen=True)
class FoldAttrs:
    image_shape: tuple[Dim, ...]
    block_shape: Ints
    strides: Ints = (1,)
    padding: Ints = (0,)
    dilation: Ints = (1,)


@register
class Fold(Op[FoldAttrs]):
    """out[n, c, y..] = sum of data[n, c * K + k, l] over all taps k of windows l that lie on the element y.. of the padded image.

    data: [n, c * K, L], with K taps (row-major in ``block_shape``) of each of the L windows (row-major) over ``image_shape``.
    """

    name = "nn.fold"
    data = Operand(rank=3, accepts="numeric")
    kind = Kind.REDUCTION
    accuracy = Accuracy.ACCUMULATING

    def infer(self, attrs: FoldAttrs, data: Value) -> Types:
        spec = self._windows(attrs)
        if len(spec) != len(attrs.image_shape):
            raise fail(self.name, "attribute image_shape", attrs.image_shape, f"{len(spec)} sizes")
        channels, taps = data.shape[1], math.prod(attrs.block_shape)
        if isinstance(channels, int) and channels % taps:
            raise fail(self.name, "dimension 1 of data", channels, f"a multiple of {taps}")
        count = dims.product(w.positions(e) for w, e in zip(spec, attrs.image_shape, strict=True))
        unify_dim(self.name, data.shape[2], count, "number of windows")
        return [TensorType((data.shape[0], dims.floordiv(channels, taps), *attrs.image_shape), data.dtype)]

    def _windows(self, attrs: FoldAttrs) -> tuple[Window, ...]:
        return windows(self.name, attrs.block_shape, attrs.strides, attrs.dilation, attrs.padding)

    def reference(self, attrs: FoldAttrs, data: Array) -> Arrays:
        wide, spec = numeric.widest(data), self._windows(attrs)
        counts = [w.positions(e) for w, e in zip(spec, attrs.image_shape, strict=True)]
        columns = wide.reshape(len(wide), -1, *attrs.block_shape, *counts)
        out = np.zeros((*columns.shape[:2], *attrs.image_shape), wide.dtype)
        for taps in np.ndindex(*attrs.block_shape):
            for at in np.ndindex(*counts):
                place = [p * w.stride + t * w.dilation - w.before for p, t, w in zip(at, taps, spec, strict=True)]
                if all(0 <= p < out.shape[2 + k] for k, p in enumerate(place)):
                    out[(slice(None), slice(None), *place)] += columns[(slice(None), slice(None), *taps, *at)]
        return [out.astype(data.dtype)]

    def lower(self, attrs: FoldAttrs, results: TensorTypes, data: Tensor) -> Lowered:
        spec = self._windows(attrs)
        counts = [te.dim(w.positions(e)) for w, e in zip(spec, attrs.image_shape, strict=True)]
        taps = [te.reduce_axis(size, f"tap{k}") for k, size in enumerate(attrs.block_shape)]
        dtype = compute_dtype(data.dtype)

        def body(*i: Expr) -> Expr:
            inside: Expr = te.const(True, "bool")
            channel = i[1]
            flat: Expr = te.const(0)
            for window, tap, count, at in zip(spec, taps, counts, i[2:], strict=True):
                distance = at + te.dim(window.before) - tap.var * window.dilation
                place = distance // window.stride
                hit = te.logical_and(te.logical_and(distance >= 0, place < count), (distance % window.stride).eq(0))
                inside = te.logical_and(inside, hit)
                channel, flat = channel * tap.extent + tap.var, flat * count + te.clamp(place, count)
            value = te.cast(data[(i[0], channel, te.clamp(flat, data.shape[2]))], dtype)
            return te.reduce("sum", te.select(inside, value, te.const(0, dtype)), taps)

        return [cast_result(te.compute(te.shape_of(results[0].shape), body, "fold"), data.dtype)]

    def flops(self, attrs: FoldAttrs, results: TensorTypes, *_: object) -> Dim:
        return results[0].size * math.prod(attrs.block_shape)
