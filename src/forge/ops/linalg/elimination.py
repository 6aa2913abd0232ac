"""Linear algebra of small matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from forge.ir.builder import Builder
from forge.ir.nodes import Value
from forge.ir.op import Accuracy, Category, NoAttrs, Operand
from forge.ir.types import TensorType
from forge.ops.core.inference import expect_dtype, fail, tensor, unify_dim
from forge.ops.core.op import Op, register
from forge.ops.core.signatures import Array, Arrays, Regions, TensorTypes, Types, Values


def _matrices(op: str, operands: Values) -> TensorType:
    data = tensor(op, operands[0], "data")
    expect_dtype(op, data, "data", "float")
    if data.rank < 2:
        raise fail(op, "rank of data", data.rank, "at least 2")
    unify_dim(op, data.shape[-2], data.shape[-1], "sides of a matrix")
    return data


@register
class Eliminate(Op[NoAttrs]):
    """Gaussian elimination with partial pivoting of the matrices in the last two dimensions.

    Results: what is left, upper triangular; the determinant.
    """

    name = "linalg.eliminate"
    data = Operand()
    kernel = "eliminate"
    accuracy = Accuracy.ACCUMULATING
    category = Category.CONTRACTION

    def infer(self, operands: Values, attrs: NoAttrs, regions: Regions = ()) -> Types:
        data = _matrices(self.name, operands)
        if data.dtype not in ("float32", "float64"):
            raise fail(self.name, "element type of data", data.dtype, "float32 or float64")
        return [data, TensorType(data.shape[:-2], data.dtype)]

    def reference(self, operands: Arrays, attrs: NoAttrs) -> Arrays:
        data = operands[0].astype(np.float64)
        determinant = np.ones(data.shape[:-2])
        for batch in np.ndindex(data.shape[:-2]):
            determinant[batch] = _eliminate(data[batch])
        return [data.astype(operands[0].dtype), np.asarray(determinant.astype(operands[0].dtype))]

    def flops(self, operands: Sequence[Any], attrs: NoAttrs, results: TensorTypes) -> Any:
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
    data = Operand()
    accuracy = Accuracy.ACCUMULATING
    category = Category.CONTRACTION

    def infer(self, operands: Values, attrs: NoAttrs, regions: Regions = ()) -> Types:
        data = _matrices(self.name, operands)
        return [TensorType(data.shape[:-2], data.dtype)]

    def reference(self, operands: Arrays, attrs: NoAttrs) -> Arrays:
        return [np.asarray(np.linalg.det(operands[0].astype(np.float64)).astype(operands[0].dtype))]

    def decompose(self, builder: Builder, operands: Values, attrs: NoAttrs) -> Sequence[Value]:
        (data,) = operands
        assert data is not None
        real = data if data.dtype in ("float32", "float64") else builder.call("cast", data, dtype="float32")
        result = builder.call_multi(Eliminate(), real)[1]
        return [result if real is data else builder.call("cast", result, dtype=data.dtype)]
