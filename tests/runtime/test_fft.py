"""The runtime's Fourier transform against NumPy: all lengths and layouts, with what it reads and writes guarded."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forge_runtime import routine_addresses, static_sources
from tests import guard
from tests.runtime.sanitizers import compile_sanitized
from tests.runtime.test_native import HERE, execute, has_sanitizer

WIDE, COMPLEX, INVERSE, ONESIDED = 1, 2, 4, 8
ARGUMENTS = [ctypes.c_void_p] * 2 + [ctypes.c_int64] * 6 + [ctypes.c_void_p]
ROUTINE = ctypes.CFUNCTYPE(ctypes.c_int32, *ARGUMENTS)(routine_addresses()["forge_fft"])
MODES = [(False, False), (False, True), (True, False), (True, True)]


def draw(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """The same numbers whenever a shape is asked for, so that a failure can be repeated."""
    rng = np.random.default_rng([11, *shape])
    data = rng.standard_normal(shape)
    return (data + 1j * rng.standard_normal(shape) if "complex" in dtype else data).astype(dtype)


def transform(x: np.ndarray, length: int, inverse: bool, onesided: bool, host: guard.GuardedHost | None = None) -> np.ndarray:
    """What the routine makes of ``x`` [outer, extent, inner]."""
    wide, real = x.dtype in (np.float64, np.complex128), inverse and onesided
    flags = WIDE * wide | COMPLEX * np.iscomplexobj(x) | INVERSE * inverse | ONESIDED * onesided
    kind = (np.float64 if wide else np.float32) if real else (np.complex128 if wide else np.complex64)
    count = length // 2 + 1 if onesided and not inverse else length
    shape = (x.shape[0], count, x.shape[2])
    data = guard.Guarded(x.nbytes, 1).write(x.tobytes())
    out = guard.Guarded(int(np.prod(shape)) * np.dtype(kind).itemsize)
    host = host or guard.GuardedHost()
    status = ROUTINE(data.address, out.address, *x.shape, length, count, flags, ctypes.addressof(host.struct))
    assert status == 0, host.error
    data.check("data")
    out.check("out")
    assert not host.blocks, "working memory is given back"
    return np.frombuffer(out.read(), kind).reshape(shape)


def expected(x: np.ndarray, length: int, inverse: bool, onesided: bool) -> np.ndarray:
    x = x.astype(np.complex128 if np.iscomplexobj(x) else np.float64)
    if inverse and onesided:
        return np.fft.irfft(x, length, 1)
    result = (np.fft.ifft if inverse else np.fft.fft)(x, length, 1)
    return result[:, : length // 2 + 1] if onesided else result


def check(x: np.ndarray, length: int, inverse: bool, onesided: bool) -> None:
    """The error of every row is a few times log2(length) units of its spectrum's norm.

    Rounding errors spread over the whole spectrum, so half of one is measured by the norm of both halves.
    """
    got, wanted = transform(x, length, inverse, onesided), expected(x, length, inverse, onesided)
    single = x.dtype in (np.float32, np.complex64)
    bound = np.finfo(np.float32 if single else np.float64).eps * (1 if single else 2 + 0.5 * np.log2(length))
    whole = expected(x, length, inverse, onesided and inverse)
    error, size = np.linalg.norm(got - wanted, axis=1), np.linalg.norm(whole, axis=1)
    assert (error <= bound * size).all(), (x.shape, x.dtype, length, inverse, onesided, (error / size).max() / bound)


@pytest.mark.parametrize(("inverse", "onesided"), MODES)
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_every_short_length(dtype: str, inverse: bool, onesided: bool) -> None:
    for length in range(1, 131):
        check(draw((3, length, 3), dtype), length, inverse, onesided)
        check(draw((1, length + 2, 1), dtype), length, inverse, onesided)
        check(draw((2, max(1, length // 2), 1), dtype), length, inverse, onesided)


@pytest.mark.parametrize(("inverse", "onesided"), MODES)
@pytest.mark.parametrize("length", [131, 251, 509, 1009, 2003, 4093, 10007, 2 * 4093, 31 * 31, 1000, 3 * 5 * 7 * 11, 13**3])
def test_primes_and_products(length: int, inverse: bool, onesided: bool) -> None:
    for dtype in ("float64", "complex128", "float32", "complex64"):
        check(draw((2, length, 1), dtype), length, inverse, onesided)


@pytest.mark.parametrize("power", range(8, 19))
def test_powers_of_two(power: int) -> None:
    for inverse, onesided in MODES:
        for dtype in ("float64", "complex128"):
            check(draw((2, 1 << power, 1), dtype), 1 << power, inverse, onesided)


@settings(max_examples=150)
@given(st.integers(0, 5), st.integers(0, 80), st.integers(0, 11), st.integers(1, 400), st.sampled_from(MODES),
       st.sampled_from(["float32", "float64", "complex64", "complex128"]))
def test_odd_sizes(outer: int, extent: int, inner: int, length: int, mode: tuple[bool, bool], dtype: str) -> None:
    data = draw((outer, extent, inner), dtype)
    if extent:
        check(data, length, *mode)
    else:
        assert not transform(data, length, *mode).any()


@pytest.mark.parametrize(("length", "limit"), [(7, 1.2e-16), (29, 1.2e-16), (31, 1.2e-16), (96, 3e-16), (1000, 5e-16)])
def test_roots_of_unity(length: int, limit: float) -> None:
    """An impulse gives the roots: of the table where there is one stage, products of a few elsewhere."""
    mpmath = pytest.importorskip("mpmath")
    impulse = np.zeros((1, length, 1), np.complex128)
    impulse[0, 1, 0] = 1
    found = transform(impulse, length, False, False)[0, :, 0]
    with mpmath.workdps(40):
        exact = [mpmath.expjpi(mpmath.mpf(-2 * k) / length) for k in range(length)]
        assert max(abs(z - e) for z, e in zip(found.tolist(), exact, strict=True)) <= limit


@pytest.mark.parametrize("length", [8, 15, 37, 94])
def test_what_is_not_finite_stays_in_its_row(length: int) -> None:
    for inverse, onesided in MODES:
        for bad in (np.nan, np.inf, -np.inf):
            data = draw((3, length, 2), "complex128")
            clean = transform(data, length, inverse, onesided)
            data[1, 0, 1] = bad
            got = transform(data, length, inverse, onesided)
            assert not np.isfinite(got[1, :, 1]).any()
            got, clean = got.reshape(3, -1, 2).copy(), clean.copy()
            got[1, :, 1] = clean[1, :, 1] = 0
            assert got.tobytes() == clean.tobytes()


def test_rows_do_not_depend_on_their_neighbours() -> None:
    for length in (24, 74, 4096):
        data = draw((9, length, 1), "float32")
        whole = transform(data, length, False, True, guard.GuardedHost(3))
        alone = [transform(data[k : k + 1], length, False, True) for k in range(9)]
        assert whole.tobytes() == np.concatenate(alone).tobytes()


class Poor(guard.GuardedHost):
    """Has memory for a number of requests."""

    def __init__(self, requests: int) -> None:
        self.requests = requests
        super().__init__()

    def _alloc(self, host: Any, size: int, alignment: int) -> int:
        self.requests -= 1
        return super()._alloc(host, size, alignment) if self.requests >= 0 else 0


@pytest.mark.parametrize("requests", [0, 1, 2])
def test_no_memory_is_reported_and_none_is_kept(requests: int) -> None:
    host = Poor(requests)
    data, out = guard.Guarded(40 * 8 * 8), guard.Guarded(40 * 8 * 16)
    status = ROUTINE(data.address, out.address, 40, 8, 1, 8, 8, WIDE, ctypes.addressof(host.struct))
    assert status == 2 and host.error == "fft: no memory for a transform of this length" and not host.blocks


@pytest.mark.parametrize(("sizes", "status"), [
    ((1, -1, 1, 4, 4), 6), ((-1, 4, 1, 4, 4), 6), ((1, 4, -2, 4, 4), 6), ((1, 4, 1, 4, -4), 6), ((1, 4, 1, 4, 5), 6),
    ((1 << 40, 1 << 40, 1, 4, 4), 6), ((1 << 33, 4, 1 << 33, 4, 4), 6), ((1, 4, 1, 1 << 60, 4), 2),
    ((0, 4, 1, 4, 4), 0), ((1, 4, 0, 4, 4), 0), ((1, 4, 1, 4, 0), 0),
])
def test_sizes_that_do_not_fit_together(sizes: tuple[int, ...], status: int) -> None:
    host = guard.GuardedHost()
    assert ROUTINE(None, None, *sizes, WIDE, ctypes.addressof(host.struct)) == status
    assert ("fft: " in host.error) is (status != 0)


@pytest.mark.parametrize("sanitizer", ["address,undefined"])
def test_random_sizes_under_sanitizers(sanitizer: str, tmp_path: Path) -> None:
    if not has_sanitizer(sanitizer):
        pytest.skip(f"this compiler has no -fsanitize={sanitizer}")
    program = tmp_path / "stress"
    compile_sanitized(sanitizer, HERE / "fft_stress.c", program)
    assert execute(program, "3000") == "done\n"


def test_it_is_clean_c(tmp_path: Path) -> None:
    source = next(s for s in static_sources() if s.stem == "forge_fft")
    compiled = subprocess.run(["cc", "-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-c", source, "-o", tmp_path / "fft.o"],
                              capture_output=True, text=True, check=False)
    assert compiled.returncode == 0, compiled.stderr
