"""Greyscale morphological dilation."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from forge import dims, dtypes, te
from forge.ops.core import scalar_math as numeric
from forge.ops.core.inference import same_dtype, unify_dim
from forge.ops.core.lowering import chain_select, dim_type, lowest
from forge.ops.core.op import Accuracy, Kind, Op, Operand, register
from forge.ops.core.signatures import Array, Arrays, Dim, Expr, Lowered, Tensor, TensorType, TensorTypes, Types, Value
from forge.ops.core.window_geometry import Window, windows
from forge.ops.reduce.window import Ints


@dataclass(frozen=True)
class Dilation2DAttrs:
    strides: Ints = (1, 1)
    padding: Ints = (0, 0)
    dilations: Ints = (1, 1)


@register
class Dilation2D(Op[Dilation2DAttrs]):
    """Grey-scale dilation: out[n, c, y, x] = max over taps (i, j) of data[n, c, y.., x..] + weight[c, i, j].

    Padding never wins.
    """

    name = "image.dilation2d"
    data, weight = Operand(rank=4, accepts="numeric"), Operand(rank=3)
    kind = Kind.REDUCTION
    accuracy = Accuracy.ROUNDING

    def infer(self, attrs: Dilation2DAttrs, data: Value, weight: Value) -> Types:
        unify_dim(self.name, weight.shape[0], data.shape[1], "channels of weight")
        spec = self._windows(attrs, weight.shape)
        shape = (*data.shape[:2], *(dims.maximum(w.positions(e), 0) for w, e in zip(spec, data.shape[2:], strict=True)))
        return [TensorType(shape, same_dtype(self.name, [data, weight]))]

    def _windows(self, attrs: Dilation2DAttrs, shape: Sequence[Dim]) -> tuple[Window, ...]:
        return windows(self.name, shape[1:], attrs.strides, attrs.dilations, attrs.padding)

    def reference(self, attrs: Dilation2DAttrs, data: Array, weight: Array) -> Arrays:
        dtype = data.dtype
        data, weight = numeric.widest(data), numeric.widest(weight)
        spec = self._windows(attrs, weight.shape)
        counts = [w.positions(e) for w, e in zip(spec, data.shape[2:], strict=True)]
        out = np.full((*data.shape[:2], *counts), lowest(dtypes.canonical(data.dtype)), data.dtype)
        for y, x, i, j in itertools.product(*map(range, (*counts, *weight.shape[1:]))):
            place = [p * w.stride + t * w.dilation - w.before for p, t, w in zip((y, x), (i, j), spec, strict=True)]
            if all(0 <= p < e for p, e in zip(place, data.shape[2:], strict=True)):
                out[:, :, y, x] = np.maximum(out[:, :, y, x], data[:, :, place[0], place[1]] + weight[:, i, j])
        return [out.astype(dtype)]

    def lower(self, attrs: Dilation2DAttrs, results: TensorTypes, data: Tensor, weight: Tensor) -> Lowered:
        spec = self._windows(attrs, dim_type(weight).shape)
        taps = [te.reduce_axis(extent, f"r{k}") for k, extent in enumerate(weight.shape[1:])]
        worst = te.const(lowest(data.dtype), data.dtype)

        def body(*i: Expr) -> Expr:
            at = [w.position(x, t.var) for w, x, t in zip(spec, i[2:], taps, strict=True)]
            outside = [te.logical_not(te.logical_and(p >= 0, p < e)) for p, e in zip(at, data.shape[2:], strict=True)]
            safe = [te.clamp(p, e) for p, e in zip(at, data.shape[2:], strict=True)]
            value = data[(i[0], i[1], *safe)] + weight[(i[1], *(t.var for t in taps))]
            return te.reduce("max", chain_select(outside, [worst, worst], value), taps)

        return [te.compute(te.shape_of(results[0].shape), body, "dilation2d", data.dtype)]

    def flops(self, attrs: Dilation2DAttrs, results: TensorTypes, data: Value, weight: Value) -> Dim:
        return 2 * results[0].size * dims.product(weight.shape[1:])
