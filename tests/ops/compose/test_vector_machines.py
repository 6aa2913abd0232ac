"""Kernels of support vector machines, votes and probabilities against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from forge.compose.vector_machines import Kernel, pair_scores, probabilities, votes
from forge.ir.op import Accuracy
from tests.ops.cases.classical.coupling import minimum
from tests.ops.compare import check
from tests.ops.compose.support import run, run_compiled

rng = np.random.default_rng(0)
DATA, VECTORS = rng.normal(size=(9, 4)), rng.normal(size=(6, 4))


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        (Kernel("LINEAR"), DATA @ VECTORS.T),
        (Kernel("POLY", 0.5, 1.0, 3), (0.5 * DATA @ VECTORS.T + 1) ** 3),
        (Kernel("SIGMOID", 0.5, -1.0), np.tanh(0.5 * DATA @ VECTORS.T - 1)),
        (Kernel("RBF", 0.5), np.exp(-0.5 * ((DATA[:, None] - VECTORS) ** 2).sum(-1))),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_kernels(kernel: Kernel, expected: np.ndarray, dtype: str) -> None:
    got = run_compiled(lambda g, x: kernel(g, x, VECTORS), DATA.astype(dtype))[0]
    check(got, expected.astype(dtype), Accuracy.ACCUMULATING)


def test_pairs_of_classes() -> None:
    similarity, coefficients, rho = rng.normal(size=(5, 6)), rng.normal(size=(2, 6)), rng.normal(size=3)
    (got,) = run(lambda g, x: pair_scores(g, x, coefficients, (1, 2, 3), rho), similarity)
    spans = [slice(0, 1), slice(1, 3), slice(3, 6)]
    for p, (i, j) in enumerate([(0, 1), (0, 2), (1, 2)]):
        wanted = similarity[:, spans[i]] @ coefficients[j - 1, spans[i]] + similarity[:, spans[j]] @ coefficients[i, spans[j]]
        check(got[:, p], wanted + rho[p], Accuracy.ACCUMULATING)


def test_votes() -> None:
    scores = np.array([[1, 1, 1], [-1, -1, -1], [0, 2, -3]], np.float32)
    assert run(lambda g, x: votes(g, x, 3), scores)[0].tolist() == [[2, 1, 0], [0, 1, 2], [1, 1, 1]]


def test_probabilities() -> None:
    scores, a, b = rng.normal(size=(8, 3)), np.array([-1.0, -2, -1.5]), np.array([0.1, 0, -0.1])
    (got,) = run(lambda g, x: probabilities(g, x, a, b, 3), scores)
    pairs = np.full((8, 3, 3), 0.5)
    for p, (i, j) in enumerate([(0, 1), (0, 2), (1, 2)]):
        pairs[:, i, j] = 1 / (1 + np.exp(scores[:, p] * a[p] + b[p]))
        pairs[:, j, i] = 1 - pairs[:, i, j]
    np.testing.assert_allclose(got, minimum(pairs), atol=0.02)
