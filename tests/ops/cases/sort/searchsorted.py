"""Rows of searching in sorted rows, and of reading and writing by counts and masks."""

from __future__ import annotations

import math

import numpy as np

from tests.ops.case import Case, Fixed, boolean, const, f16, f32, f64, i8, i32, i64, row

INF, NAN = math.inf, math.nan


def search_rows() -> list[Case]:
    ties = np.array([1, 1, 2, 4, 4, 4, 9], np.float32)
    wild = np.array([-INF, -1, 0, 0, 2, INF, NAN, NAN], np.float32)
    asked = np.array([NAN, INF, -INF, 0, -0.0, 3, -5], np.float32)
    rows = np.sort(np.array([[3, 1, 2, 8, 5], [9, 9, 9, 9, 9], [0, -4, 7, 7, 1]], np.int32))
    values = np.array([[0, 9], [9, 10], [7, -9]], np.int32)
    cases = []
    for right in (False, True):
        side = "right" if right else "left"

        def by_row(s, v, side=side):
            return np.stack([np.searchsorted(a, b, side) for a, b in zip(s, v)])

        cases += [
            row("searchsorted", [ties, f32(3, 5, low=0, high=10)], lambda s, v, d=side: np.searchsorted(s, v, d), right=right),
            row("searchsorted", [ties, ties], lambda s, v, d=side: np.searchsorted(s, v, d), right=right, note="all of them"),
            row("searchsorted", [wild, asked], lambda s, v, d=side: np.searchsorted(s, v, d), right=right),
            row("searchsorted", [rows, values], by_row, right=right, dtype="int32"),
            row("searchsorted", [Fixed(np.zeros(0, np.int64)), i64(4)], lambda s, v: np.zeros(4), right=right),
            row("searchsorted", [np.arange(1000.0), f64(4, 40, low=-5, high=1005)],
                lambda s, v, d=side: np.searchsorted(s, v, d), right=right),
            row("searchsorted", [np.array([1, 2, 3], np.float16), f16()],
                lambda s, v, d=side: np.searchsorted(s, v, d), right=right),
            row("searchsorted", [np.array([5], np.int8), i8(9)], lambda s, v, d=side: np.searchsorted(s, v, d), right=right),
        ]
    return cases


def count_rows() -> list[Case]:
    return [
        row("repeat_interleave", [f32(4, 3), np.array([2, 0, 3, 1])], lambda x, r: np.repeat(x, r, 0)),
        row("repeat_interleave", [i32(2, 3), np.array([1, 2, 0], np.int32)], lambda x, r: np.repeat(x, r, 1), axis=-1),
        row("repeat_interleave", [f32(3), np.array([0, 0, 0])], lambda x, r: x[:0]),
        row("repeat_interleave", [f32(3), np.array([-1, 2, -5])], lambda x, r: np.repeat(x, [0, 2, 0])),
        row("sequence_mask", [f32(5, 3), np.array([2, 0, 9])], lambda x, n: np.where(np.arange(5)[:, None] < n, x, 0)),
        row("sequence_mask", [f32(3, 5, 2), np.array([2, 5, -1], np.int32)], mask_value=-1.5, axis=1,
            oracle=lambda x, n: np.where(np.arange(5)[None, :, None] < n[:, None, None], x, -1.5)),
        row("sequence_mask", [i32(3, 4), np.array([1, 2, 3], np.float32)], axis=1,
            oracle=lambda x, n: np.where(np.arange(4) < n[:, None], x, 0)),
        row("unravel_index", [np.array([22, 41, 37]), [7, 6]], lambda i, s: np.stack(np.unravel_index(i, (7, 6)))),
        row("unravel_index", [i32(2, 5, low=0, high=23), const([2, 3, 4])],
            lambda i, s: np.stack(np.unravel_index(i, (2, 3, 4)))),
        row("unravel_index", [np.array(5), [9]], lambda i, s: np.array([5])),
        row("invert_permutation", [np.array([3, 4, 0, 2, 1])], np.argsort),
        row("invert_permutation", [np.random.default_rng(1).permutation(50).astype(np.int32)], np.argsort),
    ]


def _scattered(x, m, s):
    result = x.copy()
    result[np.broadcast_to(m, x.shape)] = s.reshape(-1)[: int(np.broadcast_to(m, x.shape).sum())]
    return result


def mask_rows() -> list[Case]:
    def dense(shape, index, value, default=0):
        result = np.full(shape, default)
        for i, v in zip(index, np.broadcast_to(value, len(index))):
            result[tuple(i)] = v
        return result

    pairs = [[0, 1], [2, 3], [1, 1]]
    return [
        row("masked_scatter", [f32(3, 4), boolean(3, 4), f32(12)], _scattered),
        row("masked_scatter", [i32(3, 4), boolean(4), i32(5, 3)], _scattered),
        row("masked_scatter", [f32(4), np.array([True, False, True, True]), Fixed(f32(1))], symbolic=False,
            oracle=lambda x, m, s: np.where(m, s, x), note="too few"),
        row("masked_scatter", [f32(2, 2), np.zeros((2, 2), bool), Fixed(f32(0))], lambda x, m, s: x),
        row("sparse_to_dense", [pairs, Fixed(np.array([1.0, 2, 3], np.float32))], lambda i, v: dense((3, 4), i, v),
            output_shape=(3, 4)),
        row("sparse_to_dense", [pairs, np.array(7), np.array(-1)], lambda i, v, d: dense((3, 4), i, 7, -1), output_shape=(3, 4)),
        row("sparse_to_dense", [[1, 4, 1], Fixed(np.array([5, 6, 7])), None, [6]],
            lambda i, v, d, s: np.array([0, 7, 0, 0, 6, 0])),
        row("sparse_to_dense", [np.array([[0, 2]], np.int32), Fixed(np.array([4], np.int32))], lambda i, v: dense((1, 3), i, v),
            output_shape=(1, 3), symbolic=False),
        row("sparse_to_dense", [np.array([[4], [0], [-1]]), f32(3)], lambda i, v: np.array([v[1], 0, 0, 0, v[0], v[2]]),
            output_shape=(6,)),
    ]


CASES = [*search_rows(), *count_rows(), *mask_rows()]
