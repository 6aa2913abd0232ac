"""Rows of factorizations and linear systems."""

from __future__ import annotations

import itertools

import numpy as np

from tests.ops.case import Case, Fixed, row

RNG = np.random.default_rng(7)


def positive(*shape, dtype=np.float32):
    """Positive definite matrices."""
    a = RNG.uniform(-1, 1, shape)
    return (a @ np.swapaxes(a, -1, -2) + shape[-1] * np.eye(shape[-1])).astype(dtype)


def regular(*shape, dtype=np.float32):
    """Matrices far from singular, whose diagonals are not their largest elements."""
    a = RNG.uniform(-1, 1, shape) + 2 * np.eye(shape[-1])
    return np.roll(a, 1, axis=-2).astype(dtype)


def dense(*shape, dtype=np.float32):
    return RNG.uniform(-1, 1, shape).astype(dtype)


def factor_rows() -> list[Case]:
    def lower(x):
        return np.linalg.cholesky(x.astype(np.float64))

    def upper(x):
        return np.swapaxes(lower(x), -1, -2)

    one_sided = positive(4, 4)
    indefinite = np.array([[1, 2], [2, 1]], np.float32)
    return [
        row("linalg.cholesky", [positive(5, 5)], lower),
        row("linalg.cholesky", [positive(2, 3, 4, 4, dtype=np.float64)], lower),
        row("linalg.cholesky", [positive(3, 3)], upper, lower=False),
        row("linalg.cholesky", [np.tril(one_sided)], lambda x: lower(one_sided), note="one triangle"),
        row("linalg.cholesky", [np.triu(one_sided)], lambda x: upper(one_sided), lower=False, note="one triangle"),
        row("linalg.cholesky", [positive(3, 3, dtype=np.float16)], lower),
        row("linalg.cholesky", [indefinite], lambda x: np.array([[1, 0], [2, np.nan]])),
        row("linalg.cholesky", [Fixed(np.zeros((2, 0, 0), np.float32))], lambda x: x),
        row("linalg.cholesky", [np.full((3, 1, 1), 4.0, np.float32)], np.sqrt),
    ]


def triangular_rows() -> list[Case]:
    rows = []
    for left, lower, turned, unit in itertools.product((True, False), repeat=4):
        a = dense(2, 5, 5) / 2 + 2 * np.eye(5, dtype=np.float32)
        b = dense(2, 5, 3) if left else dense(2, 3, 5)

        def solve(a, b, left=left, lower=lower, turned=turned, unit=unit):
            a = (np.tril if lower else np.triu)(a.astype(np.float64))
            a = np.where(np.eye(5, dtype=bool), 1, a) if unit else a
            a = np.swapaxes(a, -1, -2) if turned else a
            if left:
                return np.linalg.solve(a, b)
            return np.swapaxes(np.linalg.solve(np.swapaxes(a, -1, -2), np.swapaxes(b, -1, -2)), -1, -2)

        rows.append(row("linalg.triangular_solve", [a, b], solve, left_side=left, lower=lower, transpose_a=turned,
                        unit_diagonal=unit))
    zero = np.zeros((2, 2), np.float32)
    return [
        *rows,
        row("linalg.triangular_solve", [zero, np.array([[1], [0]], np.float32)], lambda a, b: np.array([[np.inf], [np.nan]])),
        row("linalg.triangular_solve", [Fixed(np.zeros((0, 0), np.float64)), Fixed(np.zeros((0, 3)))], lambda a, b: b),
    ]


def _lu(x):
    """Doolittle's method on Python numbers."""
    m, n = x.shape
    rows, exchanges = [list(map(float, r)) for r in x], []
    for k in range(min(m, n)):
        best = max(range(k, m), key=lambda r: (abs(rows[r][k]), -r))
        exchanges.append(best)
        rows[k], rows[best] = rows[best], rows[k]
        for r in range(k + 1, m):
            if rows[k][k]:
                rows[r][k] /= rows[k][k]
                rows[r][k + 1:] = [v - rows[r][k] * t for v, t in zip(rows[r][k + 1:], rows[k][k + 1:])]
    return [np.array(rows), np.array(exchanges)]


def _permutation(exchanges, size):
    """The products of the matrices of the exchanges, applied to the numbers."""
    order = np.arange(size)
    for k, other in enumerate(exchanges):
        matrix = np.eye(size, dtype=np.int64)
        matrix[k, k] = matrix[other, other] = int(k == other)
        matrix[k, other] = matrix[other, k] = 1
        order = matrix @ order
    return order


