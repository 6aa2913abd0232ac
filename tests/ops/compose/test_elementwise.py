"""Functions of elements against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from forge.compose import elementwise
from forge.ir.op import Accuracy
from tests.ops.compare import check
from tests.ops.compose.support import run

SPECIAL = np.array([-np.inf, -2.5, -0.0, 0.0, 1e-320, 0.75, np.inf, np.nan])


@pytest.mark.parametrize("symbolic", [False, True])
def test_gcd_and_lcm_of_vectors_that_broadcast(symbolic: bool) -> None:
    a, b = np.array([[0], [12], [-18], [7]]), np.array([0, 4, 27, -42, 1])
    (got,) = run(elementwise.gcd, a, b, symbolic=symbolic)
    assert np.array_equal(got, np.gcd(a, b))
    (got,) = run(elementwise.lcm, a[1:], b[1:], symbolic=symbolic)
    assert np.array_equal(got, np.lcm(a[1:], b[1:]))


def test_frexp() -> None:
    finite = SPECIAL[np.isfinite(SPECIAL)]
    mantissa, exponent = run(elementwise.frexp, finite)
    wanted = np.frexp(finite)
    assert np.array_equal(mantissa, wanted[0])
    assert np.array_equal(exponent, wanted[1])
    mantissa, exponent = run(elementwise.frexp, np.array([np.inf, np.nan]))
    assert np.array_equal(mantissa, [np.inf, np.nan], equal_nan=True)
    assert not exponent.any()


@pytest.mark.parametrize("dtype", [np.float64, np.complex64, np.int64])
def test_nan_to_num(dtype: Any) -> None:
    x = SPECIAL.astype(dtype) if dtype is not np.int64 else np.arange(4)
    if dtype is np.complex64:
        x.imag = SPECIAL[::-1]
    (got,) = run(lambda g, v: elementwise.nan_to_num(g, v, 2.0, None, -5.0), x)
    assert np.array_equal(got, np.nan_to_num(x, nan=2.0, neginf=-5.0))


@pytest.mark.parametrize("decimals", [-1, 1, 2])
def test_rounding_to_digits(decimals: int) -> None:
    x = np.array([-12.345, 0.25, 14.96, 155.0])
    (got,) = run(lambda g, v: elementwise.round_to(g, v, decimals), x)
    check(got, np.round(x, decimals), Accuracy.ROUNDING)


def test_heaviside() -> None:
    (got,) = run(elementwise.heaviside, SPECIAL[:-1], np.full(7, 0.5))
    assert np.array_equal(got, np.heaviside(SPECIAL[:-1], 0.5))


def test_lerp_gives_the_ends_themselves() -> None:
    start, end = np.full(3, 1e16), np.full(3, 1.0)
    (got,) = run(elementwise.lerp, start, end, np.array([0.0, 0.25, 1.0]))
    assert got.tolist() == [1e16, 7.5e15, 1.0]


@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
def test_angle(dtype: Any) -> None:
    x = np.array([-2.0, 0.0, 3.0], dtype)
    (got,) = run(elementwise.angle, x)
    check(got, np.angle(x), Accuracy.ROUNDING)
