"""Rows of probabilities of classes from those of pairs."""

from __future__ import annotations

import numpy as np

from tests.ops.case import Case, Fixed, row


def pairs(rows: int, classes: int, dtype: str = "float32", consistent: bool = False) -> np.ndarray:
    rng = np.random.default_rng(rows * 10 + classes)
    data = rng.uniform(0.05, 0.95, (rows, classes, classes))
    if consistent:
        p = solution(rows, classes)
        data = p[:, :, None] / (p[:, :, None] + p[:, None, :])
    upper = np.triu(data, 1)
    return (upper + np.tril(1 - np.swapaxes(upper, 1, 2), -1)).astype(dtype)


def solution(rows: int, classes: int) -> np.ndarray:
    return np.random.default_rng(classes).dirichlet([3.0] * classes, rows)


def minimum(data: np.ndarray) -> np.ndarray:
    """The exact minimum, from the linear equations of the quadratic form, where the search is within its precision of it."""
    found = np.empty(data.shape[:2])
    for n, r in enumerate(data.astype(np.float64)):
        k = len(r)
        q = -r * r.T
        np.fill_diagonal(q, 0)
        q += np.diag([(np.delete(r[:, t], t) ** 2).sum() for t in range(k)])
        equations = np.block([[q, np.ones((k, 1))], [np.ones((1, k)), np.zeros((1, 1))]])
        found[n] = np.linalg.solve(equations, np.append(np.zeros(k), 1))[:k]
    return found


STRANGE = pairs(3, 2)
STRANGE[1] = np.nan
STRANGE[2, 0, 1] = np.inf
CASES: list[Case] = [
    *(row("pairwise_coupling", [Fixed(pairs(n, k))]) for n, k in ((1, 1), (5, 2), (7, 3), (3, 9))),
    row("pairwise_coupling", [Fixed(pairs(40, 5, "float64"))]),
    row("pairwise_coupling", [Fixed(np.zeros((0, 3, 3), np.float32))]),
    row("pairwise_coupling", [Fixed(STRANGE)], note="strange"),
]
