"""The weights of mel filters."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from forge import dims, te
from forge.ir.shapes import known_dims
from forge.ops.core import scalar_math as numeric
from forge.ops.core.inference import expect_dtype, fresh_dims
from forge.ops.core.lowering import new_symbols, scalar
from forge.ops.core.op import Accuracy, Kind, Op, Operand, register
from forge.ops.core.signatures import Array, Arrays, Expr, Lowered, Symbols, Tensor, TensorType, TensorTypes, Types, Value


@dataclass(frozen=True)
class MelWeightsAttrs:
    out_dtype: str = "float32"


@register
class MelWeights(Op[MelWeightsAttrs]):
    """Weights [dft_length // 2 + 1, num_mel_bins] of triangular filters whose edges are equally far apart on the mel scale.

    mel = 2595 * log10(1 + hertz / 700); edge m lies at low + m * (high - low) / (num_mel_bins + 2), rounded down to a bin.
    """

    name = "signal.mel_weights"
    num_mel_bins, dft_length = Operand(accepts="index", single=True), Operand(accepts="index", single=True)
    sample_rate = Operand(accepts="index", single=True)
    lower_edge_hertz, upper_edge_hertz = Operand(accepts="float", single=True), Operand(accepts="float", single=True)
    kind = Kind.ANCHOR
    accuracy = Accuracy.ACCUMULATING

    def infer(self, attrs: MelWeightsAttrs, num_mel_bins: Value, dft_length: Value, *_: object) -> Types:
        expect_dtype(self.name, TensorType((), attrs.out_dtype), "out_dtype", "numeric")
        bins, length = known_dims(num_mel_bins), known_dims(dft_length)
        rows = fresh_dims("bins", 1)[0] if length is None else dims.floordiv(length.reshape(-1)[0], 2) + 1
        columns = fresh_dims("mel", 1)[0] if bins is None else bins.reshape(-1)[0]
        return [TensorType((rows, columns), attrs.out_dtype)]

    def reference(self, attrs: MelWeightsAttrs, *operands: Array) -> Arrays:
        bins, length, rate = (int(v.reshape(())) for v in operands[:3])
        low, high = (2595 * math.log10(1 + float(v.reshape(())) / 700) for v in operands[3:])
        mel = np.arange(bins + 2) * ((high - low) / (bins + 2)) + low
        edges = np.floor((length + 1) * (700 * (10.0 ** (mel / 2595) - 1)) / rate)
        left, centre, right = edges[:-2], edges[1:-1], edges[2:]
        row = np.arange(length // 2 + 1)[:, None]
        with np.errstate(all="ignore"):
            rising = np.where(centre == left, row == centre, (row - left) / (centre - left))
            falling = (right - row) / (right - centre)
        out = np.where((row >= left) & (row <= centre), rising, 0.0)
        out = np.where((right > centre) & (row >= centre) & (row < right), falling, out)
        return [numeric.convert(out, attrs.out_dtype)]

    def lower(self, attrs: MelWeightsAttrs, results: TensorTypes, *operands: Tensor) -> Lowered:
        bins, length, rate, *hertz = (te.cast(scalar(t), "float64") for t in operands)
        low, high = (te.call("log10", h / 700.0 + 1.0) * 2595.0 for h in hertz)
        step = (high - low) / (bins + 2.0)

        def edge(i: Expr) -> Expr:
            mel = te.cast(i, "float64") * step + low
            frequency = (te.call("pow", te.const(10.0, "float64"), mel / 2595.0) - 1.0) * 700.0
            return te.call("floor", (length + 1.0) * frequency / rate)

        edges = te.compute((results[0].shape[1] + 2,), edge, "mel_edges")

        def weight(*i: Expr) -> Expr:
            row = te.cast(i[0], "float64")
            left, centre, right = (edges[(i[1] + k,)] for k in range(3))
            one, zero = te.const(1.0, "float64"), te.const(0.0, "float64")
            width, fall = centre - left, right - centre
            rising = te.select(width.eq(0.0), one, (row - left) / te.select(width.eq(0.0), one, width))
            value = te.select(te.logical_and(row >= left, row <= centre), rising, zero)
            falls = te.logical_and(fall > 0.0, te.logical_and(row >= centre, row < right))
            return te.select(falls, (right - row) / te.select(fall > 0.0, fall, one), value)

        return [te.compute(te.shape_of(results[0].shape), lambda *i: te.cast(weight(*i), attrs.out_dtype), "mel_weights")]

    def define_symbols(self, attrs: MelWeightsAttrs, results: TensorTypes, *operands: Tensor) -> Symbols:
        bins, length = (te.cast(scalar(t), "int64") for t in operands[:2])
        return new_symbols(results[0], [length // 2 + 1, bins])
