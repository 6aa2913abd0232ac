"""Eigenvalues of the matrices in the last two dimensions, and the simpler matrices that are similar to them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from forge import dims, dtypes
from forge.ops.core.inference import expect_rank, same_dtype, unify_dim
from forge.ops.core.op import NoAttrs, Operand, register
from forge.ops.core.scalar_math import widest
from forge.ops.core.signatures import Array, Arrays, Builder, Dim, TensorType, TensorTypes, Types, Value, Values
from forge.ops.linalg.factorization import WITH_COMPLEX, check_square, in_float32
from forge.ops.linalg.orthogonal import (
    HouseholderMultiply,
    OfMatrices,
    finite_only,
    real_type,
    reflect,
    signs_of_rows,
    swapped,
)

WIDE = "float64 or complex128"


@register
class Hessenberg(OfMatrices[NoAttrs]):
    """data = Q H Q^H, H being 0 below the diagonal under the main one, as LAPACK's gehrd keeps them. Results: H, with vectors v
    below that diagonal, which is real; tau.

    Q = H_0 H_1 ..., where H_k = I - tau[k] v v^H, and v is column k from row k + 2 on, 1 in row k + 1 and 0 above.
    """

    name = "linalg.hessenberg"
    data = Operand(accepts=WITH_COMPLEX, min_rank=2)
    kernel = "hessenberg"

    def infer(self, attrs: NoAttrs, data: Value) -> Types:
        check_square(self.name, data)
        return [data.type, TensorType((*data.shape[:-2], dims.maximum(data.shape[-1] - 1, 0)), data.dtype)]

    def reference(self, attrs: NoAttrs, data: Array) -> Arrays:
        factors = widest(data).copy()
        taus = np.zeros((*data.shape[:-2], max(data.shape[-1] - 1, 0)), factors.dtype)
        for batch in np.ndindex(data.shape[:-2]):
            matrix = factors[batch]
            for k in range(taus.shape[-1]):
                taus[batch][k] = tau = reflect(matrix, k + 1, k)
                v = np.array([1, *matrix[k + 2 :, k]])
                matrix[:, k + 1 :] -= tau * np.outer(matrix[:, k + 1 :] @ v, v.conj())
        return [factors.astype(data.dtype), taus.astype(data.dtype)]

    def decompose(self, builder: Builder, attrs: NoAttrs, data: Value) -> Values | None:
        return in_float32(self, builder, attrs, data)


def rotated(builder: Builder, factors: Value, tau: Value, other: Value) -> Value:
    """Q other, where Q is what ``linalg.hessenberg`` describes."""
    rows, columns = other.rank - 2, other.rank - 1
    size = factors.shape[-1]
    if isinstance(size, int) and size < 2:
        return other

    def part(value: Value, axes: tuple[int, ...], begin: tuple[int, ...], end: tuple[Dim, ...]) -> Value:
        return builder.call("strided_slice", value, begin=begin, end=end, strides=(1,) * len(axes), axes=axes)

    below = part(factors, (rows, columns), (1, 0), (size, size - 1))
    turned = builder.call(HouseholderMultiply(), below, tau, part(other, (rows,), (1,), (size,)))
    return builder.call("concatenate", part(other, (rows,), (0,), (1,)), turned, axis=rows)


def hermitian(builder: Builder, data: Value, lower: bool) -> Value:
    """The Hermitian matrices of which one triangle is given; what is imaginary on the diagonal is left out."""
    triangle = builder.call("trilu", data, builder.constant(-1 if lower else 1, "int64"), upper=not lower)
    is_complex = dtypes.is_complex(data.dtype)
    other = swapped(builder, builder.call("complex.conj", triangle) if is_complex else triangle)
    diagonal = builder.call("cast", builder.call("complex.real", data), dtype=data.dtype) if is_complex else data
    size = data.shape[-1]
    on = builder.call("cast", builder.call("eye", n=size, m=size, dtype="int8"), dtype="bool")
    return builder.call("where", on, diagonal, builder.call("add", triangle, other))


@register
class Schur(OfMatrices[NoAttrs]):
    """data = Q T Q^H, of data that is 0 below the diagonal under the main one (what is there is not read), by the QR algorithm.

    Results: T; vectors Q; how many rows T has that the iteration left as they are, 0 as a rule. Complex T is triangular. Real T
    has blocks of two rows on the diagonal, too: both elements on the diagonal of a block are equal, the others have unlike signs.
    All are NaN where an element of the matrix is not finite.
    """

    name = "linalg.schur"
    data, vectors = Operand(accepts=WIDE, min_rank=2), Operand(accepts=WIDE, min_rank=2)
    kernel = "schur"

    def infer(self, attrs: NoAttrs, data: Value, vectors: Value) -> Types:
        check_square(self.name, data)
        check_square(self.name, vectors)
        same_dtype(self.name, [data, vectors])
        expect_rank(self.name, vectors.tensor_type, "vectors", data.rank)
        for k, (m, n) in enumerate(zip(data.shape, vectors.shape)):
            unify_dim(self.name, m, n, f"dimension {k} of data and vectors")
        return [data.type, vectors.type, TensorType(data.shape[:-2], "int32")]

    def reference(self, attrs: NoAttrs, data: Array, vectors: Array) -> Arrays:
        hessenberg = np.triu(data, -1)
        finite, known = finite_only(hessenberg)
        form, rotations = known.copy(), np.zeros_like(known)
        for batch in np.ndindex(data.shape[:-2]):
            rotations[batch] = _deflated(form[batch])
        found = np.where(finite, form, np.nan), np.where(finite, vectors @ rotations, np.nan)
        return [*(v.astype(data.dtype) for v in found), np.zeros(data.shape[:-2], np.int32)]

    def flops(self, attrs: NoAttrs, results: TensorTypes, *_: object) -> Dim:
        return results[0].size * results[0].shape[-1] * 10


def _deflated(matrix: Array) -> Array:
    """The Schur form of ``matrix``, in its place, one eigenvector (of real matrices: a pair) after the other; the vectors."""
    size, k = len(matrix), 0
    rotations = np.eye(size, dtype=matrix.dtype)
    while k < size:
        if not np.tril(matrix[k:, k:], -1).any():
            break
        values, vectors = np.linalg.eig(matrix[k:, k:])
        vector = vectors[:, 0]
        is_pair = not np.iscomplexobj(matrix) and values[0].imag != 0
        basis = np.stack([vector.real, vector.imag], 1) if is_pair else vector[:, None]
        basis = basis if np.iscomplexobj(matrix) else basis.real
        turn = np.eye(size, dtype=matrix.dtype)
        turn[k:, k:] = np.linalg.qr(basis, mode="complete")[0]
        width = basis.shape[1]
        if is_pair:
            middle = turn.T @ matrix @ turn
            turn[:, k : k + 2] = turn[:, k : k + 2] @ _standard(middle[k : k + 2, k : k + 2])
        matrix[:] = turn.conj().T @ matrix @ turn
        matrix[k + width :, k : k + width] = 0
        rotations = rotations @ turn
        k += width
    return rotations


def _standard(block: Array) -> Array:
    """The rotation that makes both elements on the diagonal of a block with complex eigenvalues equal."""
    beside = block[0, 1] + block[1, 0]
    angle = np.arctan2((block[1, 1] - block[0, 0]) * (-1 if beside < 0 else 1), abs(beside)) / 2
    return np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])


@register
class TriangularEigenvectors(OfMatrices[NoAttrs]):
    """Vectors x, as columns, with data x = values[k] x, of data as `linalg.schur` leaves it, as complex numbers.

    Column k has a 1 in row k, or the vector of its block in the two rows of that, and 0 below. Of equal values the second vector
    may be nearly the first.
    """

    name = "linalg.triangular_eigenvectors"
    data, values = Operand(accepts="complex128", min_rank=2), Operand(accepts="complex128", min_rank=1)
    kernel = "triangular_eigenvectors"

    def infer(self, attrs: NoAttrs, data: Value, values: Value) -> Types:
        check_square(self.name, data)
        expect_rank(self.name, values.tensor_type, "values", data.rank - 1)
        for k, (m, n) in enumerate(zip(data.shape[:-1], values.shape)):
            unify_dim(self.name, m, n, f"dimension {k} of data and values")
        return [data.type]

    def reference(self, attrs: NoAttrs, data: Array, values: Array) -> Arrays:
        found = np.zeros(data.shape, np.complex128)
        for batch in np.ndindex(data.shape[:-2]):
            matrix, least = data[batch], np.finfo(float).eps * np.abs(data[batch]).max(initial=0)
            for k, value in enumerate(values[batch]):
                found[batch][:, k] = _eigenvector(matrix, k, value, max(least, np.finfo(float).tiny))
        return [found]


def _eigenvector(matrix: Array, k: int, value: complex, least: float) -> Array:
    """By substitution from the last row on; ``least`` stands for differences of equal eigenvalues."""
    size = len(matrix)
    top = k - 1 if k and matrix[k, k - 1] != 0 else k
    end = k + 2 if k + 1 < size and matrix[k + 1, k] != 0 else k + 1
    x = np.zeros(size, np.complex128)
    x[top:end] = 1 if end - top == 1 else [matrix[top, top + 1], value - matrix[top, top]]
    while top:
        width = 2 if top > 1 and matrix[top - 1, top - 2] != 0 else 1
        rows = slice(top - width, top)
        block = matrix[rows, rows] - value * np.eye(width)
        rest = -matrix[rows, top:] @ x[top:]
        x[rows] = rest / (block[0, 0] if abs(block[0, 0]) >= least else least) if width == 1 else np.linalg.solve(block, rest)
        top -= width
    return x


@dataclass(frozen=True)
class SymmetricAttrs:
    lower: bool = True


@register
class Diagonalize(OfMatrices[SymmetricAttrs]):
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
class Eigh(OfMatrices[SymmetricAttrs]):
    """Eigenvalues and eigenvectors of symmetric (Hermitian) matrices, of which the lower triangle is read, or the upper one.

    Results: the eigenvalues, rising; the eigenvectors as columns of an orthogonal (unitary) matrix. In each of them, the first
    one of the largest elements is positive. All are NaN where an element of the triangle is not finite.
    """

    name = "linalg.eigh"
    data = Operand(accepts=WITH_COMPLEX, min_rank=2)

    def infer(self, attrs: SymmetricAttrs, data: Value) -> Types:
        check_square(self.name, data)
        return [TensorType(data.shape[:-1], real_type(data.dtype)), data.type]

    def reference(self, attrs: SymmetricAttrs, data: Array) -> Arrays:
        triangle = (np.tril if attrs.lower else np.triu)(widest(data))
        finite, known = finite_only(triangle)
        values, vectors = np.linalg.eigh(known, UPLO="L" if attrs.lower else "U")
        vectors = vectors * np.swapaxes(signs_of_rows(np.swapaxes(vectors, -1, -2)), -1, -2)
        results = (finite[..., 0], values, real_type(str(data.dtype))), (finite, vectors, data.dtype)
        return [np.where(f, v, np.nan).astype(dtype) for f, v, dtype in results]

    def decompose(self, builder: Builder, attrs: SymmetricAttrs, data: Value) -> Values:
        """Of a Hermitian matrix, reflections Q make a tridiagonal one, which is real, and Q times its eigenvectors are wanted."""
        if not dtypes.is_complex(data.dtype):
            wide = builder.call("cast", data, dtype="float64")
            results = builder.call_multi(Diagonalize(), wide, lower=attrs.lower)[:2]
            return [builder.call("cast", v, dtype=data.dtype) for v in results]
        wide = builder.call("cast", data, dtype="complex128")
        factors, tau = builder.call_multi(Hessenberg(), hermitian(builder, wide, attrs.lower))
        upper = builder.call("trilu", builder.call("complex.real", factors), builder.constant(-1, "int64"), upper=True)
        values, vectors = builder.call_multi(Diagonalize(), upper, lower=True)[:2]
        real = builder.call("cast", vectors, dtype="complex128")
        unitary = rotated(builder, factors, tau, real)
        place = builder.call("argmax", builder.call("abs", unitary), axis=(data.rank - 2,), keepdims=True)
        largest = builder.call("gather", unitary, place, axis=data.rank - 2)
        length = builder.call("cast", builder.call("abs", largest), dtype="complex128")
        turned = builder.call("multiply", unitary, builder.call("divide", builder.call("complex.conj", largest), length))
        return [
            builder.call("cast", values, dtype=real_type(data.dtype)), builder.call("cast", turned, dtype=data.dtype)]
