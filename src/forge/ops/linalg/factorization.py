"""Factorisations of the matrices in the last two dimensions, and linear systems."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from forge.ir.builder import Builder
from forge.ir.nodes import Value
from forge.ir.op import Accuracy, Category, NoAttrs, Operand
from forge.ir.types import TensorType
from forge.ops.core.inference import expect_dtype, expect_rank, fail, same_dtype, tensor, unify_dim
from forge.ops.core.op import Op, register
from forge.ops.core.signatures import Array, Arrays, Regions, TensorTypes, Types, Values

HALVES = ("float16", "bfloat16")
ACCEPTED = ("float16", "bfloat16", "float32", "float64")


def square(op: str, value: Value | None, name: str) -> TensorType:
    """The type of square matrices.

    Raises:
        TypeInferenceError: it is none, or its element type is no float of 16 bits or more.
    """
    type_ = tensor(op, value, name)
    expect_dtype(op, type_, name, "float")
    if type_.dtype not in ACCEPTED:
        raise fail(op, f"operand {name!r} has the wrong element type", type_.dtype, " or ".join(ACCEPTED))
    if type_.rank < 2:
        raise fail(op, f"rank of {name}", type_.rank, "at least 2")
    unify_dim(op, type_.shape[-2], type_.shape[-1], "sides of a matrix")
    return type_


def in_float32(op: Op[Any], builder: Builder, operands: Values, attrs: Any) -> Sequence[Value] | None:
    """The operator on operands of 16 bits, computed in float32; None where nothing is that narrow."""
    data = operands[0]
    assert data is not None
    if data.dtype not in HALVES:
        return None
    wide = [None if v is None else builder.call("cast", v, dtype="float32") for v in operands]
    results = builder.call_multi(op, *wide, **vars(attrs))
    return [builder.call("cast", r, dtype=data.dtype) if r.dtype == "float32" else r for r in results]


@dataclass(frozen=True)
class CholeskyAttrs:
    lower: bool = True


@register
class Cholesky(Op[CholeskyAttrs]):
    """The triangular matrices L with data = L L^T (``lower``), or U with data = U^T U. The other triangle of data is not read.

    What has no such factor gives NaN.
    """

    name = "linalg.cholesky"
    data = Operand()
    kernel = "cholesky"
    accuracy = Accuracy.ACCUMULATING
    category = Category.CONTRACTION

    def infer(self, operands: Values, attrs: CholeskyAttrs, regions: Regions = ()) -> Types:
        return [square(self.name, operands[0], "data")]

    def reference(self, operands: Arrays, attrs: CholeskyAttrs) -> Arrays:
        data = operands[0].astype(np.float64)
        data = data if attrs.lower else np.swapaxes(data, -1, -2)
        factor = np.zeros_like(data)
        for i in range(data.shape[-1]):
            for j in range(i + 1):
                rest = data[..., i, j] - np.sum(factor[..., i, :j] * factor[..., j, :j], axis=-1)
                factor[..., i, j] = np.sqrt(rest) if i == j else rest / factor[..., j, j]
        result = factor if attrs.lower else np.swapaxes(factor, -1, -2)
        return [result.astype(operands[0].dtype)]

    def decompose(self, builder: Builder, operands: Values, attrs: CholeskyAttrs) -> Sequence[Value] | None:
        return in_float32(self, builder, operands, attrs)

    def flops(self, operands: Sequence[Any], attrs: CholeskyAttrs, results: TensorTypes) -> Any:
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
    a, b = Operand(), Operand()
    kernel = "triangular_solve"
    accuracy = Accuracy.ACCUMULATING
    category = Category.CONTRACTION

    def infer(self, operands: Values, attrs: TriangularSolveAttrs, regions: Regions = ()) -> Types:
        a, b = square(self.name, operands[0], "a"), tensor(self.name, operands[1], "b")
        same_dtype(self.name, [a, b])
        check_system(self.name, a, b, -2 if attrs.left_side else -1)
        return [b]

    def reference(self, operands: Arrays, attrs: TriangularSolveAttrs) -> Arrays:
        a, b = (x.astype(np.float64) for x in operands)
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
        return [(x if attrs.left_side else np.swapaxes(x, -1, -2)).astype(operands[1].dtype)]

    def decompose(self, builder: Builder, operands: Values, attrs: TriangularSolveAttrs) -> Sequence[Value] | None:
        return in_float32(self, builder, operands, attrs)

    def flops(self, operands: Sequence[Any], attrs: TriangularSolveAttrs, results: TensorTypes) -> Any:
        return results[0].size * operands[0].shape[-1]


def check_system(op: str, a: TensorType, b: TensorType, axis: int) -> None:
    """Raises TypeInferenceError unless b has the batch of a, and along ``axis`` as many elements as a has rows."""
    expect_rank(op, b, "b", a.rank)
    for k, (m, n) in enumerate(zip(a.shape[:-2], b.shape[:-2], strict=True)):
        unify_dim(op, m, n, f"dimension {k} of a and b")
    unify_dim(op, b.shape[axis], a.shape[-1], "sides of a and b")


@register
class Lu(Op[NoAttrs]):
    """LU factors with partial pivoting: rows data[p] = L U. Results: U, with L (diagonal 1) below it in one matrix; p.

    Of pivots of equal size the first is taken. A column without one is left as it is.
    """

    name = "linalg.lu"
    data = Operand()
    kernel = "lu"
    accuracy = Accuracy.ACCUMULATING
    category = Category.CONTRACTION

    def infer(self, operands: Values, attrs: NoAttrs, regions: Regions = ()) -> Types:
        data = square(self.name, operands[0], "data")
        return [data, TensorType(data.shape[:-1], "int64")]

    def reference(self, operands: Arrays, attrs: NoAttrs) -> Arrays:
        data = operands[0].astype(np.float64)
        places = np.broadcast_to(np.arange(data.shape[-1]), data.shape[:-1]).copy()
        for batch in np.ndindex(data.shape[:-2]):
            _factor(data[batch], places[batch])
        return [data.astype(operands[0].dtype), places]

    def decompose(self, builder: Builder, operands: Values, attrs: NoAttrs) -> Sequence[Value] | None:
        return in_float32(self, builder, operands, attrs)

    def flops(self, operands: Sequence[Any], attrs: NoAttrs, results: TensorTypes) -> Any:
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
    a, b = Operand(), Operand()
    accuracy = Accuracy.ACCUMULATING
    category = Category.CONTRACTION

    def infer(self, operands: Values, attrs: NoAttrs, regions: Regions = ()) -> Types:
        a, b = square(self.name, operands[0], "a"), tensor(self.name, operands[1], "b")
        same_dtype(self.name, [a, b])
        check_system(self.name, a, b, -2)
        return [b]

    def reference(self, operands: Arrays, attrs: NoAttrs) -> Arrays:
        a, b = (x.astype(np.float64) for x in operands)
        factors, places = Lu().reference([a], NoAttrs())
        x = np.take_along_axis(b, places[..., None], axis=-2)
        for options in (TriangularSolveAttrs(unit_diagonal=True), TriangularSolveAttrs(lower=False)):
            (x,) = TriangularSolve().reference([factors, x], options)
        return [x.astype(operands[1].dtype)]

    def decompose(self, builder: Builder, operands: Values, attrs: NoAttrs) -> Sequence[Value]:
        wide = in_float32(self, builder, operands, attrs)
        if wide is not None:
            return wide
        a, b = operands
        assert a is not None and b is not None
        factors, places = builder.call_multi(Lu(), a)
        index = builder.call("broadcast_to", builder.call("expand_dims", places, axis=-1), shape=b.shape)
        x = builder.call("gather", b, index, axis=-2)
        x = builder.call(TriangularSolve(), factors, x, unit_diagonal=True)
        return [builder.call(TriangularSolve(), factors, x, lower=False)]


@register
class Inverse(Op[NoAttrs]):
    """The inverses of the matrices. Infinite or NaN where one is singular."""

    name = "linalg.inverse"
    data = Operand()
    accuracy = Accuracy.ACCUMULATING
    category = Category.CONTRACTION

    def infer(self, operands: Values, attrs: NoAttrs, regions: Regions = ()) -> Types:
        return [square(self.name, operands[0], "data")]

    def reference(self, operands: Arrays, attrs: NoAttrs) -> Arrays:
        data = operands[0].astype(np.float64)
        one = np.broadcast_to(np.eye(data.shape[-1]), data.shape)
        return [Solve().reference([data, one], attrs)[0].astype(operands[0].dtype)]

    def decompose(self, builder: Builder, operands: Values, attrs: NoAttrs) -> Sequence[Value]:
        (data,) = operands
        assert data is not None
        one = builder.call("eye", n=data.shape[-1], m=data.shape[-1], dtype=data.dtype)
        return [builder.call(Solve(), data, builder.call("broadcast_to", one, shape=data.shape))]
