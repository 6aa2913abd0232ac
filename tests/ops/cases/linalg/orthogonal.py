"""Rows of QR factors, singular values and symmetric eigenvalues. Matrices are made of known factors where these are unique."""

from __future__ import annotations

import numpy as np

from tests.ops.case import Case, Fixed, row

RNG = np.random.default_rng(11)


def dense(*shape, dtype=np.float32):
    return RNG.uniform(-1, 1, shape).astype(dtype)


def orthogonal(size):
    return np.linalg.qr(RNG.normal(size=(size, size)))[0]


def signed(rows):
    """In each row the first one of the largest elements is positive."""
    chosen = np.argmax(np.abs(rows), axis=-1)[..., None]
    return rows * np.sign(np.take_along_axis(rows, chosen, -1))


def swapped(x):
    return np.swapaxes(x, -1, -2)


def raw(x):
    """What LAPACK's geqrf gives."""
    factors, tau = np.linalg.qr(x.astype(np.float64), mode="raw")
    return [swapped(factors), tau]


def factors_of(*shape, dtype=np.float32):
    """A matrix, the raw factors of the QR of it, and Q whole."""
    x = dense(*shape, dtype=np.float64)
    return [v.astype(dtype) for v in (*raw(x), np.linalg.qr(x, mode="complete")[0])]


def householder_rows() -> list[Case]:
    gone = dense(4, 4)
    gone[2:, 1:] = gone[1:, 0] = 0
    rows = [row("linalg.householder", [dense(*shape, dtype=t)], raw)
            for shape, t in (((5, 5), np.float32), ((7, 3), np.float32), ((3, 7), np.float64), ((2, 3, 4, 20), np.float64),
                             ((3, 3), np.float16), ((1, 4), np.float32), ((4, 1), np.float32))]
    rows += [
        row("linalg.householder", [gone], raw, note="zeros"),
        row("linalg.householder", [np.diag([1, -2, 3]).astype(np.float32)], lambda x: [x, np.zeros(3)]),
        row("linalg.householder", [np.array([[1e-30, 2], [2e-30, 1]], np.float32)], raw),
        row("linalg.householder", [np.array([[3e37, 2], [4e37, 1]], np.float32)], raw),
        row("linalg.householder", [np.array([[1], [np.nan]], np.float32)], lambda x: [np.full((2, 1), np.nan), [np.nan]]),
        row("linalg.householder", [Fixed(np.zeros((2, 0, 3), np.float32))], lambda x: [x, np.zeros((2, 0))]),
        row("linalg.householder", [Fixed(np.zeros((3, 0), np.float64))], lambda x: [x, np.zeros(0)]),
    ]
    for shape, t in (((5, 5), np.float32), ((7, 3), np.float64), ((3, 7), np.float32), ((2, 4, 3), np.float64),
                     ((3, 3), np.float16)):
        factors, tau, q = factors_of(*shape, dtype=t)
        other = dense(*shape[:-1], 6, dtype=t)
        rows += [
            row("linalg.householder_multiply", [factors, tau, other], lambda f, t, x, q=q: q.astype(np.float64) @ x),
            row("linalg.householder_multiply", [factors, tau, other], lambda f, t, x, q=q: swapped(q.astype(np.float64)) @ x,
                transpose=True),
        ]
    factors, tau, q = factors_of(5, 2)
    other = dense(5, 3)
    other[2, 1] = np.nan
    rows += [
        row("linalg.householder_multiply", [np.hstack([factors, dense(5, 3)]), Fixed(tau), dense(5, 19)],
            lambda f, t, x: q.astype(np.float64) @ x, note="fewer tau"),
        row("linalg.householder_multiply", [factors, tau, other],
            lambda f, t, x: np.where([0, 1, 0], np.nan, q.astype(np.float64) @ x)),
        row("linalg.householder_multiply",
            [Fixed(np.zeros((3, 0), np.float32)), Fixed(np.zeros(0, np.float32)), Fixed(dense(3, 2))], lambda f, t, x: x),
        row("linalg.householder_multiply",
            [Fixed(np.zeros((0, 3), np.float32)), Fixed(np.zeros(0, np.float32)), Fixed(np.zeros((0, 2), np.float32))],
            lambda f, t, x: x),
    ]
    return rows


def always(*results):
    return lambda x: [np.asarray(r) for r in results]


def nothing(*shapes):
    return always(*(np.full(s, np.nan) for s in shapes))


