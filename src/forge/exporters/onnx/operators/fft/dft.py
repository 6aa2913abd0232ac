"""Fourier transforms and mel filters."""

from __future__ import annotations

from typing import Any

from forge.exporters.onnx.emitter import Emitter, Ref, tensor_code
from forge.exporters.onnx.registry import exports
from forge.ops.fft.dft import Dft
from forge.ops.fft.mel_weights import MelWeights


@exports(Dft)
def dft(g: Emitter, op: Dft, x: Ref, length: Ref | None = None) -> Any:
    attrs = op.attrs
    if attrs.inverse and attrs.onesided:
        return NotImplemented
    axis = attrs.axis % len(op.data.shape)
    size = g.given(attrs.length, length)
    size = size and g.scalar(size)
    flags: dict[str, Any] = {"inverse": attrs.inverse or None, "onesided": attrs.onesided or None}
    if g.has("DFT", 20):
        return g.op("DFT", x, size, g.const(axis, "int64"), **flags)
    return g.op("DFT", x, size, axis=axis, **flags)


@exports(MelWeights)
def mel_weights(g: Emitter, op: MelWeights, *numbers: Ref) -> Ref:
    bins, length, rate, low, high = (g.scalar(n) for n in numbers)
    whole = [g.cast(n, "int64") for n in (bins, length, rate)]
    edges = [g.cast(n, "float32") for n in (low, high)]
    return g.op("MelWeightMatrix", *whole, *edges, dtype=op.attrs.out_dtype, output_datatype=tensor_code(op.attrs.out_dtype))
