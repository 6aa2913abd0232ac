"""Rows of Hessenberg and Schur forms, eigenvectors of triangular matrices, and tridiagonal systems: of matrices whose results are
unique. `tests.ops.test_orthogonal` has any others.
"""

from __future__ import annotations

import numpy as np

from tests.ops.case import Case, Fixed, row

RNG = np.random.default_rng(12)


def numbers(*shape, dtype=np.float64):
    x = RNG.uniform(-1, 1, shape)
    return (x + 1j * RNG.uniform(-1, 1, shape) if np.dtype(dtype).kind == "c" else x).astype(dtype)


def always(*results):
    return lambda *_: [np.asarray(r) for r in results]


def hessenberg_rows() -> list[Case]:
    name = "linalg.hessenberg"
    small = np.array([[4.0, 1, 2], [3, 0, 1], [4, 2, 5]])
    # H_0 maps (3, 4) to (-5, 0): v = (1, 0.5), tau = 1.6.
    form = np.array([[4, -2.2, 0.4], [-5, 4.64, -1.48], [0.5, -2.48, 0.36]])
    return [
        row(name, [small], always(form, [1.6, 0])),
        row(name, [small.astype(np.float32)], always(form, [1.6, 0])),
        *(row(name, [numbers(*shape, dtype=t)]) for shape, t in (
            ((5, 5), np.float64), ((2, 9, 9), np.float32), ((4, 4), np.complex128), ((3, 6, 6), np.complex64),
            ((2, 2), np.complex64), ((3, 3), np.float16))),
        row(name, [np.triu(numbers(4, 4))], lambda x: [x, np.zeros(3)]),
        row(name, [Fixed(np.zeros((2, 0, 0), np.float32))], lambda x: [x, np.zeros((2, 0))]),
        row(name, [np.full((1, 1), 3.0)], lambda x: [x, np.zeros(0)]),
    ]


def schur_rows() -> list[Case]:
    name = "linalg.schur"
    triangular, other = np.triu(numbers(4, 4)), np.triu(numbers(2, 5, 5, dtype=np.complex128))
    return [
        row(name, [triangular, np.eye(4)], lambda x, q: [x, q, np.int32(0)]),
        row(name, [other, np.stack([np.eye(5, dtype=np.complex128)] * 2)], lambda x, q: [x, q, np.zeros(2, np.int32)]),
        row(name, [triangular + np.tril(np.full((4, 4), 9.0), -2), np.eye(4)], lambda x, q: [np.triu(x), q, np.int32(0)],
            note="what is not read"),
        row(name, [np.diag([1.0, np.nan]), np.eye(2)], lambda x, q: [np.full((2, 2), np.nan)] * 2 + [np.int32(0)]),
        row(name, [Fixed(np.zeros((0, 0))), Fixed(np.zeros((0, 0)))], lambda x, q: [x, q, np.int32(0)]),
    ]


def vector_rows() -> list[Case]:
    name = "linalg.triangular_eigenvectors"
    block = np.array([[2, 1, 1], [0, 0, 1], [0, -4, 0]], np.complex128)
    return [
        row(name, [np.array([[1, 2], [0, 3]], np.complex128), np.array([1, 3], np.complex128)], always([[1, 1], [0, 1]])),
        row(name, [block, np.array([2, 2j, -2j])]),
        row(name, [np.triu(numbers(2, 6, 6, dtype=np.complex128)) * (1 - np.eye(6)) + np.diag(np.arange(6)),
                   np.stack([np.arange(6, dtype=np.complex128)] * 2)]),
        row(name, [np.eye(3, dtype=np.complex128), np.ones(3, np.complex128)], lambda x, w: x, note="equal values"),
        row(name, [Fixed(np.zeros((0, 0), np.complex128)), Fixed(np.zeros(0, np.complex128))], lambda x, w: x),
    ]


def pivoted_rows() -> list[Case]:
    name = "linalg.householder_pivoted"
    return [
        row(name, [np.array([[3.0, 0], [4, 0]])], always([[-5, 0], [0.5, 0]], [1.6, 0], [0, 1])),
        row(name, [np.array([[0, 3.0], [0, 4]], np.float32)], always([[-5, 0], [0.5, 0]], [1.6, 0], [1, 0])),
        *(row(name, [numbers(*shape, dtype=t) * np.arange(1, shape[-1] + 1)]) for shape, t in (
            ((5, 3), np.float64), ((2, 3, 5), np.float64), ((4, 4), np.complex128), ((3, 2), np.float16))),
        row(name, [Fixed(np.zeros((0, 2)))], lambda x: [x, np.zeros(0), np.arange(2)]),
    ]


def tridiagonal_rows() -> list[Case]:
    name = "linalg.tridiagonal_solve"

    def solved(lower, diagonal, upper, b):
        reference = [np.array(v) for v in (lower, diagonal, upper)]
        matrix = np.zeros((*diagonal.shape, diagonal.shape[-1]), b.dtype)
        at = np.arange(diagonal.shape[-1])
        for k, values in ((0, reference[1]), (-1, reference[0][..., 1:]), (1, reference[2][..., :-1])):
            matrix[..., at[max(-k, 0):len(at) - max(k, 0)], at[max(k, 0):len(at) - max(-k, 0)]] = values
        return np.linalg.solve(matrix, b)

    rows = []
    for shape, t in (((5,), np.float64), ((2, 7), np.float32), ((4,), np.complex128), ((1,), np.float64)):
        bands, b = [numbers(*shape, dtype=t) for _ in range(3)], numbers(*shape, 2, dtype=t)
        bands[1] = bands[1] + 3 * np.sign(bands[1].real)
        rows.append(row(name, [*bands, b], lambda low, d, up, b: [np.zeros_like(low), *_left(low, d, up), solved(low, d, up, b)]))
    exchanged = [np.array([0, 4.0]), np.array([1.0, 2]), np.array([3.0, 0]), np.array([[1.0], [4]])]
    return [
        *rows,
        row(name, exchanged, always([0, 0], [4, 2.5], [2, 0], [[1], [0]]), note="rows exchanged"),
        row(name, [numbers(3), numbers(3) * 0.1, numbers(3), numbers(3, 4)]),
        row(name, [Fixed(np.zeros(0))] * 3 + [Fixed(np.zeros((0, 2)))], lambda low, d, up, b: [low, d, up, b]),
    ]


def _left(lower, diagonal, upper):
    """What elimination without exchanges leaves of the diagonal and of what is right of it."""
    found = diagonal.copy()
    for k in range(1, diagonal.shape[-1]):
        found[..., k] -= lower[..., k] / found[..., k - 1] * upper[..., k - 1]
    return found, upper


CASES = [*hessenberg_rows(), *schur_rows(), *vector_rows(), *pivoted_rows(), *tridiagonal_rows()]