def rotation_rows() -> list[Case]:
    rows = []
    for count, length, norms in ((4, 4, (4, 3, 2, 1)), (3, 8, (5, 2, 1e-3)), (5, 5, (5, 4, 3, 2, 0.5))):
        turns, own = signed(orthogonal(count)), np.asarray(norms)[:, None] * orthogonal(length)[:count]
        rows.append(row("linalg.orthogonal_rows", [turns.T @ own], always(own, norms, turns)))
    turns, own = signed(orthogonal(3)), np.diag([3e200, 2e200, 1e200]) @ orthogonal(3)
    return [
        *rows,
        row("linalg.orthogonal_rows", [turns.T @ own], always(own, (3e200, 2e200, 1e200), turns)),
        row("linalg.orthogonal_rows", [np.array([[1.0, 0], [0, 2]])], lambda x: [x[::-1], [2, 1], np.eye(2)[::-1]]),
        row("linalg.orthogonal_rows", [np.zeros((2, 3))], lambda x: [x, np.zeros(2), np.eye(2)]),
        row("linalg.orthogonal_rows", [np.array([[1.0, np.inf, 2], [0, 2, 3]])], nothing((2, 3), 2, (2, 2))),
        row("linalg.orthogonal_rows", [Fixed(np.zeros((0, 3)))], lambda x: [x, np.zeros(0), np.zeros((0, 0))]),
        row("linalg.orthogonal_rows", [Fixed(np.zeros((3, 0)))], lambda x: [x, np.zeros(3), np.eye(3)]),
    ]


def singular_rows() -> list[Case]:
    rows = []
    for m, n, values, t in ((4, 4, (4, 3, 2, 1), np.float32), (6, 3, (5, 2, 0.5), np.float64), (3, 5, (3, 2, 1), np.float32),
                            (1, 4, (2,), np.float32), (5, 5, (9, 7, 5, 3, 1), np.float64)):
        count = min(m, n)
        u, v = orthogonal(m)[:, :count], orthogonal(n)[:count]
        turned = signed(v)
        u, v = u * np.sum(turned * v, axis=-1), turned
        x = (u * values @ v).astype(t)
        rows.append(row("linalg.svd", [x], always(u, values, v), full_matrices=False))
        if m == n:
            rows.append(row("linalg.svd", [np.stack([x, x])], always([u, u], [values, values], [v, v])))
    return [
        *rows,
        row("linalg.svd", [np.diag([1, -3, 2]).astype(np.float16)],
            lambda x: [np.array([[0, 0, 1], [-1, 0, 0], [0, 1, 0]]), [3, 2, 1], np.array([[0, 1, 0], [0, 0, 1], [1, 0, 0]])]),
        row("linalg.svd", [np.zeros((3, 2), np.float32)], lambda x: [np.eye(3), np.zeros(2), np.eye(2)]),
        row("linalg.svd", [np.array([[1, np.nan], [0, 2], [3, 4]], np.float32)], nothing((3, 2), 2, (2, 2)), full_matrices=False),
        row("linalg.svd", [Fixed(np.zeros((0, 3), np.float32))], lambda x: [np.zeros((0, 0)), np.zeros(0), np.eye(3)]),
        row("linalg.svd", [Fixed(np.zeros((2, 3, 0)))], lambda x: [np.zeros((2, 3, 0)), np.zeros((2, 0)), np.zeros((2, 0, 0))],
            full_matrices=False),
    ]


def symmetric_rows() -> list[Case]:
    rows = []
    for values, t, lower in (((-3, -1, 0.5, 2), np.float32, True), ((-2, -1, 0, 1, 3), np.float64, False),
                             ((-2,), np.float32, True)):
        vectors = signed(orthogonal(len(values))).T
        x = vectors * values @ vectors.T
        x = (np.tril if lower else np.triu)(x) + 7 * (np.triu if lower else np.tril)(np.ones_like(x), 1 if lower else -1)
        rows.append(row("linalg.eigh", [x.astype(t)], always(values, vectors), lower=lower))
    batch = np.stack([np.diag([3, 1, 2]), np.diag([1, -1, 0])]).astype(np.float32)
    return [
        *rows,
        row("linalg.eigh", [batch], lambda x: [[[1, 2, 3], [-1, 0, 1]],
                                               np.stack([np.eye(3)[:, [1, 2, 0]], np.eye(3)[:, [1, 2, 0]]])]),
        row("linalg.eigh", [np.array([[2, 1], [1, 0.5]], np.float16)],
            lambda x: [[0, 2.5], np.array([[-1, 2], [2, 1]]) / np.sqrt(5)]),
        row("linalg.eigh", [np.array([[1, 9], [np.inf, 2]], np.float32)], nothing(2, (2, 2))),
        row("linalg.diagonalize", [np.diag([1.0, 2, 4])], always((1, 2, 4), np.eye(3), np.diag([1, 2, 4]))),
        row("linalg.diagonalize", [np.array([[1, 9], [np.nan, 2]])], nothing(2, (2, 2), (2, 2))),
        row("linalg.eigh", [Fixed(np.zeros((2, 0, 0), np.float32))], lambda x: [np.zeros((2, 0)), x]),
        row("linalg.diagonalize", [Fixed(np.zeros((0, 0)))], lambda x: [np.zeros(0), x, x]),
    ]


CASES = [*householder_rows(), *rotation_rows(), *singular_rows(), *symmetric_rows()]
