"""Linear systems, decompositions, norms and distances against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from forge.compose import decompositions, distances, linalg
from forge.compose.decompositions import Tolerance
from forge.errors import OpAttributeInvalid
from forge.ir.nodes import Value
from forge.ir.op import Accuracy
from forge.ops.core.composer import Composer
from tests.ops.compare import check
from tests.ops.compose.support import build, run

rng = np.random.default_rng(41)
A = rng.standard_normal((2, 4, 4))
SYMMETRIC = A @ A.swapaxes(1, 2) + np.eye(4)
B = rng.standard_normal((4, 3))
WIDE = rng.standard_normal((3, 2, 5))
BOTH = pytest.mark.parametrize("symbolic", [False, True])


def close(got: np.ndarray, wanted: np.ndarray) -> None:
    check(got, wanted, Accuracy.ACCUMULATING)


def test_solve() -> None:
    (got,) = run(linalg.solve, A, B)
    close(A @ got, np.broadcast_to(B, (2, 4, 3)))
    (got,) = run(lambda g, a, b: linalg.solve(g, a, b, left=False), A, B.T)
    close(got @ A, np.broadcast_to(B.T, (2, 3, 4)))
    (got,) = run(linalg.solve, A, B[:, :2].T)
    close(np.einsum("bij,bj->bi", A, got), B[:, :2].T)


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_cholesky_solve(upper: bool, dtype: Any) -> None:
    matrices = SYMMETRIC.astype(dtype)
    if dtype is np.complex128:
        matrices = matrices + 0.1j * (A - A.swapaxes(1, 2))
    factor = np.linalg.cholesky(matrices)
    given = factor.conj().swapaxes(1, 2) if upper else factor
    (got,) = run(lambda g, f, b: linalg.cholesky_solve(g, f, b, upper=upper), given, B.astype(dtype))
    close(matrices @ got, np.broadcast_to(B, (2, 4, 3)).astype(dtype))


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("adjoint", [False, True])
def test_systems_of_factors(left: bool, adjoint: bool) -> None:
    def compose(g: Composer, a: Value, b: Value) -> list[Value]:
        packed, exchanges = g.multi("linalg.lu", a)
        order = g.call("linalg.permutation", exchanges, size=4)
        x = linalg.lu_solve(g, packed, order, b, left=left, adjoint=adjoint)
        return [x, linalg.permutation_matrix(g, order, "float64"), *linalg.lu_unpack(g, packed)]

    right = B if left else B.T
    got, permutation, lower, upper = run(compose, A, right)
    matrices = A.swapaxes(1, 2) if adjoint else A
    close(matrices @ got if left else got @ matrices, np.broadcast_to(right, got.shape))
    close(permutation @ lower @ upper, A)


def test_determinants() -> None:
    sign, size = run(linalg.slogdet, A)
    wanted = np.linalg.slogdet(A)
    assert np.array_equal(sign, wanted[0])
    close(size, wanted[1])
    (got,) = run(linalg.logdet, np.stack([np.diag([1.0, 2, 3]), np.diag([1.0, -2, 3])]))
    assert got[0] == pytest.approx(np.log(6))
    assert np.isnan(got[1])


def test_the_first_pivot_that_is_zero() -> None:
    (got,) = run(linalg.first_bad_pivot, np.stack([np.eye(3), np.diag([1.0, 0, 0]), np.diag([np.nan, 1, 1])]))
    assert got.tolist() == [0, 2, 1]


@pytest.mark.parametrize("n", [0, 1, 5])
def test_matrix_power(n: int) -> None:
    (got,) = run(lambda g, a: linalg.matrix_power(g, a, n), A)
    close(got, np.linalg.matrix_power(A, n))


@pytest.mark.parametrize("scale", [0.1, 5.0])
def test_matrix_exp(scale: float) -> None:
    """Of symmetric matrices, against their eigenvectors: SciPy's results have 11 digits."""
    values, vectors = np.linalg.eigh(SYMMETRIC * np.array([scale, 1.0])[:, None, None])
    (got,) = run(linalg.matrix_exp, SYMMETRIC * np.array([scale, 1.0])[:, None, None])
    for result, value, vector in zip(got, values, vectors, strict=True):
        close(result, (vector * np.exp(value)) @ vector.T)


