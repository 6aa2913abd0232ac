"""Fourier transforms and the weights of mel filters.

Complex numbers are pairs (real, imaginary) in the last dimension, real ones single elements in it. Sums are kept in
float64. A short transform of known length is a matrix product with a table of cosines and sines, others are fast Fourier
transforms of the runtime.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from forge import dims, te
from forge.ir.shapes import known_dims
from forge.ops.core.inference import fail, fresh_dims, given_number, normalize_axis
from forge.ops.core.lowering import element, new_symbols
from forge.ops.core.op import Accuracy, Op, Operand, register
from forge.ops.core.signatures import Array, Arrays, Builder, Dim, Symbols, Tensor, TensorType, TensorTypes, Types, Value, Values

LARGEST_TABLE = 64
"""The longest transform that is a matrix product: longer ones are faster done by the kernel."""


@dataclass(frozen=True)
class DftAttrs:
    axis: int = -2
    length: Dim | None = None
    inverse: bool = False
    onesided: bool = False


@register
class Dft(Op[DftAttrs]):
    """The discrete Fourier transform along ``axis``: out[k] = sum of data[t] * exp(-2 pi i k t / length).

    data is cut or padded with zeros to ``length`` (attribute or operand; without both, its own). ``inverse``: the sign is
    positive and the sum is divided by length. ``onesided``: a transform gives the first length // 2 + 1 numbers; an inverse
    one takes those for the transform of real numbers, which it gives (its own length is then 2 * (extent - 1)).
    """

    name = "fft.dft"
    data, length = Operand(accepts="float"), Operand(optional=True, holds="integer")
    kernel = "fft"
    accuracy = Accuracy.ACCUMULATING

    def infer(self, attrs: DftAttrs, data: Value, length: Value | None) -> Types:
        axis = normalize_axis(self.name, attrs.axis, data.rank)
        if axis == data.rank - 1 or data.shape[-1] not in (1, 2):
            wanted = "another axis than the last, which has 1 or 2 elements"
            raise fail(self.name, f"axis {axis} of operand 'data'", data.type, wanted)
        known = self._length(attrs, data.shape[axis], length)
        if isinstance(known, int) and known < 1:
            raise fail(self.name, "length", known, "a positive number")
        count = fresh_dims("spectrum", 1)[0] if known is None else self._count(known, attrs)
        parts = 1 if attrs.inverse and attrs.onesided else 2
        return [TensorType((*data.shape[:axis], count, *data.shape[axis + 1 : -1], parts), data.dtype)]

    def _length(self, attrs: DftAttrs, extent: Dim, length: Value | None) -> Dim | None:
        """The length, None when it arrives at run time."""
        if attrs.length is not None:
            return attrs.length
        if length is None:
            return _own_length(extent, attrs)
        known = known_dims(length)
        return None if known is None else known.reshape(-1)[0]

    def _count(self, length: Any, attrs: DftAttrs) -> Any:
        """Numbers of the result along the axis."""
        return dims.floordiv(length, 2) + 1 if attrs.onesided and not attrs.inverse else length

    def reference(self, attrs: DftAttrs, data: Array, length: Array | None) -> Arrays:
        axis = attrs.axis % data.ndim
        own = _own_length(data.shape[axis], attrs) if attrs.length is None and length is None else attrs.length
        count = given_number(own, length)
        wide = data.astype(np.float64)
        signal = wide[..., 0] if data.shape[-1] == 1 else wide[..., 0] + 1j * wide[..., 1]
        if attrs.inverse and attrs.onesided:
            return [np.fft.irfft(signal, count, axis)[..., None].astype(data.dtype)]
        result = (np.fft.ifft if attrs.inverse else np.fft.fft)(signal, count, axis)
        if attrs.onesided:
            result = np.take(result, np.arange(count // 2 + 1), axis)
        return [np.stack([result.real, result.imag], -1).astype(data.dtype)]

    def decompose(self, builder: Builder, attrs: DftAttrs, data: Value, length: Value | None) -> Values | None:
        """Narrow floats as float32; a matrix product with the table, where the length is a small number."""
        if data.dtype not in ("float32", "float64"):
            wide = builder.call("cast", data, dtype="float32")
            result = builder.call(self.name, wide, length, **vars(attrs))
            return [builder.call("cast", result, dtype=data.dtype)]
        axis = attrs.axis % data.rank
        extent, known = data.shape[axis], self._length(attrs, data.shape[axis], length)
        if isinstance(extent, int) and isinstance(known, int) and known <= LARGEST_TABLE:
            return [_product(builder, data, axis, known, attrs)]
        return None

    def define_symbols(self, attrs: DftAttrs, results: TensorTypes, data: Tensor, length: Tensor | None) -> Symbols:
        if attrs.length is not None or length is None:
            return {}
        whole = element(length, 0)
        count = te.binary("floordiv", whole, te.const(2)) + 1 if attrs.onesided and not attrs.inverse else whole
        axis = attrs.axis % results[0].rank
        return new_symbols(TensorType((results[0].shape[axis],), "int64"), [te.binary("max", count, te.const(0))])

    def flops(self, attrs: DftAttrs, results: TensorTypes, *_: object) -> Any:
        return fft_flops(results[0].size, results[0].shape[attrs.axis % results[0].rank])


def fft_flops(numbers: Any, length: Dim) -> Any:
    """5 log2(length) a complex number, as is usual; a length that arrives at run time counts as 1024."""
    return numbers * 5 * (length.bit_length() if isinstance(length, int) else 10)


def _own_length(extent: Dim, attrs: DftAttrs) -> Dim:
    return (extent - 1) * 2 if attrs.inverse and attrs.onesided else extent


def _product(builder: Builder, data: Value, axis: int, length: int, attrs: DftAttrs) -> Value:
    """The transform as a matrix product with its table."""
    extent, parts = data.shape[axis], data.shape[-1]
    assert isinstance(extent, int) and isinstance(parts, int)
    used = min(extent, length // 2 + 1 if attrs.inverse and attrs.onesided else length)
    table = spectrum_table(length, used, parts, attrs)
    rest = tuple(k for k in range(data.rank - 1) if k != axis)
    cut = builder.call("strided_slice", data, begin=(0,), end=(used,), strides=(1,), axes=(axis,))
    moved = builder.call("transpose", cut, axes=(*rest, axis, data.rank - 1))
    outer = tuple(data.shape[k] for k in rest)
    rows = builder.call("reshape", moved, newshape=(dims.product(outer), used * parts), allowzero=True)
    wide = rows if rows.dtype == "float64" else builder.call("cast", rows, dtype="float64")
    weight = builder.constant(table.reshape(-1, used * parts))
    product = builder.call("nn.dense", wide, weight, units=weight.shape[0])
    narrow = product if data.dtype == "float64" else builder.call("cast", product, dtype=data.dtype)
    result = builder.call("reshape", narrow, newshape=(*outer, *table.shape[:2]), allowzero=True)
    back = tuple(len(rest) if k == axis else k - (k > axis) for k in range(data.rank - 1))
    return builder.call("transpose", result, axes=(*back, data.rank - 1))


def spectrum_table(length: int, used: int, parts: int, attrs: DftAttrs) -> Array:
    """Factors [number, part of it, element, part of it] of the transform of ``used`` elements, in float64."""
    count = length // 2 + 1 if attrs.onesided and not attrs.inverse else length
    turns = np.outer(np.arange(count), np.arange(used)) % length
    angle = turns * (2 * math.pi / length)
    cosine, sine = np.cos(angle), np.where(turns * 2 == length, 0.0, np.sin(angle))
    if attrs.inverse:
        sine = -sine
    table = np.stack([np.stack([cosine, sine], -1), np.stack([-sine, cosine], -1)], 1)
    if attrs.inverse:
        table = table / length
    if attrs.inverse and attrs.onesided:
        mirrored = np.arange(used)
        table = table[:, :1] * np.where((mirrored == 0) | (mirrored * 2 == length), 1.0, 2.0)[:, None]
    return np.ascontiguousarray(table[..., :parts])
