"""Probabilities of classes from those of pairs of classes."""

from __future__ import annotations

import numpy as np

from forge.ops.core.inference import fail, unify_dim
from forge.ops.core.op import Accuracy, Kind, NoAttrs, Op, Operand, register
from forge.ops.core.signatures import Array, Arrays, TensorType, Types, Value

ROUNDS = 100
"""At most."""
PRECISION = 0.005
"""Times 1 / classes: the error at which the search ends."""
MAX_CLASSES = 4096


@register
class PairwiseCoupling(Op[NoAttrs]):
    """Probabilities p of k classes for every row of data (rows, k, k), where data[n, i, j] is that of i if only i and j compete.

    p minimizes the sum over pairs of (data[n, j, i] p[i] - data[n, i, j] p[j])^2 with the sum of p being 1, by the method of Wu,
    Lin and Weng: from equal probabilities, one class after the other, until no equation errs by 0.005 / k or for 100 rounds. The
    diagonal of data is not read.
    """

    name = "pairwise_coupling"
    data = Operand(accepts="float32 or float64", rank=3)
    kind = Kind.ANCHOR
    kernel = "pairwise_coupling"
    accuracy = Accuracy.ACCUMULATING

    def infer(self, attrs: NoAttrs, data: Value) -> Types:
        classes = unify_dim(self.name, data.shape[1], data.shape[2], "numbers of classes")
        if not isinstance(classes, int) or not 1 <= classes <= MAX_CLASSES:
            raise fail(self.name, "number of classes", classes, f"one that is known when compiling, 1 to {MAX_CLASSES}")
        return [TensorType((data.shape[0], classes), data.dtype)]

    def reference(self, attrs: NoAttrs, data: Array) -> Arrays:
        result = np.empty(data.shape[:2], data.dtype)
        for n, pairs in enumerate(data):
            result[n] = _coupled(pairs)
        return [result]


def _coupled(pairs: Array) -> Array:
    classes = len(pairs)
    q = -pairs * pairs.T
    for t in range(classes):
        q[t, t] = sum((pairs[j, t] ** 2 for j in range(classes) if j != t), pairs.dtype.type(0))
    p = np.full(classes, 1 / classes, pairs.dtype)
    for _ in range(ROUNDS):
        slope = q @ p
        total = p @ slope
        if np.abs(slope - total).max() < PRECISION / classes:
            break
        for t in range(classes):
            step = (total - slope[t]) / q[t, t]
            p[t] += step
            total = (total + step * (step * q[t, t] + 2 * slope[t])) / (1 + step) ** 2
            slope = (slope + step * q[t]) / (1 + step)
            p /= 1 + step
    return p
