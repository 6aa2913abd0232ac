"""Packed dense kernels against NumPy, on odd sizes, at every vector width."""

from __future__ import annotations

import numpy as np
import pytest

from forge.errors import CompileError
from forge.kernels.layouts import CpuLayouts
from forge.target import Target
from forge.tir import expr as E
from tests.kernels.case import Case, Spec
from tests.kernels.support import assert_close, guarded, pack_dense, run, targets_here

RNG = np.random.default_rng(3)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def dense_case(shape: tuple[object, ...], units: int, panel: int, **options: object) -> Case:
    depth = shape[-1]
    return Case("dense_pack", [Spec(shape), Spec((-(-units // panel), depth, panel))], Spec((*shape[:-1], units)),
                {"units": units}, **options)


@pytest.mark.parametrize("target", targets_here())
@pytest.mark.parametrize(("lead", "depth", "units", "panel"), [
    ((1,), 67, 100, None), ((13,), 33, 50, None), ((2, 3, 5), 20, 48, 48), ((50,), 96, 10, None), ((29,), 1, 1, None),
    ((8,), 40, 200, 64), ((3,), 17, 21, 12), ((1,), 3, 5, None), ((19,), 3001, 70, None), ((9,), 12288, 20, None),
    ((21,), 513, 257, None), ((1,), 61, 67, None),
])
def test_matches_numpy(target: str, lead: tuple[int, ...], depth: int, units: int, panel: int | None) -> None:
    panel = panel or CpuLayouts(Target.parse(target)).dense_panel("float32", units)
    x, w = normal(*lead, depth), normal(units, depth)
    got = run(dense_case((*lead, depth), units, panel), [x, pack_dense(w, panel)], target)
    assert_close(got, x.astype(np.float64) @ w.T.astype(np.float64), depth)


@pytest.mark.parametrize("target", targets_here())
@pytest.mark.parametrize("depth", [37, 2999])
def test_symbolic_rows(target: str, depth: int) -> None:
    from tests.codegen.compiled import build
    m, units = E.var("m"), 70
    panel = CpuLayouts(Target.parse(target)).dense_panel("float32", units)
    kernel = build(dense_case((m, depth), units, panel, symbols=(m,)).function(target), target)
    w = normal(units, depth)
    for rows in (*range(18), 31, 63, 64, 65, 127, 128, 129, 300):
        x = normal(rows, depth)
        y = guarded(np.full((rows, units), 5, np.float32))
        kernel(guarded(x), guarded(pack_dense(w, panel)), y, rows)
        if rows:
            assert_close(y, x.astype(np.float64) @ w.T.astype(np.float64), depth)


@pytest.mark.parametrize("target", targets_here())
@pytest.mark.parametrize(("rows", "depth"), [(1, 45), (21, 45), (21, 2801)])
def test_prologue_and_epilogue(target: str, rows: int, depth: int) -> None:
    """relu(2 x - 1) @ w + bias + residual, the residual read where the result is written."""
    units = 53
    panel = CpuLayouts(Target.parse(target)).dense_panel("float32", units)
    case = dense_case((1, rows, depth), units, panel, prologues={0: lambda v: E.binary("max", v * 2.0 - 1.0, 0.0)},
                      epilogue=lambda v, extra: v + extra(0) + extra(1), extras=[Spec((units,)), Spec((1, rows, units))])
    x, w, bias, residual = normal(1, rows, depth), normal(units, depth), normal(units), normal(1, rows, units)
    got = run(case, [x, pack_dense(w, panel), bias, residual], target)
    want = np.maximum(2 * x.astype(np.float64) - 1, 0) @ w.T.astype(np.float64) + bias + residual
    assert_close(got, want, depth)


@pytest.mark.parametrize("target", targets_here())
@pytest.mark.parametrize(("dtype", "result"), [("float64", "float64"), ("float16", "float16"), ("int8", "int32")])
def test_other_dtypes(target: str, dtype: str, result: str) -> None:
    depth, units, panel = 24, 40, 16
    x = RNG.integers(-4, 5, (9, depth)).astype(dtype)
    w = RNG.integers(-4, 5, (units, depth)).astype(dtype)
    case = Case("dense_pack", [Spec(x.shape, dtype), Spec((3, depth, panel), dtype)], Spec((9, units), result), {"units": units})
    got = run(case, [x, pack_dense(w, panel)], target)
    np.testing.assert_array_equal(got.astype(np.float64), x.astype(np.float64) @ w.T.astype(np.float64))


def test_symbolic_weight_is_refused() -> None:
    n = E.var("n")
    case = Case("dense_pack", [Spec((4, 8)), Spec((n, 8, 16))], Spec((4, 16)), {"units": 16}, symbols=(n,))
    with pytest.raises(CompileError, match="expected static"):
        case.function("llvm")
