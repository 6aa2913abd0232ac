"""Special functions and polynomials against SciPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from forge.compose import special
from forge.compose.polynomials import POLYNOMIALS
from forge.ir.op import Accuracy
from tests.ops.compare import check
from tests.ops.compose.support import run

scipy = pytest.importorskip("scipy.special")

WIDE = np.array([-np.inf, -30.0, -1.5, -0.25, -0.0, 0.0, 1e-30, 0.25, 0.75, 1.0, 3.5, 30.0, np.inf, np.nan])
SHARES = np.array([0.0, 1e-12, 0.02, 0.4, 0.5, 0.7, 1 - 1e-9, 1.0])


def agrees(compose: Any, wanted: np.ndarray, *arrays: np.ndarray) -> None:
    """In float32, for which frameworks round what they compute in float64; sizes known and unknown."""
    for symbolic in (False, True):
        (got,) = run(compose, *arrays, symbolic=symbolic)
        check(got.astype(np.float32), wanted.astype(np.float32), Accuracy.ROUNDING)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["ndtr", "log_ndtr", "entr"])
def test_functions_of_all_numbers(name: str) -> None:
    agrees(getattr(special, name), getattr(scipy, name)(WIDE), WIDE)


@pytest.mark.parametrize("name", ["ndtri", "logit"])
def test_functions_of_probabilities(name: str) -> None:
    agrees(getattr(special, name), getattr(scipy, name)(SHARES), SHARES)


def test_sinc() -> None:
    x = np.array([-2.5, -0.5, 0.0, 0.3, 4.2])
    agrees(special.sinc, np.sinc(x), x)


@pytest.mark.filterwarnings("ignore")
def test_xlog1py() -> None:
    x, y = np.meshgrid([0.0, -1.0, 2.5], [-1.0, 0.0, 3.0, np.inf, np.nan], indexing="ij")
    agrees(special.xlog1py, scipy.xlog1py(x, y), x, y)


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_logaddexp(dtype: Any) -> None:
    a = np.array([-700.0, -1.0, 0.5, 3.0], dtype)
    b = a[::-1] + (1j if dtype is np.complex128 else 0)
    (got,) = run(special.logaddexp, a, b, symbolic=True)
    check(got, np.log(np.exp(a) + np.exp(b)), Accuracy.ROUNDING)


def test_logaddexp2() -> None:
    a = np.array([-3.0, 0.5, 1000.0])
    agrees(special.logaddexp2, np.logaddexp2(a, a[::-1]), a, a[::-1])


@pytest.mark.filterwarnings("ignore")
def test_zeta_of_vectors_that_broadcast() -> None:
    x, q = np.array([[1.0], [1.5], [3.0], [11.0]]), np.array([-2.0, 0.0, 0.25, 1.0, 7.5, 40.0])
    agrees(special.zeta, scipy.zeta(x, q), x, q)


@pytest.mark.parametrize("n", [1, 2, 5])
def test_polygamma(n: int) -> None:
    x = np.array([0.1, 1.0, 4.5, 80.0])
    agrees(lambda g, v: special.polygamma(g, n, v), scipy.polygamma(n, x), x)


SCIPY_NAMES = {
    "chebyshev_t": "eval_chebyt", "chebyshev_u": "eval_chebyu", "hermite_h": "eval_hermite", "hermite_he": "eval_hermitenorm",
    "laguerre_l": "eval_laguerre", "legendre_p": "eval_legendre",
}


@pytest.mark.parametrize("name", SCIPY_NAMES)
def test_polynomials(name: str) -> None:
    x, n = np.array([[-0.9], [-0.2], [0.4], [1.0]]), np.array([0.0, 1.0, 2.0, 7.0])
    agrees(POLYNOMIALS[name], getattr(scipy, SCIPY_NAMES[name])(n.astype(int), x), x, n)


def test_polynomials_of_the_third_and_fourth_kind() -> None:
    angle, n = np.array([[0.3], [1.1], [2.5]]), np.arange(4.0)
    agrees(POLYNOMIALS["chebyshev_v"], np.cos((n + 0.5) * angle) / np.cos(angle / 2), np.cos(angle), n)
    agrees(POLYNOMIALS["chebyshev_w"], np.sin((n + 0.5) * angle) / np.sin(angle / 2), np.cos(angle), n)


def test_a_polynomial_of_a_negative_degree_is_zero() -> None:
    (got,) = run(POLYNOMIALS["hermite_h"], np.array([2.0, 2.0, 2.0]), np.array([-1.0, 0.5, 1.9]))
    assert got.tolist() == [0.0, 1.0, 4.0]
