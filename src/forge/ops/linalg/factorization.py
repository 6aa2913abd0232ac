"""Factorizations of the matrices in the last two dimensions, linear systems, and determinants."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from forge import dims
from forge.ir.op import A
from forge.ops.core.inference import HALF_TYPES, expect_rank, fail, same_dtype, unify_dim
from forge.ops.core.op import Accuracy, Category, NoAttrs, Op, Operand, register
from forge.ops.core.scalar_math import widest
from forge.ops.core.signatures import Array, Arrays, Builder, Dim, TensorType, TensorTypes, Types, Value, Values

ACCEPTED = "float16 or bfloat16 or float32 or float64"
WITH_COMPLEX = f"{ACCEPTED} or complex64 or complex128"


def check_square(op: str, matrices: Value) -> None:
    """Raises TypeInferenceError where the matrices in the last two dimensions are not square."""
    unify_dim(op, matrices.shape[-2], matrices.shape[-1], "sides of a matrix")


def in_float32(op: Op[Any], builder: Builder, attrs: Any, *operands: Value) -> Values | None:
    """The operator on operands of 16 bits, computed in float32; None where nothing is that narrow."""
    dtype = operands[0].dtype
    if dtype not in HALF_TYPES:
        return None
    wide = [builder.call("cast", v, dtype="float32") for v in operands]
    results = builder.call_multi(op, *wide, **vars(attrs))
    return [builder.call("cast", r, dtype=dtype) if r.dtype == "float32" else r for r in results]


class _OfMatrix(Op[A]):
    """What is computed of matrices; by default of square ones, and a tensor of their type."""

    data = Operand(accepts=WITH_COMPLEX, min_rank=2)
    accuracy = Accuracy.ACCUMULATING
    category = Category.CONTRACTION

    def infer(self, attrs: A, data: Value) -> Types:
        check_square(self.name, data)
        return [data.type]


class _Factors(_OfMatrix[A]):
    """What a kernel computes in place of the matrices."""

    def decompose(self, builder: Builder, attrs: A, data: Value) -> Values | None:
        return in_float32(self, builder, attrs, data)

    def flops(self, attrs: A, results: TensorTypes, *_: object) -> Dim:
        return results[0].size * results[0].shape[-1]


class _System(Op[A]):
    """A solution of linear equations with the coefficients a, a square matrix."""

    a, b = Operand(accepts=WITH_COMPLEX, min_rank=2), Operand()
    accuracy = Accuracy.ACCUMULATING
    category = Category.CONTRACTION

    def check(self, a: Value, b: Value, axis: int) -> None:
        """Raises TypeInferenceError unless b has the batch of a, and along ``axis`` as many elements as a has rows."""
        check_square(self.name, a)
        same_dtype(self.name, [a, b])
        expect_rank(self.name, b.tensor_type, "b", a.rank)
        for k, (m, n) in enumerate(zip(a.shape[:-2], b.shape[:-2], strict=True)):
            unify_dim(self.name, m, n, f"dimension {k} of a and b")
        unify_dim(self.name, b.shape[axis], a.shape[-1], "sides of a and b")

    def decompose(self, builder: Builder, attrs: A, a: Value, b: Value) -> Values | None:
        return in_float32(self, builder, attrs, a, b)


@dataclass(frozen=True)
class CholeskyAttrs:
    lower: bool = True


@register
class Cholesky(_Factors[CholeskyAttrs]):
    """The triangular matrices L with data = L L^H (``lower``), or U with data = U^H U. The other triangle of data is not read.

    What has no such factor gives NaN.
    """

    name = "linalg.cholesky"
    kernel = "cholesky"

    def reference(self, attrs: CholeskyAttrs, data: Array) -> Arrays:
        wide = widest(data)
        wide = wide if attrs.lower else np.swapaxes(wide, -1, -2).conj()
        factor = np.zeros_like(wide)
        for i in range(wide.shape[-1]):
            for j in range(i + 1):
                rest = wide[..., i, j] - np.sum(factor[..., i, :j] * factor[..., j, :j].conj(), axis=-1)
                factor[..., i, j] = np.sqrt(rest.real) if i == j else rest / factor[..., j, j]
        result = factor if attrs.lower else np.swapaxes(factor, -1, -2).conj()
        return [result.astype(data.dtype)]


@dataclass(frozen=True)
class TriangularSolveAttrs:
    left_side: bool = True
    lower: bool = True
    transpose_a: bool = False
    unit_diagonal: bool = False


@register
class TriangularSolve(_System[TriangularSolveAttrs]):
    """x with op(a) x = b (``left_side``) or x op(a) = b, op(a) being a, or with ``transpose_a`` its transpose.

    Of a only the triangle that ``lower`` names is read, without the diagonal if that is taken for 1 (``unit_diagonal``).
    """

    name = "linalg.triangular_solve"
    kernel = "triangular_solve"

    def infer(self, attrs: TriangularSolveAttrs, a: Value, b: Value) -> Types:
        self.check(a, b, -2 if attrs.left_side else -1)
        return [b.type]

    def reference(self, attrs: TriangularSolveAttrs, a: Array, b: Array) -> Arrays:
        dtype = b.dtype
        a, b = widest(a), widest(b)
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

    def flops(self, attrs: TriangularSolveAttrs, results: TensorTypes, a: Value, b: Value) -> Any:
        return results[0].size * a.shape[-1]


@register
class Lu(_Factors[NoAttrs]):
    """LU factors of m x n matrices with partial pivoting. Results: U, with L (diagonal 1) below it in one matrix; the exchanges.

    Before step k, row k and row exchanges[k] >= k are exchanged; min(m, n) of them, which `linalg.permutation` applies: rows
    data[p] = L U. Of pivots of equal size the first is taken. A column without one is left as it is.
    """

    name = "linalg.lu"
    kernel = "lu"

    def infer(self, attrs: NoAttrs, data: Value) -> Types:
        return [data.type, TensorType((*data.shape[:-2], dims.minimum(*data.shape[-2:])), "int64")]

    def reference(self, attrs: NoAttrs, data: Array) -> Arrays:
        factors = widest(data).copy()
        exchanges = np.zeros((*data.shape[:-2], min(data.shape[-2:])), np.int64)
        for batch in np.ndindex(data.shape[:-2]):
            _factor(factors[batch], exchanges[batch])
        return [factors.astype(data.dtype), exchanges]


def magnitude(column: Array) -> Array:
    """By what pivots are chosen: of complex numbers the sum of the sizes of both parts, as in LAPACK."""
    size: Array = np.abs(column.real) + np.abs(column.imag)
    return size


def _factor(matrix: Array, exchanges: Array) -> None:
    """Both factors in the place of ``matrix``, and the rows that are exchanged."""
    for k in range(len(exchanges)):
        exchanges[k] = row = k + int(np.argmax(magnitude(matrix[k:, k])))
        matrix[[k, row]] = matrix[[row, k]]
        if matrix[k, k] != 0:
            matrix[k + 1 :, k] /= matrix[k, k]
            matrix[k + 1 :, k + 1 :] -= np.outer(matrix[k + 1 :, k], matrix[k, k + 1 :])


@dataclass(frozen=True)
class PermutationAttrs:
    size: Dim | None = None


@register
class Permutation(Op[PermutationAttrs]):
    """The numbers from 0 to ``size`` - 1 (by default as many as there are exchanges), of which for each k in order the elements k
    and exchanges[k] change places.

    Exchanges out of range are clamped.
    """

    name = "linalg.permutation"
    exchanges = Operand(accepts="int32 or int64", min_rank=1)
    kernel = "permutation"

    def infer(self, attrs: PermutationAttrs, exchanges: Value) -> Types:
        count = exchanges.shape[-1]
        size = count if attrs.size is None else attrs.size
        if isinstance(count, int) and isinstance(size, int) and size < count:
            raise fail(self.name, "size", f"{size} of {count} exchanges", "at least as many elements as exchanges")
        return [TensorType((*exchanges.shape[:-1], size), "int64")]

    def reference(self, attrs: PermutationAttrs, exchanges: Array) -> Arrays:
        size = exchanges.shape[-1] if attrs.size is None else attrs.size
        assert isinstance(size, int)
        order = np.broadcast_to(np.arange(size), (*exchanges.shape[:-1], size)).copy()
        for batch in np.ndindex(exchanges.shape[:-1]):
            for k, other in enumerate(np.clip(exchanges[batch], 0, size - 1)[:size]):
                order[batch][[k, other]] = order[batch][[other, k]]
        return [order]


@register
class Solve(_System[NoAttrs]):
    """x with a x = b, by LU factors of a. Infinite or NaN where a is singular."""

    name = "linalg.solve"

    def infer(self, attrs: NoAttrs, a: Value, b: Value) -> Types:
        self.check(a, b, -2)
        return [b.type]

    def reference(self, attrs: NoAttrs, a: Array, b: Array) -> Arrays:
        dtype = b.dtype
        a, b = widest(a), widest(b)
        factors, exchanges = Lu().reference(NoAttrs(), a)
        (places,) = Permutation().reference(PermutationAttrs(), exchanges)
        x = np.take_along_axis(b, places[..., None], axis=-2)
        for options in (TriangularSolveAttrs(unit_diagonal=True), TriangularSolveAttrs(lower=False)):
            (x,) = TriangularSolve().reference(options, factors, x)
        return [x.astype(dtype)]

    def decompose(self, builder: Builder, attrs: NoAttrs, a: Value, b: Value) -> Values:
        if (wide := super().decompose(builder, attrs, a, b)) is not None:
            return wide
        factors, exchanges = builder.call_multi(Lu(), a)
        places = builder.call(Permutation(), exchanges)
        index = builder.call("broadcast_to", builder.call("expand_dims", places, axis=-1), shape=b.shape)
        x = builder.call("gather", b, index, axis=-2)
        x = builder.call(TriangularSolve(), factors, x, unit_diagonal=True)
        return [builder.call(TriangularSolve(), factors, x, lower=False)]


@register
class TridiagonalSolve(Op[NoAttrs]):
    """x with A x = b, where A has ``diagonal``, left[i] left of it in row i > 0, and right[i] right of it in row i.

    Results: what Gaussian elimination with exchanges of neighbouring rows leaves next to ``right``, on the diagonal and in
    ``right``; x. LAPACK's gtsv. Infinite or NaN where A is singular.
    """

    name = "linalg.tridiagonal_solve"
    left, diagonal, right = (Operand(accepts=WITH_COMPLEX, min_rank=1) for _ in range(3))
    b = Operand(accepts=WITH_COMPLEX, min_rank=2)
    kernel = "tridiagonal_solve"
    accuracy = Accuracy.ACCUMULATING
    category = Category.CONTRACTION

    def infer(self, attrs: NoAttrs, left: Value, diagonal: Value, right: Value, b: Value) -> Types:
        same_dtype(self.name, [left, diagonal, right, b])
        for name, value in (("left", left), ("diagonal", diagonal), ("right", right)):
            expect_rank(self.name, value.tensor_type, name, b.rank - 1)
            for k in range(b.rank - 1):
                unify_dim(self.name, value.shape[k], b.shape[k], f"dimension {k} of {name} and b")
        return [left.type, diagonal.type, right.type, b.type]

    def reference(self, attrs: NoAttrs, left: Array, diagonal: Array, right: Array, b: Array) -> Arrays:
        wide = [widest(v).copy() for v in (np.zeros_like(left), diagonal, right, b)]
        with np.errstate(all="ignore"):
            for batch in np.ndindex(b.shape[:-2]):
                _eliminate_tridiagonal(widest(left)[batch], *(v[batch] for v in wide))
        return [v.astype(b.dtype) for v in wide]

    def decompose(self, builder: Builder, attrs: NoAttrs, *operands: Value) -> Values | None:
        return in_float32(self, builder, attrs, *operands)


def _eliminate_tridiagonal(lower: Array, second: Array, pivots: Array, upper: Array, x: Array) -> None:
    """All but ``lower`` in place; ``second`` is next to ``upper``."""
    size = len(pivots)
    for i in range(size - 1):
        row = np.array([[pivots[i], upper[i], 0], [lower[i + 1], pivots[i + 1], upper[i + 1] if i + 2 < size else 0]])
        if magnitude(row[:1, 0])[0] < magnitude(row[1:, 0])[0]:
            row, x[[i, i + 1]] = row[::-1], x[[i + 1, i]]
        factor = row[1, 0] / row[0, 0]
        row = np.array([row[0], row[1] - factor * row[0]])
        pivots[i], upper[i], second[i] = row[0]
        pivots[i + 1], x[i + 1] = row[1, 1], x[i + 1] - factor * x[i]
        if i + 2 < size:
            upper[i + 1] = row[1, 2]
    for i in reversed(range(size)):
        for k, band in ((i + 1, upper), (i + 2, second)):
            if k < size:
                x[i] -= band[i] * x[k]
        x[i] /= pivots[i]


@register
class Inverse(_OfMatrix[NoAttrs]):
    """The inverses of the matrices. Infinite or NaN where one is singular."""

    name = "linalg.inverse"

    def reference(self, attrs: NoAttrs, data: Array) -> Arrays:
        one = np.broadcast_to(np.eye(data.shape[-1]), data.shape)
        return [Solve().reference(attrs, widest(data), one.astype(widest(data).dtype))[0].astype(data.dtype)]

    def decompose(self, builder: Builder, attrs: NoAttrs, data: Value) -> Values:
        one = builder.call("eye", n=data.shape[-1], m=data.shape[-1], dtype=data.dtype)
        return [builder.call(Solve(), data, builder.call("broadcast_to", one, shape=data.shape))]


@register
class Eliminate(_Factors[NoAttrs]):
    """Gaussian elimination with partial pivoting of the matrices in the last two dimensions.

    Results: what is left, upper triangular; the determinant.
    """

    name = "linalg.eliminate"
    data = Operand(accepts="float32 or float64 or complex64 or complex128", min_rank=2)
    kernel = "eliminate"

    def infer(self, attrs: NoAttrs, data: Value) -> Types:
        check_square(self.name, data)
        return [data.type, TensorType(data.shape[:-2], data.dtype)]

    def reference(self, attrs: NoAttrs, data: Array) -> Arrays:
        left = widest(data).copy()
        determinant = np.ones(left.shape[:-2], left.dtype)
        for batch in np.ndindex(left.shape[:-2]):
            determinant[batch] = _eliminate(left[batch])
        return [left.astype(data.dtype), np.asarray(determinant.astype(data.dtype))]


def _eliminate(matrix: Array) -> Any:
    """Makes ``matrix`` upper triangular in place; the determinant."""
    determinant = matrix.dtype.type(1)
    for k in range(len(matrix)):
        row = k + int(np.argmax(magnitude(matrix[k:, k])))
        if row != k:
            matrix[[k, row]] = matrix[[row, k]]
            determinant = -determinant
        determinant *= matrix[k, k]
        if matrix[k, k] != 0:
            matrix[k + 1 :] -= np.outer(matrix[k + 1 :, k] / matrix[k, k], matrix[k])
            matrix[k + 1 :, k] = 0
    return determinant


@register
class Determinant(_OfMatrix[NoAttrs]):
    """The determinants of the matrices in the last two dimensions."""

    name = "linalg.determinant"
    data = Operand(accepts="float or complex", min_rank=2)

    def infer(self, attrs: NoAttrs, data: Value) -> Types:
        check_square(self.name, data)
        return [TensorType(data.shape[:-2], data.dtype)]

    def reference(self, attrs: NoAttrs, data: Array) -> Arrays:
        return [np.asarray(np.linalg.det(widest(data)).astype(data.dtype))]

    def decompose(self, builder: Builder, attrs: NoAttrs, data: Value) -> Values:
        wide = builder.call("cast", data, dtype="float32") if data.dtype in HALF_TYPES else data
        result = builder.call_multi(Eliminate(), wide)[1]
        return [result if wide is data else builder.call("cast", result, dtype=data.dtype)]
