"""Orthogonal factors of the matrices in the last two dimensions: of QR, and of singular values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from forge import dims, dtypes, te
from forge.ir.op import A
from forge.ops.core.inference import at_most, expect_rank, fail, required, same_dtype, unify_dim
from forge.ops.core.op import Accuracy, Category, NoAttrs, Op, Operand, register
from forge.ops.core.scalar_math import widest
from forge.ops.core.signatures import Array, Arrays, Builder, Conditions, Dim, TensorType, TensorTypes, Types, Value, Values
from forge.ops.linalg.factorization import WITH_COMPLEX, in_float32


class OfMatrices(Op[A]):
    accuracy = Accuracy.ACCUMULATING
    category = Category.CONTRACTION

    def flops(self, attrs: A, results: TensorTypes, *_: object) -> Dim:
        return results[0].size * results[0].shape[-1]


def swapped(builder: Builder, value: Value) -> Value:
    """Matrices transposed."""
    rank = value.rank
    return builder.call("transpose", value, axes=(*range(rank - 2), rank - 1, rank - 2))


@register
class Householder(OfMatrices[NoAttrs]):
    """The factors of data = Q R as LAPACK's geqrf keeps them. Results: R, with vectors v below its diagonal; tau.

    Q = H_0 H_1 ..., where H_k = I - tau[k] v v^H, and v is column k below the diagonal, 1 on it and 0 above. R[k, k] is real and
    has the sign that the real part of data[k, k] has not when H_k is applied; where nothing below the diagonal is left, and
    data[k, k] is real, H_k is I.
    """

    name = "linalg.householder"
    data = Operand(accepts=WITH_COMPLEX, min_rank=2)
    kernel = "householder"

    def infer(self, attrs: NoAttrs, data: Value) -> Types:
        return [data.type, TensorType((*data.shape[:-2], dims.minimum(*data.shape[-2:])), data.dtype)]

    def reference(self, attrs: NoAttrs, data: Array) -> Arrays:
        factors = widest(data).copy()
        taus = np.zeros((*data.shape[:-2], min(data.shape[-2:])), factors.dtype)
        for batch in np.ndindex(data.shape[:-2]):
            for k in range(taus.shape[-1]):
                taus[batch][k] = reflect(factors[batch], k, k)
        return [factors.astype(data.dtype), taus.astype(data.dtype)]

    def decompose(self, builder: Builder, attrs: NoAttrs, data: Value) -> Values | None:
        return in_float32(self, builder, attrs, data)


def reflect(matrix: Array, top: int, column: int) -> Any:
    """Makes ``column`` of ``matrix`` 0 below row ``top`` and puts v there, and multiplies the columns after it; tau."""
    if not matrix[top + 1 :, column].any() and matrix[top, column].imag == 0:
        return 0.0
    largest = np.abs(matrix[top:, column]).max()
    alpha, *below = matrix[top:, column] / largest
    norm = np.sqrt(np.abs(alpha) ** 2 + np.sum(np.square(np.abs(below))))
    beta = norm if alpha.real < 0 else -norm
    v = np.array([1, *below / (alpha - beta)])
    tau = (beta - alpha) / beta
    matrix[top:, column + 1 :] -= np.conj(tau) * np.outer(v, v.conj() @ matrix[top:, column + 1 :])
    matrix[top:, column] = [beta * largest, *v[1:]]
    return tau


@register
class HouseholderPivoted(OfMatrices[NoAttrs]):
    """`linalg.householder` of the columns of data in another order, which is the third result: at each step the column whose
    remaining elements have the largest norm is next, of equal ones the first. LAPACK's geqp3.
    """

    name = "linalg.householder_pivoted"
    data = Operand(accepts=WITH_COMPLEX, min_rank=2)
    kernel = "householder_pivoted"

    def infer(self, attrs: NoAttrs, data: Value) -> Types:
        return [*Householder().infer(attrs, data), TensorType((*data.shape[:-2], data.shape[-1]), "int64")]

    def reference(self, attrs: NoAttrs, data: Array) -> Arrays:
        factors = widest(data).copy()
        taus = np.zeros((*data.shape[:-2], min(data.shape[-2:])), factors.dtype)
        order = np.broadcast_to(np.arange(data.shape[-1]), (*data.shape[:-2], data.shape[-1])).copy()
        for batch in np.ndindex(data.shape[:-2]):
            matrix = factors[batch]
            scale = np.abs(matrix).max(initial=0) or 1
            for k in range(taus.shape[-1]):
                chosen = k + int(np.argmax(np.sum(np.square(np.abs(matrix[k:, k:] / scale)), axis=0)))
                matrix[:, [k, chosen]] = matrix[:, [chosen, k]]
                order[batch][[k, chosen]] = order[batch][[chosen, k]]
                taus[batch][k] = reflect(matrix, k, k)
        return [factors.astype(data.dtype), taus.astype(data.dtype), order]

    def decompose(self, builder: Builder, attrs: NoAttrs, data: Value) -> Values | None:
        return in_float32(self, builder, attrs, data)


@dataclass(frozen=True)
class HouseholderMultiplyAttrs:
    transpose: bool = False


@register
class HouseholderMultiply(OfMatrices[HouseholderMultiplyAttrs]):
    """Q other, or with ``transpose`` Q^H other, where Q is the square matrix that ``linalg.householder`` describes.

    Of factors, only what is below the diagonal of the columns that tau has is read.
    """

    name = "linalg.householder_multiply"
    factors, tau, other = Operand(accepts=WITH_COMPLEX, min_rank=2), Operand(), Operand()
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
        dtype, (result, factors, tau) = other.dtype, (widest(v) for v in (other, factors, tau))
        result, tau = result.copy(), tau.conj() if attrs.transpose else tau
        count = tau.shape[-1]
        for k in range(count) if attrs.transpose else reversed(range(count)):
            v = np.where(np.arange(factors.shape[-2]) > k, factors[..., k], 0)
            v[..., k] = 1
            products = np.einsum("...i,...ij->...j", v.conj(), result)
            result -= tau[..., k, None, None] * v[..., :, None] * products[..., None, :]
        return [result.astype(dtype)]

    def decompose(
        self, builder: Builder, attrs: HouseholderMultiplyAttrs, factors: Value, tau: Value, other: Value
    ) -> Values | None:
        return in_float32(self, builder, attrs, factors, tau, other)

    def flops(self, attrs: HouseholderMultiplyAttrs, results: TensorTypes, *operands: Any) -> Dim:
        size: Dim = results[0].size * operands[1].shape[-1] * 4
        return size


@register
class OrthogonalRows(OfMatrices[NoAttrs]):
    """Rotations J after which the rows of J data are orthogonal, and sorted by their norms, the largest first.

    Results: J data; the norms; J, an orthogonal matrix. In each row of J, the first one of the largest elements is positive.
    All are NaN where an element of the matrix is not finite.
    """

    name = "linalg.orthogonal_rows"
    data = Operand(accepts="float64 or complex128", min_rank=2)
    kernel = "orthogonal_rows"

    def infer(self, attrs: NoAttrs, data: Value) -> Types:
        batch, rows = data.shape[:-2], data.shape[-2]
        return [data.type, TensorType((*batch, rows), "float64"), TensorType((*batch, rows, rows), data.dtype)]

    def reference(self, attrs: NoAttrs, data: Array) -> Arrays:
        finite, known = finite_only(data)
        left, values, _ = np.linalg.svd(known)
        rotations = np.swapaxes(left, -1, -2).conj()
        rotations = rotations * signs_of_rows(rotations)
        missing = data.shape[-2] - values.shape[-1]
        norms = np.concatenate([values, np.zeros((*values.shape[:-1], max(missing, 0)))], axis=-1)
        return [np.where(f, v, np.nan) for f, v in zip((finite, finite[..., 0], finite), (rotations @ known, norms, rotations))]

    def flops(self, attrs: NoAttrs, results: TensorTypes, *_: object) -> Dim:
        return results[0].size * results[0].shape[-2] * 64


def finite_only(data: Array) -> tuple[Array, Array]:
    """Which matrices have finite elements only, and the matrices with zeros in the place of the others."""
    finite = np.asarray(np.isfinite(data).all(axis=(-2, -1), keepdims=True))
    return finite, np.where(finite, data, 0)


def signs_of_rows(rows: Array) -> Array:
    """The factors that make the first one of the largest elements of each of ``rows`` positive; as columns."""
    if rows.shape[-1] == 0:
        return np.ones((*rows.shape[:-1], 1))
    largest = np.take_along_axis(rows, np.argmax(np.abs(rows), axis=-1, keepdims=True), axis=-1)
    if np.iscomplexobj(rows):
        return np.asarray(largest.conj() / np.abs(largest))
    return np.where(largest < 0, -1.0, 1.0)


@dataclass(frozen=True)
class SvdAttrs:
    full_matrices: bool = True


@register
class Svd(OfMatrices[SvdAttrs]):
    """Singular values: data = U diag(S) Vh. Results: U and Vh orthogonal (unitary, of complex matrices), S in falling order.

    U has as many columns, and Vh as many rows, as S has numbers; with ``full_matrices`` both are square, with any vectors that
    make them orthogonal. In each row of Vh that S has a number for, the first one of the largest elements is positive; of complex
    matrices with more columns than rows, in each column of U. All are NaN where an element of the matrix is not finite.
    """

    name = "linalg.svd"
    data = Operand(accepts=WITH_COMPLEX, min_rank=2)

    def infer(self, attrs: SvdAttrs, data: Value) -> Types:
        *batch, rows, columns = data.shape
        count = dims.minimum(rows, columns)
        left, right = ((rows, rows), (columns, columns)) if attrs.full_matrices else ((rows, count), (count, columns))
        types = (data.dtype, real_type(data.dtype), data.dtype)
        return [TensorType((*batch, *shape), dtype) for shape, dtype in zip((left, (count,), right), types)]

    def reference(self, attrs: SvdAttrs, data: Array) -> Arrays:
        finite, known = finite_only(widest(data))
        left, values, right = np.linalg.svd(known, full_matrices=attrs.full_matrices)
        count = values.shape[-1]
        by_left = np.iscomplexobj(data) and data.shape[-2] < data.shape[-1]
        vectors = np.swapaxes(left, -1, -2).conj() if by_left else right
        signs = signs_of_rows(vectors[..., :count, :])
        left[..., :count] *= np.swapaxes(signs, -1, -2).conj()
        right[..., :count, :] *= signs
        types = (data.dtype, real_type(str(data.dtype)), data.dtype)
        parts = zip((finite, finite[..., 0], finite), (left, values, right), types)
        return [np.where(f, v, np.nan).astype(dtype) for f, v, dtype in parts]

    def decompose(self, builder: Builder, attrs: SvdAttrs, data: Value) -> Values:
        """Rotations J make the rows of J data^T orthogonal: they are S times the columns of U, and Vh is J's conjugate.

        The QR factors of these columns give U, with what completes it where S is 0 or there are more rows. Of data with more
        columns than rows, U and Vh are those of the transposed matrix.
        """
        rows, columns = data.shape[-2:]
        count = dims.minimum(rows, columns)
        is_wide = dims.equal(count, rows) and not dims.equal(rows, columns)
        is_complex = dtypes.is_complex(data.dtype)
        wide = builder.call("cast", data, dtype="complex128" if is_complex else "float64")
        turned, norms, right = builder.call_multi(OrthogonalRows(), wide if is_wide else swapped(builder, wide))
        right = builder.call("complex.conj", right) if is_complex else right
        factors, tau = builder.call_multi(Householder(), swapped(builder, turned))
        left = _orthogonal(builder, factors, tau, attrs.full_matrices)
        values = first(builder, norms, count, -1)
        right = right if attrs.full_matrices else first(builder, right, count, -2)
        if is_wide and is_complex:
            left, right = swapped(builder, right), swapped(builder, left)
        elif is_wide:
            known = first(builder, left, count, -1)
            largest = builder.call("argmax", builder.call("abs", known), axis=(known.rank - 2,), keepdims=True)
            negative = builder.call("less", builder.call("gather", known, largest, axis=-2), builder.constant(0.0, known.dtype))
            left, right = _negated(builder, left, negative), _negated(builder, swapped(builder, right), negative)
            left, right = right, swapped(builder, left)
        types = (data.dtype, real_type(data.dtype), data.dtype)
        return [builder.call("cast", v, dtype=dtype) for v, dtype in zip((left, values, right), types)]


def real_type(dtype: str) -> str:
    """The type of sizes of numbers of ``dtype``."""
    return dtypes.part(dtype) if dtypes.is_complex(dtype) else dtype


def _orthogonal(builder: Builder, factors: Value, tau: Value, full: bool) -> Value:
    """Q, with the columns negated for which R has a negative element on the diagonal."""
    batch, rows = factors.shape[:-2], factors.shape[-2]
    size = rows if full else tau.shape[-1]
    one = builder.call("broadcast_to", builder.call("eye", n=rows, m=size, dtype=factors.dtype), shape=(*batch, rows, size))
    last = factors.rank - 1
    diagonal = builder.call("diagonal", factors, axis1=last - 1, axis2=last)
    diagonal = builder.call("complex.real", diagonal) if dtypes.is_complex(factors.dtype) else diagonal
    negative = builder.call("expand_dims", builder.call("less", diagonal, builder.constant(0.0, diagonal.dtype)), axis=last - 1)
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
