"""Fourier transforms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from forge import dtypes
from forge.compose import spectral
from forge.dims import Dim
from forge.frontends.torch.context import Context
from forge.frontends.torch.registry import converts
from forge.ir.nodes import Value

_FORWARD = ("backward", "ortho", "forward")
"""By numbers of normalizations: sums as they are, divided by the root of their number, by their number."""
_INVERSE = _FORWARD[::-1]


def _axes(g: Context, value: Value, dim: Sequence[int]) -> tuple[int, ...]:
    return g.axes(dim, value.rank) if dim else ()


@converts("_fft_c2c.default")
def c2c(g: Context, self: Value, *, dim: Sequence[int], normalization: int, forward: bool) -> Value:
    norm = (_FORWARD if forward else _INVERSE)[normalization]
    return spectral.fftn(g, self, _axes(g, self, dim), inverse=not forward, norm=norm)


@converts("_fft_r2c.default")
def r2c(g: Context, self: Value, *, dim: Sequence[int], normalization: int, onesided: bool) -> Value:
    return spectral.fftn(g, self, _axes(g, self, dim), onesided=onesided, norm=_FORWARD[normalization])


@converts("_fft_c2r.default")
def c2r(g: Context, self: Value, *, dim: Sequence[int], normalization: int, last_dim_size: Dim) -> Value:
    axes = _axes(g, self, dim)
    sizes = [*(self.shape[a] for a in axes[:-1]), last_dim_size]
    return spectral.fftn(g, self, axes, sizes, inverse=True, onesided=True, norm=_INVERSE[normalization])


def _transforms(name: str, transform: Callable[..., Value], halved: bool) -> None:
    """``halved``: the signal is longer than the spectrum that is given."""

    @converts(f"fft_{name}.default")
    def along_one(g: Context, self: Value, *, n: Dim | None = None, dim: int = -1, norm: str | None = None) -> Value:
        return transform(g, self, (g.axis(dim, self.rank, "dim"),), None if n is None else (n,), norm=norm or "backward")

    for suffix, default in (("2", (-2, -1)), ("n", None)):

        @converts(f"fft_{name}{suffix}.default")
        def along_several(
            g: Context, self: Value, *, s: Sequence[Dim] | None = None, dim: Sequence[int] | None = default,
            norm: str | None = None,
        ) -> Value:
            if dim is None:
                dim = range(-len(s), 0) if s is not None else range(self.rank)
            axes, sizes = g.axes(tuple(dim), self.rank), None
            if s is not None:
                own = spectral.signal_sizes(self, axes, halved)
                sizes = [known if isinstance(size, int) and size == -1 else size for known, size in zip(own, s)]
            return transform(g, self, axes, sizes, norm=norm or "backward")


_transforms("fft", spectral.fftn, False)
_transforms("ifft", partial(spectral.fftn, inverse=True), False)
_transforms("rfft", partial(spectral.fftn, onesided=True), False)
_transforms("irfft", partial(spectral.fftn, inverse=True, onesided=True), True)
_transforms("hfft", spectral.hfftn, True)
_transforms("ihfft", partial(spectral.hfftn, inverse=True), False)


@converts("fft_fftshift.default")
def fftshift(g: Context, self: Value, *, dim: Sequence[int] | int | None = None) -> Value:
    return spectral.fftshift(g, self, g.axes(dim, self.rank))


@converts("fft_ifftshift.default")
def ifftshift(g: Context, self: Value, *, dim: Sequence[int] | int | None = None) -> Value:
    return spectral.fftshift(g, self, g.axes(dim, self.rank), inverse=True)


@converts("fft_fftfreq.default")
def fftfreq(g: Context, *, n: int, d: float = 1.0, dtype: str | None = None) -> Value:
    return g.constant(np.fft.fftfreq(n, d), g.dtype)


@converts("fft_rfftfreq.default")
def rfftfreq(g: Context, *, n: int, d: float = 1.0, dtype: str | None = None) -> Value:
    return g.constant(np.fft.rfftfreq(n, d), g.dtype)


@converts("stft.default", "stft.center")
def stft(
    g: Context, self: Value, window: Value | None = None, *, n_fft: int, hop_length: int | None = None,
    win_length: int | None = None, center: bool = False, pad_mode: str = "reflect", normalized: bool = False,
    onesided: bool | None = None, return_complex: bool | None = None, align_to_window: bool | None = None,
) -> Value:
    """[batch, frequency, frame], complex or with parts in a last axis."""
    if align_to_window:
        raise g.unsupported("align_to_window: got True; supported: False")
    as_pairs = not dtypes.is_complex(g.dtype)
    if as_pairs and window is not None and dtypes.is_complex(window.dtype):
        raise g.unsupported(f"return_complex: got False with a window of {window.dtype}; supported: True")
    return spectral.centred_stft(
        g, self, window, size=n_fft, hop=hop_length or n_fft // 4, length=win_length, pad_mode=pad_mode if center else None,
        normalized=normalized, onesided=not dtypes.is_complex(self.dtype) if onesided is None else onesided, as_pairs=as_pairs,
    )


@converts("istft.default")
def istft(
    g: Context, self: Value, window: Value | None = None, *, n_fft: int, hop_length: int | None = None,
    win_length: int | None = None, center: bool = True, normalized: bool = False, onesided: bool | None = None,
    length: int | None = None, return_complex: bool = False,
) -> Value:
    """Of a whole spectrum of a real signal, torch reads the first half only."""
    half = self.shape[-2] != n_fft if onesided is None else onesided
    return spectral.centred_istft(
        g, self, window, size=n_fft, hop=hop_length or n_fft // 4, window_length=win_length, centred=center,
        normalized=normalized, onesided=half or not return_complex, length=length,
    )
