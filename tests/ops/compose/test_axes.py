"""Parts, orders and grids against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from forge.compose import axes
from forge.dims import symbol
from tests.ops.compose.support import build, run

X = np.arange(60.0).reshape(3, 4, 5)
BOTH = pytest.mark.parametrize("symbolic", [False, True])


def moved_to_the_front(g: Any, x: Any) -> Any:
    return axes.transposed(g, x, axes.moved(3, [2, 0], [0, 2]))


@BOTH
@pytest.mark.parametrize(
    ("compose", "wanted"),
    [
        (lambda g, x: axes.part(g, x, 1, 1, 3), X[:, 1:3]),
        (lambda g, x: axes.part(g, x, 2, 0, 5, 2), X[:, :, ::2]),
        (lambda g, x: axes.neighbours(g, x, 1), (X[:, :-1], X[:, 1:])),
        (axes.ravel, X.ravel()),
        (axes.matrix_transpose, X.swapaxes(1, 2)),
        (moved_to_the_front, np.moveaxis(X, [2, 0], [0, 2])),
        (lambda g, x: axes.flip(g, x, (0, 2)), np.flip(X, (0, 2))),
        (lambda g, x: axes.rot90(g, x, 1, (0, 1)), np.rot90(X)),
        (lambda g, x: axes.rot90(g, x, 2, (2, 0)), np.rot90(X, 2, (2, 0))),
        (lambda g, x: axes.rot90(g, x, -1, (1, 2)), np.rot90(X, 3, (1, 2))),
        (lambda g, x: axes.diff(g, x, 2, 1), np.diff(X, 2, 1)),
        (lambda g, x: axes.repeat(g, x, 2, 1), np.repeat(X, 2, 1)),
        (lambda g, x: axes.repeat(g, x, 0, 1), X[:, :0]),
    ],
)
def test_against_numpy(compose: Callable[..., Any], wanted: Any, symbolic: bool) -> None:
    for got, expected in zip(run(compose, X, symbolic=symbolic), wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
        assert np.array_equal(got, expected)


def test_a_whole_axis_is_no_part() -> None:
    assert not build(lambda g, x: axes.part(g, x, 1, 0, 4), [X]).nodes


def test_as_many_differences_as_elements_leave_none() -> None:
    (got,) = run(lambda g, x: axes.diff(g, x, 9, 1), X)
    assert got.shape == (3, 0, 5)


def test_differences_of_bools() -> None:
    x = np.array([True, True, False, True])
    (got,) = run(lambda g, v: axes.diff(g, v, 1, 0), x)
    assert np.array_equal(got, np.diff(x))


def test_repeating_a_number_of_times_that_is_a_symbol() -> None:
    graph = build(lambda g, x: axes.repeat(g, x, symbol("n"), 1), [X])
    assert graph.outputs[0].shape == (3, 4 * symbol("n"), 5)


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("x", [np.array(2.0), np.arange(3.0), np.ones((2, 3)), np.ones((1, 2, 3, 4))])
def test_more_axes(x: np.ndarray, rank: int) -> None:
    (got,) = run(lambda g, v: axes.at_least(g, v, rank), x)
    assert got.shape == (np.atleast_1d, np.atleast_2d, np.atleast_3d)[rank - 1](x).shape


@BOTH
@pytest.mark.parametrize("indexing", ["ij", "xy"])
def test_meshgrid(indexing: Any, symbolic: bool) -> None:
    vectors = [np.arange(3.0), np.arange(4.0), np.arange(5.0)]
    got = run(lambda g, *v: axes.meshgrid(g, v, indexing), *vectors, symbolic=symbolic)
    for result, wanted in zip(got, np.meshgrid(*vectors, indexing=indexing), strict=True):
        assert np.array_equal(result, wanted)


@BOTH
@pytest.mark.parametrize("ends", [[1, 3], [0, 9], [-3, 2], [2, 1]])
def test_parts_between_ends_that_arrive_at_run_time(ends: list[int], symbolic: bool) -> None:
    got = run(lambda g, x, e: axes.split_at(g, x, 1, e, 3), X, np.array(ends), symbolic=symbolic)
    for result, wanted in zip(got, np.split(X, ends, 1), strict=True):
        assert np.array_equal(result, wanted)


@BOTH
@pytest.mark.parametrize("start", [1, -3])
def test_a_part_from_a_place_that_arrives_at_run_time(start: int, symbolic: bool) -> None:
    (got,) = run(lambda g, x, s, n: axes.slice_at(g, x, 1, s, n), X, np.array(start), np.array(2), symbolic=symbolic)
    assert np.array_equal(got, X[:, 1:3])


@pytest.mark.parametrize("offset", [-2, 0, 1])
def test_diagonals(offset: int) -> None:
    (got,) = run(lambda g, x: axes.diag_embed(g, x, offset), X[0])
    assert np.array_equal(got, [np.diag(row, offset) for row in X[0]])
