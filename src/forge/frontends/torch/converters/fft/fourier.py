"""Fourier transforms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from forge import dims, dtypes
from forge.compose import spectral
from forge.dims import Dim
from forge.frontends.torch.context import Context
from forge.frontends.torch.registry import converts
from forge.ir.nodes import Value
from forge.ops.core.term import Term

_NORMS = ("backward", "ortho", "forward")


def _scaled(g: Context, value: Value, size: Dim, power: float) -> Value:
    """``value * size ** power``."""
    if not power:
        return value
    part = dtypes.part(value.dtype) if dtypes.is_complex(value.dtype) else value.dtype
    if isinstance(size, int):
        factor = g.constant(float(size) ** power if size else 1.0, part)
    else:
        factor = g.call("power", g.tensor(size, part), g.constant(power, part))
    return g.call("multiply", value, g.cast(factor, value.dtype))


def transform(
    g: Context, value: Value, axes: Sequence[int], lengths: Sequence[Dim] | None = None, *, inverse: bool = False,
    onesided: bool = False, power: float = 0.0,
) -> Value:
    """Fourier transforms along ``axes``, multiplied by the number of elements of these to ``power``."""
    if not dtypes.is_complex(value.dtype) and not dtypes.is_float(value.dtype):
        value = g.cast(value, "float32")
    if not axes:
        return g.cast(value, g.dtype)
    sizes = list(lengths) if lengths is not None else [value.shape[a] for a in axes]
    if lengths is None and inverse and onesided:
        sizes[-1] = 2 * (sizes[-1] - 1)
    if inverse and onesided:
        value = g.cast(value, dtypes.complex_of(value.dtype)) if dtypes.is_float(value.dtype) else value
    found = g.call("fft.fft", value, axes=tuple(axes), lengths=tuple(sizes), inverse=inverse, onesided=onesided)
    return _scaled(g, found, dims.product(sizes), power + inverse)


def _power(normalization: int) -> float:
    """0: sums as they are, 1: divided by the root of their number, 2: by their number."""
    return -normalization / 2


@converts("_fft_c2c.default")
def c2c(g: Context, self: Value, *, dim: Sequence[int], normalization: int, forward: bool) -> Value:
    return transform(g, self, _axes(g, self, dim), inverse=not forward, power=_power(normalization))


@converts("_fft_r2c.default")
def r2c(g: Context, self: Value, *, dim: Sequence[int], normalization: int, onesided: bool) -> Value:
    return transform(g, self, _axes(g, self, dim), onesided=onesided, power=_power(normalization))


@converts("_fft_c2r.default")
def c2r(g: Context, self: Value, *, dim: Sequence[int], normalization: int, last_dim_size: Dim) -> Value:
    axes = _axes(g, self, dim)
    sizes = [*(self.shape[a] for a in axes[:-1]), last_dim_size]
    return transform(g, self, axes, sizes, inverse=True, onesided=True, power=_power(normalization))


def _axes(g: Context, value: Value, dim: Sequence[int]) -> tuple[int, ...]:
    return g.axes(dim, value.rank) if dim else ()


def _norm_power(g: Context, norm: str | None, inverse: bool) -> float:
    """By default only the inverse divides."""
    name = norm or "backward"
    if name not in _NORMS:
        raise g.invalid(f"norm: got {name!r}; expected one of {', '.join(_NORMS)}")
    if name == "ortho":
        return -0.5
    return -1.0 if (name == "backward") == inverse else 0.0


def _named(
    g: Context, value: Value, axes: Sequence[int], lengths: Sequence[Dim] | None, inverse: bool, onesided: bool,
    norm: str | None, mirrored: bool,
) -> Value:
    """A transform by its name in torch.fft; ``mirrored``: of the Hermitian ones, whose sign is the other one."""
    power = _norm_power(g, norm, inverse != mirrored)
    if mirrored and inverse and dtypes.is_complex(value.dtype):
        value = g.call("complex.conj", value)
    found = transform(g, value, axes, lengths, inverse=inverse, onesided=onesided, power=power)
    return g.call("complex.conj", found) if mirrored and not inverse else found


def _along_one(name: str, inverse: bool, onesided: bool, mirrored: bool) -> None:
    @converts(f"fft_{name}.default")
    def convert(g: Context, self: Value, *, n: Dim | None = None, dim: int = -1, norm: str | None = None) -> Value:
        axis = g.axis(dim, self.rank, "dim")
        return _named(g, self, (axis,), None if n is None else (n,), inverse, onesided, norm, mirrored)


def _along_several(name: str, last: tuple[int, ...] | None, inverse: bool, onesided: bool, mirrored: bool) -> None:
    @converts(f"fft_{name}.default")
    def convert(
        g: Context, self: Value, *, s: Sequence[Dim] | None = None, dim: Sequence[int] | None = last, norm: str | None = None
    ) -> Value:
        if dim is None:
            dim = range(-len(s), 0) if s is not None else range(self.rank)
        axes = g.axes(tuple(dim), self.rank)
        sizes: Sequence[Dim] | None = None
        if s is not None:
            kept = [self.shape[a] for a in axes]
            if inverse and onesided:
                kept[-1] = 2 * (kept[-1] - 1)
            sizes = [own if isinstance(size, int) and size == -1 else size for own, size in zip(kept, s)]
        return _named(g, self, axes, sizes, inverse, onesided, norm, mirrored)


for _name, _inverse, _onesided, _mirrored in (
    ("fft", False, False, False), ("ifft", True, False, False), ("rfft", False, True, False), ("irfft", True, True, False),
    ("hfft", True, True, True), ("ihfft", False, True, True),
):
    _along_one(_name, _inverse, _onesided, _mirrored)
    _along_several(f"{_name}2", (-2, -1), _inverse, _onesided, _mirrored)
    _along_several(f"{_name}n", None, _inverse, _onesided, _mirrored)


def _shift(name: str, amount: Callable[[Dim], Dim]) -> None:
    @converts(f"fft_{name}.default")
    def convert(g: Context, self: Value, *, dim: Sequence[int] | int | None = None) -> Value:
        axes = g.axes(dim, self.rank)
        return g.call("roll", self, shift=tuple(amount(self.shape[a]) for a in axes), axis=axes) if axes else self


_shift("fftshift", lambda size: dims.floordiv(size, 2))
_shift("ifftshift", lambda size: -1 * dims.floordiv(size, 2))


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
    """Transforms of overlapping frames: [batch, frequency, frame], complex or with parts in a last axis.

    That of a complex window is the transform with its real part plus i times the one with its imaginary part.
    """
    if align_to_window:
        raise g.unsupported("align_to_window: got True; supported: False")
    if window is not None and dtypes.is_complex(window.dtype):
        if not dtypes.is_complex(g.dtype):
            raise g.unsupported(f"return_complex: got False with a window of {window.dtype}; supported: True")
        options: dict[str, Any] = {"center": center, "pad_mode": pad_mode, "normalized": normalized, "onesided": onesided}
        sizes: dict[str, Any] = {"n_fft": n_fft, "hop_length": hop_length, "win_length": win_length}
        with_real, with_imag = (
            Term(g, stft(g, self, g.call(f"complex.{name}", window), **sizes, **options)) for name in ("real", "imag")
        )
        return (with_real + with_imag * 1j).value
    is_complex = dtypes.is_complex(self.dtype)
    half = not is_complex if onesided is None else onesided
    signal = self if self.rank == 2 else g.reshape(self, (1, *self.shape))
    if center:
        signal = g.call("nn.pad", signal, pad_width=((0, 0), (n_fft // 2, n_fft // 2)), pad_mode=pad_mode)
    parts = [g.call(f"complex.{p}", signal) for p in ("real", "imag")] if is_complex else [signal]
    part = parts[0].dtype
    wide = _window(g, window, win_length or n_fft, n_fft, part)
    hop = g.constant(hop_length or n_fft // 4, "int64")
    frames = spectral.stft(g, g.call("stack", *parts, axis=2), hop, window=wide, onesided=half)
    found = _scaled(g, g.call("transpose", frames, axes=(0, 2, 1, 3)), n_fft, -0.5 if normalized else 0.0)
    if self.rank == 1:
        found = g.reshape(found, found.shape[1:])
    if not dtypes.is_complex(g.dtype):
        return found
    return g.call("complex.make", *(g.call("take", found, g.constant(k, "int64"), axis=found.rank - 1) for k in (0, 1)))


def _window(g: Context, window: Value | None, length: int, size: int, dtype: str) -> Value:
    """The window, of ones by default, in the middle of ``size`` numbers."""
    row = g.call("broadcast_to", g.constant(1, dtype), shape=(length,)) if window is None else g.cast(window, dtype)
    left = (size - length) // 2
    return row if length == size else g.call("nn.pad", row, pad_width=((left, size - length - left),))


@converts("istft.default")
def istft(
    g: Context, self: Value, window: Value | None = None, *, n_fft: int, hop_length: int | None = None,
    win_length: int | None = None, center: bool = True, normalized: bool = False, onesided: bool | None = None,
    length: int | None = None, return_complex: bool = False,
) -> Value:
    """Overlapping frames added up, over the sum of the squares of their windows."""
    frequencies, count = self.shape[-2:]
    if not isinstance(count, int):
        raise g.unsupported(f"istft: got {count} frames; supported: a number of frames that is fixed")
    half = frequencies != n_fft if onesided is None else onesided
    hop = hop_length or n_fft // 4
    spectra = g.call("transpose", self if self.rank == 3 else g.reshape(self, (1, *self.shape)), axes=(0, 2, 1))
    if not half and not return_complex:  # of which torch reads the first half only
        spectra = g.call("strided_slice", spectra, begin=(0,), end=(n_fft // 2 + 1,), axes=(2,))
        half = True
    frames = g.call("fft.fft", spectra, axes=(2,), lengths=(n_fft,), inverse=True, onesided=half)
    frames = _scaled(g, frames, n_fft, 0.5 if normalized else 0.0)
    row = _window(g, window, win_length or n_fft, n_fft, frames.dtype)
    frames = g.call("multiply", frames, row)
    total = n_fft + hop * (count - 1)
    places = np.arange(count)[:, None] * hop + np.arange(n_fft)
    squares = g.call("broadcast_to", g.call("multiply", row, row), shape=(1, count, n_fft))
    added, envelope = (_added(g, v, places, total) for v in (frames, squares))
    start = n_fft // 2 if center else 0
    end = start + length if length is not None else total - (n_fft // 2 if center else 0)
    cut = [g.call("strided_slice", v, begin=(start,), end=(min(end, total),), axes=(1,)) for v in (added, envelope)]
    found = g.call("divide", *cut)
    if end > total:
        found = g.call("nn.pad", found, pad_width=((0, 0), (0, end - total)))
    return found if self.rank == 3 else g.reshape(found, found.shape[1:])


def _added(g: Context, frames: Value, places: np.ndarray, total: int) -> Value:
    """Sums [batch, total] of frames [batch, count, size] at ``places``."""
    batch = frames.shape[0]
    flat = g.reshape(frames, (batch, places.size))
    where = g.call("broadcast_to", g.constant(places.reshape(1, -1), "int64"), shape=(batch, places.size))
    zeros = g.call("zeros", shape=(batch, total), dtype=frames.dtype)
    return g.call("scatter_elements", zeros, where, flat, axis=1, reduction="add")
