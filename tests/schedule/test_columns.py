"""Reductions down columns against NumPy: odd sizes, cut into chunks of rows and blocks of columns, with symbols."""

from __future__ import annotations

import numpy as np
import pytest

from forge import te
from forge.tir import stmt as S
from forge.tir import visit
from tests.schedule.support import TARGETS, function_for, run, truth

RNG = np.random.default_rng(4)


def columns(x: te.Tensor, kind: str = "sum") -> te.Tensor:
    """Reduces axis 1 of three."""
    row = te.reduce_axis(x.shape[1])
    return te.compute((x.shape[0], x.shape[2]), lambda b, c: te.reduce(kind, x[b, row.var, c] * 2, [row]))


@TARGETS
@pytest.mark.parametrize("shape", [(1, 33, 100), (1, 1000, 1003), (3, 64, 1024), (1, 40, 9001), (40, 35, 129), (2, 0, 500)])
@pytest.mark.parametrize(("kind", "dtype"), [("sum", "int32"), ("max", "float32"), ("min", "float64"), ("sum", "int8")])
def test_columns(target: str, shape: tuple[int, ...], kind: str, dtype: str) -> None:
    data = RNG.integers(-50, 50, shape).astype(dtype)
    x = te.placeholder(shape, dtype)
    result = columns(x, kind)
    np.testing.assert_array_equal(run([result], {x: data}, target)[0], truth([result], {x: data})[0])


@TARGETS
@pytest.mark.parametrize(("rows", "width"), [(1, 5), (70, 300), (33, 7000)])
def test_symbolic_columns(target: str, rows: int, width: int) -> None:
    data = RNG.integers(-50, 50, (2, rows, width)).astype(np.float32)
    x = te.placeholder((2, te.symbol_var("n"), te.symbol_var("w")), "float32")
    result, sizes = columns(x), {"n": rows, "w": width}
    np.testing.assert_array_equal(run([result], {x: data}, target, sizes)[0], truth([result], {x: data}, sizes)[0])


def test_tall_matrices_are_cut_for_threads() -> None:
    x = te.placeholder((1, 16384, 1024), "float32")
    function = function_for([x], [columns(x)], "llvm -mcpu=x86-64-v3")
    parallel = [s for s in visit.statements(function.body) if isinstance(s, S.For) and s.kind == "parallel"]
    assert [int(s.extent.value) for s in parallel] == [16]  # type: ignore[attr-defined]
