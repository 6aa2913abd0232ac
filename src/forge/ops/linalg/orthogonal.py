"""Orthogonal factors of the matrices in the last two dimensions: of QR, of singular values, and of symmetric eigenvalues."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from forge import dims, te
from forge.ir.op import A
from forge.ops.core.inference import at_most, expect_rank, fail, required, same_dtype, unify_dim
from forge.ops.core.op import Accuracy, Category, NoAttrs, Op, Operand, register
from forge.ops.core.signatures import Array, Arrays, Builder, Conditions, Dim, TensorType, TensorTypes, Types, Value, Values
from forge.ops.linalg.factorization import ACCEPTED, check_square, in_float32


class _OfMatrices(Op[A]):
    accuracy = Accuracy.ACCUMULATING
    category = Category.CONTRACTION

    def flops(self, attrs: A, results: TensorTypes, *_: object) -> Dim:
        return results[0].size * results[0].shape[-1]


def swapped(builder: Builder, value: Value) -> Value:
    """Matrices transposed."""
    rank = value.rank
    return builder.call("transpose", value, axes=(*range(rank - 2), rank - 1, rank - 2))


@register
class Householder(_OfMatrices[NoAttrs]):
    """The factors of data = Q R as LAPACK's geqrf keeps them. Results: R, with vectors v below its diagonal; tau.

    Q = H_0 H_1 ..., where H_k = I - tau[k] v v^T, and v is column k below the diagonal, 1 on it and 0 above. R[k, k] has the sign
    that data[k, k] has not when H_k is applied; where nothing below the diagonal is left, H_k is I.
    """

    name = "linalg.householder"
    data = Operand(accepts=ACCEPTED, min_rank=2)
    kernel = "householder"

    def infer(self, attrs: NoAttrs, data: Value) -> Types:
        return [data.type, TensorType((*data.shape[:-2], dims.minimum(*data.shape[-2:])), data.dtype)]

    def reference(self, attrs: NoAttrs, data: Array) -> Arrays:
        factors = data.astype(np.float64)
        taus = np.zeros((*data.shape[:-2], min(data.shape[-2:])))
        for batch in np.ndindex(data.shape[:-2]):
            for k in range(taus.shape[-1]):
                taus[batch][k] = _reflect(factors[batch], k)
        return [factors.astype(data.dtype), taus.astype(data.dtype)]

    def decompose(self, builder: Builder, attrs: NoAttrs, data: Value) -> Values | None:
        return in_float32(self, builder, attrs, data)


def _reflect(matrix: Array, k: int) -> float:
    """Makes column ``k`` of ``matrix`` 0 below the diagonal and puts v there; tau."""
    if not matrix[k + 1 :, k].any():
        return 0.0
    largest = np.abs(matrix[k:, k]).max()
    alpha, *below = matrix[k:, k] / largest
    norm = np.sqrt(alpha**2 + np.sum(np.square(below)))
    beta = norm if alpha < 0 else -norm
    v = np.array([1, *below / (alpha - beta)])
    tau = (beta - alpha) / beta
    matrix[k:, k + 1 :] -= tau * np.outer(v, v @ matrix[k:, k + 1 :])
    matrix[k:, k] = [beta * largest, *v[1:]]
    return float(tau)


@dataclass(frozen=True)
class HouseholderMultiplyAttrs:
    transpose: bool = False


@register
class HouseholderMultiply(_OfMatrices[HouseholderMultiplyAttrs]):
    """Q other, or with ``transpose`` Q^T other, where Q is the square matrix that ``linalg.householder`` describes.

    Of factors, only what is below the diagonal of the columns that tau has is read.
    """

    name = "linalg.householder_multiply"
    factors, tau, other = Operand(accepts=ACCEPTED, min_rank=2), Operand(), Operand()
    kernel = "householder_multiply"

    def infer(self, attrs: HouseholderMultiplyAttrs, factors: Value, tau: Value, other: Value) -> Types:
        same_dtype(self.name, [factors, tau, other])
        expect_rank(self.name, tau.tensor_type, "tau", factors.rank - 1)
        expect_rank(self.name, other.tensor_type, "other", factors.rank)
        for k, sizes in enumerate(zip(factors.shape[:-2], tau.shape[:-1], other.shape[:-2], strict=True)):
            for size in sizes[1:]:
                unify_dim(self.name, sizes[0], size, f"dimension {k} of factors, tau and other")
        unify_dim(self.name, factors.shape[-2], other.shape[-2], "rows of factors and other")
        least, count = dims.minimum(*factors.shape[-2:]), tau.shape[-1]
        if dims.is_static(count, least) and not at_most(count, least):
            raise fail(self.name, "size of tau", count, f"at most {least}")
        return [other.type]

    def requires(
        self, attrs: HouseholderMultiplyAttrs, results: TensorTypes, factors: TensorType, tau: TensorType, *_: object
    ) -> Conditions:
        least, count = dims.minimum(*factors.shape[-2:]), tau.shape[-1]
        why = f"{self.name}: tau has more elements than factors have rows or columns"
        return required(at_most(count, least), lambda: te.dim(count) <= te.dim(least), why)

    def reference(self, attrs: HouseholderMultiplyAttrs, factors: Array, tau: Array, other: Array) -> Arrays:
        result, factors, tau = other.astype(np.float64), factors.astype(np.float64), tau.astype(np.float64)
        count = tau.shape[-1]
        for k in range(count) if attrs.transpose else reversed(range(count)):
            v = np.where(np.arange(factors.shape[-2]) > k, factors[..., k], 0)
            v[..., k] = 1
            products = np.einsum("...i,...ij->...j", v, result)
            result -= tau[..., k, None, None] * v[..., :, None] * products[..., None, :]
        return [result.astype(other.dtype)]

    def decompose(
        self, builder: Builder, attrs: HouseholderMultiplyAttrs, factors: Value, tau: Value, other: Value
    ) -> Values | None:
        return in_float32(self, builder, attrs, factors, tau, other)

    def flops(self, attrs: HouseholderMultiplyAttrs, results: TensorTypes, *operands: Any) -> Dim:
        size: Dim = results[0].size * operands[1].shape[-1] * 4
        return size


@register
class OrthogonalRows(_OfMatrices[NoAttrs]):
    """Rotations J after which the rows of J data are orthogonal, and sorted by their norms, the largest first.

    Results: J data; the norms; J, an orthogonal matrix. In each row of J, the first one of the largest elements is positive.
    All are NaN where an element of the matrix is not finite.
    """

    name = "linalg.orthogonal_rows"
    data = Operand(accepts="float64", min_rank=2)
    kernel = "orthogonal_rows"

    def infer(self, attrs: NoAttrs, data: Value) -> Types:
        batch, rows = data.shape[:-2], data.shape[-2]
        return [data.type, TensorType((*batch, rows), data.dtype), TensorType((*batch, rows, rows), data.dtype)]

    def reference(self, attrs: NoAttrs, data: Array) -> Arrays:
        finite, known = _finite(data)
        left, values, _ = np.linalg.svd(known)
        rotations = np.swapaxes(left, -1, -2)
        rotations = rotations * _signs(rotations)
        missing = data.shape[-2] - values.shape[-1]
        norms = np.concatenate([values, np.zeros((*values.shape[:-1], max(missing, 0)))], axis=-1)
        return [np.where(f, v, np.nan) for f, v in zip((finite, finite[..., 0], finite), (rotations @ known, norms, rotations))]

    def flops(self, attrs: NoAttrs, results: TensorTypes, *_: object) -> Dim:
        return results[0].size * results[0].shape[-2] * 64


def _finite(data: Array) -> tuple[Array, Array]:
    """Which matrices have finite elements only, and the matrices with zeros in the place of the others."""
    finite = np.asarray(np.isfinite(data).all(axis=(-2, -1), keepdims=True))
    return finite, np.where(finite, data, 0)


def _signs(rows: Array) -> Array:
    """-1 for each of ``rows`` of which the first one of the largest elements is negative, else 1; as columns."""
    if rows.shape[-1] == 0:
        return np.ones((*rows.shape[:-1], 1))
    chosen = np.argmax(np.abs(rows), axis=-1, keepdims=True)
    return np.where(np.take_along_axis(rows, chosen, axis=-1) < 0, -1.0, 1.0)


@dataclass(frozen=True)
class SvdAttrs:
    full_matrices: bool = True


@register
class Svd(_OfMatrices[SvdAttrs]):
    """Singular values: data = U diag(S) Vh. Results: U and Vh orthogonal, S in falling order.

    U has as many columns, and Vh as many rows, as S has numbers; with ``full_matrices`` both are square, with any vectors that
    make them orthogonal. In each row of Vh that S has a number for, the first one of the largest elements is positive. All are
    NaN where an element of the matrix is not finite.
    """

    name = "linalg.svd"
    data = Operand(accepts=ACCEPTED, min_rank=2)

    def infer(self, attrs: SvdAttrs, data: Value) -> Types:
        *batch, rows, columns = data.shape
        count = dims.minimum(rows, columns)
        left, right = ((rows, rows), (columns, columns)) if attrs.full_matrices else ((rows, count), (count, columns))
        return [TensorType((*batch, *shape), data.dtype) for shape in (left, (count,), right)]

    def reference(self, attrs: SvdAttrs, data: Array) -> Arrays:
        finite, known = _finite(data.astype(np.float64))
        left, values, right = np.linalg.svd(known, full_matrices=attrs.full_matrices)
        count = values.shape[-1]
        signs = _signs(right[..., :count, :])
        left[..., :count] *= np.swapaxes(signs, -1, -2)
        right[..., :count, :] *= signs
        parts = zip((finite, finite[..., 0], finite), (left, values, right))
        return [np.where(f, v, np.nan).astype(data.dtype) for f, v in parts]

    def decompose(self, builder: Builder, attrs: SvdAttrs, data: Value) -> Values:
        """Rotations J make the rows of J data^T orthogonal: they are S times the columns of U, and Vh is J. The QR factors of
        these columns give U, with what completes it where S is 0 or there are more rows. Of data with more columns than rows, U
        and Vh are those of the transposed matrix.
        """
        rows, columns = data.shape[-2:]
        count = dims.minimum(rows, columns)
        is_wide = dims.equal(count, rows) and not dims.equal(rows, columns)
        wide = builder.call("cast", data, dtype="float64")
        turned, norms, right = builder.call_multi(OrthogonalRows(), wide if is_wide else swapped(builder, wide))
        factors, tau = builder.call_multi(Householder(), swapped(builder, turned))
        left = _orthogonal(builder, factors, tau, attrs.full_matrices)
        values = first(builder, norms, count, -1)
        right = right if attrs.full_matrices else first(builder, right, count, -2)
        if is_wide:
            known = first(builder, left, count, -1)
            largest = builder.call("argmax", builder.call("abs", known), axis=(known.rank - 2,), keepdims=True)
            negative = builder.call("less", builder.call("gather", known, largest, axis=-2), builder.constant(0.0, known.dtype))
            left, right = _negated(builder, left, negative), _negated(builder, swapped(builder, right), negative)
            left, right = right, swapped(builder, left)
        return [builder.call("cast", v, dtype=data.dtype) for v in (left, values, right)]


def _orthogonal(builder: Builder, factors: Value, tau: Value, full: bool) -> Value:
    """Q, with the columns negated for which R has a negative element on the diagonal."""
    batch, rows = factors.shape[:-2], factors.shape[-2]
    size = rows if full else tau.shape[-1]
    one = builder.call("broadcast_to", builder.call("eye", n=rows, m=size, dtype=factors.dtype), shape=(*batch, rows, size))
    last = factors.rank - 1
    diagonal = builder.call("diagonal", factors, axis1=last - 1, axis2=last)
    negative = builder.call("expand_dims", builder.call("less", diagonal, builder.constant(0.0, factors.dtype)), axis=last - 1)
    return _negated(builder, builder.call(HouseholderMultiply(), factors, tau, one), negative)


def _negated(builder: Builder, matrix: Value, which: Value) -> Value:
    """``matrix`` with the columns negated that ``which``, a row of bools that may be shorter, says."""
    missing = matrix.shape[-1] - which.shape[-1]
    if not dims.equal(missing, 0):
        which = builder.call("nn.pad", which, pad_width=(*((0, 0) for _ in which.shape[:-1]), (0, missing)))
    return builder.call("where", which, builder.call("negative", matrix), matrix)


def first(builder: Builder, value: Value, count: Dim, axis: int) -> Value:
    """The first ``count`` of its elements along ``axis``."""
    axis %= value.rank
    if dims.equal(value.shape[axis], count):
        return value
    return builder.call("strided_slice", value, begin=(0,), end=(count,), strides=(1,), axes=(axis,))


@dataclass(frozen=True)
class SymmetricAttrs:
    lower: bool = True


@register
class Diagonalize(_OfMatrices[SymmetricAttrs]):
    """``linalg.eigh`` of float64. Results: eigenvalues; eigenvectors; what the rotations leave of data, in no order."""

    name = "linalg.diagonalize"
    data = Operand(accepts="float64", min_rank=2)
    kernel = "diagonalize"

    def infer(self, attrs: SymmetricAttrs, data: Value) -> Types:
        check_square(self.name, data)
        return [TensorType(data.shape[:-1], data.dtype), data.type, data.type]

    def reference(self, attrs: SymmetricAttrs, data: Array) -> Arrays:
        values, vectors = Eigh().reference(attrs, data)
        return [values, vectors, values[..., None] * np.eye(data.shape[-1])]

    def flops(self, attrs: SymmetricAttrs, results: TensorTypes, *_: object) -> Dim:
        return results[1].size * results[1].shape[-1] * 64


@register
class Eigh(_OfMatrices[SymmetricAttrs]):
    """Eigenvalues and eigenvectors of symmetric matrices, of which the lower triangle is read, or the upper one.

    Results: the eigenvalues, rising; the eigenvectors as columns of an orthogonal matrix. In each of them, the first one of the
    largest elements is positive. All are NaN where an element of the triangle is not finite.
    """

    name = "linalg.eigh"
    data = Operand(accepts=ACCEPTED, min_rank=2)

    def infer(self, attrs: SymmetricAttrs, data: Value) -> Types:
        check_square(self.name, data)
        return [TensorType(data.shape[:-1], data.dtype), data.type]

    def reference(self, attrs: SymmetricAttrs, data: Array) -> Arrays:
        triangle = (np.tril if attrs.lower else np.triu)(data.astype(np.float64))
        finite, known = _finite(triangle)
        values, vectors = np.linalg.eigh(known, UPLO="L" if attrs.lower else "U")
        vectors = vectors * np.swapaxes(_signs(np.swapaxes(vectors, -1, -2)), -1, -2)
        return [np.where(f, v, np.nan).astype(data.dtype) for f, v in ((finite[..., 0], values), (finite, vectors))]

    def decompose(self, builder: Builder, attrs: SymmetricAttrs, data: Value) -> Values:
        wide = builder.call("cast", data, dtype="float64")
        results = builder.call_multi(Diagonalize(), wide, lower=attrs.lower)[:2]
        return [builder.call("cast", v, dtype=data.dtype) for v in results]
