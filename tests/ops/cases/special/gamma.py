"""Rows of the incomplete gamma functions. The expected values are mpmath's, computed with 40 digits."""

from __future__ import annotations

import math

import numpy as np

from tests.ops.case import Case, f16, f32, f64, row

INF, NAN = math.inf, math.nan
# First operands, second ones, and both functions: a place on each side of every border between expansions.
A = [
    0.0625, 0.5, 0.5, 1.0, 1.0, 2.5, 0.25, 0.25, 3.0, 7.5, 9.5, 15.0, 20.0, 20.5, 20.5, 20.5, 100.0, 100.0, 100.0, 1000.0,
    1000.0,
]
X = [
    0.125, 0.03125, 1.5, 1.0, 4.0, 2.0, 1.4375, 1.5625, 0.75, 7.5, 6.5, 24.0, 20.0, 9.5, 11.0, 36.0, 80.0, 100.0, 150.0, 950.0,
    1020.0,
]
LOWER = [
    0.9010845621400588, 0.19741265136584746, 0.9167354833364496, 0.6321205588285577, 0.9816843611112658, 0.4505840486472198,
    0.9636077547134511, 0.9692930014969353, 0.040505439744813874, 0.5485827887742748, 0.1614289497486009, 0.9801746671765363,
    0.52974273316076, 0.001305867487029513, 0.006622607107421627, 0.9980300656393236, 0.017108313035133115, 0.5132987982791487,
    0.9999940754596646, 0.05505468623073803, 0.7385271844801109,
]
UPPER = [
    0.09891543785994113, 0.8025873486341526, 0.0832645166635504, 0.36787944117144233, 0.01831563888873418, 0.5494159513527802,
    0.03639224528654898, 0.030706998503064655, 0.9594945602551861, 0.45141721122572526, 0.8385710502513991,
    0.019825332823463646, 0.47025726683923996, 0.9986941325129705, 0.9933773928925784, 0.0019699343606764366,
    0.9828916869648668, 0.48670120172085135, 5.924540335483916e-06, 0.9449453137692619, 0.2614728155198891,
]
# a, x, and the lower function.
LIMITS = [
    (0, 0, NAN), (0, 1, 1), (0, INF, 1), (0, NAN, NAN), (1, 0, 0), (1, -0.0, 0), (1, INF, 1), (1, NAN, NAN), (1, -1, NAN),
    (-1, 1, NAN), (-1, 0, NAN), (INF, 0, 0), (INF, 1, 0), (INF, INF, NAN), (INF, NAN, 0), (NAN, 0, 0), (NAN, 1, NAN),
    (NAN, INF, 1), (NAN, NAN, NAN), (1e30, 1e30, 0.5), (1e30, 1, 0), (1, 1e30, 1), (1e-30, 1, 1),
]


def rows() -> list[Case]:
    found = []
    for name, values in (("igamma", LOWER), ("igammac", UPPER)):
        for dtype in (np.float32, np.float64):
            found.append(row(name, [np.array(A, dtype), np.array(X, dtype)], lambda a, x, v=values: np.array(v)))
        found += [row(name, [make(3, 1, low=0.1, high=9), make(7, low=0.1, high=9)]) for make in (f32, f64, f16)]
    a, x, lower = (np.array(v) for v in zip(*LIMITS))
    return [
        *found,
        row("igamma", [a, x], lambda *_: lower, note="limits"),
        row("igammac", [a[:-1], x[:-1]], lambda *_: 1 - lower[:-1], note="limits"),
        row("igammac", [np.full(2, 1e-30), np.array([1.0, 1e-30])],
            lambda *_: np.array([2.193839343955203e-31, 6.850033712491984e-29]), note="small"),
    ]


CASES = rows()
