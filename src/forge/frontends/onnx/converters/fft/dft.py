"""Fourier transforms and mel filters."""

from __future__ import annotations

import onnx

from forge.compose.spectral import dft_along, stft
from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.registry import converts
from forge.frontends.onnx.tensors import element_dtype


@converts("DFT", since=17)
def dft_17(
    g: Context, x: Value, dft_length: Value | None = None, *, axis: int = 1, inverse: int = 0, onesided: int = 0
) -> Value:
    return _transform(g, x, dft_length, axis, bool(inverse), bool(onesided))


@converts("DFT", since=20)
def dft(
    g: Context, x: Value, dft_length: Value | None = None, axis: Value | None = None, *, inverse: int = 0, onesided: int = 0
) -> Value:
    known = g.ints(axis)
    if axis is not None and known is None:
        return dft_along(g, x, axis, length=dft_length, inverse=bool(inverse), onesided=bool(onesided))
    return _transform(g, x, dft_length, known[0] if known else -2, bool(inverse), bool(onesided))


def _transform(g: Context, x: Value, length: Value | None, axis: int, inverse: bool, onesided: bool) -> Value:
    attributes = {"axis": g.axis(axis, x.rank), "inverse": inverse, "onesided": onesided}
    known = g.dims(length)
    if length is None or known is not None:
        return g.call("fft.dft", x, length=None if known is None else known[0], **attributes)
    return g.call("fft.dft", x, g.reshape(length, ()), length=None, **attributes)


@converts("STFT", since=17)
def short_time_transform(
    g: Context, signal: Value, frame_step: Value, window: Value | None = None, frame_length: Value | None = None,
    *, onesided: int = 1,
) -> Value:
    if signal.rank == 2:  # as torch's exporter writes it, and onnxruntime takes it
        signal = g.call("expand_dims", signal, axis=2)
    return stft(g, signal, frame_step, window=window, length=frame_length, onesided=bool(onesided))


@converts("MelWeightMatrix", since=17)
def mel_weight_matrix(
    g: Context, num_mel_bins: Value, dft_length: Value, sample_rate: Value, lower_edge_hertz: Value, upper_edge_hertz: Value,
    *, output_datatype: int = onnx.TensorProto.FLOAT,
) -> Value:
    operands = (num_mel_bins, dft_length, sample_rate, lower_edge_hertz, upper_edge_hertz)
    return g.call("signal.mel_weights", *operands, out_dtype=element_dtype(output_datatype, "attribute 'output_datatype'"))
