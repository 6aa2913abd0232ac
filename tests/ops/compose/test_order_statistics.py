"""Sorting, medians, modes and runs against NumPy."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from forge.compose import order_statistics
from tests.ops.compose.support import run

rng = np.random.default_rng(31)
X = rng.integers(0, 4, (5, 6, 3)).astype(np.float32)
HOLES = np.where(rng.random(X.shape) < 0.3, np.nan, X).astype(np.float32)
BOTH = pytest.mark.parametrize("symbolic", [False, True])
AXES = pytest.mark.parametrize("axis", [0, 1, 2])


@AXES
@pytest.mark.parametrize("descending", [False, True])
def test_sort_keeps_the_order_of_equal_elements(axis: int, descending: bool) -> None:
    values, places = run(lambda g, x: order_statistics.sort(g, x, axis, descending), X)
    wanted = np.argsort(-X if descending else X, axis, kind="stable")
    assert np.array_equal(places, wanted)
    assert np.array_equal(values, np.take_along_axis(X, wanted, axis))


@BOTH
@AXES
@pytest.mark.parametrize("x", [X, X.astype(np.int32), HOLES])
def test_median_is_the_smaller_one_in_the_middle(axis: int, x: np.ndarray, symbolic: bool) -> None:
    value, place = run(lambda g, v: order_statistics.median(g, v, axis, True), x, symbolic=symbolic)
    wanted = np.take(np.sort(x, axis), [(x.shape[axis] - 1) // 2], axis)
    if x.dtype == np.float32:
        wanted = np.where(np.isnan(x).any(axis, keepdims=True), np.nan, wanted)
    assert np.array_equal(value, wanted, equal_nan=True)
    assert np.array_equal(np.take_along_axis(x, place, axis), value, equal_nan=True)


@BOTH
@pytest.mark.filterwarnings("ignore")
def test_median_of_what_is_not_nan(symbolic: bool) -> None:
    value, _ = run(lambda g, v: order_statistics.median(g, v, 1, skips_nan=True), HOLES, symbolic=symbolic)
    assert np.array_equal(value, np.nanpercentile(HOLES, 50, 1, method="lower"), equal_nan=True)


@BOTH
@AXES
@pytest.mark.parametrize("x", [X, X > 1])
def test_mode_is_the_smallest_of_the_most_frequent(axis: int, x: np.ndarray, symbolic: bool) -> None:
    value, place = run(lambda g, v: order_statistics.mode(g, v, axis), x, symbolic=symbolic)
    for got, at, line in zip(value.ravel(), place.ravel(), np.moveaxis(x, axis, -1).reshape(-1, x.shape[axis]), strict=True):
        numbers, counts = np.unique(line, return_counts=True)
        assert got == numbers[counts.argmax()]
        assert at == np.flatnonzero(line == got)[-1]


@BOTH
@pytest.mark.parametrize("x", [np.array([2, 2, 5, 2, 2, 2]), np.array([[1, 2], [1, 2], [1, 3], [1, 3]]), np.array([7])])
def test_runs_of_equal_slices(x: np.ndarray, symbolic: bool) -> None:
    values, inverse, lengths = run(lambda g, v: order_statistics.unique_consecutive(g, v, 0), x, symbolic=symbolic)
    assert np.array_equal(values[inverse], x)
    assert np.array_equal(np.repeat(values, lengths, 0), x)
    assert all((a != b).any() for a, b in pairwise(values))


def test_nothing_has_no_runs() -> None:
    assert all(v.size == 0 for v in run(lambda g, v: order_statistics.unique_consecutive(g, v, 0), np.zeros((0, 2))))
