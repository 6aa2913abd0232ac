"""Softmax kernels against NumPy in float64."""

from __future__ import annotations

import numpy as np
import pytest

from forge.tir import expr as E
from tests.codegen.compiled import build
from tests.kernels.case import Case, Spec
from tests.kernels.support import guarded, run
from tests.schedule.support import TARGETS

RNG = np.random.default_rng(4)


def case(shape: tuple[object, ...], axis: int, operator: str = "nn.softmax", dtype: str = "float32", **options: object) -> Case:
    return Case("softmax", [Spec(shape, dtype)], Spec(shape, dtype), {"axis": axis}, operator=operator, **options)


def softmax(x: np.ndarray, axis: int, logarithm: bool = False) -> np.ndarray:
    shifted = x.astype(np.float64) - x.astype(np.float64).max(axis, keepdims=True)
    total = np.exp(shifted).sum(axis, keepdims=True)
    return shifted - np.log(total) if logarithm else np.exp(shifted) / total


@TARGETS
@pytest.mark.parametrize("operator", ["nn.softmax", "nn.log_softmax"])
@pytest.mark.parametrize(
    ("shape", "axis"),
    [
        ((5, 77), -1),
        ((3, 10), 1),
        ((2, 1000), 1),
        ((2, 3, 49), 2),
        ((2, 21, 9, 7), 1),
        ((5, 77), 0),
        ((2, 5000), 1),
        ((2, 9000), 1),
        ((3, 1), 1),
        ((9,), 0),
        ((2, 300, 40), 1),
        ((2, 16, 16), -1),
    ],
)
def test_matches_numpy(target: str, operator: str, shape: tuple[int, ...], axis: int) -> None:
    x = RNG.standard_normal(shape).astype(np.float32) * 4
    want = softmax(x, axis, operator == "nn.log_softmax")
    got = run(case(shape, axis, operator), [x], target)
    np.testing.assert_allclose(got, want, rtol=3e-6, atol=1e-7 * np.abs(want).max())


@TARGETS
@pytest.mark.parametrize("operator", ["nn.softmax", "nn.log_softmax"])
@pytest.mark.parametrize("axis", [0, 1])
def test_symbolic_sizes(target: str, operator: str, axis: int) -> None:
    """Blocks of short rows, whole ones and the last; rows as long as fit on the stack, and longer ones."""
    n, m = E.var("n"), E.var("m")
    kernel = build(case((n, m), axis, operator, symbols=(n, m)).function(target), target)
    for sizes in ((1, 1), (3, 5), (70, 33), (17, 100), (3, 512), (3, 513), (2, 8192), (2, 9000), (5000, 2), (0, 4), (4, 0)):
        x = RNG.standard_normal(sizes).astype(np.float32)
        y = guarded(np.full(sizes, 5, np.float32))
        kernel(guarded(x), y, *sizes)
        if x.size:
            want = softmax(x, axis, operator == "nn.log_softmax")
            np.testing.assert_allclose(y, want, rtol=3e-6, atol=1e-7 * np.abs(want).max())


@TARGETS
@pytest.mark.parametrize("shape", [(11, 100), (3, 600)])
def test_rows_are_replaced_in_place(target: str, shape: tuple[int, int]) -> None:
    x = RNG.standard_normal(shape).astype(np.float32)
    y = x.copy()
    build(case(shape, 1).function(target), target)(y, y)
    np.testing.assert_allclose(y, softmax(x, 1), rtol=3e-6)


@TARGETS
def test_large_values_do_not_overflow(target: str) -> None:
    x = np.array([[1e4, 1e4 - 1, -1e30, 0.0], [-np.inf, 3.0, -np.inf, 2.0]], np.float32)
    np.testing.assert_allclose(run(case((2, 4), 1), [x], target), softmax(x, 1), rtol=3e-6)


@TARGETS
@pytest.mark.parametrize("place", [0, 17, 36])
def test_nan_fills_its_row_only(target: str, place: int) -> None:
    x = RNG.standard_normal((3, 37)).astype(np.float32)
    x[1, place] = np.nan
    got = run(case((3, 37), 1), [x], target)
    assert np.isnan(got[1]).all()
    assert not np.isnan(got[[0, 2]]).any()


@TARGETS
@pytest.mark.parametrize(("dtype", "rtol"), [("float16", 2e-3), ("float64", 1e-12)])
def test_dtypes(target: str, dtype: str, rtol: float) -> None:
    x = RNG.standard_normal((4, 45)).astype(dtype)
    got = run(case((4, 45), 1, dtype=dtype), [x], target)
    np.testing.assert_allclose(got.astype(np.float64), softmax(x, 1), rtol=rtol, atol=1e-4 if dtype == "float16" else 0)


@TARGETS
@pytest.mark.parametrize("shape", [(5, 77), (2, 6000)])
def test_fused_operations(target: str, shape: tuple[int, int]) -> None:
    """A mask added before, a scale applied after."""
    x = RNG.standard_normal(shape).astype(np.float32)
    fused = case(
        shape, 1, prologues={0: lambda v: v * 2.0 + 1.0}, epilogue=lambda y, read: y * read(0), extras=[Spec((shape[0], 1))]
    )
    scale = RNG.standard_normal((shape[0], 1)).astype(np.float32)
    np.testing.assert_allclose(run(fused, [x, scale], target), softmax(x * 2, 1) * scale, rtol=5e-6, atol=1e-7)
