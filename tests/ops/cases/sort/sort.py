"""Rows of the operators that order elements, of cumulative operators, and of random numbers."""

from __future__ import annotations

import math

import numpy as np

from tests.ops.case import Case, boolean, f16, f32, f64, i32, i64, row, u8

NAN = math.nan


def _unique_slices(x, axis):
    slices, first, inverse, count = np.unique(x, return_index=True, return_inverse=True, return_counts=True, axis=axis)
    return [slices, first, inverse.reshape(-1), count]


def _by_appearance(x):
    slices, first, inverse, count = _unique_slices(x, 0)
    order = np.argsort(first)
    return [slices[order], first[order], np.argsort(order)[inverse], count[order]]


def _late_differences(rows, columns):
    """Rows of which some are equal, and others differ in the last columns only."""
    x = np.zeros((rows, columns), np.float32)
    x[:, -3:] = np.random.default_rng(rows).integers(0, 2, (rows, 3))
    return x


def order_rows() -> list[Case]:
    ties = np.array([[3, 1, 3, 2, 1], [0, 0, 0, 0, 0]], np.float32)
    wild = np.array([1, NAN, -math.inf, 3, NAN, 0], np.float32)
    return [
        row("sort", [f32(3, 7)], np.sort),
        row("sort", [i32(4, 3)], lambda x: -np.sort(-x, axis=0), axis=0, is_ascend=False),
        row("sort", [wild], np.sort),
        row("sort", [wild], lambda x: np.sort(x)[::-1], is_ascend=False),
        row("argsort", [ties], lambda x: np.array([[1, 4, 3, 0, 2], [0, 1, 2, 3, 4]])),
        row("argsort", [ties], lambda x: np.array([[0, 2, 3, 1, 4], [0, 1, 2, 3, 4]]), is_ascend=False),
        row("argsort", [f16(3, 5)], lambda x: np.argsort(x, 0, "stable"), axis=0, dtype="int32"),
        row("sort", [f32(2, 1000)], np.sort),
        row("argsort", [i32(3, 333, low=0, high=9)], lambda x: np.argsort(x, 1, "stable")),
        row("argsort", [i32(2, 97, low=-3, high=3)], lambda x: np.argsort(-x, 1, "stable"), is_ascend=False),
        row("argsort", [np.array([0.0, -0.0, 1, NAN, -0.0, -NAN, 0.0] * 10, np.float16)], lambda x: np.argsort(x, kind="stable")),
        row("sort", [np.array([2**32 - 1, 0, 2**31, 5] * 9, np.uint32)], np.sort),
        row("sort", [np.array([2**31 - 1, -(2**31), 0] * 30, np.int32)], lambda x: np.sort(x)[::-1], is_ascend=False),
        row("topk", [f32(3, 200)], lambda x: [np.sort(x, 1)[:, ::-1][:, :5], np.argsort(-x, 1, "stable")[:, :5]], k=5),
        row("topk", [i32(3, 64)], lambda x: [np.sort(x, 1)[:, :9], np.argsort(x, 1, "stable")[:, :9]], k=9, is_ascend=True),
        row("topk", [f32(100, 3)], lambda x: [np.sort(x, 0)[::-1][:60], np.argsort(-x, 0, "stable")[:60]], k=60, axis=0),
        row("topk", [ties], lambda x: [np.array([[3, 3], [0, 0]]), np.array([[0, 2], [0, 1]])], k=2),
        row("topk", [ties], lambda x: [np.array([[1, 1, 2], [0, 0, 0]]), np.array([[1, 4, 3], [0, 1, 2]])], k=3, is_ascend=True),
        row("topk", [f32(5, 4)], lambda x: [np.sort(x, 0)[::-1][:2], np.argsort(-x, 0, "stable")[:2]], k=2, axis=0),
        row("topk", [f32(2, 9)], lambda x: np.sort(x, 1)[:, ::-1][:, :3], k=3, ret_type="values"),
        row("topk", [f64(9), np.array(4)], lambda x, k: np.argsort(-x, kind="stable")[:4], ret_type="indices"),
        row("topk", [u8(9), [3]], lambda x, k: np.sort(x)[::-1][:3], ret_type="values", symbolic=False),
        row("argsort_rows", [i32(40, 3, low=0, high=2)], lambda x: np.lexsort(x.T[::-1])),
        row("argsort_rows", [i64(30, 90, low=0, high=0)], lambda x: np.arange(30)),
        row("argsort_rows", [_late_differences(100, 77)], lambda x: np.lexsort(x.T[::-1])),
        row("argsort_rows", [np.array([[NAN, 1], [-0.0, 2], [0.0, 1], [NAN, 0], [-math.inf, NAN]] * 4, np.float16)],
            lambda x: np.lexsort(x.T[::-1])),
        row("unique", [np.array([2, 1, 1, 3, 4, 3])],
            lambda x: [np.array(v) for v in ([1, 2, 3, 4], [1, 0, 3, 4], [1, 0, 0, 2, 3, 2], [2, 1, 2, 1])]),
        row("unique", [np.array([2, 1, 1, 3, 4, 3])],
            lambda x: [np.array(v) for v in ([2, 1, 3, 4], [0, 1, 3, 4], [0, 1, 1, 2, 3, 2], [1, 2, 2, 1])], sorted=False),
        row("unique", [[[1, 0, 0], [1, 0, 0], [2, 3, 4]]],
            lambda x: [np.array([[1, 0, 0], [2, 3, 4]]), np.array([0, 2]), np.array([0, 0, 1]), np.array([2, 1])]),
        row("unique", [i64(4, 2, 3, low=0, high=1)], lambda x: _unique_slices(x, 2), axis=2),
        row("unique", [i64(3, 7, low=0, high=1)], lambda x: _unique_slices(x, 1), axis=-1),
        row("unique", [_late_differences(20, 130)], lambda x: _unique_slices(x, 0)),
        row("unique", [_late_differences(20, 130)], lambda x: _by_appearance(x), sorted=False),
        row("unique", [boolean(9, 3, 5)], lambda x: _unique_slices(x, 1), axis=1),
        row("unique", [np.zeros((3, 0, 2), np.float32)], lambda x: _unique_slices(x, 0), note="no elements"),
        row("unique", [np.array([NAN, 1, NAN, -1], np.float32)],
            lambda x: [np.array(v) for v in ([-1, 1, NAN], [3, 1, 0], [2, 1, 2, 0], [1, 1, 2])]),
        row("argwhere", [boolean(3, 4)], np.argwhere),
        row("argwhere", [i64(9, low=0, high=1)], np.argwhere),
        row("argwhere", [np.zeros((2, 2), np.float32)], np.argwhere),
    ]


