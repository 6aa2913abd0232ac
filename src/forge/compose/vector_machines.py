"""Support vector machines: similarities to support vectors, votes and probabilities of pairs of classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from forge.errors import OpAttributeInvalid
from forge.ir.nodes import Value
from forge.ops.core.composer import Composer
from forge.ops.core.signatures import Array

KERNELS = ("LINEAR", "POLY", "RBF", "SIGMOID")
_MIN_PROBABILITY = 1e-7


@dataclass(frozen=True)
class Kernel:
    """How alike a row x and a support vector s are.

    LINEAR: x.s; POLY: (gamma x.s + coef0)^degree; RBF: exp(-gamma |x - s|^2); SIGMOID: tanh(gamma x.s + coef0).
    """

    kind: str
    gamma: float = 0.0
    coef0: float = 0.0
    degree: int = 0

    @staticmethod
    def of(kind: str, params: Sequence[float]) -> Kernel:
        """From a format's name and (gamma, coef0, degree).

        Raises:
            OpAttributeInvalid: an unknown name, or another number of parameters.
        """
        if kind not in KERNELS:
            raise OpAttributeInvalid(f"kernel_type: got {kind!r}; expected {', '.join(KERNELS)}")
        if len(params) not in (0, 3):
            raise OpAttributeInvalid(f"kernel_params: got {len(params)}; expected gamma, coef0 and degree")
        return Kernel(kind, params[0], params[1], int(params[2])) if params else Kernel(kind)

    def __call__(self, g: Composer, x: Value, vectors: Array) -> Value:
        """(rows, vectors) of data (rows, features) and vectors (vectors, features)."""
        support = vectors.astype(np.dtype(x.dtype))
        if self.kind == "RBF":
            difference = g.call("subtract", g.call("expand_dims", x, axis=1), g.constant(support))
            distance = g.call("sum", g.call("multiply", difference, difference), axis=(2,))
            return g.call("exp", g.call("multiply", distance, g.scalar(-self.gamma, x)))
        product = g.call("nn.matmul", x, g.constant(np.ascontiguousarray(support.T)))
        if self.kind == "LINEAR":
            return product
        shifted = g.call("add", g.call("multiply", product, g.scalar(self.gamma, x)), g.scalar(self.coef0, x))
        return g.call("tanh", shifted) if self.kind == "SIGMOID" else g.call("power", shifted, g.scalar(self.degree, x))


def pair_scores(g: Composer, similarity: Value, coefficients: Array, vectors_per_class: Sequence[int], rho: Array) -> Value:
    """Scores (rows, pairs) of classes i < j: above 0 for i. ``coefficients``: (classes - 1, vectors), class after class."""
    classes = len(vectors_per_class)
    ends = np.cumsum(vectors_per_class)
    spans = [slice(end - count, end) for end, count in zip(ends, vectors_per_class, strict=True)]
    pairs = [(i, j) for i in range(classes) for j in range(i + 1, classes)]
    weights = np.zeros((coefficients.shape[1], len(pairs)), similarity.dtype)
    for p, (i, j) in enumerate(pairs):
        weights[spans[i], p] = coefficients[j - 1, spans[i]]
        weights[spans[j], p] = coefficients[i, spans[j]]
    total = g.call("nn.matmul", similarity, g.constant(weights))
    return g.call("add", total, g.constant(rho.astype(weights.dtype)))


def votes(g: Composer, scores: Value, classes: int) -> Value:
    """How many pairs (rows, classes) each class wins; of a score of 0 the second."""
    first, second = np.triu_indices(classes, 1)
    won, lost = np.zeros((2, len(first), classes), np.float32)
    won[np.arange(len(first)), first], lost[np.arange(len(first)), second] = 1, 1
    is_first = g.cast(g.call("greater", scores, g.scalar(0, scores)), "float32")
    is_second = g.call("subtract", g.scalar(1, is_first), is_first)
    return g.call("add", g.call("nn.matmul", is_first, g.constant(won)), g.call("nn.matmul", is_second, g.constant(lost)))


def probabilities(g: Composer, scores: Value, prob_a: Array, prob_b: Array, classes: int) -> Value:
    """Probabilities of classes (rows, classes): a logistic function of each pair's score, and what fits all pairs best."""
    a, b = (g.constant(v.astype(np.dtype(scores.dtype))) for v in (prob_a, prob_b))
    pair = g.call("sigmoid", g.call("negative", g.call("add", g.call("multiply", scores, a), b)))
    pair = g.call("clip", pair, a_min=_MIN_PROBABILITY, a_max=1 - _MIN_PROBABILITY)
    both = g.call("concatenate", pair, g.call("subtract", g.scalar(1, pair), pair), axis=1)
    first, second = np.triu_indices(classes, 1)
    place = np.zeros((classes, classes), np.int64)
    place[first, second] = np.arange(len(first))
    place[second, first] = np.arange(len(first)) + len(first)
    return g.call("pairwise_coupling", g.call("take", both, g.constant(place), axis=1))
