"""Rows of Fourier transforms of complex and real tensors, against NumPy."""

from __future__ import annotations

import numpy as np

from tests.ops.case import Case, c64, c128, f16, f32, f64, row

CASES: list[Case] = [
    row("fft.fft", [c64(3, 8)], np.fft.fft),
    row("fft.fft", [c128(3, 7)], np.fft.fft),
    row("fft.fft", [c128(5, 3)], lambda x: np.fft.ifft(x, axis=0), axes=(0,), inverse=True),
    row("fft.fft", [c64(3, 8)], lambda x: np.fft.fft(x, 11), lengths=(11,)),
    row("fft.fft", [c64(3, 8)], lambda x: np.fft.ifft(x, 5), lengths=(5,), inverse=True),
    row("fft.fft", [c64(2, 4, 6)], lambda x: np.fft.fftn(x, axes=(1, 2)), axes=(1, 2)),
    row("fft.fft", [c64(2, 4, 6)], lambda x: np.fft.ifftn(x, axes=(2, 0)), axes=(-1, 0), inverse=True),
    row("fft.fft", [f32(3, 9)], np.fft.fft),
    row("fft.fft", [f16(8)], lambda x: np.fft.fft(x.astype(np.float64))),
    row("fft.fft", [f64(3, 6)], np.fft.ifft, inverse=True),
    row("fft.fft", [f32(3, 9)], np.fft.rfft, onesided=True),
    row("fft.fft", [f64(3, 10)], lambda x: np.fft.rfft(x, 12), onesided=True, lengths=(12,)),
    row("fft.fft", [f32(2, 5, 6)], lambda x: np.fft.rfftn(x, axes=(1, 2)), axes=(1, 2), onesided=True),
    row("fft.fft", [c64(3, 5)], np.fft.irfft, inverse=True, onesided=True),
    row("fft.fft", [c128(3, 5)], lambda x: np.fft.irfft(x, 9), inverse=True, onesided=True, lengths=(9,)),
    row("fft.fft", [c64(2, 5, 4)], lambda x: np.fft.irfftn(x, axes=(1, 2)), axes=(1, 2), inverse=True, onesided=True),
]
