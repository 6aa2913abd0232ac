"""Diagonals and triangular parts of matrices: eye, diagonal, matrix_set_diag, trilu."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from forge import dims, dtypes, te
from forge.ops.core.inference import fail, normalize_axes, same_dtype, unify_dim
from forge.ops.core.lowering import injective, scalar, shape_of
from forge.ops.core.op import Kind, Op, Operand, register
from forge.ops.core.signatures import Array, Arrays, Dim, Expr, Lowered, Tensor, TensorType, TensorTypes, Types, Value


def diagonal_length(rows: Dim, columns: Dim, offset: int) -> Dim:
    """Elements of the diagonal ``offset`` above the main one."""
    return dims.maximum(dims.minimum(rows + min(offset, 0), columns - max(offset, 0)), 0)


@dataclass(frozen=True)
class EyeAttrs:
    n: Dim
    m: Dim
    k: int = 0
    dtype: str = "float32"


@register
class Eye(Op[EyeAttrs]):
    """The matrix of ``n`` rows and ``m`` columns with 1 on diagonal ``k`` (above the main one if positive), else 0."""

    name = "eye"
    kind = Kind.INJECTIVE

    def infer(self, attrs: EyeAttrs, *_: object) -> Types:
        if attrs.dtype not in dtypes.NAMES or attrs.dtype == "string":
            raise fail(self.name, "attribute dtype", repr(attrs.dtype), "a type of numbers")
        if any(isinstance(d, int) and d < 0 for d in (attrs.n, attrs.m)):
            raise fail(self.name, "attributes n and m", (attrs.n, attrs.m), "no negative size")
        return [TensorType((attrs.n, attrs.m), attrs.dtype)]

    def reference(self, attrs: EyeAttrs, *_: object) -> Arrays:
        return [np.eye(attrs.n, attrs.m, attrs.k).astype(dtypes.numpy_dtype(attrs.dtype))]  # type: ignore[arg-type]

    def lower(self, attrs: EyeAttrs, results: TensorTypes, *_: object) -> Lowered:
        one, zero = (te.const(v, attrs.dtype) for v in (1, 0))
        return [injective(self.name, results[0], lambda i: te.select(i[1].eq(i[0] + attrs.k), one, zero))]


@dataclass(frozen=True)
class DiagonalAttrs:
    offset: int = 0
    axis1: int = 0
    axis2: int = 1


@register
class Diagonal(Op[DiagonalAttrs]):
    """out[.., i] = data[.., i - min(offset, 0), .., i + max(offset, 0), ..], the two indices along ``axis1`` and ``axis2``."""

    name = "diagonal"
    data = Operand()
    kind = Kind.INJECTIVE

    def infer(self, attrs: DiagonalAttrs, data: Value) -> Types:
        first, second = normalize_axes(self.name, (attrs.axis1, attrs.axis2), data.rank)
        kept = tuple(d for k, d in enumerate(data.shape) if k not in (first, second))
        return [TensorType((*kept, diagonal_length(data.shape[first], data.shape[second], attrs.offset)), data.dtype)]

    def reference(self, attrs: DiagonalAttrs, data: Array) -> Arrays:
        return [np.diagonal(data, attrs.offset, attrs.axis1, attrs.axis2).copy()]

    def lower(self, attrs: DiagonalAttrs, results: TensorTypes, data: Tensor) -> Lowered:
        first, second = normalize_axes(self.name, (attrs.axis1, attrs.axis2), data.ndim)

        def body(i: Sequence[Expr]) -> Expr:
            rest, at = iter(i[:-1]), i[-1]
            own = {first: at - min(attrs.offset, 0), second: at + max(attrs.offset, 0)}
            return data[tuple(own[k] if k in own else next(rest) for k in range(data.ndim))]

        return [injective(self.name, results[0], body)]


@dataclass(frozen=True)
class MatrixSetDiagAttrs:
    k1: int = 0
    k2: int = 0
    super_diag_right_align: bool = True
    sub_diag_right_align: bool = False


@register
class MatrixSetDiag(Op[MatrixSetDiagAttrs]):
    """data, matrices in the last two dimensions, with the diagonals ``k1`` to ``k2`` replaced.

    diagonal: (.., elements) where k1 == k2, else (.., k2 - k1 + 1, elements of the longest), the uppermost diagonal first;
    a shorter one stands at the right end of its row if its flag (above or below the main one) says so, else at the left.
    """

    name = "matrix_set_diag"
    data, diagonal = Operand(), Operand()
    kind = Kind.INJECTIVE

    def infer(self, attrs: MatrixSetDiagAttrs, data: Value, diagonal: Value) -> Types:
        same_dtype(self.name, [data, diagonal])
        if data.rank < 2:
            raise fail(self.name, "rank of data", data.rank, "at least 2")
        if attrs.k1 > attrs.k2:
            raise fail(self.name, "attributes k1 and k2", (attrs.k1, attrs.k2), "k1 <= k2")
        bands = () if attrs.k1 == attrs.k2 else (attrs.k2 - attrs.k1 + 1,)
        expected = (*data.shape[:-2], *bands, self._longest(data.shape, attrs))
        if diagonal.rank != len(expected):
            raise fail(self.name, "rank of diagonal", diagonal.rank, len(expected))
        for a, b in zip(diagonal.shape, expected, strict=True):
            unify_dim(self.name, a, b, "shape of diagonal")
        return [data.type]

    def _longest(self, shape: Sequence[Dim], attrs: MatrixSetDiagAttrs) -> Dim:
        longest: Dim = 0
        for k in {attrs.k1, attrs.k2, min(max(0, attrs.k1), attrs.k2)}:
            longest = dims.maximum(longest, diagonal_length(shape[-2], shape[-1], k))
        return longest

    def reference(self, attrs: MatrixSetDiagAttrs, data: Array, diagonal: Array) -> Arrays:
        data = data.copy()
        if attrs.k1 == attrs.k2:
            diagonal = diagonal[..., None, :]
        for k in range(attrs.k1, attrs.k2 + 1):
            count = int(diagonal_length(data.shape[-2], data.shape[-1], k))  # type: ignore[arg-type]
            right = attrs.super_diag_right_align if k > 0 else attrs.sub_diag_right_align and k < 0
            first = diagonal.shape[-1] - count if right else 0
            at = np.arange(count)
            data[..., at - min(k, 0), at + max(k, 0)] = diagonal[..., attrs.k2 - k, first : first + count]
        return [data]

    def lower(self, attrs: MatrixSetDiagAttrs, results: TensorTypes, data: Tensor, diagonal: Tensor) -> Lowered:
        if te.is_const(diagonal.shape[-1], 0):
            return [injective(self.name, results[0], lambda i: data[tuple(i)])]
        rows, columns = shape_of(data)[-2:]

        def start(k: Expr) -> Expr:
            """Where the diagonal ``k`` begins in its row."""
            zero = te.const(0)
            count = te.binary("min", te.dim(rows) + te.binary("min", k, zero), te.dim(columns) - te.binary("max", k, zero))
            above = te.select(k > 0, te.const(attrs.super_diag_right_align, "bool"), te.const(attrs.sub_diag_right_align, "bool"))
            return te.select(te.logical_and(above, k.ne(0)), diagonal.shape[-1] - count, zero)

        def body(i: Sequence[Expr]) -> Expr:
            *batch, row, column = i
            k = column - row
            single = attrs.k1 == attrs.k2
            hit = k.eq(attrs.k1) if single else te.logical_and(k >= attrs.k1, k <= attrs.k2)
            at = te.clamp(te.binary("min", row, column) + (te.const(0) if single else start(k)), diagonal.shape[-1])
            band = [] if single else [te.clamp(te.const(attrs.k2) - k, diagonal.shape[-2])]
            return te.select(hit, diagonal[(*batch, *band, at)], data[tuple(i)])

        return [injective(self.name, results[0], body)]


@dataclass(frozen=True)
class TriluAttrs:
    upper: bool = True


@register
class Trilu(Op[TriluAttrs]):
    """The upper (column - row >= k) or lower (column - row <= k) triangle of the last two dimensions, else 0; k is 0
    if absent.
    """

    name = "trilu"
    data, k = Operand(min_rank=2), Operand(optional=True, accepts="index", single=True)
    kind = Kind.INJECTIVE

    def reference(self, attrs: TriluAttrs, data: Array, k: Array | None) -> Arrays:
        offset = 0 if k is None else int(k.reshape(()))
        rows, columns = np.arange(data.shape[-2])[:, None], np.arange(data.shape[-1])
        kept = columns - rows >= offset if attrs.upper else columns - rows <= offset
        return [np.where(kept, data, np.zeros((), data.dtype))]

    def lower(self, attrs: TriluAttrs, results: TensorTypes, data: Tensor, k: Tensor | None) -> Lowered:
        offset = te.const(0) if k is None else te.cast(scalar(k), "int64")

        def body(i: Sequence[Expr]) -> Expr:
            distance = i[-1] - i[-2]
            kept = distance >= offset if attrs.upper else distance <= offset
            return te.select(kept, data[tuple(i)], te.const(0, data.dtype))

        return [injective(self.name, results[0], body)]