@pytest.mark.parametrize("complete", [False, True])
@pytest.mark.parametrize("x", [WIDE, WIDE.swapaxes(1, 2)])
def test_qr(complete: bool, x: np.ndarray) -> None:
    q, r = run(lambda g, v: decompositions.qr(g, v, complete=complete), np.ascontiguousarray(x))
    wanted = np.linalg.qr(x, "complete" if complete else "reduced")
    close(q, wanted.Q)
    close(r, wanted.R)


@pytest.mark.parametrize("transpose", [False, True])
def test_products_with_reflectors(transpose: bool) -> None:
    def compose(g: Composer, x: Value, other: Value) -> list[Value]:
        factors, tau = g.multi("linalg.householder", x)
        left, right = (
            decompositions.householder_multiply(g, factors, tau, other, left=left, transpose=transpose) for left in (True, False)
        )
        return [left, right, decompositions.householder_product(g, factors, tau)]

    left, right, q = run(compose, A, SYMMETRIC)
    turned = q.swapaxes(1, 2) if transpose else q
    close(q, np.linalg.qr(A).Q)
    close(left, turned @ SYMMETRIC)
    close(right, SYMMETRIC @ turned)


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_values(dtype: Any) -> None:
    x = WIDE + (1j * WIDE[::-1] if dtype is np.complex128 else 0)
    (got,) = run(decompositions.singular_values, x)
    close(got, np.linalg.svd(x, compute_uv=False))
    square = x @ x.conj().swapaxes(1, 2)
    for lower in (True, False):
        (got,) = run(lambda g, v, lower=lower: decompositions.eigvalsh(g, v, lower=lower), square)
        close(got, np.linalg.eigvalsh(square))


def tolerance(g: Composer, x: Value) -> Tolerance:
    return Tolerance(g.constant(0.0, "float64"), decompositions.default_tolerance(g, x))


@pytest.mark.parametrize("hermitian", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_pseudo_inverses_and_ranks(hermitian: bool, dtype: Any) -> None:
    x = WIDE + (1j * WIDE[::-1] if dtype is np.complex128 else 0)
    x = x.conj().swapaxes(1, 2) @ x if hermitian else x
    (got,) = run(lambda g, v: decompositions.pinv(g, v, tolerance(g, v), hermitian=hermitian), x)
    close(got, np.linalg.pinv(x))
    (got,) = run(lambda g, v: decompositions.matrix_rank(g, v, tolerance(g, v), hermitian=hermitian), x)
    assert got.tolist() == [2, 2, 2]


@pytest.mark.parametrize("order", ["fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf])
def test_norms_and_conditions(order: Any) -> None:
    (got,) = run(lambda g, v: decompositions.matrix_norm(g, v, order, (2, 0), keepdims=True), WIDE)
    close(got, np.linalg.norm(WIDE, order, (2, 0), keepdims=True))
    (got,) = run(lambda g, v: decompositions.cond(g, v, order), A)
    close(got, np.linalg.cond(A, order))


def test_the_condition_of_a_singular_matrix_is_infinite() -> None:
    (got,) = run(lambda g, v: decompositions.cond(g, v, 1), np.ones((2, 2)))
    assert np.isinf(got)


def test_another_order_is_an_error() -> None:
    with pytest.raises(OpAttributeInvalid, match="got 3; expected 'fro'"):
        build(lambda g, v: decompositions.matrix_norm(g, v, 3, (0, 1)), [B])


@BOTH
@pytest.mark.parametrize("p", [0.0, 1.0, 2.0, 3.0, np.inf])
def test_distances(p: float, symbolic: bool) -> None:
    rows, others = WIDE[0], WIDE[1:].reshape(4, 5)
    wanted = np.linalg.norm(rows[:, None] - others, p, -1)
    (got,) = run(lambda g, a, b: distances.cdist(g, a, b, p), rows, others, symbolic=symbolic)
    close(got, wanted)
    (got,) = run(lambda g, a: distances.pdist(g, a, p), others)
    close(got, np.linalg.norm(others[:, None] - others, p, -1)[np.triu_indices(4, 1)])


def test_cross() -> None:
    a, b = WIDE[:, 0], WIDE[:, 1:, 0]
    (got,) = run(lambda g, x, y: distances.cross(g, x, y, 0), a, b)
    close(got, np.cross(a, np.broadcast_to(b, a.shape), axis=0))
