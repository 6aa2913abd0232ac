"""Rows of what users write as tensor expressions and loop programs; ``tests/nn`` has more."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tests.ops.case import Case, f32, f64, i32, row

INF, NAN = math.inf, math.nan
EXTREME = np.array([-(2**31), 2**31 - 1, 0, 1], np.int32)

CLIPPED = """
def clipped(A: Tensor[(), "{0}"], B: Tensor[(), "{0}"], k: int64):
    C = compute((), lambda: min(A[()] * B[()], {0}(k)))
    return C
"""
SHIFTED = """
def shifted(A: Tensor[(n, m), "{0}"]):
    C = compute((m, n), lambda i, j: A[j, i + 1] - {0}(i))
    return C
"""
SUMMED = """
def summed(A: Tensor[(n, m), "{0}"]):
    r = reduce_axis(m)
    C = compute((n,), lambda i: sum(A[i, r] * A[i, r], axis=r))
    return C
"""
NORMED = """
def normed(A: Tensor[(n, m), "{0}"]):
    r = reduce_axis(m)
    M = compute((n,), lambda i: max(A[i, r], axis=r))
    S = compute((n,), lambda i: sum(A[i, r] - M[i], axis=r))
    C = compute((n, m), lambda i, j: A[i, j] - M[i] + S[i])
    return C, S
"""
RUNNING = """
def running(A: Buffer[(n, m), "{0}"], B: Buffer[(n, m), "{0}"]):
    for i in parallel(n):
        for j in range(m):
            B[i, j] = A[i, j] + B[i, j - 1] if j > 0 else A[i, j]
"""


WEIGHTED = """
def weighted(A: Tensor[(), "float32"]):
    r = reduce_axis(4)
    C = compute((), lambda: sum(A[()] * float32(r), axis=r))
    return C
"""
RANK_8 = """
def last(A: Tensor[(a, b, c, d, e, f, g, h), "float32"]):
    r = reduce_axis(h)
    C = compute((a, b, c, d, e, f, g), lambda i, j, k, l, m, n, o: max(A[i, j, k, l, m, n, o, r], axis=r))
    return C
"""


def _next(a: np.ndarray) -> np.ndarray:
    columns = np.minimum(np.arange(a.shape[1]) + 1, a.shape[1] - 1)
    return np.asarray(a[:, columns].T - np.arange(a.shape[1], dtype=a.dtype)[:, None])


def _normed(a: np.ndarray) -> Any:
    difference = a - a.max(axis=1, initial=-INF if a.dtype.kind == "f" else -(2**31), keepdims=True).astype(a.dtype)
    total = difference.sum(axis=1, dtype=a.dtype)
    return np.asarray(difference + total[:, None]), total


def rows_of(dtype: str, make: Any) -> list[Case]:
    """Each operator for one element type."""
    number = np.dtype(dtype).type(5)
    return [
        row("tensor_expression.elementwise", [make(3, 4), make(4)], lambda a, b: np.minimum(a * b, number),
            program=CLIPPED.format(dtype), sizes=(5,)),
        row("tensor_expression.injective", [make(3, 4)], _next, program=SHIFTED.format(dtype)),
        row("tensor_expression.reduction", [make(3, 40)], lambda a: (a * a).sum(1, dtype=a.dtype), program=SUMMED.format(dtype)),
        row("tensor_expression", [make(3, 4)], _normed, program=NORMED.format(dtype)),
        row("tensor_program", [make(3, 4)], lambda a: np.cumsum(a, axis=1, dtype=a.dtype), program=RUNNING.format(dtype)),
    ]


def special_rows() -> list[Case]:
    extreme, empty = EXTREME.reshape(2, 2), np.zeros((0, 3), np.float32)
    special = np.array([[NAN, 1, INF], [0, -INF, 2]], np.float32)
    rows = []
    for name, program, oracle in (
        ("tensor_expression.injective", SHIFTED, _next), ("tensor_expression", NORMED, _normed),
        ("tensor_expression.reduction", SUMMED, lambda a: (a * a).sum(1, dtype=a.dtype)),
        ("tensor_program", RUNNING, lambda a: np.cumsum(a, axis=1, dtype=a.dtype)),
    ):
        rows += [row(name, [empty], oracle, program=program.format("float32"), note="empty"),
                 row(name, [special], oracle, program=program.format("float32"), note="special"),
                 row(name, [extreme], oracle, program=program.format("int32"), note="extreme")]
    name = "tensor_expression.elementwise"
    return [
        row("tensor_expression.reduction", [f32()], lambda a: a * np.float32(6), program=WEIGHTED),
        row("tensor_expression.reduction", [f32(1, 2, 1, 3, 2, 1, 2, 3)], lambda a: a.max(axis=-1), program=RANK_8),
        *rows,
        row(name, [empty, f32(3)], lambda a, b: a * b, program=CLIPPED.format("float32"), sizes=(5,), note="empty"),
        row(name, [special, f32(3)], lambda a, b: np.minimum(a * b, 5), program=CLIPPED.format("float32"), sizes=(5,)),
        row(name, [extreme, extreme], lambda a, b: np.minimum(a * b, 5), program=CLIPPED.format("int32"), sizes=(5,)),
    ]


CASES = [*rows_of("float32", f32), *rows_of("float64", f64), *rows_of("int32", i32), *special_rows()]
