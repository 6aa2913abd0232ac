"""Fourier transforms and mel filters."""

from __future__ import annotations

import onnx

from forge.dims import Dim
from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.converters.caching import extent
from forge.frontends.onnx.registry import converts
from forge.frontends.onnx.tensors import element_dtype
from forge.ops.compose.term import Term


@converts("DFT", since=17)
def dft_17(
    g: Context, x: Value, dft_length: Value | None = None, *, axis: int = 1, inverse: int = 0, onesided: int = 0
) -> Value:
    return _transform(g, x, dft_length, axis, bool(inverse), bool(onesided))


@converts("DFT", since=20)
def dft(
    g: Context, x: Value, dft_length: Value | None = None, axis: Value | None = None, *, inverse: int = 0, onesided: int = 0
) -> Value:
    known = (-2,) if axis is None else g.ints(axis)
    if known is not None:
        return _transform(g, x, dft_length, known[0], bool(inverse), bool(onesided))
    if dft_length is not None or onesided:
        raise g.unsupported("axis is computed at run time, with dft_length or onesided; expected a constant axis")
    return _along_one_of(g, x, axis, bool(inverse))


def _along_one_of(g: Context, x: Value, axis: Value | None, inverse: bool) -> Value:
    """The transform along the axis that arrives at run time: the one that is wanted among all."""
    assert axis is not None
    place = Term(g, g.reshape(g.cast(axis, "int64"), ())).floor_mod(x.rank)
    result = _transform(g, x, None, 0, inverse, False)
    for candidate in range(1, x.rank - 1):
        chosen = place.equals(candidate).value
        result = g.call("where", chosen, _transform(g, x, None, candidate, inverse, False), result)
    return result


def _transform(g: Context, x: Value, length: Value | None, axis: int, inverse: bool, onesided: bool) -> Value:
    attributes = {"axis": g.axis(axis, x.rank), "inverse": inverse, "onesided": onesided}
    known = g.dims(length)
    if length is None or known is not None:
        return g.call("fft.dft", x, length=None if known is None else known[0], **attributes)
    return g.call("fft.dft", x, g.reshape(length, ()), length=None, **attributes)


@converts("STFT", since=17)
def short_time_transform(
    g: Context,
    signal: Value,
    frame_step: Value,
    window: Value | None = None,
    frame_length: Value | None = None,
    *,
    onesided: int = 1,
) -> Value:
    """Frames are read by index, weighted, then transformed each."""
    if signal.rank != 3:
        raise g.invalid(f"signal: got rank {signal.rank}; expected 3")
    if window is not None:
        length = extent(g, window, 0)
    else:
        length = extent(g, signal, 1) if frame_length is None else _whole(g, frame_length)
    step = Term(g, _whole(g, frame_step))
    count = (Term(g, extent(g, signal, 1)) - Term(g, length)).floor_divide(step) + 1
    starts = Term(g, _counted(g, count.value, None)) * step
    inside = _counted(g, length, None if window is None else window.shape[0])
    places = starts.reshape(starts.value.shape[0], 1) + Term(g, inside).reshape(1, inside.shape[0])
    frames = g.call("take", signal, places.value, axis=1, mode="clip")
    if window is not None:
        frames = g.call("multiply", frames, g.reshape(g.cast(window, signal.dtype), (1, 1, *window.shape, 1)))
    return g.call("fft.dft", frames, axis=2, onesided=bool(onesided))


def _whole(g: Context, value: Value) -> Value:
    return g.reshape(g.cast(value, "int64"), ())


def _counted(g: Context, count: Value, size: Dim | None) -> Value:
    """0, 1, .. count - 1; ``size`` is the count where it is known."""
    numbers = g.call("arange", g.constant(0, "int64"), count, g.constant(1, "int64"))
    return numbers if size is None else g.reshape(numbers, (size,))


@converts("MelWeightMatrix", since=17)
def mel_weight_matrix(
    g: Context,
    num_mel_bins: Value,
    dft_length: Value,
    sample_rate: Value,
    lower_edge_hertz: Value,
    upper_edge_hertz: Value,
    *,
    output_datatype: int = onnx.TensorProto.FLOAT,
) -> Value:
    operands = (num_mel_bins, dft_length, sample_rate, lower_edge_hertz, upper_edge_hertz)
    return g.call("signal.mel_weights", *operands, out_dtype=element_dtype(output_datatype, "attribute 'output_datatype'"))
