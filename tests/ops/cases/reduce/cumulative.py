"""Rows of running extremes and running log-sums."""

from __future__ import annotations

import math

import numpy as np

from tests.ops.case import Case, Fixed, f16, f32, f64, i8, i32, row, u8

INF, NAN = math.inf, math.nan


def _extremes(accumulate, axis):
    """Values of NumPy's accumulation; the position is that of the last element, so far, that equals it."""

    def run(x):
        values = accumulate(x.astype(np.float64), axis=axis)
        places = np.zeros(x.shape, np.int64)
        moved, best, at = (np.moveaxis(v, axis, 0) for v in (x.astype(np.float64), values, places))
        for k in range(len(moved)):
            for j in range(k + 1):
                at[k] = np.where(moved[j] == best[k], j, at[k])
        return [values, places]

    return run


def extreme_rows() -> list[Case]:
    rows = []
    for name, accumulate in (("cummax", np.maximum.accumulate), ("cummin", np.minimum.accumulate)):
        ties = np.array([[1, 3, 3, 2, 3], [0, 0, -0.0, 0, 0]], np.float32)
        rows += [
            row(name, [f32(3, 40)], _extremes(accumulate, 1), axis=1),
            row(name, [i32(5, 4, 3, low=-3, high=3)], _extremes(accumulate, 0), axis=0),
            row(name, [ties], _extremes(accumulate, -1), axis=-1),
            row(name, [u8(9, high=255)], _extremes(accumulate, 0)),
            row(name, [i8(9, low=-128, high=127)], _extremes(accumulate, 0)),
            row(name, [f16(7)], _extremes(accumulate, 0)),
            row(name, [np.array([INF, -INF, INF, -INF], np.float32)], _extremes(accumulate, 0), note="infinite"),
            row(name, [np.array([1, NAN, 5, NAN, -INF], np.float32)],
                lambda x: [np.array([1, NAN, NAN, NAN, NAN]), np.array([0, 1, 1, 3, 3])]),
            row(name, [Fixed(f32(3, 0))], lambda x: [x, np.zeros((3, 0))], axis=1),
        ]
    return rows


def logarithm_rows() -> list[Case]:
    def oracle(axis):
        return lambda x: np.log(np.cumsum(np.exp(x.astype(np.float64)), axis))

    wild = np.array([[-INF, -INF, 1, -INF], [INF, 0, -INF, INF], [1000, 1000, -1000, 0], [0, NAN, 1, INF]], np.float32)
    expected = np.array([[-INF, -INF, 1, 1], [INF] * 4, [1000, *[1000 + math.log(2)] * 3], [0, NAN, NAN, NAN]])
    return [
        row("logcumsumexp", [f32(3, 20)], oracle(1), axis=1),
        row("logcumsumexp", [f64(4, 3, 2)], oracle(0)),
        row("logcumsumexp", [f16(9)], oracle(0)),
        row("logcumsumexp", [wild], lambda x: expected, axis=-1),
    ]


CASES = [*extreme_rows(), *logarithm_rows()]
