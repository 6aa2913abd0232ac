"""Factors of matrices that are not unique, or hard to tell apart: singular values, eigenvalues, Hessenberg and Schur forms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from forge.driver import check_options, compile_module
from forge.errors import ForgeError
from tests.ops import harness
from tests.ops.case import row

TIMES = 4
"""Errors of a factorization are a multiple of the size of the matrix, and of epsilon."""


def compiled(op: str, data: np.ndarray, **attributes: Any) -> list[np.ndarray]:
    return harness.compile_and_run(row(op, [data], **attributes))


def matrices(rows: int, columns: int) -> np.ndarray:
    """Of each kind one."""
    rng = np.random.default_rng(rows * 100 + columns)
    count = min(rows, columns)
    left, right = (np.linalg.qr(rng.normal(size=(n, n)))[0] for n in (rows, columns))

    def made(values: Any) -> np.ndarray:
        return left[:, :count] * values @ right[:count]

    deficient = np.where(np.arange(count) < (count + 1) // 2, 1.0, 0.0)
    integers = np.outer(np.arange(rows), np.ones(columns)) + np.outer(np.ones(rows), np.arange(columns))
    return np.stack([
        made(rng.uniform(0.5, 1, count)), made(deficient), made(np.ones(count)), made(10.0 ** -np.arange(count)),
        made(10.0 ** np.linspace(0, -25, count)), made(rng.uniform(0.5, 1, count)) * 1e-30, made(deficient) * 1e30, integers,
        np.zeros((rows, columns)), np.ones((rows, columns)), np.eye(rows, columns)[::-1],
        made(np.where(np.arange(count) == 0, 1e12, 1)), np.tril(np.ones((rows, columns))),
    ])


def near(a: np.ndarray, b: np.ndarray, x: np.ndarray, dtype: type) -> None:
    """Equal within what is promised for the matrices ``x``."""
    size = np.linalg.norm(x.astype(np.complex128), axis=(-2, -1))
    bound = TIMES * max(x.shape[-2:]) * np.finfo(dtype).eps * size
    assert (np.abs(a - b).reshape(len(x), -1).max(axis=1, initial=0) <= bound).all()


def is_identity(x: np.ndarray, dtype: type) -> None:
    one = np.broadcast_to(np.eye(x.shape[-1]), x.shape)
    near(x, one, one, dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(1, 1), (4, 4), (7, 3), (3, 7), (1, 5), (33, 33), (40, 17)])
def test_singular_values(shape: tuple[int, int], dtype: type) -> None:
    data = matrices(*shape).astype(dtype)
    count = min(shape)
    x = data.astype(np.float64)
    expected = np.linalg.svd(x, compute_uv=False)
    for full in (True, False):
        left, values, right = (v.astype(np.float64) for v in compiled("linalg.svd", data, full_matrices=full))
        assert left.shape[-1] == (shape[0] if full else count) and right.shape[-2] == (shape[1] if full else count)
        near(values, expected, x, dtype)
        assert (np.diff(values, axis=-1) <= 0).all() and (values >= 0).all()
        near(left[..., :count] * values[..., None, :] @ right[..., :count, :], x, x, dtype)
        is_identity(np.swapaxes(left, -1, -2) @ left, dtype)
        is_identity(right @ np.swapaxes(right, -1, -2), dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [1, 4, 33])
def test_symmetric_eigenvalues(size: int, dtype: type) -> None:
    data = matrices(size, size)
    vectors, own = np.linalg.qr(data)[0], np.random.default_rng(size).choice([-1, 0, 1e-9, 1e-3, 1, 1], (len(data), 1, size))
    data = np.concatenate([data + np.swapaxes(data, -1, -2), vectors * own @ np.swapaxes(vectors, -1, -2)]).astype(dtype)
    x = data.astype(np.float64)
    for lower in (True, False):
        symmetric = np.tril(x) + np.swapaxes(np.tril(x, -1), -1, -2)
        x = symmetric if lower else np.swapaxes(symmetric, -1, -2)
        given = (np.tril(x) + np.triu(np.full_like(x, 5), 1)) if lower else np.triu(x) + np.tril(np.full_like(x, 5), -1)
        values, vectors = (v.astype(np.float64) for v in compiled("linalg.eigh", given.astype(dtype), lower=lower))
        near(values, np.linalg.eigvalsh(x), x, dtype)
        assert (np.diff(values, axis=-1) >= 0).all()
        near(vectors * values[..., None, :] @ np.swapaxes(vectors, -1, -2), x, x, dtype)
        is_identity(np.swapaxes(vectors, -1, -2) @ vectors, dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(4, 4), (7, 3), (3, 7), (40, 17)])
def test_orthogonal_factors(shape: tuple[int, int], dtype: type) -> None:
    data = matrices(*shape).astype(dtype)
    x = data.astype(np.float64)
    factors, tau = compiled("linalg.householder", data)
    one = np.broadcast_to(np.eye(shape[0]), (len(x), shape[0], shape[0])).astype(dtype)
    (q,) = harness.compile_and_run(row("linalg.householder_multiply", [factors, tau, one]))
    q = q.astype(np.float64)
    near(q @ np.triu(factors.astype(np.float64)), x, x, dtype)
    is_identity(np.swapaxes(q, -1, -2) @ q, dtype)


def test_reflections_that_do_not_fit_are_refused() -> None:
    """Sizes of the run: a tau of more elements than factors have columns would read beyond them."""
    rng = np.random.default_rng(1)
    case = row("linalg.householder_multiply", [rng.normal(size=shape).astype(np.float32) for shape in ((5, 3), (2,), (5, 7))])
    model = compile_module(harness.module_of(case, symbolic=True), check_options(opt_level=3), use_cache=False).runtime()
    factors, tau, other = harness.input_arrays(case)
    assert model(factors, tau, other).shape == (5, 7)
    with pytest.raises(ForgeError, match="tau has more elements than factors have rows or columns"):
        model(factors, np.zeros(4, np.float32), other)


COMPLEX = [np.complex64, np.complex128]


def complex_matrices(rows: int, columns: int) -> np.ndarray:
    """Those of `matrices` with phases, and some with more imaginary parts."""
    phases = np.exp(1j * np.random.default_rng(columns).uniform(0, 6, (rows, columns)))
    data = matrices(rows, columns)
    return np.concatenate([data * phases[:1] * phases[:, :1], data * phases, data * 1j])


def adjoint(x: np.ndarray) -> np.ndarray:
    return np.swapaxes(x, -1, -2).conj()


@pytest.mark.parametrize("dtype", COMPLEX)
@pytest.mark.parametrize("shape", [(1, 1), (4, 4), (7, 3), (3, 7), (21, 17)])
def test_complex_singular_values(shape: tuple[int, int], dtype: type) -> None:
    data = complex_matrices(*shape).astype(dtype)
    count = min(shape)
    left, values, right = compiled("linalg.svd", data)
    near(values, np.linalg.svd(data.astype(np.complex128), compute_uv=False), data, dtype)
    near(left[..., :count] * values[..., None, :] @ right[..., :count, :], data, data, dtype)
    is_identity(adjoint(left) @ left, dtype)
    is_identity(right @ adjoint(right), dtype)


@pytest.mark.parametrize("dtype", COMPLEX)
@pytest.mark.parametrize("size", [1, 2, 4, 21])
def test_hermitian_eigenvalues(size: int, dtype: type) -> None:
    data = complex_matrices(size, size)
    data = (data + adjoint(data)).astype(dtype)
    for lower in (True, False):
        kept, others = (np.tril, np.triu) if lower else (np.triu, np.tril)
        given = kept(data) + 5 * others(np.ones_like(data), 1 if lower else -1) + 1j * np.eye(size, dtype=dtype)
        values, vectors = compiled("linalg.eigh", given.astype(dtype), lower=lower)
        near(values, np.linalg.eigvalsh(data), data, dtype)
        near(vectors * values[..., None, :] @ adjoint(vectors), data, data, dtype)
        is_identity(adjoint(vectors) @ vectors, dtype)


@pytest.mark.parametrize("dtype", COMPLEX)
@pytest.mark.parametrize("shape", [(1, 1), (4, 4), (7, 3), (3, 7), (21, 17)])
def test_unitary_factors(shape: tuple[int, int], dtype: type) -> None:
    data = complex_matrices(*shape).astype(dtype)
    one = np.broadcast_to(np.eye(shape[0], dtype=dtype), (len(data), shape[0], shape[0]))
    for op in ("linalg.householder", "linalg.householder_pivoted"):
        factors, tau, *order = compiled(op, data)
        (q,) = harness.compile_and_run(row("linalg.householder_multiply", [factors, tau, one]))
        moved = np.take_along_axis(data, np.broadcast_to(order[0][:, None], data.shape), -1) if order else data
        near(q @ np.triu(factors), moved, data, dtype)
        is_identity(adjoint(q) @ q, dtype)
        (back,) = harness.compile_and_run(row("linalg.householder_multiply", [factors, tau, q], transpose=True))
        is_identity(back, dtype)


def hard(size: int) -> np.ndarray:
    """Matrices that the QR algorithm finds hard: nilpotent, permutations, companions, of equal and of clustered eigenvalues."""
    rng = np.random.default_rng(size)
    cycle = np.roll(np.eye(size), 1, axis=0)
    companion = np.diag(np.ones(max(size - 1, 0)), -1)
    companion[:, -1] = 1e-3
    return np.stack([
        np.eye(size, k=1), np.eye(size, k=-1), cycle, companion, np.ones((size, size)), np.zeros((size, size)),
        np.eye(size) + np.eye(size, k=1), np.tril(np.ones((size, size))), rng.normal(size=(size, size)) * 1e150,
        rng.normal(size=(size, size)) * 1e-150, np.kron(np.eye((size + 1) // 2), [[0, 1], [-1, 0]])[:size, :size],
        rng.normal(size=(size, size)) * 10.0 ** rng.integers(-8, 8, (size, size)), np.eye(size, k=1) + 1e-17 * np.eye(size, k=-1),
        np.vander(np.linspace(0, 1, size)), *matrices(size, size)[:3],
    ])


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
@pytest.mark.parametrize("size", [1, 2, 3, 4, 9, 24])
def test_schur_forms(size: int, dtype: type) -> None:
    real = hard(size)
    data = real if dtype is np.float64 else np.concatenate([real, real * np.exp(1j * np.arange(size))]).astype(dtype)
    factors, tau = compiled("linalg.hessenberg", data)
    q = np.broadcast_to(np.eye(size, dtype=dtype), data.shape).copy()
    if size > 1:
        one = np.broadcast_to(np.eye(size - 1, dtype=dtype), (len(data), size - 1, size - 1))
        (q[:, 1:, 1:],) = harness.compile_and_run(row("linalg.householder_multiply", [factors[:, 1:, :-1], tau, one]))
    near(q @ np.triu(factors, -1) @ adjoint(q), data, data, dtype)
    form, vectors, left = compiled_of("linalg.schur", factors, q)
    assert not left.any()
    near(vectors @ form @ adjoint(vectors), data, data, dtype)
    is_identity(adjoint(vectors) @ vectors, dtype)
    assert not np.tril(form, -1 if dtype is np.complex128 else -2).any()
    if dtype is np.float64:
        below, above = np.diagonal(form, -1, -2, -1), np.diagonal(form, 1, -2, -1)
        block = below != 0
        diagonal = np.diagonal(form, 0, -2, -1)
        assert not (block[:, 1:] & block[:, :-1]).any()
        assert (np.sign(below) == -np.sign(above))[block].all() and (diagonal[:, 1:] == diagonal[:, :-1])[block].all()


def compiled_of(op: str, *data: np.ndarray, **attributes: Any) -> list[np.ndarray]:
    return harness.compile_and_run(row(op, list(data), **attributes))


@pytest.mark.parametrize("size", [1, 2, 5, 24])
def test_eigenvectors_of_triangular_matrices(size: int) -> None:
    rng = np.random.default_rng(size)
    data = np.stack([np.triu(rng.normal(size=(size, size))), np.triu(rng.normal(size=(size, size)), 1) + np.eye(size) * 3])
    values = np.diagonal(data, 0, -2, -1).astype(np.complex128)
    (found,) = compiled_of("linalg.triangular_eigenvectors", data.astype(np.complex128), values)
    assert np.isfinite(found).all()
    found /= np.linalg.norm(found, axis=-2, keepdims=True)
    near(data @ found, found * values[:, None], data, np.float64)
