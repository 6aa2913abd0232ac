"""Rows of the reductions."""

from __future__ import annotations

import math

import numpy as np

from tests.ops.case import Case, Fixed, bf16, boolean, const, f16, f32, f64, i32, i64, row, u8


def plain_rows() -> list[Case]:
    rows = []
    for name, oracle in {"sum": np.sum, "mean": np.mean, "prod": np.prod, "max": np.max, "min": np.min}.items():
        rows += [
            row(name, [f32(3, 4, 5)], lambda x, o=oracle: o(x.astype(np.float64))),
            row(name, [f32(3, 4, 5)], lambda x, o=oracle: o(x.astype(np.float64), axis=1), axis=(1,)),
            row(name, [f32(3, 4, 5)],
                lambda x, o=oracle: o(x.astype(np.float64), axis=(0, 2), keepdims=True), axis=(0, -1), keepdims=True),
            row(name, [f32(3, 4, 5)], lambda x, o=oracle: o(x.astype(np.float64), axis=(0, 2)), axis=(1,), exclude=True),
            row(name, [f64(3, 4)], lambda x, o=oracle: o(x, axis=-1), axis=-1),
            row(name, [f16(3, 40)], lambda x, o=oracle: o(x.astype(np.float64), axis=1), axis=(1,)),
            row(name, [bf16(3, 40)], lambda x, o=oracle: o(x.astype(np.float64), axis=1), axis=(1,)),
            row(name, [f32(3, 4), [1]], lambda x, a, o=oracle: o(x.astype(np.float64), axis=1)),
            row(name, [f32(3, 4, 5), [-1, 0]],
                lambda x, a, o=oracle: o(x.astype(np.float64), axis=(0, 2), keepdims=True), keepdims=True),
            row(name, [f32(3, 4), const([0])], lambda x, a, o=oracle: o(x.astype(np.float64), axis=0)),
            row(name, [f32()], lambda x: x),
        ]
    rows += [
        row("sum", [i32(3, 4)], lambda x: np.sum(x, axis=0), axis=(0,)),
        row("sum", [u8(300, high=255)], lambda x: np.sum(x, dtype=np.uint8)),
        row("mean", [i64(3, 4, low=-20, high=20)], lambda x: np.trunc(np.sum(x, 1) / 4), axis=(1,)),
        row("prod", [i64(3, 4)], lambda x: np.prod(x, axis=1), axis=(1,)),
        row("max", [i32(3, 4)], lambda x: np.max(x, axis=1), axis=(1,)),
        row("min", [u8(3, 4)], lambda x: np.min(x)),
        row("sum", [f32(0, 3)], lambda x: np.zeros(3), axis=(0,)),
        row("mean", [f32(0, 3)], lambda x: np.full(3, math.nan), axis=(0,)),
        row("variance", [f16(0, 3)], lambda x: np.full(3, math.nan), axis=(0,)),
        row("variance", [f32(0, 3)], lambda x: np.full(3, math.nan), axis=(0,), unbiased=True),
        row("max", [f32(0, 3)], lambda x: np.full(3, -math.inf), axis=(0,)),
        row("min", [i32(0, 3)], lambda x: np.full(3, 2**31 - 1), axis=(0,)),
        row("max", [f32(4, special=(math.nan,))], lambda x: np.array(math.nan)),
        row("min", [f32(4, special=(math.nan,))], lambda x: np.array(math.nan)),
        row("all", [boolean(3, 4)], lambda x: np.all(x, 1), axis=(1,)),
        row("any", [boolean(3, 4)], lambda x: np.any(x, 0, keepdims=True), axis=(0,), keepdims=True),
        row("all", [boolean(0, 4)], lambda x: np.all(x, 0), axis=(0,)),
    ]
    return rows


