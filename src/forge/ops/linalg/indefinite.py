"""Factors of symmetric matrices that need not be positive definite, with the pivots of Bunch and Kaufman, as LAPACK's sytrf."""

from __future__ import annotations

import math

import numpy as np

from forge.ops.core.inference import expect_rank, same_dtype, unify_dim
from forge.ops.core.op import Accuracy, Category, NoAttrs, Op, Operand, register
from forge.ops.core.signatures import Array, Arrays, Dim, TensorType, TensorTypes, Types, Value
from forge.ops.linalg.factorization import check_square

THRESHOLD = (1 + math.sqrt(17)) / 8
"""A diagonal element that is smaller than this part of its column is not a pivot: with this number elements grow least."""


@register
class Ldl(Op[NoAttrs]):
    """L and D of P data P^T = L D L^T, D having blocks of one or two rows. Results: both in one lower triangle; the pivots.

    L has diagonal 1; of data only the lower triangle is read. Where pivots[k] is positive, rows and columns k and
    pivots[k] - 1 were exchanged, and D has one element; two equal negative ones in k and k + 1 stand for a block of two, before
    which k + 1 and -pivots[k] - 1 were exchanged. As in LAPACK, exchanges do not reach columns of L that are finished.
    """

    name = "linalg.ldl"
    data = Operand(accepts="float32 or float64", min_rank=2)
    kernel = "ldl"
    accuracy = Accuracy.ACCUMULATING
    category = Category.CONTRACTION

    def infer(self, attrs: NoAttrs, data: Value) -> Types:
        check_square(self.name, data)
        return [data.type, TensorType(data.shape[:-1], "int64")]

    def reference(self, attrs: NoAttrs, data: Array) -> Arrays:
        factors = np.tril(data.astype(np.float64))
        pivots = np.zeros(data.shape[:-1], np.int64)
        for batch in np.ndindex(data.shape[:-2]):
            _factor(factors[batch], pivots[batch])
        return [factors.astype(data.dtype), pivots]

    def flops(self, attrs: NoAttrs, results: TensorTypes, *_: object) -> Dim:
        return results[0].size * results[0].shape[-1]


def _chosen(a: Array, k: int) -> tuple[int, int]:
    """The row that is exchanged, and the rows of the block, for the pivot in column k of the lower triangle ``a``."""
    column = np.abs(a[k + 1 :, k])
    largest = column.max(initial=0.0)
    if abs(a[k, k]) >= THRESHOLD * largest or np.isnan(a[k, k]):
        return k, 1
    row = k + 1 + int(np.argmax(column))
    in_row = max(np.abs(a[row, k:row]).max(), np.abs(a[row + 1 :, row]).max(initial=0.0))
    if abs(a[k, k]) >= THRESHOLD * largest * (largest / in_row):
        return k, 1
    return (row, 1) if abs(a[row, row]) >= THRESHOLD * in_row else (row, 2)


def _factor(a: Array, pivots: Array) -> None:
    """Both factors in the place of the lower triangle ``a``."""
    k = 0
    while k < len(a):
        row, count = _chosen(a, k)
        pivots[k : k + count] = row + 1 if count == 1 else -(row + 1)
        last = k + count - 1
        whole = np.tril(a[k:, k:]) + np.tril(a[k:, k:], -1).T
        order = np.arange(len(whole))
        order[[last - k, row - k]] = order[[row - k, last - k]]
        whole = whole[np.ix_(order, order)]
        block, below = whole[:count, :count], whole[count:, :count]
        with np.errstate(all="ignore"):
            if count == 2:
                factors = below @ np.array([[block[1, 1], -block[1, 0]], [-block[1, 0], block[0, 0]]])
                factors /= block[0, 0] * block[1, 1] - block[1, 0] ** 2
            else:
                factors = below / block[0, 0] if block[0, 0] != 0 else below
        rest = whole[count:, count:] - factors @ below.T if count == 2 or block[0, 0] != 0 else whole[count:, count:]
        a[k:, k:] = np.tril(np.block([[block, below.T], [factors, rest]]))
        k += count


@register
class LdlSolve(Op[NoAttrs]):
    """x with A x = b, for A with these results of `linalg.ldl`."""

    name = "linalg.ldl_solve"
    factors, pivots, b = Operand(accepts="float32 or float64", min_rank=2), Operand(accepts="int32 or int64"), Operand()
    kernel = "ldl_solve"
    accuracy = Accuracy.ACCUMULATING
    category = Category.CONTRACTION

    def infer(self, attrs: NoAttrs, factors: Value, pivots: Value, b: Value) -> Types:
        check_square(self.name, factors)
        same_dtype(self.name, [factors, b])
        expect_rank(self.name, b.tensor_type, "b", factors.rank)
        expect_rank(self.name, pivots.tensor_type, "pivots", factors.rank - 1)
        for k in range(factors.rank - 1):
            unify_dim(self.name, factors.shape[k], pivots.shape[k], f"dimension {k} of factors and pivots")
            unify_dim(self.name, factors.shape[k], b.shape[k], f"dimension {k} of factors and b")
        return [b.type]

    def reference(self, attrs: NoAttrs, factors: Array, pivots: Array, b: Array) -> Arrays:
        x = b.astype(np.float64)
        for batch in np.ndindex(x.shape[:-2]):
            _solve(factors[batch].astype(np.float64), pivots[batch].tolist(), x[batch])
        return [x.astype(b.dtype)]

    def flops(self, attrs: NoAttrs, results: TensorTypes, factors: Value, *_: object) -> Dim:
        size: Dim = results[0].size * factors.shape[-1]
        return size


def _solve(a: Array, pivots: list[int], x: Array) -> None:
    """x in the place of b."""
    size, k, blocks = len(a), 0, []
    while k < size:
        count = 2 if pivots[k] < 0 and k + 1 < size else 1
        blocks.append((k, count))
        k += count
    for k, count in blocks:
        last, row = k + count - 1, min(max(abs(pivots[k]) - 1, 0), size - 1)
        x[[last, row]] = x[[row, last]]
        x[k + count :] -= a[k + count :, k : k + count] @ x[k : k + count]
        with np.errstate(all="ignore"):
            if count == 1:
                x[k] /= a[k, k]
            else:
                determinant = a[k, k] * a[k + 1, k + 1] - a[k + 1, k] ** 2
                first = (a[k + 1, k + 1] * x[k] - a[k + 1, k] * x[k + 1]) / determinant
                x[k + 1] = (a[k, k] * x[k + 1] - a[k + 1, k] * x[k]) / determinant
                x[k] = first
    for k, count in reversed(blocks):
        x[k : k + count] -= a[k + count :, k : k + count].T @ x[k + count :]
        last, row = k + count - 1, min(max(abs(pivots[k]) - 1, 0), size - 1)
        x[[last, row]] = x[[row, last]]
