"""Guarded reads: padding and padded windows as masked loads, right to the last byte before an inaccessible page."""

from __future__ import annotations

import numpy as np
import pytest

from forge import te
from forge.tir import expr as E
from forge.tir import visit
from forge.tir.expr import Expr
from tests.schedule.support import TARGETS, function_for, run, truth

RNG = np.random.default_rng(11)


def padded(x: te.Tensor, indices: list[Expr], fill: float) -> Expr:
    """``x`` at ``indices``, ``fill`` outside."""
    valid: Expr = te.const(True, "bool")
    for i, extent in zip(indices, x.shape):
        valid = te.logical_and(valid, te.logical_and(i >= 0, i < extent))
    safe = tuple(te.clamp(i, extent) for i, extent in zip(indices, x.shape))
    return te.select(valid, x[safe], te.const(fill, x.dtype))


def loads(tensor: te.Tensor, x: te.Tensor, target: str) -> list[E.Load]:
    function = function_for([x], [tensor], target)
    found = [e for s in visit.statements(function.body) for root in visit.own_expressions(s) for e in _nodes(root)]
    return [e for e in found if isinstance(e, E.Load) and e.buffer.scope != "local"]


def _nodes(x: Expr) -> list[Expr]:
    return [x, *(inner for child in E.children(x) for inner in _nodes(child))]


@TARGETS
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8"])
@pytest.mark.parametrize("shape", [(1,), (3, 5), (6, 64), (2, 37), (0, 4)])
def test_padding(target: str, shape: tuple[int, ...], dtype: str) -> None:
    data = RNG.integers(-9, 9, shape).astype(dtype)
    x = te.placeholder(shape, dtype)
    result = te.compute([n + 5 for n in shape], lambda *i: padded(x, [k - 2 for k in i], 3.0 if dtype != "int8" else 3))
    np.testing.assert_array_equal(run([result], {x: data}, target)[0], np.pad(data, [(2, 3)] * len(shape), constant_values=3))


@TARGETS
@pytest.mark.parametrize(("size", "step"), [(8, 1), (37, 1), (64, 2), (21, 3)])
def test_windows_over_padded_data(target: str, size: int, step: int) -> None:
    data = RNG.standard_normal((3, size, size)).astype(np.float32)
    x = te.placeholder(data.shape, "float32")
    taps = [te.reduce_axis(3), te.reduce_axis(3)]
    count = (size + 2 - 3) // step + 1

    def body(c: Expr, i: Expr, j: Expr) -> Expr:
        return te.reduce("max", padded(x, [c, i * step + taps[0].var - 1, j * step + taps[1].var - 1], -1e30), taps)

    result = te.compute((3, count, count), body)
    np.testing.assert_array_equal(run([result], {x: data}, target)[0], truth([result], {x: data})[0])


def test_masked_loads_are_contiguous() -> None:
    x = te.placeholder((100, 100), "float32")
    result = te.compute((102, 102), lambda *i: padded(x, [k - 1 for k in i], 0.0))
    found = loads(result, x, "llvm -mcpu=x86-64-v4")
    assert any(load.mask is not None for load in found) and any(load.mask is None for load in found)
    assert all(isinstance(load.index, E.Ramp) and E.is_const(load.index.stride, 1) for load in found if load.lanes > 1)


def test_reads_that_are_used_elsewhere_keep_their_clamp() -> None:
    x = te.placeholder((10,), "float32")

    def body(i: Expr) -> Expr:
        return te.select(te.logical_and(i - 1 >= 0, i - 1 < 10), x[te.clamp(i + 1, te.const(10))], te.const(0.0, "float32"))

    assert all(load.mask is None or load.lanes > 1 for load in loads(te.compute((12,), body), x, "llvm -mcpu=x86-64"))
    data = np.arange(10, dtype=np.float32)
    np.testing.assert_array_equal(run([te.compute((12,), body)], {x: data}, "llvm")[0],
                                  [0, *np.minimum(np.arange(10) + 2, 9), 0])
