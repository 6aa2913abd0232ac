"""Rows of factorisations and linear systems."""

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
    n, rows = len(x), [list(map(float, r)) for r in x]
    order = list(range(n))
    for k in range(n):
        best = max(range(k, n), key=lambda r: (abs(rows[r][k]), -r))
        rows[k], rows[best], order[k], order[best] = rows[best], rows[k], order[best], order[k]
        for r in range(k + 1, n):
            if rows[k][k]:
                rows[r][k] /= rows[k][k]
                rows[r][k + 1:] = [v - rows[r][k] * t for v, t in zip(rows[r][k + 1:], rows[k][k + 1:])]
    return [np.array(rows), np.array(order)]


def system_rows() -> list[Case]:
    singular = np.array([[0, 1], [0, 2]], np.float32)
    return [
        row("linalg.lu", [regular(5, 5)], _lu),
        row("linalg.lu", [regular(4, 4, dtype=np.float64)], _lu),
        row("linalg.lu", [singular], lambda x: [np.array([[0, 1], [0, 2]]), np.array([0, 1])]),
        row("linalg.lu", [regular(2, 3, 3)], lambda x: [np.stack(v) for v in zip(*map(_lu, x))]),
        row("linalg.solve", [regular(5, 5), dense(5, 2)], lambda a, b: np.linalg.solve(a.astype(np.float64), b)),
        row("linalg.solve", [regular(2, 4, 4, dtype=np.float64), dense(2, 4, 1, dtype=np.float64)], np.linalg.solve),
        row("linalg.inverse", [regular(5, 5)], lambda x: np.linalg.inv(x.astype(np.float64))),
        row("linalg.inverse", [regular(3, 2, 4, 4, dtype=np.float64)], np.linalg.inv),
        row("linalg.inverse", [regular(3, 3, dtype=np.float16)], lambda x: np.linalg.inv(x.astype(np.float64))),
    ]


CASES = [*factor_rows(), *triangular_rows(), *system_rows()]
