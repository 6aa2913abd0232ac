"""Rows of factors of symmetric matrices. The factors are LAPACK's."""

from __future__ import annotations

import numpy as np

from tests.ops.case import Case, Fixed, row

MATRICES = np.array([
    [[0, 1, 2], [1, 0, 3], [2, 3, 0]],
    [[0.125, 1, 0], [1, 50, 0], [0, 0, 1]],
    [[4, 2, 1], [2, -3, 1], [1, 1, 5]],
])
FACTORS = np.array([
    [[0, 0, 0], [2, 0, 0], [1.5, 0.5, -3]],
    [[50, 0, 0], [0.02, 0.105, 0], [0, 0, 1]],
    [[4, 0, 0], [0.5, -4, 0], [0.25, -0.125, 4.8125]],
])
PIVOTS = np.array([[-3, -3, 3], [2, 2, 3], [1, 2, 3]])


def rows() -> list[Case]:
    rng = np.random.default_rng(11)
    b = rng.uniform(-1, 1, (3, 3, 2))
    large = rng.uniform(-1, 1, (2, 9, 9))
    zero = np.array([[0, 0], [0, 3]], np.float32)

    def solution(factors: np.ndarray, pivots: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.linalg.solve(MATRICES, b)

    return [
        row("linalg.ldl", [MATRICES], lambda x: [FACTORS, PIVOTS]),
        row("linalg.ldl", [MATRICES.astype(np.float32)], lambda x: [FACTORS, PIVOTS]),
        row("linalg.ldl", [np.tril(MATRICES)], lambda x: [FACTORS, PIVOTS], note="one triangle"),
        row("linalg.ldl", [zero], lambda x: [x, np.array([1, 2])]),
        row("linalg.ldl", [large + np.swapaxes(large, -1, -2)]),
        row("linalg.ldl", [np.full((4, 1, 1), 3.0)], lambda x: [x, np.ones((4, 1), np.int64)]),
        row("linalg.ldl", [Fixed(np.zeros((2, 0, 0)))], lambda x: [x, np.zeros((2, 0), np.int64)]),
        row("linalg.ldl_solve", [FACTORS, PIVOTS, b], solution),
        row("linalg.ldl_solve", [FACTORS.astype(np.float32), PIVOTS.astype(np.int32), b.astype(np.float32)], solution),
        row("linalg.ldl_solve", [FACTORS[2], np.array([90, 2, 3]), b[0]], note="out of range"),
        row("linalg.ldl_solve", [Fixed(np.zeros((0, 0))), Fixed(np.zeros(0, np.int64)), Fixed(np.zeros((0, 3)))],
            lambda factors, pivots, b: b),
    ]


CASES = rows()