def exchange_rows() -> list[Case]:
    def oracle(x, size=None):
        batch = x.reshape(-1, x.shape[-1])
        found = [_permutation(b, size or x.shape[-1]) for b in batch]
        return np.stack(found).reshape(*x.shape[:-1], -1)

    some = np.array([[2, 3, 2, 3], [0, 1, 2, 3], [3, 3, 3, 3]])
    return [
        row("linalg.permutation", [some], oracle),
        row("linalg.permutation", [some.astype(np.int32)], lambda x: oracle(x, 6), size=6),
        row("linalg.permutation", [np.array([1, 1])], oracle),
        row("linalg.permutation", [np.array([-5, 9, 1])], lambda x: oracle(np.array([0, 2, 1])), note="out of range"),
        row("linalg.permutation", [Fixed(np.zeros((2, 0), np.int64))], lambda x: np.tile(np.arange(3), (2, 1)), size=3),
    ]


def system_rows() -> list[Case]:
    singular = np.array([[0, 1], [0, 2]], np.float32)
    return [
        row("linalg.lu", [regular(5, 5)], _lu),
        row("linalg.lu", [regular(4, 4, dtype=np.float64)], _lu),
        row("linalg.lu", [singular], lambda x: [np.array([[0, 1], [0, 2]]), np.array([0, 1])]),
        row("linalg.lu", [dense(5, 3)], _lu),
        row("linalg.lu", [dense(3, 6, dtype=np.float64)], _lu),
        row("linalg.lu", [dense(1, 4)], _lu),
        row("linalg.lu", [dense(4, 1, dtype=np.float16)], _lu),
        row("linalg.lu", [Fixed(np.zeros((2, 3, 0), np.float32))], lambda x: [x, np.zeros((2, 0), np.int64)]),
        row("linalg.lu", [regular(2, 3, 3)], lambda x: [np.stack(v) for v in zip(*map(_lu, x))]),
        row("linalg.solve", [regular(5, 5), dense(5, 2)], lambda a, b: np.linalg.solve(a.astype(np.float64), b)),
        row("linalg.solve", [regular(2, 4, 4, dtype=np.float64), dense(2, 4, 1, dtype=np.float64)], np.linalg.solve),
        row("linalg.inverse", [regular(5, 5)], lambda x: np.linalg.inv(x.astype(np.float64))),
        row("linalg.inverse", [regular(3, 2, 4, 4, dtype=np.float64)], np.linalg.inv),
        row("linalg.inverse", [regular(3, 3, dtype=np.float16)], lambda x: np.linalg.inv(x.astype(np.float64))),
    ]


def complex_numbers(*shape, dtype=np.complex64):
    return (RNG.uniform(-1, 1, shape) + 1j * RNG.uniform(-1, 1, shape)).astype(dtype)


def complex_rows() -> list[Case]:
    def wide(x):
        return x.astype(np.complex128)

    def hermitian(x):
        return np.swapaxes(x, -1, -2).conj()

    a, b = complex_numbers(2, 4, 4), complex_numbers(2, 4, 3)
    products = a @ hermitian(a)
    positive_matrices = (products + hermitian(products)) / 2 + 4 * np.eye(4, dtype=np.complex64)
    upper = a + 2 * np.eye(4, dtype=np.complex64)
    pivots = np.array([[3, 2j], [2 + 2j, 1]], np.complex64)  # |2 + 2j| < 3, but the sum of its parts is larger
    factor = 3 / (2 + 2j)
    return [
        row("linalg.cholesky", [positive_matrices], lambda x: np.linalg.cholesky(wide(x))),
        row("linalg.cholesky", [wide(positive_matrices)], lambda x: hermitian(np.linalg.cholesky(x)), lower=False),
        row("linalg.lu", [pivots], lambda x: [np.array([[2 + 2j, 1], [factor, 2j - factor]]), np.array([1, 1])]),
        row("linalg.triangular_solve", [upper, b], lambda a, b: np.linalg.solve(np.triu(wide(a)), b), lower=False),
        row("linalg.triangular_solve", [upper, b], lambda a, b: np.linalg.solve(np.swapaxes(np.triu(wide(a)), -1, -2), b),
            lower=False, transpose_a=True),
        row("linalg.solve", [upper, b], lambda a, b: np.linalg.solve(wide(a), b)),
        row("linalg.inverse", [upper.astype(np.complex128)], np.linalg.inv),
        row("linalg.determinant", [upper], lambda x: np.linalg.det(wide(x))),
    ]


CASES = [*complex_rows(), *factor_rows(), *triangular_rows(), *exchange_rows(), *system_rows()]
