"""Rows of Fourier transforms and mel filters."""

from __future__ import annotations

import numpy as np

from tests.ops.case import Case, Fixed, const, f16, f32, f64, row


def pairs(x: np.ndarray) -> np.ndarray:
    return np.stack([x.real, x.imag], -1)


def numbers(x: np.ndarray) -> np.ndarray:
    wide = x.astype(np.float64)
    return wide[..., 0] + 1j * wide[..., 1]


def real_rows() -> list[Case]:
    one = const([12])
    return [
        row("fft.dft", [f32(2, 9, 1)], lambda x: pairs(np.fft.fft(x[..., 0], axis=1))),
        row("fft.dft", [f32(5, 7, 1)], lambda x: pairs(np.fft.fft(x[..., 0], axis=0)), axis=0),
        row("fft.dft", [f32(2, 9, 1)], lambda x: pairs(np.fft.rfft(x[..., 0], axis=1)), onesided=True),
        row("fft.dft", [f32(2, 8, 3, 1)], lambda x: pairs(np.fft.rfft(x[..., 0], 5, axis=1)), axis=1, length=5, onesided=True),
        row("fft.dft", [f64(2, 9, 1)], lambda x: pairs(np.fft.fft(x[..., 0], 16)), length=16),
        row("fft.dft", [f32(2, 9, 1), one], lambda x, n: pairs(np.fft.rfft(x[..., 0], 12)), onesided=True),
        row("fft.dft", [f32(2, 9, 1), np.array(12)], lambda x, n: pairs(np.fft.fft(x[..., 0], 12)), symbolic=False),
        row("fft.dft", [f32(2, 9, 1), np.array(7)], lambda x, n: pairs(np.fft.rfft(x[..., 0], 7)), onesided=True),
        row("fft.dft", [f16(3, 4, 1)], lambda x: pairs(np.fft.fft(x[..., 0].astype(np.float64)))),
        row("fft.dft", [f32(1, 1, 1)], lambda x: pairs(np.fft.fft(x[..., 0]))),
    ]


def complex_rows() -> list[Case]:
    def real(x: np.ndarray, length: int) -> np.ndarray:
        return np.fft.irfft(numbers(x), length)[..., None]

    return [
        row("fft.dft", [Fixed(f32(3, 8, 2))], lambda x: pairs(np.fft.fft(numbers(x)))),
        row("fft.dft", [Fixed(f32(3, 8, 2))], lambda x: pairs(np.fft.ifft(numbers(x))), inverse=True),
        row("fft.dft", [Fixed(f32(3, 8, 2))], lambda x: pairs(np.fft.ifft(numbers(x), 11)), inverse=True, length=11),
        row("fft.dft", [Fixed(f32(3, 5, 2))], lambda x: real(x, 8), inverse=True, onesided=True),
        row("fft.dft", [Fixed(f32(3, 5, 2))], lambda x: real(x, 9), inverse=True, onesided=True, length=9),
        row("fft.dft", [Fixed(f32(3, 5, 2))], lambda x: real(x, 5), inverse=True, onesided=True, length=5),
        row("fft.dft", [Fixed(f32(3, 5, 2)), np.array(12)], lambda x, n: real(x, 12), inverse=True, onesided=True),
        row("fft.dft", [Fixed(f32(3, 5, 2)), np.array(6)], lambda x, n: pairs(np.fft.ifft(numbers(x), 6)), inverse=True),
    ]


def mel_rows() -> list[Case]:
    hertz = [np.array(0, np.float32), np.array(4000, np.float32)]
    return [
        row("signal.mel_weights", [np.array(8), np.array(16), np.array(8192), *hertz]),
        row("signal.mel_weights", [const(5), const(32), const(16000), *hertz]),
    ]


CASES = [*real_rows(), *complex_rows(), *mel_rows()]
