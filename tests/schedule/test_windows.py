"""Sliding windows: rows that are reduced down their columns first, right at every border and every size."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from forge import te
from forge.ops.core.window_geometry import padded_read
from forge.te import Expr, Tensor
from forge.tir import expr as E
from forge.tir import stmt as S
from forge.tir import visit
from tests.schedule.support import TARGETS, function_for, run, truth

RNG = np.random.default_rng(5)

Windows = Sequence[tuple[int, int, int, int, int]]
"""By window axis: its number, size, stride, dilation, and elements added on both sides."""


def pooled(x: Tensor, windows: Windows, kind: str, fill: float) -> Tensor:
    """``x`` reduced over windows."""
    taps = [te.reduce_axis(size) for _, size, *_ in windows]
    shape = list(x.shape)
    for axis, size, stride, dilation, pad in windows:
        shape[axis] = (x.shape[axis] + (2 * pad - (size - 1) * dilation - 1)) // stride + 1

    def body(*i: Expr) -> Expr:
        source = list(i)
        for tap, (axis, _, stride, dilation, pad) in zip(taps, windows, strict=True):
            source[axis] = i[axis] * stride + tap.var * dilation - pad
        padded = {axis for axis, *_, pad in windows if pad}
        return te.reduce(kind, padded_read(x, source, [k in padded for k in range(x.ndim)], fill), taps)

    return te.compute(shape, body)


def check(
    shape: Sequence[int], windows: Windows, target: str, kind: str = "max", dtype: str = "float32", symbolic: bool = True
) -> None:
    data = RNG.integers(-50, 50, shape).astype(dtype)
    if dtype == "float32" and data.size > 3:
        data.reshape(-1)[data.size // 2] = np.nan
    fill = 0 if kind == "sum" else -math.inf if dtype == "float32" else np.iinfo(dtype).min
    axes = {axis for axis, *_ in windows} if symbolic else set()
    extents = [te.symbol_var(f"n{k}") if k in axes else n for k, n in enumerate(shape)]
    x = te.placeholder(extents, dtype)
    result = pooled(x, windows, kind, fill)
    symbols = {f"n{k}": shape[k] for k in axes}
    np.testing.assert_array_equal(run([result], {x: data}, target, symbols)[0], truth([result], {x: data}, symbols)[0])


@TARGETS
@pytest.mark.parametrize("symbolic", [True, False])
@pytest.mark.parametrize("kind", ["max", "sum"])
@pytest.mark.parametrize(
    ("size", "stride", "dilation", "pad"),
    [(3, 2, 1, 1), (3, 1, 1, 1), (5, 1, 1, 2), (2, 2, 1, 1), (3, 1, 2, 2), (2, 3, 2, 1), (3, 1, 1, 0)],
)
@pytest.mark.parametrize("sizes", [(5, 7), (1, 1), (2, 40), (23, 3), (6, 67), (7, 600)])
@pytest.mark.sampled(5)
def test_rows_of_images(
    target: str, symbolic: bool, kind: str, size: int, stride: int, dilation: int, pad: int, sizes: tuple[int, int]
) -> None:
    if min(sizes) + 2 * pad < (size - 1) * dilation + 1:
        sizes = (5, 7)
    check((3, *sizes), [(k, size, stride, dilation, pad) for k in (1, 2)], target, kind, symbolic=symbolic)


@TARGETS
@pytest.mark.parametrize("tail", [16, 5, 1, 64])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("sizes", [(1, 1), (9, 13), (3, 90)])
@pytest.mark.sampled(3)
def test_blocks_of_channels(target: str, tail: int, stride: int, sizes: tuple[int, int]) -> None:
    check((2, *sizes, tail), [(k, 3, stride, 1, 1) for k in (1, 2)], target)


@TARGETS
@pytest.mark.parametrize("channels", [70, 130])
@pytest.mark.parametrize("sizes", [(1, 1), (6, 11)])
def test_channels_last(target: str, channels: int, sizes: tuple[int, int]) -> None:
    check((2, *sizes, channels), [(k, 3, 2, 1, 1) for k in (1, 2)], target)


@TARGETS
@pytest.mark.parametrize("sizes", [(1, 1, 1), (5, 6, 33)])
def test_volumes(target: str, sizes: tuple[int, int, int]) -> None:
    check((2, *sizes), [(k, 3, 2, 1, 1) for k in (1, 2, 3)], target)


@TARGETS
@pytest.mark.parametrize(("length", "size", "stride", "pad"), [(1, 3, 1, 1), (5000, 3, 2, 1), (9000, 25, 5, 12), (40, 60, 1, 30)])
def test_lengths(target: str, length: int, size: int, stride: int, pad: int) -> None:
    check((2, length), [(1, size, stride, 1, pad)], target)


@TARGETS
@pytest.mark.parametrize("axes", [(1,), (2,), (1, 2)])
@pytest.mark.parametrize("dtype", ["int8", "float32", "int32"])
def test_windows_along_some_axes(target: str, axes: tuple[int, ...], dtype: str) -> None:
    check((3, 9, 150), [(k, 4, 1, 1, 2) for k in axes], target, dtype=dtype)


@TARGETS
@pytest.mark.parametrize(("kind", "dtype"), [("max", "float32"), ("sum", "float32"), ("max", "uint8"), ("min", "int64")])
@pytest.mark.parametrize("symbolic", [True, False])
@pytest.mark.parametrize("sizes", [(2, 2), (1, 7), (5, 31), (4, 35), (2, 137), (6, 64), (2, 66), (3, 1)])
@pytest.mark.sampled(4)
def test_windows_side_by_side(target: str, kind: str, dtype: str, symbolic: bool, sizes: tuple[int, int]) -> None:
    check((3, *sizes), [(k, 2, 2, 1, 0) for k in (1, 2)], target, kind, dtype, symbolic)


def test_pairs_are_loaded_as_they_lie() -> None:
    x = te.placeholder((8, te.symbol_var("h"), te.symbol_var("w")), "float32")
    sizes = [te.symbol_var("h"), te.symbol_var("w")]
    function = function_for([x], [pooled(x, [(k, 2, 2, 1, 0) for k in (1, 2)], "max", -math.inf)], "llvm -mcpu=x86-64-v4", sizes)
    loads = [e for e in visit.expressions(function.body) if isinstance(e, E.Load)]
    assert loads and all(isinstance(e.index, E.Ramp) and E.is_const(e.index.stride, 1) for e in loads)


@TARGETS
@pytest.mark.parametrize("symbolic", [True, False])
@pytest.mark.parametrize("sizes", [(1, 1), (2, 3), (5, 18), (19, 37), (3, 500)])
def test_code_after_windows_that_depends_on_how_near_the_borders_are(target: str, symbolic: bool, sizes: tuple[int, int]) -> None:
    """Sums of windows, times the number of their elements that are inside."""
    h, w = (te.symbol_var("h"), te.symbol_var("w")) if symbolic else (te.const(size) for size in sizes)
    x = te.placeholder((2, h, w), "float32")
    sums = pooled(x, [(1, 3, 1, 1, 1), (2, 3, 1, 1, 1)], "sum", 0)

    def inside(place: Expr, extent: Expr) -> Expr:
        return E.binary("min", extent - place + 1, E.const(3)) - E.binary("max", 1 - place, E.const(0))

    result = te.compute(sums.shape, lambda c, i, j: sums[c, i, j] * te.cast(inside(i, h) * inside(j, w), "float32"))
    data, symbols = RNG.integers(-50, 50, (2, *sizes)).astype("float32"), dict(zip("hw", sizes)) if symbolic else {}
    np.testing.assert_array_equal(run([result], {x: data}, target, symbols)[0], truth([result], {x: data}, symbols)[0])


@TARGETS
def test_large_windows(target: str) -> None:
    check((2, 31, 29), [(k, 13, 1, 1, 6) for k in (1, 2)], target)


@TARGETS
def test_windows_wholly_outside(target: str) -> None:
    check((2, 3, 3), [(k, 2, 1, 1, 40) for k in (1, 2)], target)


def test_what_is_read_inside_needs_no_mask() -> None:
    x = te.placeholder((8, te.symbol_var("h"), te.symbol_var("w")), "float32")
    function = function_for([x], [pooled(x, [(1, 3, 2, 1, 1), (2, 3, 2, 1, 1)], "max", -math.inf)], "llvm -mcpu=x86-64-v3",
                            [te.symbol_var("h"), te.symbol_var("w")])
    stores = [s for s in visit.statements(function.body) if isinstance(s, S.Store)]
    rows = [s for s in stores if s.buffer.scope == "local" and s.index.lanes == 8]
    assert rows and any(s.mask is None and isinstance(s.value, E.Var) for s in rows)
    assert not any(isinstance(e, E.Select) for s in rows for e in visit.nodes(s.value))


@TARGETS
@pytest.mark.parametrize("kind", ["max", "sum"])
@pytest.mark.parametrize("taps", [(3, 3), (2, 5), (5, 2), (4, 1)])
@pytest.mark.parametrize("pads", [(1, 1), (0, 2), (9, 4)])
@pytest.mark.parametrize("sizes", [(1, 1), (33, 16), (67, 5), (37, 257)])
@pytest.mark.sampled(6)
def test_rows_that_stay_in_registers(
    target: str, kind: str, taps: tuple[int, int], pads: tuple[int, int], sizes: tuple[int, int]
) -> None:
    """More rows than are computed one below the other, and windows that are wholly outside."""
    if any(size + 2 * pad < tap for size, tap, pad in zip(sizes, taps, pads)):
        sizes = (5, 7)
    windows = [(axis, tap, 1, 1, pad) for axis, tap, pad in zip((1, 2), taps, pads)]
    for symbolic, dtype in ((True, "float32"), (False, "float32"), (True, "uint8")):
        check((3, *sizes), windows, target, kind, dtype, symbolic)


def test_small_windows_one_step_apart_need_no_memory() -> None:
    sizes = [te.symbol_var("h"), te.symbol_var("w")]
    x = te.placeholder((8, *sizes), "float32")
    function = function_for([x], [pooled(x, [(k, 3, 1, 1, 1) for k in (1, 2)], "max", -math.inf)], "llvm -mcpu=x86-64-v4", sizes)
    assert not any(isinstance(s, S.Allocate) and s.buffer.name == "row" for s in visit.statements(function.body))


def test_reductions_of_matrices_are_no_windows() -> None:
    """Rows of a matrix lie at places ``1024 * row + column``, as windows of a dilation of 1024 would."""
    x = te.placeholder((16384, 1024), "float32")
    row = te.reduce_axis(16384)
    result = te.compute((1024,), lambda c: te.reduce("max", x[row.var, c], [row]))
    function = function_for([x], [result], "llvm -mcpu=x86-64-v3")
    assert not any(isinstance(s, S.Allocate) and s.buffer.name == "row" for s in visit.statements(function.body))
