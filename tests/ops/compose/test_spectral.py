"""Transforms of frames and along axes that arrive at run time, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from forge.compose import spectral
from forge.compose.spectral import dft_along, stft
from forge.errors import OpAttributeInvalid
from forge.ir.nodes import Value
from forge.ir.op import Accuracy
from forge.ops.core.composer import Composer
from tests.ops.compare import check
from tests.ops.compose.support import build, run, run_compiled

rng = np.random.default_rng(5)


def draw(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def parts(x: np.ndarray) -> np.ndarray:
    return np.stack([x.real, x.imag], -1).astype(np.float32)


@pytest.mark.parametrize("onesided", [True, False])
def test_frames_are_weighted_and_transformed(onesided: bool) -> None:
    signal, window = draw(2, 20, 1), draw(6)
    frames = np.stack([signal[:, s : s + 6, 0] * window for s in range(0, 15, 4)], 1)
    wanted = np.fft.rfft(frames) if onesided else np.fft.fft(frames)
    (got,) = run_compiled(lambda g, x, s, w: stft(g, x, s, window=w, onesided=onesided), signal, np.array(4), window)
    check(got, parts(wanted), Accuracy.ACCUMULATING)


def test_frames_by_length_of_an_unknown_signal() -> None:
    signal = draw(1, 12, 2)
    frames = np.stack([signal[:, s : s + 5, 0] + 1j * signal[:, s : s + 5, 1] for s in range(0, 8, 3)], 1)

    def compose(g: Composer, x: Value, step: Value, length: Value) -> Value:
        return stft(g, x, step, length=length, onesided=False)

    (got,) = run(compose, signal, np.array(3), np.array([5]), symbolic=True)
    check(got, parts(np.fft.fft(frames)), Accuracy.ACCUMULATING)


def test_a_signal_of_another_rank_is_an_error() -> None:
    with pytest.raises(OpAttributeInvalid, match="expected 3"):
        build(lambda g, x, s: stft(g, x, s), [draw(4, 3), np.array(1)])


def along(**options: Any) -> Any:
    return lambda g, x, axis, length=None: dft_along(g, x, axis, length=length, **options)


@pytest.mark.parametrize("axis", [0, 1, -2, -3])
@pytest.mark.parametrize("length", [None, 3, 9])
@pytest.mark.parametrize("onesided", [True, False])
def test_real_signals_along_any_axis(axis: int, length: int | None, onesided: bool) -> None:
    x = draw(4, 5, 1)
    transform = np.fft.rfft if onesided else np.fft.fft
    wanted = transform(x[..., 0], length, axis if axis >= 0 else axis + 1)
    given = None if length is None else np.array(length)
    (got,) = run(along(onesided=onesided), x, np.array(axis), given)
    check(got, parts(wanted), Accuracy.ACCUMULATING)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("length", [None, 5, 8, 11])
def test_real_signals_from_half_of_their_spectrum(axis: int, length: int | None) -> None:
    x = draw(4, 5, 2)
    wanted = np.fft.irfft(x[..., 0] + 1j * x[..., 1], length, axis)[..., None].astype(np.float32)
    given = None if length is None else np.array([length])
    if length != 8:
        (got,) = run(along(inverse=True, onesided=True), x, np.array(axis), given, symbolic=True)
    else:
        (got,) = run_compiled(along(inverse=True, onesided=True), x, np.array(axis), given)
    check(got, wanted, Accuracy.ACCUMULATING)


def test_inverse_along_an_axis_of_unknown_sizes() -> None:
    x = draw(2, 3, 4, 2)
    wanted = np.fft.ifft(x[..., 0] + 1j * x[..., 1], axis=1)
    (got,) = run_compiled(along(inverse=True), x, np.array(1), symbolic=True)
    check(got, parts(wanted), Accuracy.ACCUMULATING)


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
def test_transforms_are_those_of_numpy(norm: Any) -> None:
    x = draw(3, 4, 6)
    spectrum = np.fft.rfftn(x, axes=(1, 2), norm=norm).astype(np.complex64)
    (got,) = run(lambda g, v: spectral.fftn(g, v, (1, 2), onesided=True, norm=norm), x)
    check(got, spectrum, Accuracy.ACCUMULATING)
    (back,) = run(lambda g, v: spectral.fftn(g, v, (1, 2), inverse=True, onesided=True, norm=norm), spectrum)
    check(back, x, Accuracy.ACCUMULATING)
    half = np.fft.ihfft(x, norm=norm).astype(np.complex64)
    check(run(lambda g, v: spectral.hfftn(g, v, (2,), inverse=True, norm=norm), x)[0], half, Accuracy.ACCUMULATING)
    check(run(lambda g, v: spectral.hfftn(g, v, (2,), norm=norm), half)[0], x, Accuracy.ACCUMULATING)


def test_another_norm_is_an_error() -> None:
    with pytest.raises(OpAttributeInvalid, match="backward, ortho, forward"):
        build(lambda g, v: spectral.fftn(g, v, (0,), norm="both"), [draw(4)])


@pytest.mark.parametrize("count", [7, 8])
def test_numbers_move_to_the_middle_and_back(count: int) -> None:
    x = draw(count)
    (got, back) = run(lambda g, v: [spectral.fftshift(g, v, (0,)), spectral.fftshift(g, v, (0,), inverse=True)], x)
    assert np.array_equal(got, np.fft.fftshift(x))
    assert np.array_equal(back, np.fft.ifftshift(x))


def test_a_signal_comes_back_from_its_frames() -> None:
    x, window = draw(2, 40), np.hanning(8).astype(np.float32)

    def compose(g: Composer, v: Value, w: Value) -> Value:
        spectra = spectral.centred_stft(g, v, w, size=8, hop=2, pad_mode="reflect", normalized=True)
        return spectral.centred_istft(g, spectra, w, size=8, hop=2, normalized=True, length=40)

    np.testing.assert_allclose(run(compose, x, window)[0], x, atol=1e-5)
