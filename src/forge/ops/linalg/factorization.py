"""Factorisations of the matrices in the last two dimensions, and linear systems."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from forge.ops.core.inference import expect_rank, same_dtype, unify_dim
from forge.ops.core.op import Accuracy, Category, NoAttrs, Op, Operand, register
from forge.ops.core.signatures import Array, Arrays, Builder, Dim, TensorType, TensorTypes, Types, Value, Values

HALVES = ("float16", "bfloat16")
ACCEPTED = "float16 or bfloat16 or float32 or float64"


def check_square(op: str, matrices: Value) -> None:
    """Raises TypeInferenceError where the matrices in the last two dimensions are not square."""
    unify_dim(op, matrices.shape[-2], matrices.shape[-1], "sides of a matrix")


def in_float32(op: Op[Any], builder: Builder, attrs: Any, *operands: Value) -> Values | None:
    """The operator on operands of 16 bits, computed in float32; None where nothing is that narrow."""
    dtype = operands[0].dtype
    if dtype not in HALVES:
        return None
    wide = [builder.call("cast", v, dtype="float32") for v in operands]
    results = builder.call_multi(op, *wide, **vars(attrs))
    return [builder.call("cast", r, dtype=dtype) if r.dtype == "float32" else r for r in results]


@dataclass(frozen=True)
class CholeskyAttrs:
    lower: bool = True


@register
class Cholesky(Op[CholeskyAttrs]):
    """The triangular matrices L with data = L L^T (``lower``), or U with data = U^T U. The other triangle of data is not read.

    What has no such factor gives NaN.
    """

    name = "linalg.cholesky"
    data = Operand(accepts=ACCEPTED, min_rank=2)
    kernel = "cholesky"
    accuracy = Accuracy.ACCUMULATING
    category = Category.CONTRACTION

    def infer(self, attrs: CholeskyAttrs, data: Value) -> Types:
        check_square(self.name, data)
        return [data.type]

    def reference(self, attrs: CholeskyAttrs, data: Array) -> Arrays:
        wide = data.astype(np.float64)
        wide = wide if attrs.lower else np.swapaxes(wide, -1, -2)
        factor = np.zeros_like(wide)
        for i in range(wide.shape[-1]):
            for j in range(i + 1):
                rest = wide[..., i, j] - np.sum(factor[..., i, :j] * factor[..., j, :j], axis=-1)
                factor[..., i, j] = np.sqrt(rest) if i == j else rest / factor[..., j, j]
        result = factor if attrs.lower else np.swapaxes(factor, -1, -2)
        return [result.astype(data.dtype)]

    def decompose(self, builder: Builder, attrs: CholeskyAttrs, data: Value) -> Values | None:
        return in_float32(self, builder, attrs, data)

    def flops(self, attrs: CholeskyAttrs, results: TensorTypes, *_: object) -> Dim:
        return results[0].size * results[0].shape[-1]


@dataclass(frozen=True)
class TriangularSolveAttrs:
    left_side: bool = True
    lower: bool = True
    transpose_a: bool = False
    unit_diagonal: bool = False


@register
class TriangularSolve(Op[TriangularSolveAttrs]):
    """x with op(a) x = b (``left_side``) or x op(a) = b, op(a) being a, or with ``transpose_a`` its transpose.

    Of a only the triangle that ``lower`` names is read, without the diagonal if that is taken for 1 (``unit_diagonal``).
    """

    name = "linalg.triangular_solve"
    a, b = Operand(accepts=ACCEPTED, min_rank=2), Operand()
    kernel = "triangular_solve"
    accuracy = Accuracy.ACCUMULATING
    category = Category.CONTRACTION

    def infer(self, attrs: TriangularSolveAttrs, a: Value, b: Value) -> Types:
        check_square(self.name, a)
        same_dtype(self.name, [a, b])
        check_system(self.name, a, b, -2 if attrs.left_side else -1)
        return [b.type]

    def reference(self, attrs: TriangularSolveAttrs, a: Array, b: Array) -> Arrays:
        dtype = b.dtype
        a, b = a.astype(np.float64), b.astype(np.float64)
        a = np.tril(a) if attrs.lower else np.triu(a)
        if attrs.unit_diagonal:
            a = np.where(np.eye(a.shape[-1], dtype=bool), 1, a)
        turned = attrs.transpose_a == attrs.left_side
        a = np.swapaxes(a, -1, -2) if turned else a
        x = b.copy() if attrs.left_side else np.swapaxes(b, -1, -2).copy()
        count = a.shape[-1]
        for row in range(count) if attrs.lower != turned else reversed(range(count)):
            rest = np.where(np.arange(count) == row, 0, a[..., row, :])
            x[..., row, :] = (x[..., row, :] - np.einsum("...k,...kc->...c", rest, x)) / a[..., row, row, None]
        return [(x if attrs.left_side else np.swapaxes(x, -1, -2)).astype(dtype)]

    def decompose(self, builder: Builder, attrs: TriangularSolveAttrs, a: Value, b: Value) -> Values | None:
        return in_float32(self, builder, attrs, a, b)

    def flops(self, attrs: TriangularSolveAttrs, results: TensorTypes, a: Value, b: Value) -> Any:
        return results[0].size * a.shape[-1]


def check_system(op: str, a: Value, b: Value, axis: int) -> None:
    """Raises TypeInferenceError unless b has the batch of a, and along ``axis`` as many elements as a has rows."""
    expect_rank(op, b.tensor_type, "b", a.rank)
    for k, (m, n) in enumerate(zip(a.shape[:-2], b.shape[:-2], strict=True)):
        unify_dim(op, m, n, f"dimension {k} of a and b")
    unify_dim(op, b.shape[axis], a.shape[-1], "sides of a and b")


@register
class Lu(Op[NoAttrs]):
    """LU factors with partial pivoting: rows data[p] = L U. Results: U, with L (diagonal 1) below it in one matrix; p.

    Of pivots of equal size the first is taken. A column without one is left as it is.
    """

    name = "linalg.lu"
    data = Operand(accepts=ACCEPTED, min_rank=2)
    kernel = "lu"
    accuracy = Accuracy.ACCUMULATING
    category = Category.CONTRACTION

    def infer(self, attrs: NoAttrs, data: Value) -> Types:
        check_square(self.name, data)
        return [data.type, TensorType(data.shape[:-1], "int64")]

    def reference(self, attrs: NoAttrs, data: Array) -> Arrays:
        factors = data.astype(np.float64)
        places = np.broadcast_to(np.arange(data.shape[-1]), data.shape[:-1]).copy()
        for batch in np.ndindex(data.shape[:-2]):
            _factor(factors[batch], places[batch])
        return [factors.astype(data.dtype), places]

    def decompose(self, builder: Builder, attrs: NoAttrs, data: Value) -> Values | None:
        return in_float32(self, builder, attrs, data)

    def flops(self, attrs: NoAttrs, results: TensorTypes, *_: object) -> Dim:
        return results[0].size * results[0].shape[-1]


def _factor(matrix: Array, places: Array) -> None:
    """Both factors in the place of ``matrix``; ``places`` moves with its rows."""
    for k in range(len(matrix)):
        row = k + int(np.argmax(np.abs(matrix[k:, k])))
        for array in (matrix, places):
            array[[k, row]] = array[[row, k]]
        if matrix[k, k] != 0:
            matrix[k + 1 :, k] /= matrix[k, k]
            matrix[k + 1 :, k + 1 :] -= np.outer(matrix[k + 1 :, k], matrix[k, k + 1 :])


@register
class Solve(Op[NoAttrs]):
    """x with a x = b, by LU factors of a. Infinite or NaN where a is singular."""

    name = "linalg.solve"
    a, b = Operand(accepts=ACCEPTED, min_rank=2), Operand()
    accuracy = Accuracy.ACCUMULATING
    category = Category.CONTRACTION

    def infer(self, attrs: NoAttrs, a: Value, b: Value) -> Types:
        check_square(self.name, a)
        same_dtype(self.name, [a, b])
        check_system(self.name, a, b, -2)
        return [b.type]

    def reference(self, attrs: NoAttrs, a: Array, b: Array) -> Arrays:
        dtype = b.dtype
        a, b = a.astype(np.float64), b.astype(np.float64)
        factors, places = Lu().reference(NoAttrs(), a)
        x = np.take_along_axis(b, places[..., None], axis=-2)
        for options in (TriangularSolveAttrs(unit_diagonal=True), TriangularSolveAttrs(lower=False)):
            (x,) = TriangularSolve().reference(options, factors, x)
        return [x.astype(dtype)]

    def decompose(self, builder: Builder, attrs: NoAttrs, a: Value, b: Value) -> Values:
        wide = in_float32(self, builder, attrs, a, b)
        if wide is not None:
            return wide
        factors, places = builder.call_multi(Lu(), a)
        index = builder.call("broadcast_to", builder.call("expand_dims", places, axis=-1), shape=b.shape)
        x = builder.call("gather", b, index, axis=-2)
        x = builder.call(TriangularSolve(), factors, x, unit_diagonal=True)
        return [builder.call(TriangularSolve(), factors, x, lower=False)]


@register
class Inverse(Op[NoAttrs]):
    """The inverses of the matrices. Infinite or NaN where one is singular."""

    name = "linalg.inverse"
    data = Operand(accepts=ACCEPTED, min_rank=2)
    accuracy = Accuracy.ACCUMULATING
    category = Category.CONTRACTION

    def infer(self, attrs: NoAttrs, data: Value) -> Types:
        check_square(self.name, data)
        return [data.type]

    def reference(self, attrs: NoAttrs, data: Array) -> Arrays:
        one = np.broadcast_to(np.eye(data.shape[-1]), data.shape)
        return [Solve().reference(attrs, data.astype(np.float64), one)[0].astype(data.dtype)]

    def decompose(self, builder: Builder, attrs: NoAttrs, data: Value) -> Values:
        one = builder.call("eye", n=data.shape[-1], m=data.shape[-1], dtype=data.dtype)
        return [builder.call(Solve(), data, builder.call("broadcast_to", one, shape=data.shape))]
