"""Rows of windows over all dimensions, of dilation and of grey-scale dilation."""

from __future__ import annotations

import math

import numpy as np

from tests.ops.case import Case, Fixed, boolean, f16, f32, f64, i32, row

INF, NAN = math.inf, math.nan
FOLDS = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum, "all": np.logical_and, "any": np.logical_or}


def windowed(reduction, window, strides=1, padding=0, base_dilation=1, window_dilation=1):
    """An oracle that visits every tap of every window, one at a time."""

    def per_axis(value, rank):
        return [value] * rank if isinstance(value, int) else list(value) * (rank if len(value) == 1 else 1)

    def run(x, init=None):
        rank = x.ndim
        pads = per_axis(padding, rank)
        pads = pads if len(pads) == 2 * rank else pads + pads
        steps, holes, gaps = (per_axis(v, rank) for v in (strides, base_dilation, window_dilation))
        sizes = [0 if e == 0 else (e - 1) * h + 1 for e, h in zip(x.shape, holes)]
        counts = [(s + pads[k] + pads[k + rank] - (window[k] - 1) * gaps[k] - 1) // steps[k] + 1 for k, s in enumerate(sizes)]
        start = {"sum": 0, "prod": 1, "max": -INF, "min": INF, "all": True, "any": False}[reduction] if init is None else init
        wide = x if x.dtype == bool else x.astype(np.float64)
        out = np.full(counts, start, wide.dtype)
        for p in np.ndindex(*counts):
            for t in np.ndindex(*window):
                at = [a * s + b * g - q for a, b, s, g, q in zip(p, t, steps, gaps, pads)]
                real = all(0 <= a < s and a % h == 0 for a, s, h in zip(at, sizes, holes))
                value = wide[tuple(a // h for a, h in zip(at, holes))] if real else start
                out[p] = FOLDS[reduction](out[p], value)
        return out

    return run


def reduced(reduction, operand, window, *init, note="", **options) -> Case:
    return row("reduce_window", [operand, *init], windowed(reduction, window, **options), reduction=reduction, window=window,
               note=note, **options)


def reduction_rows() -> list[Case]:
    wild = np.array([[1, NAN, -INF, 0], [INF, 2, -0.0, 3], [5, 1, 1, 1]], np.float32)
    return [
        *(reduced(name, f32(2, 5, 7), (1, 2, 3), strides=(1, 2, 1), padding=(0, 1, 0, 0, 0, 2)) for name in ("sum", "prod", "max",
                                                                                                          "min")),
        reduced("sum", f32(4, 6), (2, 3), base_dilation=(2, 3), window_dilation=(2, 1), padding=(1, 2)),
        reduced("sum", f32(4, 6), (2, 3), base_dilation=(3, 1), padding=(-1, 0, 1, -2), note="negative padding"),
        reduced("max", i32(5, 4, low=-9, high=-1), (3, 2), base_dilation=(2, 2), padding=(1, 1)),
        reduced("sum", f16(3, 40), (1, 20), strides=(1, 3)),
        reduced("min", f64(7), (3,), window_dilation=(2,)),
        reduced("all", boolean(4, 5), (2, 2)),
        reduced("any", boolean(4, 5), (2, 2), padding=(1, 1), strides=(2, 2)),
        reduced("max", wild, (2, 2), padding=(1, 1)),
        reduced("sum", f32(4, 5), (2, 2), np.array(1.5, np.float32), padding=(1, 0)),
        reduced("max", f32(4, 5), (2, 2), np.array(0.25, np.float32), base_dilation=(1, 2)),
        reduced("sum", Fixed(f32(0, 5)), (2, 2), padding=(1, 1), note="of nothing"),
        reduced("sum", f32(3, 5), (3, 5), note="one window"),
        reduced("sum", Fixed(f32(2, 5)), (3, 5), note="no window"),
    ]


def scattered(data, source, window, init=0.0, **options):
    """Where each window's extreme lies, found with plain loops."""
    strides, padding = options.get("strides", (1,) * data.ndim), options.get("padding", (0,) * 2 * data.ndim)
    better = np.greater if options.get("select", "max") == "max" else np.less
    out = np.full(data.shape, init, np.float64)
    for p in np.ndindex(*source.shape):
        best = None
        for t in np.ndindex(*window):
            at = tuple(a * s + b - q for a, b, s, q in zip(p, t, strides, padding))
            if not all(0 <= a < e for a, e in zip(at, data.shape)):
                continue
            if best is None or better(data[at], data[best]):
                best = at
        if best is not None:
            out[best] += source[p]
    return out


def scatter_row(data, source, window, *init, note="", **options) -> Case:
    def oracle(data, source, start=0.0):
        return scattered(data, source, window, float(start), **options)

    return row("select_and_scatter", [data, source, *init], oracle, symbolic=False, window=window, note=note, **options)


def scatter_rows() -> list[Case]:
    ties = np.array([[1, 1, 0, 2], [1, 1, 2, 2], [0, 0, 0, 0]], np.float32)
    return [
        scatter_row(f32(5, 6), f32(2, 3), (2, 2), strides=(2, 2)),
        scatter_row(f32(5, 6), f32(4, 5), (2, 2), select="min"),
        scatter_row(ties, f32(2, 3), (2, 2), note="ties"),
        scatter_row(f32(2, 6, 7), f32(2, 3, 3), (1, 3, 3), strides=(1, 2, 3), padding=(0, 1, 1, 0, 0, 1)),
        scatter_row(i32(4, 4), i32(2, 2), (2, 2), strides=(2, 2)),
        scatter_row(f32(4, 4), f32(2, 2), (2, 2), np.array(0.5, np.float32), strides=(2, 2)),
        scatter_row(f16(4, 4), f16(3, 3), (2, 2)),
    ]


def extreme_rows() -> list[Case]:
    wild = np.array([[1, NAN, 3], [7, 2, NAN]], np.float32)
    return [
        row("window_extreme", [f32(4, 6)], window=(2, 2)),
        row("window_extreme", [wild], lambda x: np.array([[1, 1]]), window=(2, 2)),
        row("window_extreme", [i32(6)], lambda x: np.array([np.argmin(x[:2]), 1 + np.argmin(x[1:4]), 3 + np.argmin(x[3:])]),
            window=(3,), strides=(2,), padding=(1, 0), select="min", symbolic=False),
        row("window_extreme", [f32(3)], lambda x: np.array([3, 3, 0, 1, 2]), window=(1,), padding=(2, 0), note="padding only"),
    ]


def view_rows() -> list[Case]:
    view = np.lib.stride_tricks.sliding_window_view
    return [
        row("sliding_window", [f32(2, 7, 9)], lambda x: view(x, (3, 4), (1, 2))[:, ::2, ::3], axis=1, window_shape=(3, 4),
            strides=(2, 3)),
        row("sliding_window", [i32(7, 3)], lambda x: view(x, 3, 0)[::2], axis=0, window_shape=(3,), strides=(2,)),
        row("sliding_window", [f32(2, 9)], lambda x: view(x, 5, 1)[..., ::2], axis=-1, window_shape=(3,), dilation=(2,)),
        row("sliding_window", [f32(2, 6)], lambda x: view(np.pad(x, ((0, 0), (1, 2))), 3, 1), axis=1, window_shape=(3,),
            padding=(1, 2)),
        row("sliding_window", [Fixed(f32(2, 3))], lambda x: np.zeros((2, 0, 4)), axis=1, window_shape=(4,)),
    ]


def _dilated(x, strides, value):
    out = np.full([(e - 1) * s + 1 for e, s in zip(x.shape, strides)], value, x.dtype)
    out[tuple(slice(None, None, s) for s in strides)] = x
    return out


def _grey(x, w, strides=(1, 1), padding=(0, 0, 0, 0), dilations=(1, 1)):
    (n, c), (_, kh, kw) = x.shape[:2], w.shape
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (padding[0], padding[2]), (padding[1], padding[3])),
                    constant_values=-INF)
    rows = (padded.shape[2] - (kh - 1) * dilations[0] - 1) // strides[0] + 1
    columns = (padded.shape[3] - (kw - 1) * dilations[1] - 1) // strides[1] + 1
    out = np.full((n, c, rows, columns), -INF)
    for i in range(kh):
        for j in range(kw):
            part = padded[:, :, i * dilations[0]:, j * dilations[1]:][:, :, ::strides[0], ::strides[1]][:, :, :rows, :columns]
            out = np.maximum(out, part + w[None, :, i, j, None, None])
    return out


def dilation_rows() -> list[Case]:
    grey = {"strides": (2, 1), "padding": (1, 0, 1, 2), "dilations": (1, 2)}
    return [
        row("nn.dilate", [f32(3, 4)], lambda x: _dilated(x, (2, 3), 0), strides=(2, 3)),
        row("nn.dilate", [f32(1, 4)], lambda x: _dilated(x, (2, 1), 1.5), strides=(2, 1), dilation_value=1.5),
        row("nn.dilate", [i32(5), np.array(-7, np.int32)], lambda x, v: _dilated(x, (4,), -7), strides=(4,)),
        row("nn.dilate", [Fixed(f32(0, 2))], lambda x: np.zeros((0, 3)), strides=(3, 2)),
        row("image.dilation2d", [f32(2, 3, 6, 7), f32(3, 3, 2)], _grey),
        row("image.dilation2d", [f32(1, 2, 6, 7), f32(2, 2, 3)], lambda x, w: _grey(x, w, **grey), **grey),
    ]


CASES = [*reduction_rows(), *scatter_rows(), *extreme_rows(), *view_rows(), *dilation_rows()]
