"""Fourier transforms of complex and real tensors, along several axes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from forge import dims, dtypes
from forge.ops.core.inference import fail, normalize_axes
from forge.ops.core.op import Accuracy, Op, Operand, register
from forge.ops.core.signatures import Array, Arrays, Builder, Dim, TensorType, TensorTypes, Types, Value, Values
from forge.ops.fft.dft import fft_flops


@dataclass(frozen=True)
class FftAttrs:
    axes: tuple[int, ...] = (-1,)
    lengths: tuple[Dim, ...] | None = None
    inverse: bool = False
    onesided: bool = False


@register
class Fft(Op[FftAttrs]):
    """The discrete Fourier transform along ``axes``: sums of data[t] * exp(-2 pi i k t / length) along each in turn.

    data is cut or padded with zeros to ``lengths`` (without them, its own). ``inverse``: the sign is positive and sums are
    divided by the lengths. ``onesided``: a transform of real numbers gives the first length // 2 + 1 numbers along the last of
    ``axes``; an inverse one takes those and gives real numbers, of own length 2 * (extent - 1). Other results are complex.
    """

    name = "fft.fft"
    data = Operand(accepts="float or complex")
    kernel = "fft"
    accuracy = Accuracy.ACCUMULATING

    def infer(self, attrs: FftAttrs, data: Value) -> Types:
        self._check(data, attrs)
        shape = list(data.shape)
        for axis, length in _axes(data, attrs):
            shape[axis] = length
        if attrs.onesided and not attrs.inverse:
            last = _axes(data, attrs)[-1][0]
            shape[last] = dims.floordiv(shape[last], 2) + 1
        part = dtypes.part(data.dtype) if dtypes.is_complex(data.dtype) else data.dtype
        real = attrs.inverse and attrs.onesided
        return [TensorType(tuple(shape), part if real else dtypes.complex_of(part))]

    def _check(self, data: Value, attrs: FftAttrs) -> None:
        if not attrs.axes:
            raise fail(self.name, "attribute axes", attrs.axes, "one axis or more")
        if attrs.onesided and dtypes.is_complex(data.dtype) is not attrs.inverse:
            wanted = "complex numbers for a one-sided inverse" if attrs.inverse else "real numbers for a one-sided transform"
            raise fail(self.name, "operand 'data' has the wrong element type", data.dtype, wanted)
        if attrs.lengths is not None and len(attrs.lengths) != len(attrs.axes):
            raise fail(self.name, "attribute lengths", attrs.lengths, f"{len(attrs.axes)} numbers, one for each of axes")
        for _, length in _axes(data, attrs):
            if isinstance(length, int) and length < 1:
                raise fail(self.name, "length of an axis", length, "a positive number")

    def reference(self, attrs: FftAttrs, data: Array) -> Arrays:
        wide = data.astype(np.complex128 if np.iscomplexobj(data) else np.float64)
        if attrs.onesided:
            function = np.fft.irfftn if attrs.inverse else np.fft.rfftn
        else:
            function = np.fft.ifftn if attrs.inverse else np.fft.fftn
        return [function(wide, attrs.lengths, attrs.axes)]  # type: ignore[arg-type]

    def decompose(self, builder: Builder, attrs: FftAttrs, data: Value) -> Values | None:
        """One transform an axis; the one-sided one works on real numbers. Narrow floats become float32."""
        if data.dtype not in ("float32", "float64", "complex64", "complex128"):
            data = builder.call("cast", data, dtype="float32")
        elif len(attrs.axes) == 1:
            return None
        steps = _axes(data, attrs)
        last, rest = steps[-1], steps[:-1]
        for axis, length in [*rest, last] if attrs.inverse else [last, *rest]:
            onesided = attrs.onesided and axis == last[0]
            data = builder.call(self.name, data, axes=(axis,), lengths=(length,), inverse=attrs.inverse, onesided=onesided)
        return [data]

    def flops(self, attrs: FftAttrs, results: TensorTypes, *_: object) -> Any:
        return sum(fft_flops(results[0].size, results[0].shape[axis]) for axis in attrs.axes)


def _axes(data: Value, attrs: FftAttrs) -> list[tuple[int, Dim]]:
    """Every axis and the length of its transform."""
    axes = normalize_axes(Fft.name, attrs.axes, data.rank)
    own = [data.shape[axis] for axis in axes]
    if attrs.inverse and attrs.onesided:
        own[-1] = (own[-1] - 1) * 2
    return list(zip(axes, own if attrs.lengths is None else attrs.lengths, strict=True))
