"""Spectrograms and cepstra of sounds, as models of TensorFlow's speech commands compute them."""

from __future__ import annotations

import numpy as np

from forge import dtypes
from forge.compose import spectral
from forge.frontends.tensorflow.context import Context
from forge.frontends.tensorflow.registry import converts
from forge.ir.nodes import Value

FLOOR = 1e-12
"""Least energy of a band whose logarithm is taken."""


@converts("AudioSpectrogram")
def audio_spectrogram(g: Context, x: Value, *, window_size: int, stride: int, magnitude_squared: bool = False) -> Value:
    """Magnitudes ``[C, F, n // 2 + 1]`` of frames of samples ``[T, C]``; n is the next power of two from ``window_size``."""
    if window_size < 2 or stride < 1:
        raise g.invalid(f"window_size {window_size}, stride {stride}: got numbers that are too small; expected 2 and 1 or more")
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
    if not 0 <= lower_frequency_limit < upper_frequency_limit or rate < 1 or not 1 <= filterbank_channel_count <= bins:
        raise g.invalid(
            f"got a sample rate of {rate} and {filterbank_channel_count} bands from {lower_frequency_limit} to "
            f"{upper_frequency_limit} Hz; expected a positive rate, rising frequencies, at most {bins} bands")
    bands = mel_bands(bins, rate, filterbank_channel_count, lower_frequency_limit, upper_frequency_limit)
    energies = g.call("nn.matmul", g.call("sqrt", x), g.constant(bands, x.dtype))
    logarithms = g.call("log", g.call("maximum", energies, g.constant(FLOOR, x.dtype)))
    places = np.outer(np.arange(filterbank_channel_count) + 0.5, np.arange(dct_coefficient_count))
    cosines = np.sqrt(2 / filterbank_channel_count) * np.cos(np.pi / filterbank_channel_count * places)
    return g.call("nn.matmul", logarithms, g.constant(cosines, x.dtype))


def mel_bands(bins: int, rate: int, count: int, low: float, high: float) -> np.ndarray:
    """Weights ``[bins, count]`` of triangles that are even on the mel scale, as TensorFlow's Mfcc places them.

    The bins below ``low`` and above ``high`` Hz have none; a bin between two centres is shared by their bands.
    """
    hertz = 0.5 * rate / (bins - 1)
    mel = 1127 * np.log1p(np.arange(bins) * hertz / 700)
    ends = 1127 * np.log1p(np.array([low, high]) / 700)
    edges = ends[0] + (ends[1] - ends[0]) / (count + 1) * np.arange(count + 2)
    after = np.searchsorted(edges[1:-1], mel)
    share = (edges[after + 1] - mel) / (edges[after + 1] - edges[after])
    used = (np.arange(bins) >= int(1.5 + low / hertz)) & (np.arange(bins) <= int(high / hertz))
    weights = np.zeros((bins, count + 2), dtypes.numpy_dtype("float64"))
    weights[np.arange(bins), after] = np.where(used, share, 0)
    weights[np.arange(bins), after + 1] = np.where(used, 1 - share, 0)
    return weights[:, 1:-1]