def counting_rows() -> list[Case]:
    special = np.array([0, -0.0, math.nan, math.inf, 1e-45], np.float32)
    return [
        row("count_nonzero", [special], lambda x: np.array(3)),
        row("count_nonzero", [i32(3, 4, 5, low=0, high=1)], lambda x: np.count_nonzero(x, (0, 2)), axis=(0, -1)),
        row("count_nonzero", [boolean(3, 4)], lambda x: np.count_nonzero(x, 1, keepdims=True), axis=1, keepdims=True),
        row("count_nonzero", [u8(3, 4, low=0, high=1), [-1]], lambda x, a: np.count_nonzero(x, 1)),
        row("count_nonzero", [f16(0, 3)], lambda x: np.zeros(3), axis=(0,)),
    ]


def compound_rows() -> list[Case]:
    def logsumexp(x, axis=None, keepdims=False):
        return np.log(np.sum(np.exp(x.astype(np.float64)), axis=axis, keepdims=keepdims))

    return [
        row("logsumexp", [f32(3, 4)], lambda x: logsumexp(x, 1), axis=(1,)),
        row("logsumexp", [f32(3, 4)], lambda x: logsumexp(x, keepdims=True), keepdims=True),
        row("logsumexp", [f32(3, 4), [0]], lambda x, a: logsumexp(x, 0)),
        row("logsumexp", [np.array([1000, 1000.5], np.float32)], lambda x: np.array(1000.5 + np.log1p(np.exp(-0.5)))),
        row("logsumexp", [np.array([-math.inf, -math.inf], np.float32)], lambda x: np.array(-math.inf)),
        row("variance", [f32(3, 4)], lambda x: np.var(x.astype(np.float64), 1), axis=(1,)),
        row("variance", [f32(3, 4)], lambda x: np.var(x.astype(np.float64), keepdims=True), keepdims=True),
        row("variance", [f32(3, 4)], lambda x: np.var(x.astype(np.float64), 0, ddof=1), axis=(0,), unbiased=True),
        row("variance", [f16(3, 40)], lambda x: np.var(x.astype(np.float64), 1), axis=(1,)),
    ]


def position_rows() -> list[Case]:
    rows = []
    ties = np.array([[1, 3, 3, 0], [2, 2, 2, 2], [5, -1, -1, 5]], np.float32)
    for name, oracle in {"argmax": np.argmax, "argmin": np.argmin}.items():
        def last(x, axis, o=oracle):
            return x.shape[axis] - 1 - o(np.flip(x, axis), axis)

        rows += [
            row(name, [ties], lambda x, o=oracle: o(x, 1), axis=(1,)),
            row(name, [ties], lambda x, last=last: last(x, 1), axis=(1,), select_last_index=True),
            row(name, [f32(3, 4, 5)], lambda x, o=oracle: o(x, 1, keepdims=True), axis=1, keepdims=True),
            row(name, [i32(3, 4, low=0, high=2)], lambda x, o=oracle: o(x, 0), axis=(-2,)),
            row(name, [u8(3, 4)], lambda x, o=oracle: o(x)),
            row(name, [f32(3, 4)], lambda x, o=oracle: o(x, keepdims=True), keepdims=True),
            row(name, [np.array([1, math.nan, math.nan, 5], np.float32)], lambda x: np.array(1), axis=(0,)),
            row(name, [np.array([1, math.nan, math.nan, 5], np.float32)], lambda x: np.array(2),
                axis=(0,), select_last_index=True),
        ]
    return rows


def extremes_rows() -> list[Case]:
    def both(x, keepdims=False):
        wide = np.asarray(x, np.float64)
        return [np.min(wide, initial=np.inf, keepdims=keepdims), np.max(wide, initial=-np.inf, keepdims=keepdims)]

    return [
        row("extremes", [f32(3, 41)], both),
        row("extremes", [f32(2, 3, 4)], lambda x: both(x, True), keepdims=True),
        row("extremes", [f16(70)], both),
        row("extremes", [f32(300, 701)], both),
        row("extremes", [Fixed(f32(0, 3))], both),
        row("extremes", [np.array([1, math.nan, -3, math.inf], np.float32)], lambda x: [np.nan, np.nan]),
    ]


CASES = [*plain_rows(), *counting_rows(), *compound_rows(), *position_rows(), *extremes_rows()]
