"""Norms, variances, sums of parts and running reductions against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from forge.compose import cumulative, reductions
from forge.errors import ForgeError
from forge.ir.op import Accuracy
from tests.ops.compare import check
from tests.ops.compose.support import run

rng = np.random.default_rng(29)
X = rng.standard_normal((3, 4, 5)).astype(np.float32)
X[0, 1] = 0
Z = (X + 1j * X[::-1]).astype(np.complex64)
BOTH = pytest.mark.parametrize("symbolic", [False, True])


@BOTH
@pytest.mark.parametrize("x", [X, Z])
@pytest.mark.parametrize("p", [0, 1, 2, 3.5, np.inf, -np.inf])
def test_vector_norm(p: float, x: np.ndarray, symbolic: bool) -> None:
    (got,) = run(lambda g, v: reductions.vector_norm(g, v, p, [1], keepdims=True), x, symbolic=symbolic)
    check(got, np.linalg.norm(x, p, 1, keepdims=True).astype(np.float32), Accuracy.ACCUMULATING)


@BOTH
@pytest.mark.parametrize("x", [X, Z])
@pytest.mark.parametrize("correction", [0, 1, 2.5])
def test_variance(correction: float, x: np.ndarray, symbolic: bool) -> None:
    (got,) = run(lambda g, v: reductions.variance(g, v, [0, 2], correction=correction), x, symbolic=symbolic)
    check(got, x.var((0, 2), ddof=correction).astype(np.float32), Accuracy.ACCUMULATING)


@BOTH
@pytest.mark.parametrize("x", [X, Z])
def test_logsumexp(x: np.ndarray, symbolic: bool) -> None:
    (got,) = run(lambda g, v: reductions.logsumexp(g, v, [1]), x, symbolic=symbolic)
    check(got, np.log(np.exp(x).sum(1)), Accuracy.ACCUMULATING)


def test_a_number_is_one_element() -> None:
    (got,) = run(lambda g, v: reductions.reduced(g, "sum", v, ()), np.array(3.0))
    assert got == 3
    (got,) = run(lambda g, v: reductions.variance(g, v, (), correction=0.5), np.array(3.0))
    assert got == 0


def test_the_largest_of_nothing_fails() -> None:
    def largest(g: Any, v: Any) -> Any:
        return reductions.of_some(g, reductions.extreme(g, "max", v, [0]), v, [0], "max")

    assert run(largest, np.array([False, True, False]), symbolic=True)[0]
    with pytest.raises(ForgeError, match="that max reduces"):
        run(largest, np.zeros(0, np.float32))


@BOTH
@pytest.mark.parametrize(("reduction", "initial", "empty"), [
    ("sum", None, 0.0), ("prod", None, 1.0), ("max", None, -np.inf), ("min", 0.0, 0.0), ("mean", None, np.nan),
    ("mean", 2.0, 2.0),
])
def test_parts_of_an_axis(reduction: str, initial: float | None, empty: float, symbolic: bool) -> None:
    offsets = np.array([[0, 3, 3, 4]] * 3)
    (got,) = run(lambda g, v, o: reductions.segment_reduce(g, v, o, reduction, 1, initial), X, offsets, symbolic=symbolic)
    begin = {None: [], 2.0: [np.full((3, 1, 5), 2, np.float32)], 0.0: [np.zeros((3, 1, 5), np.float32)]}[initial]
    for part, values in ((0, X[:, :3]), (2, X[:, 3:])):
        given = np.concatenate([*begin, values], 1)
        wanted = given.sum(1) / values.shape[1] if reduction == "mean" else getattr(given, reduction)(1)
        check(got[:, part], wanted, Accuracy.ACCUMULATING)
    assert np.array_equal(got[:, 1], np.full((3, 5), empty, np.float32), equal_nan=True)


@BOTH
@pytest.mark.parametrize("axis", [0, 2])
def test_logcumsumexp_of_complex_numbers(axis: int, symbolic: bool) -> None:
    """Up to whole turns."""
    (got,) = run(lambda g, v: cumulative.logcumsumexp(g, v, axis), Z, symbolic=symbolic)
    check(np.exp(got), np.exp(Z).cumsum(axis), Accuracy.ACCUMULATING)


def test_logcumsumexp_of_large_numbers() -> None:
    (got,) = run(lambda g, v: cumulative.logcumsumexp(g, v, 0), np.array([1000.0, 1000 + np.pi * 1j, 999.0]))
    assert got.real.tolist() == pytest.approx([1000.0, got.real[1], 999.0])
    assert got.real[1] < 970


def test_running_extremes_of_bools() -> None:
    values, places = run(lambda g, v: cumulative.extremes(g, "cummax", v, 0), np.array([False, True, False]))
    assert values.tolist() == [False, True, True]
    assert places.tolist() == [0, 1, 1]