def running_rows() -> list[Case]:
    def exclusive(x, axis=0):
        return np.cumsum(x, axis) - x

    def exclusive_middle(x):
        return np.cumsum(np.pad(x, ((0, 0), (1, 0), (0, 0)))[:, :-1], 1)

    return [
        row("cumsum", [f32(3, 4)], lambda x: np.cumsum(x.astype(np.float64), 1), axis=1),
        row("cumsum", [f32(3, 4)], lambda x: np.cumsum(x.astype(np.float64))),
        row("cumsum", [i32(7)], exclusive, axis=0, exclusive=True),
        row("cumsum", [i64(3, 4), np.array(0)], lambda x, a: np.cumsum(x, 0)),
        row("cumsum", [i64(3, 4), np.array([-1])], lambda x, a: np.cumsum(x, 1)),
        row("cumsum", [i32(3, 4, 2), np.array(1, np.int32)], lambda x, a: exclusive(x, 1), exclusive=True),
        row("cumsum", [f16(40)], lambda x: np.cumsum(x.astype(np.float64)), axis=0),
        row("cumsum", [boolean(9)], lambda x: np.cumsum(x), axis=0, dtype="int64"),
        row("cumsum", [i32(19, 33)], lambda x: np.cumsum(x, 1), axis=1),
        row("cumsum", [i32(5, 100)], lambda x: np.cumsum(x, 0), axis=0),
        row("cumsum", [f64(2, 7, 37)], exclusive_middle, axis=1, exclusive=True),
        row("cumsum", [i64(3, 4099)], lambda x: np.cumsum(x, 0), axis=0),
        row("cumsum", [boolean(6, 70)], lambda x: np.cumsum(x, 0), axis=0, dtype="int64"),
        row("cumprod", [f32(3, 4)], lambda x: np.cumprod(x.astype(np.float64), 0), axis=0),
        row("cumprod", [i64(5, low=1, high=3)], lambda x: np.cumprod(x) // x, axis=0, exclusive=True),
    ]


def random_rows() -> list[Case]:
    return [
        row("random.uniform", [], out_shape=(3, 5), seed=7),
        row("random.uniform", [[2, 3]], seed=-1, low=-2.0, high=5.0),
        row("random.uniform", [], out_shape=(4,), out_dtype="float64", seed=1),
        row("random.uniform", [], out_shape=(4,), out_dtype="float16", seed=1),
        row("random.normal", [], out_shape=(3, 5), seed=7, mean=1.0, scale=0.5),
        row("random.normal", [], out_shape=(9,), out_dtype="float64"),
        row("random.bernoulli", [f32(3, 4, low=0, high=1)], seed=3),
        row("random.bernoulli", [f64(5, low=0, high=1)], seed=3, out_dtype="bool"),
        row("random.multinomial", [f32(3, 6)], num_samples=5, seed=9),
    ]


CASES = [*order_rows(), *running_rows(), *random_rows()]
