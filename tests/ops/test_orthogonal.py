"""Singular values and symmetric eigenvalues whose vectors are not unique, or hard to tell apart."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from forge.driver import check_options, compile_module
from forge.errors import ForgeError
from tests.ops import harness
from tests.ops.case import row

TIMES = 4
"""Errors of a factorisation are a multiple of the size of the matrix, and of epsilon."""


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
    size = np.linalg.norm(x, axis=(-2, -1))
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
