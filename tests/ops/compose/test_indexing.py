"""Advanced indexing against NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from forge.compose import indexing
from forge.errors import ForgeError
from forge.ir.nodes import Value
from forge.ops.core.composer import Composer
from tests.ops.compose.support import build, run

X = np.arange(60.0).reshape(3, 4, 5)
MASK = X[0] % 3 == 0
BOTH = pytest.mark.parametrize("symbolic", [False, True])
Indices = Sequence[np.ndarray | None]
INTEGERS: list[Indices] = [
    (np.array([2, 0, -1, 1]),),
    (None, np.array([[3, 0], [1, 1]])),
    (np.array([0, 2, 1]), np.array([[3], [-4]])),
    (None, np.array([1, 2, 0]), np.array([4, 0, -1])),
    (np.array([[0], [2]]), None, np.array([1, 3, 4])),
    (np.array(1), None, None),
]
MASKS: list[Indices] = [
    (None, MASK),
    (MASK[:3, :4] | True, np.array([0])),
    (np.array([True, False, True]), None, np.array([2, 4])),
]


def numpy_indices(indices: Indices) -> tuple[Any, ...]:
    return tuple(slice(None) if i is None else i for i in indices)


@pytest.mark.parametrize(("indices", "symbolic"), [(i, s) for i in INTEGERS for s in (False, True)] + [(i, False) for i in MASKS])
def test_reads(indices: Indices, symbolic: bool) -> None:
    (got,) = run(lambda g, x, *i: indexing.index(g, x, i), X, *indices, symbolic=symbolic)
    assert np.array_equal(got, X[numpy_indices(indices)])


@pytest.mark.parametrize("indices", INTEGERS + MASKS)
def test_writes(indices: Indices) -> None:
    places = numpy_indices(indices)
    new = -1 - np.arange(float(X[places].size)).reshape(X[places].shape)
    wanted = X.copy()
    wanted[places] = new
    (got,) = run(_put(False), X, new, *indices)
    assert np.array_equal(got, wanted)


@pytest.mark.parametrize("indices", [*INTEGERS, *MASKS, (np.array([1, 1, 0, 1]),)])
def test_sums(indices: Indices) -> None:
    wanted = X.copy()
    np.add.at(wanted, numpy_indices(indices), 2.0)
    (got,) = run(_put(True), X, np.array(2.0), *indices)
    assert np.array_equal(got, wanted)


def _put(accumulate: bool) -> Any:
    def compose(g: Composer, x: Value, values: Value, *indices: Value) -> Value:
        return indexing.put(g, x, indices, values, accumulate=accumulate)

    return compose


def test_a_number_is_written_by_a_mask_without_counting_it() -> None:
    graph = build(lambda g, x, m: indexing.put(g, x, [None, m], g.constant(1.0, "float64")), [X, MASK])
    assert [node.op for node in graph.nodes][-1] == "where"


def test_an_index_out_of_range_fails() -> None:
    with pytest.raises(ForgeError, match="out of range"):
        run(lambda g, x, i: indexing.index(g, x, [i]), X, np.array([3]))


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize(("reduction", "combine"), [
    ("add", np.sum), ("mul", np.prod), ("max", np.max), ("min", np.min), ("mean", np.mean),
])
def test_reductions(reduction: str, combine: Any, include_self: bool) -> None:
    x, indices, updates = np.array([5.0, 2.0, 8.0]), np.array([0, 2, 0, 0]), np.array([1.0, 9.0, 3.0, 4.0])
    wanted = [combine([*([x[0]] if include_self else []), 1, 3, 4]), x[1], combine([*([x[2]] if include_self else []), 9])]
    (got,) = run(lambda g, x, i, u: indexing.scatter(g, x, i, u, 0, reduction, include_self=include_self), x, indices, updates)
    assert got.tolist() == wanted


def test_bools_are_added_as_logic_does_it() -> None:
    x = np.array([False, True, False])
    (got,) = run(lambda g, x, i, u: indexing.scatter(g, x, i, u, 0, "add"), x, np.array([0, 0, 1]), np.array([True, True, False]))
    assert got.tolist() == [True, True, False]


@BOTH
def test_slices(symbolic: bool) -> None:
    wanted, places = X.copy(), np.array([3, 0, 3])
    np.add.at(wanted, (slice(None), places), 1.0)

    def compose(g: Composer, x: Value, indices: Value, updates: Value) -> Value:
        return indexing.scatter_slices(g, x, indices, updates, 1, "add")

    (got,) = run(compose, X, places, np.array(1.0), symbolic=symbolic)
    assert np.array_equal(got, wanted)


@BOTH
def test_take_along_axis(symbolic: bool) -> None:
    places = np.array([[[1], [0], [3], [1], [2]]])
    (got,) = run(lambda g, x, i: indexing.take_along_axis(g, x, i, 1), X, places, symbolic=symbolic)
    assert np.array_equal(got, np.take_along_axis(X, places, 1))


@pytest.mark.parametrize("x", [X[0, 0] % 2, X % 7 == 0])
def test_nonzero(x: np.ndarray) -> None:
    for got, wanted in zip(run(indexing.nonzero, x), np.nonzero(x), strict=True):
        assert np.array_equal(got, wanted)


@BOTH
def test_isin(symbolic: bool) -> None:
    tests = np.array([[3.0, 59.0], [7.5, 0.0]])
    (got,) = run(indexing.isin, X, tests, symbolic=symbolic)
    assert np.array_equal(got, np.isin(X, tests))
