"""Spectrograms and cepstra of sounds, as models of TensorFlow's speech commands compute them."""

from __future__ import annotations

import numpy as np

from forge.compose import mel, spectral
from forge.frontends.tensorflow.context import Context
from forge.frontends.tensorflow.registry import converts
from forge.ir.nodes import Value

FLOOR = 1e-12
"""Least energy of a band whose logarithm is taken."""


@converts("AudioSpectrogram")
def audio_spectrogram(g: Context, x: Value, *, window_size: int, stride: int, magnitude_squared: bool = False) -> Value:
    """Magnitudes ``[C, F, n // 2 + 1]`` of frames of samples ``[T, C]``; n is the next power of two from ``window_size``."""
    if not 2 <= window_size <= mel.MAX_WINDOW or stride < 1:
        raise g.invalid(f"got window_size {window_size}, stride {stride}; expected 2 to {mel.MAX_WINDOW}, and 1 or more")
    size = 1 << (window_size - 1).bit_length()
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(window_size) / window_size)
    frames = g.call("sliding_window", g.moved(x, (1, 0)), axis=1, window_shape=(window_size,), strides=(stride,))
    found = spectral.fftn(g, g.call("multiply", frames, g.constant(window, x.dtype)), (2,), (size,), onesided=True)
    magnitudes = g.call("abs", found)
    return g.call("multiply", magnitudes, magnitudes) if magnitude_squared else magnitudes


@converts("Mfcc")
def mfcc(
    g: Context, x: Value, sample_rate: Value, *, upper_frequency_limit: float = 4000.0, lower_frequency_limit: float = 20.0,
    filterbank_channel_count: int = 40, dct_coefficient_count: int = 13,
) -> Value:
    """Cosine transforms ``[C, F, dct_coefficient_count]`` of logarithms of bands of squared magnitudes ``[C, F, K]``."""
    bins, rate = x.shape[-1], g.one_int(sample_rate, "sample_rate")
    if not isinstance(bins, int) or bins < 2:
        raise g.unsupported(f"got {bins} frequencies; expected a known number, two or more")
    most = min(bins, mel.MAX_WEIGHTS // bins)
    are_rising = 0 <= lower_frequency_limit < upper_frequency_limit < np.inf
    if not (1 <= dct_coefficient_count <= filterbank_channel_count <= most and are_rising and rate >= 1):
        raise g.invalid(
            f"got a sample rate of {rate} and {dct_coefficient_count} coefficients of {filterbank_channel_count} bands from "
            f"{lower_frequency_limit} to {upper_frequency_limit} Hz; expected a positive rate, rising frequencies, at most "
            f"{most} bands, and no more coefficients")
    bands = mel.triangles(bins, rate, filterbank_channel_count, lower_frequency_limit, upper_frequency_limit)
    hertz = 0.5 * rate / (bins - 1)
    bands[: int(1.5 + lower_frequency_limit / hertz)] = 0  # TensorFlow leaves out bins at the ends, too
    bands[int(upper_frequency_limit / hertz) + 1 :] = 0
    energies = g.call("nn.matmul", g.call("sqrt", x), g.constant(bands, x.dtype))
    logarithms = g.call("log", g.call("maximum", energies, g.constant(FLOOR, x.dtype)))
    places = np.outer(np.arange(filterbank_channel_count) + 0.5, np.arange(dct_coefficient_count))
    cosines = np.sqrt(2 / filterbank_channel_count) * np.cos(np.pi / filterbank_channel_count * places)
    return g.call("nn.matmul", logarithms, g.constant(cosines, x.dtype))
