"""Spectrograms of sounds."""

from __future__ import annotations

from typing import Any

import numpy as np

from forge.compose import mel, spectral
from forge.frontends.keras.context import Context
from forge.frontends.keras.converters.convolutions import convolved, is_first
from forge.frontends.keras.registry import converts
from forge.ir.nodes import Value

EPSILON = 1e-7
"""Least power and magnitude of which a root or a logarithm is taken."""
PARTS = {"real": ("real",), "imag": ("imag",)}
"""By mode: the parts of the transforms that are computed; both in all other modes."""
WINDOWS = {"hann": 0.5, "hamming": 0.54}
"""Means of raised cosines."""
MODES = ("log", "magnitude", "psd", "real", "imag", "angle", "stft")


@converts("STFTSpectrogram")
def stft_spectrogram(
    g: Context, x: Value, *, mode: str = "log", frame_length: int = 256, frame_step: Any = None, fft_length: Any = None,
    window: Any = None, periodic: bool = False, scaling: Any = None, padding: str = "valid", expand_dims: bool = False,
    data_format: Any = None,
) -> Value:
    """Transforms of frames ``[N, C, K, F]`` of signals ``[N, T, C]``, by products with kernels that the layer stores."""
    if mode not in MODES or x.rank != 3:
        raise g.invalid(f"mode {mode!r} of {x.type}; expected one of {', '.join(MODES)}, and a tensor of rank 3")
    first = is_first(g, data_format)
    signals = x if first else g.moved(x, (0, 2, 1))
    batch, channels, time = signals.shape
    rows = g.reshape(signals, (batch * channels, time, 1))

    def part(name: str) -> Value:
        kernel = g.weight(f"{name}_kernel", dtype=x.dtype)
        found = g.moved(convolved(g, rows, kernel, 1, None, padding, frame_step or frame_length // 2, 1, 1), (0, 2, 1))
        return g.reshape(found, (batch, channels, *found.shape[1:]))

    parts = [part(name) for name in PARTS.get(mode, ("real", "imag"))]
    found = _by_mode(g, mode, parts)
    if expand_dims:
        return g.moved(found, (0, 1, 3, 2) if first else (0, 3, 2, 1))
    flat = g.reshape(found, (batch, channels * found.shape[2], found.shape[3]))
    return flat if first else g.moved(flat, (0, 2, 1))


def _by_mode(g: Context, mode: str, parts: list[Value]) -> Value:
    if mode in PARTS:
        return parts[0]
    real, imag = parts
    if mode == "angle":
        return g.call("atan2", imag, real)
    if mode == "stft":
        return g.call("concatenate", real, imag, axis=2)
    power = g.call("add", g.call("multiply", real, real), g.call("multiply", imag, imag))
    if mode == "psd":
        inner = g.call("strided_slice", power, begin=(1,), end=(-1,), strides=(1,), axes=(2,))
        return g.call("add", power, g.call("nn.pad", inner, g.scalar(0.0, power), pad_width=((0, 0), (0, 0), (1, 1), (0, 0))))
    magnitude = g.call("sqrt", g.call("maximum", power, g.scalar(EPSILON, power)))
    return magnitude if mode == "magnitude" else g.call("log", g.call("maximum", magnitude, g.scalar(EPSILON, magnitude)))


@converts("MelSpectrogram")
def mel_spectrogram(
    g: Context, x: Value, *, fft_length: int = 2048, sequence_stride: int = 512, sequence_length: Any = None,
    window: Any = "hann", sampling_rate: float = 16000, num_mel_bins: int = 128, min_freq: float = 20.0, max_freq: Any = None,
    power_to_db: bool = True, top_db: float = 80.0, mag_exp: float = 2.0, min_power: float = 1e-10, ref_power: float = 1.0,
) -> Value:
    """Energies of bands ``[..., num_mel_bins, F]`` of samples ``[T]`` or ``[N, T]``."""
    policy, length = g.layer.policy.compute, sequence_length or fft_length
    end = max_freq or sampling_rate / 2
    if any(type(n) is not int or not 1 <= n <= mel.MAX_WINDOW for n in (fft_length, length, sequence_stride, num_mel_bins)):
        raise g.invalid(
            f"fft_length {fft_length!r}, sequence_length {length!r}, sequence_stride {sequence_stride!r}, num_mel_bins "
            f"{num_mel_bins!r}: expected whole numbers from 1 to {mel.MAX_WINDOW}")
    if length > fft_length or num_mel_bins * fft_length > mel.MAX_WEIGHTS or not 0 <= min_freq < end or sampling_rate <= 0:
        raise g.invalid(
            f"got {num_mel_bins} bands from {min_freq} to {end} Hz, and frames of {length} samples for {fft_length}; expected at "
            f"most {mel.MAX_WEIGHTS} weights of bands, positive rising frequencies, and frames that are no longer")
    data = g.cast(x, policy if policy == "float64" else "float32")
    if not (window is None or isinstance(window, str) and window in WINDOWS):
        raise g.unsupported(f"window: got {str(window)[:80]}; supported: {', '.join(WINDOWS)}, None")
    mean = WINDOWS.get(window or "", 1.0)
    shape = mean - (1 - mean) * np.cos(2 * np.pi * np.arange(length) / length)
    transforms = spectral.centred_stft(
        g, data, g.constant(shape, data.dtype), size=fft_length, hop=sequence_stride, length=length, pad_mode="reflect")
    magnitude = g.call("abs", transforms)
    powers = g.call("power", magnitude, g.scalar(mag_exp, magnitude))
    bands = mel.triangles(fft_length // 2 + 1, sampling_rate, num_mel_bins, min_freq, max_freq or int(sampling_rate / 2))
    bands[0] = 0
    found = g.call("nn.matmul", g.constant(bands.T, data.dtype), powers)
    if power_to_db:
        found = _decibels(g, found, top_db, min_power, ref_power)
    return g.cast(found, policy)


def _decibels(g: Context, x: Value, most: float, least: float, reference: float) -> Value:
    ten = g.scalar(10.0, x)
    levels = g.call("multiply", g.call("log10", g.call("maximum", x, g.scalar(least, x))), ten)
    levels = g.call("subtract", levels, g.scalar(10 * float(np.log10(max(abs(reference), least))), x))
    return g.call("maximum", levels, g.call("subtract", g.call("max", levels), g.scalar(most, x)))
