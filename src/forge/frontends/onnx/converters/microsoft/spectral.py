"""Fourier transforms of real signals; spectra are pairs of a real and an imaginary part along the last axis."""

from __future__ import annotations

from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.converters.microsoft import DOMAIN
from forge.frontends.onnx.registry import converts


@converts("Rfft", domain=DOMAIN)
def transform(g: Context, x: Value, *, normalized: int = 0, onesided: int = 1, signal_ndim: int = 1) -> Value:
    """Over the last ``signal_ndim`` axes, of which the last keeps half of its numbers."""
    _check(g, x.rank, normalized, onesided, signal_ndim)
    last = x.rank - 1
    spectrum = g.call("fft.dft", g.call("expand_dims", x, axis=x.rank), axis=last, onesided=True)
    for axis in range(x.rank - signal_ndim, last):
        spectrum = g.call("fft.dft", spectrum, axis=axis)
    return spectrum


@converts("Irfft", domain=DOMAIN)
def inverse_transform(g: Context, x: Value, *, normalized: int = 0, onesided: int = 1, signal_ndim: int) -> Value:
    """The signal of even size whose spectrum it is, divided by the number of its elements."""
    _check(g, x.rank - 1, normalized, onesided, signal_ndim)
    last = x.rank - 2
    for axis in range(x.rank - 1 - signal_ndim, last):
        x = g.call("fft.dft", x, axis=axis, inverse=True)
    signal = g.call("fft.dft", x, axis=last, inverse=True, onesided=True)
    return g.call("squeeze", signal, axis=(signal.rank - 1,))


def _check(g: Context, rank: int, normalized: int, onesided: int, signal_ndim: int) -> None:
    if normalized or not onesided:
        raise g.unsupported(f"attributes: got normalized {normalized} and onesided {onesided}; supported: 0 and 1")
    if not 1 <= signal_ndim <= min(rank, 3):
        raise g.invalid(f"attribute 'signal_ndim': got {signal_ndim}; expected 1 to {min(rank, 3)}")
