"""Histograms, window functions and ranges against NumPy and SciPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from forge.compose import histograms, ranges, window_functions
from forge.ir.nodes import Value
from forge.ir.op import Accuracy
from forge.ops.core.composer import Composer
from tests.ops.compare import check
from tests.ops.compose.support import run

rng = np.random.default_rng(37)
X = rng.standard_normal(50).astype(np.float32)
BOTH = pytest.mark.parametrize("symbolic", [False, True])


@BOTH
@pytest.mark.parametrize("ends", [(-1.0, 1.5), (0.0, 0.0)])
def test_histc(ends: tuple[float, float], symbolic: bool) -> None:
    (got,) = run(lambda g, x: histograms.histc(g, x, 7, *ends, "int64"), X, symbolic=symbolic)
    assert np.array_equal(got, np.histogram(X, 7, ends if ends[0] < ends[1] else None)[0])


@pytest.mark.parametrize("density", [False, True])
@pytest.mark.parametrize("weights", [None, np.abs(X)])
def test_histogramdd(density: bool, weights: np.ndarray | None) -> None:
    columns = [X, X[::-1] * 2]
    edges = [np.array([-1, 0, 0.5, 3], np.float32), np.array([-3, 0, 1.5], np.float32)]

    def compose(g: Composer, *v: Value) -> Value:
        return histograms.histogramdd(g, v[:2], v[2:4], v[4], density=density)

    (got,) = run(compose, *columns, *edges, weights)
    check(got, np.histogramdd(columns, edges, weights=weights, density=density)[0].astype(np.float32), Accuracy.ACCUMULATING)


def test_cells_whose_number_is_unknown() -> None:
    edges = np.array([-1, 0, 0.5, 3], np.float32)
    (got,) = run(lambda g, x, e: histograms.histogramdd(g, [x], [e]), X, edges, symbolic=True)
    check(got, np.histogram(X, edges)[0].astype(np.float32), Accuracy.ACCUMULATING)


def test_the_range_of_equal_numbers_is_widened() -> None:
    low, high = run(histograms.widened_range, np.full(3, 2.0))
    assert (low, high) == (1.5, 2.5)


@BOTH
@pytest.mark.parametrize("minlength", [0, 12])
def test_bincount(minlength: int, symbolic: bool) -> None:
    x = np.array([1, 4, 1, 0, 7])
    (got,) = run(lambda g, v, n: histograms.bincount(g, v, None, n, "int64"), x, np.array(minlength), symbolic=symbolic)
    assert np.array_equal(got, np.bincount(x, minlength=minlength))
    (got,) = run(lambda g, v, w, n: histograms.bincount(g, v, w, n, "float32"), x, X[:5], np.array(minlength))
    check(got, np.bincount(x, X[:5], minlength).astype(np.float32), Accuracy.ROUNDING)


WINDOWS: dict[str, tuple[Any, Any]] = {
    "hann": (lambda g, n, **o: window_functions.general_cosine(g, n, (0.5, -0.5), **o), "hann"),
    "hamming": (lambda g, n, **o: window_functions.general_cosine(g, n, (0.54, -0.46), **o), "hamming"),
    "blackman": (lambda g, n, **o: window_functions.general_cosine(g, n, (0.42, -0.5, 0.08), **o), "blackman"),
    "bartlett": (window_functions.bartlett, "bartlett"),
    "kaiser": (lambda g, n, **o: window_functions.kaiser(g, n, 9.0, **o), ("kaiser", 9.0)),
}


@pytest.mark.parametrize("periodic", [False, True])
@pytest.mark.parametrize("length", [1, 2, 9])
@pytest.mark.parametrize("name", WINDOWS)
def test_windows(name: str, length: int, periodic: bool) -> None:
    signal = pytest.importorskip("scipy.signal")
    compose, same = WINDOWS[name]
    (got,) = run(lambda g, n: compose(g, n, periodic=periodic), np.array(length))
    check(got.astype(np.float32), signal.get_window(same, length, fftbins=periodic).astype(np.float32), Accuracy.ROUNDING)


@pytest.mark.parametrize("numbers", [(0.0, 1.0, 0.1), (5.0, -2.0, -0.75), (1.5, 8.0, 2.0)])
def test_arange(numbers: tuple[float, float, float]) -> None:
    arrays = [np.array(x) for x in numbers]
    (got,) = run(lambda g, a, b, c: ranges.arange(g, a, b, c, "float64"), *arrays)
    check(got, np.arange(*numbers), Accuracy.ROUNDING)
    (got,) = run(lambda g, a, b, c: ranges.arange(g, a, b, c, "int64"), np.array(1.9), np.array(6.5), np.array(2.0))
    assert got.tolist() == [1, 3, 5]


@pytest.mark.parametrize("number", [1, 2, 7])
@pytest.mark.parametrize("ends", [(-1.0, 2.5), (3 + 1j, -2.0 + 0j)])
def test_linspace(ends: tuple[Any, Any], number: int) -> None:
    (got,) = run(ranges.linspace, *map(np.array, ends), np.array(number))
    check(got, np.linspace(*ends, number), Accuracy.ROUNDING)
