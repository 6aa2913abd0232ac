"""Networks of sounds: mel spectra, Whisper's and wav2vec's encoders, a conformer, HiFi-GAN (flax.linen)."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn

from benchmarks.jax_networks.attention import EncoderLayer, sinusoids

_RATE = 16_000


def mel(window: int, hop: int, bands: int, x: jax.Array) -> jax.Array:
    """Logarithms of mel spectra ``(N, frames, bands)`` of samples ``(N, samples)``."""
    _, _, spectrum = jax.scipy.signal.stft(x, nperseg=window, noverlap=window - hop, return_onesided=True, padded=False)
    power = jnp.swapaxes(jnp.abs(spectrum), 1, 2) ** 2
    loud = jnp.log10(jnp.maximum(power @ _triangles(window // 2 + 1, bands), 1e-10))
    return (jnp.maximum(loud, jnp.max(loud, axis=(1, 2), keepdims=True) - 8.0) + 4.0) / 4.0


def _triangles(bins: int, bands: int) -> np.ndarray:
    """Weights ``(bins, bands)`` of overlapping triangles, evenly spaced in mels."""
    edges = 700 * (10 ** (np.linspace(0, 2595 * np.log10(1 + _RATE / 2 / 700), bands + 2) / 2595) - 1)
    hertz = np.linspace(0, _RATE / 2, bins)[:, None]
    rising, falling = (hertz - edges[:-2]) / np.diff(edges)[:-1], (edges[2:] - hertz) / np.diff(edges)[1:]
    return np.maximum(np.minimum(rising, falling), 0).astype(np.float32)


class SpeechEncoder(nn.Module):
    """Maps spectra ``(N, frames, mels)`` to states ``(N, frames / 2, width)``."""

    layers: int
    width: int
    heads: int

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        x = nn.gelu(nn.Conv(self.width, (3,))(x), approximate=False)
        x = nn.gelu(nn.Conv(self.width, (3,), strides=2, padding=1)(x), approximate=False)
        x = x + sinusoids(jnp.arange(x.shape[1]), self.width)
        for _ in range(self.layers):
            x = EncoderLayer(self.heads)(x)
        return nn.LayerNorm()(x)


class FeatureEncoder(nn.Module):
    """wav2vec 2.0's seven convolutions: maps samples ``(N, samples)`` to features ``(N, frames, projected)``."""

    width: int
    projected: int

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        x = x[..., None]
        for number, (kernel, stride) in enumerate(zip((10, 3, 3, 3, 3, 2, 2), (5, 2, 2, 2, 2, 2, 2), strict=True)):
            x = nn.Conv(self.width, (kernel,), strides=stride, padding="VALID", use_bias=False)(x)
            x = nn.gelu(nn.GroupNorm(num_groups=None, group_size=1)(x) if number == 0 else 2 * x, approximate=False)
        return nn.Dense(self.projected)(nn.LayerNorm()(x))


class RelativeAttention(nn.Module):
    """Attention whose scores have a term for how far apart two frames are."""

    heads: int

    @nn.compact
    def __call__(self, x: jax.Array, distances: jax.Array) -> jax.Array:
        width = x.shape[-1]
        size = width // self.heads
        split = functools.partial(nn.DenseGeneral, (self.heads, size))
        query, key, value = (split(name=name)(x) for name in ("query", "key", "value"))
        distance = split(use_bias=False, name="distance")(distances)
        content_bias = self.param("content_bias", nn.initializers.zeros, (self.heads, size))
        distance_bias = self.param("distance_bias", nn.initializers.zeros, (self.heads, size))
        content = jnp.einsum("bqhd,bkhd->bhqk", query + content_bias, key)
        position = _shifted(jnp.einsum("bqhd,khd->bhqk", query + distance_bias, distance))
        scores = nn.softmax((content + position) / jnp.sqrt(size))
        return nn.DenseGeneral(width, axis=(-2, -1), name="leave")(jnp.einsum("bhqk,bkhd->bqhd", scores, value))


def _shifted(scores: jax.Array) -> jax.Array:
    """From columns of distances ``(N, heads, T, 2T - 1)`` to columns of frames ``(N, heads, T, T)``."""
    batch, heads, frames, columns = scores.shape
    padded = jnp.pad(scores, ((0, 0), (0, 0), (0, 0), (1, 0))).reshape(batch, heads, columns + 1, frames)
    return padded[:, :, 1:].reshape(batch, heads, frames, columns)[..., :frames]


class ConvolutionModule(nn.Module):
    """A gated product, a filter of each channel over some frames, and a product."""

    kernel: int

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        width = x.shape[-1]
        x = nn.glu(nn.Dense(2 * width)(x))
        x = nn.Conv(width, (self.kernel,), feature_group_count=width)(x)
        return nn.Dense(width)(nn.swish(nn.BatchNorm(use_running_average=True)(x)))


class ConformerLayer(nn.Module):
    """Half of a feed-forward network, attention, convolution, the other half; each after a normalization."""

    heads: int
    kernel: int

    @nn.compact
    def __call__(self, x: jax.Array, distances: jax.Array) -> jax.Array:
        width = x.shape[-1]

        def feed_forward(x: jax.Array) -> jax.Array:
            return nn.Dense(width)(nn.swish(nn.Dense(4 * width)(nn.LayerNorm()(x))))

        x = x + 0.5 * feed_forward(x)
        x = x + RelativeAttention(self.heads)(nn.LayerNorm()(x), distances)
        x = x + ConvolutionModule(self.kernel)(nn.LayerNorm()(x))
        return nn.LayerNorm()(x + 0.5 * feed_forward(x))


class Conformer(nn.Module):
    """Maps spectra ``(N, frames, mels)`` to states ``(N, frames / 4, width)``."""

    layers: int
    width: int
    heads: int
    kernel: int

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        x = x[..., None]
        for _ in range(2):
            x = nn.relu(nn.Conv(self.width, (3, 3), strides=(2, 2), padding=1)(x))
        x = nn.Dense(self.width)(x.reshape(*x.shape[:2], -1))
        distances = sinusoids(jnp.arange(x.shape[1] - 1, -x.shape[1], -1), self.width)
        for _ in range(self.layers):
            x = ConformerLayer(self.heads, self.kernel)(x, distances)
        return x


class Residuals(nn.Module):
    """Pairs of a dilated and a plain convolution, each added to its input."""

    kernel: int
    dilations: tuple[int, ...]

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        for dilation in self.dilations:
            wide = nn.Conv(x.shape[-1], (self.kernel,), kernel_dilation=dilation)(nn.leaky_relu(x, 0.1))
            x = x + 0.3 * nn.Conv(x.shape[-1], (self.kernel,))(nn.leaky_relu(wide, 0.1))
        return x


class Generator(nn.Module):
    """HiFi-GAN: maps spectra ``(N, frames, mels)`` to samples ``(N, frames * product of the rates, 1)``."""

    channels: int
    rates: tuple[int, ...]
    kernels: tuple[int, ...]
    dilations: tuple[int, ...]

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        x = nn.Conv(self.channels, (7,))(x)
        for level, rate in enumerate(self.rates, 1):
            x = nn.ConvTranspose(self.channels >> level, (2 * rate,), strides=(rate,))(nn.leaky_relu(x, 0.1))
            x = sum(Residuals(kernel, self.dilations)(x) for kernel in self.kernels) / len(self.kernels)
        return jnp.tanh(nn.Conv(1, (7,))(nn.leaky_relu(x, 0.1)))


__all__ = ["Conformer", "FeatureEncoder", "Generator", "SpeechEncoder", "mel"]
