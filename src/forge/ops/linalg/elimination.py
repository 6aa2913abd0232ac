"""Linear algebra of small matrices."""

from __future__ import annotations

import numpy as np

from forge.ops.core.inference import unify_dim
from forge.ops.core.op import Accuracy, Category, NoAttrs, Op, Operand, register
from forge.ops.core.signatures import Array, Arrays, Builder, Dim, TensorType, TensorTypes, Types, Value, Values


@register
class Eliminate(Op[NoAttrs]):
    """Gaussian elimination with partial pivoting of the matrices in the last two dimensions.

    Results: what is left, upper triangular; the determinant.
    """

    name = "linalg.eliminate"
    data = Operand(accepts="float32 or float64", min_rank=2)
    kernel = "eliminate"
    accuracy = Accuracy.ACCUMULATING
    category = Category.CONTRACTION

    def infer(self, attrs: NoAttrs, data: Value) -> Types:
        unify_dim(self.name, data.shape[-2], data.shape[-1], "sides of a matrix")
        return [data.type, TensorType(data.shape[:-2], data.dtype)]

    def reference(self, attrs: NoAttrs, data: Array) -> Arrays:
        left = data.astype(np.float64)
        determinant = np.ones(left.shape[:-2])
        for batch in np.ndindex(left.shape[:-2]):
            determinant[batch] = _eliminate(left[batch])
        return [left.astype(data.dtype), np.asarray(determinant.astype(data.dtype))]

    def flops(self, attrs: NoAttrs, results: TensorTypes, *_: object) -> Dim:
        return results[0].size * results[0].shape[-1]


def _eliminate(matrix: Array) -> float:
    """Makes ``matrix`` upper triangular in place; the determinant."""
    determinant = 1.0
    for k in range(len(matrix)):
        row = k + int(np.argmax(np.abs(matrix[k:, k])))
        if row != k:
            matrix[[k, row]] = matrix[[row, k]]
            determinant = -determinant
        determinant *= matrix[k, k]
        if matrix[k, k] != 0:
            matrix[k + 1 :] -= np.outer(matrix[k + 1 :, k] / matrix[k, k], matrix[k])
            matrix[k + 1 :, k] = 0
    return float(determinant)


@register
class Determinant(Op[NoAttrs]):
    """The determinants of the matrices in the last two dimensions."""

    name = "linalg.determinant"
    data = Operand(accepts="float", min_rank=2)
    accuracy = Accuracy.ACCUMULATING
    category = Category.CONTRACTION

    def infer(self, attrs: NoAttrs, data: Value) -> Types:
        unify_dim(self.name, data.shape[-2], data.shape[-1], "sides of a matrix")
        return [TensorType(data.shape[:-2], data.dtype)]

    def reference(self, attrs: NoAttrs, data: Array) -> Arrays:
        return [np.asarray(np.linalg.det(data.astype(np.float64)).astype(data.dtype))]

    def decompose(self, builder: Builder, attrs: NoAttrs, data: Value) -> Values:
        real = data if data.dtype in ("float32", "float64") else builder.call("cast", data, dtype="float32")
        result = builder.call_multi(Eliminate(), real)[1]
        return [result if real is data else builder.call("cast", result, dtype=data.dtype)]
