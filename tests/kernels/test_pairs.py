"""Kernels on bfloat16, float16 and int8: products of pairs and fours, and float32 arithmetic on narrow storage."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from forge import dtypes
from forge.kernels.cpu import matmul
from forge.kernels.layouts import CpuLayouts
from forge.ops.packed.pairs import paired
from forge.target import Target
from forge.tir import expr as E
from tests.codegen.compiled import build
from tests.kernels.case import Case, Spec
from tests.kernels.support import (
    TARGETS,
    assert_close,
    block_channels,
    convolve,
    guarded,
    pack_convolution,
    pack_dense,
    run,
    targets_here,
    unblock_channels,
)

RNG = np.random.default_rng(8)
AVX512 = "llvm -mcpu=x86-64-v4"
HERE = [*targets_here(), *([AVX512] if TARGETS[0] in targets_here() and Target.parse("llvm").has("avx512vl") else [])]


def rounded(*shape: int, dtype: str = "bfloat16") -> np.ndarray:
    """Normal numbers that ``dtype`` holds."""
    return RNG.standard_normal(shape).astype(dtypes.numpy_dtype(dtype))


def wide(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float64)


@pytest.mark.parametrize("target", HERE)
@pytest.mark.parametrize("prologue", [False, True])
@pytest.mark.parametrize(("lead", "depth", "units"), [
    ((1,), 66, 100), ((13,), 34, 50), ((2, 3, 5), 20, 48), ((29,), 2, 3), ((17,), 6002, 40),
])
def test_dense_in_pairs(target: str, prologue: bool, lead: tuple[int, ...], depth: int, units: int) -> None:
    panel = CpuLayouts(Target.parse(target)).dense_panel("bfloat16", units)
    x, w, bias = rounded(*lead, depth), rounded(units, depth), rounded(units, dtype="float32")
    options: dict[str, Any] = {"prologues": {0: lambda v: v * 2.0}} if prologue else {}
    weight = paired(pack_dense(w, panel))
    case = Case("dense_pack", [Spec(x.shape, "bfloat16"), Spec(weight.shape, "bfloat16")], Spec((*lead, units)), {"units": units},
                epilogue=lambda v, extra: v + extra(0), extras=[Spec((units,))], **options)
    want = wide(x) * (2 if prologue else 1) @ wide(w).T + bias
    assert_close(run(case, [x, weight, bias], target), want, depth)


@pytest.mark.parametrize("target", HERE)
@pytest.mark.parametrize("prologue", [False, True])
@pytest.mark.parametrize(("lead", "depth", "units"), [
    ((1,), 68, 100), ((13,), 36, 50), ((2, 3, 5), 20, 48), ((29,), 4, 3), ((17,), 6004, 40), ((9,), 100004, 3),
])
@pytest.mark.parametrize("group", [2, 4])
def test_dense_of_bytes(target: str, prologue: bool, lead: tuple[int, ...], depth: int, units: int, group: int) -> None:
    """The same integers on every target, also where sums of two products do not fit into 16 bits."""
    panel = CpuLayouts(Target.parse(target)).dense_panel("uint8", units)
    x, w = RNG.integers(200, 256, (*lead, depth), np.uint8), RNG.integers(-128, 128, (units, depth), np.int8)
    w[0], x[..., 0, :] = -128, 255
    bias = RNG.integers(-9, 9, units, np.int32)
    options: dict[str, Any] = {"prologues": {0: lambda v: E.binary("xor", v, E.const(128, "uint8", v.lanes))}} if prologue else {}
    weight = paired(pack_dense(w, panel), group)
    case = Case("dense_pack", [Spec(x.shape, "uint8"), Spec(weight.shape, "int8")], Spec((*lead, units), "int32"),
                {"units": units}, epilogue=lambda v, extra: v + extra(0), extras=[Spec((units,), "int32")], **options)
    want = (x ^ 128 if prologue else x).astype(np.int32) @ w.T.astype(np.int32) + bias
    np.testing.assert_array_equal(run(case, [x, weight, bias], target), want)


@pytest.mark.parametrize("target", HERE)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("rows", [1, 17])
def test_dense_of_narrow_storage_rounds_once(target: str, dtype: str, rows: int) -> None:
    depth, units = 33, 40
    panel = CpuLayouts(Target.parse(target)).dense_panel(dtype, units)
    x, w = rounded(rows, depth, dtype=dtype), rounded(units, depth, dtype=dtype)
    weight = pack_dense(w, panel)
    case = Case("dense_pack", [Spec(x.shape, dtype), Spec(weight.shape, dtype)], Spec((rows, units), dtype), {"units": units},
                epilogue=lambda v, extra: v + 256.0)
    want = wide(x) @ wide(w).T + 256
    half_step = {"bfloat16": 2.0**-8, "float16": 2.0**-11}[dtype]
    assert np.all(np.abs(wide(run(case, [x, weight], target)) - want) <= half_step * 256 * (1 + 1e-3) * (want >= 256) +
                  half_step * 128 * (1 + 1e-3) * (want < 256))


@pytest.mark.parametrize("target", HERE)
@pytest.mark.parametrize("prologue", [False, True])
@pytest.mark.parametrize(("transpose_a", "transpose_b"), [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize(("rows", "depth", "columns"), [(21, 34, 40), (1, 64, 33), (50, 2, 3), (9, 33, 64)])
def test_matmul(target: str, prologue: bool, transpose_a: bool, transpose_b: bool, rows: int, depth: int, columns: int) -> None:
    a, b = rounded(2, rows, depth), rounded(2, depth, columns)
    left, right = (np.ascontiguousarray(x.swapaxes(-1, -2)) if t else x for x, t in ((a, transpose_a), (b, transpose_b)))
    options: dict[str, Any] = {"prologues": {0: lambda v: v * 2.0, 1: lambda v: v * 0.5}} if prologue else {}
    case = Case("matmul", [Spec(left.shape, "bfloat16"), Spec(right.shape, "bfloat16")], Spec((2, rows, columns)),
                {"transpose_a": transpose_a, "transpose_b": transpose_b}, **options)
    assert_close(run(case, [left, right], target), wide(a) @ wide(b), depth)


@pytest.mark.parametrize("target", HERE)
@pytest.mark.parametrize("prologue", [False, True])
@pytest.mark.parametrize(("transpose_a", "transpose_b"), [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize(("rows", "depth", "columns"), [(21, 36, 40), (1, 64, 33), (50, 4, 3), (9, 33, 64), (17, 6004, 20)])
def test_matmul_of_bytes(target: str, prologue: bool, transpose_a: bool, transpose_b: bool, rows: int, depth: int, columns: int
                         ) -> None:
    """The same integers on every target, also where sums of two products do not fit into 16 bits."""
    a, b = RNG.integers(200, 256, (2, rows, depth), np.uint8), RNG.integers(-128, 128, (2, depth, columns), np.int8)
    a[..., 0, :], b[..., 0] = 255, -128
    left, right = (np.ascontiguousarray(x.swapaxes(-1, -2)) if t else x for x, t in ((a, transpose_a), (b, transpose_b)))

    def flipped(v: E.Expr) -> E.Expr:
        return E.binary("xor", v, E.const(127, v.dtype, v.lanes))

    options: dict[str, Any] = {"prologues": {0: flipped, 1: flipped}} if prologue else {}
    case = Case("matmul", [Spec(left.shape, "uint8"), Spec(right.shape, "int8")], Spec((2, rows, columns), "int32"),
                {"transpose_a": transpose_a, "transpose_b": transpose_b}, **options)
    want = np.matmul(*((x ^ 127 if prologue else x).astype(np.int32) for x in (a, b)))
    np.testing.assert_array_equal(run(case, [left, right], target), want)


@pytest.mark.parametrize("transpose_b", [False, True])
def test_matmul_with_its_depth_in_parts(transpose_b: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matmul, "PANEL_BYTES", 1 << 10)
    monkeypatch.setattr(matmul, "PART_DEPTH", 24)
    a, b = rounded(21, 130), rounded(*((35, 130) if transpose_b else (130, 35)))
    case = Case("matmul", [Spec(a.shape, "bfloat16"), Spec(b.shape, "bfloat16")], Spec((21, 35)),
                {"transpose_a": False, "transpose_b": transpose_b})
    assert_close(run(case, [a, b], "llvm"), wide(a) @ (wide(b).T if transpose_b else wide(b)), 130)


@pytest.mark.parametrize("target", HERE)
def test_matmul_of_symbolic_depth(target: str) -> None:
    k = E.var("k")
    case = Case("matmul", [Spec((7, k), "bfloat16"), Spec((k, 20), "bfloat16")], Spec((7, 20)),
                {"transpose_a": False, "transpose_b": False}, symbols=(k,))
    kernel = build(case.function(target), target)
    for depth in (1, 30, 601):
        a, b, result = rounded(7, depth), rounded(depth, 20), guarded(np.zeros((7, 20), np.float32))
        kernel(guarded(a, "bfloat16"), guarded(b, "bfloat16"), result, depth)
        assert_close(result, wide(a) @ wide(b), depth)


CONVOLUTIONS = {
    "pointwise": (32, 40, (7, 9), (1, 1), (1, 1), (0, 0, 0, 0), (1, 1)),
    "padded": (24, 20, (9, 11), (3, 3), (1, 1), (1, 1, 1, 1), (1, 1)),
    "strided": (16, 33, (13, 12), (3, 3), (2, 2), (1, 1, 1, 1), (1, 1)),
    "dilated": (18, 16, (15, 14), (3, 3), (1, 1), (2, 2, 2, 2), (2, 2)),
    "few channels": (6, 16, (9, 9), (5, 3), (1, 2), (2, 1, 2, 1), (1, 1)),
}


@pytest.mark.parametrize("target", HERE)
@pytest.mark.parametrize("prologue", [False, True])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions_in_pairs(target: str, prologue: bool, name: str) -> None:
    inner, out, image, kernel, strides, padding, dilation = CONVOLUTIONS[name]
    lanes = Target.parse(target).lanes("float32")
    x, w = rounded(1, inner, *image), rounded(out, inner, *kernel)
    block = min(lanes, inner)
    data, weight = block_channels(x, block), paired(pack_convolution(w, block, lanes))
    want = convolve(wide(x) * (2 if prologue else 1), wide(w), strides, padding, dilation)
    options: dict[str, Any] = {"prologues": {0: lambda v: v * 2.0}} if prologue else {}
    case = Case("conv2d_nchwc", [Spec(data.shape, "bfloat16"), Spec(weight.shape, "bfloat16")],
                Spec((1, -(-out // lanes), *want.shape[2:], lanes)),
                {"strides": strides, "padding": padding, "dilation": dilation, "in_channels": inner, "pad_value": 0}, **options)
    assert_close(unblock_channels(run(case, [data, weight], target), out), want, inner * kernel[0] * kernel[1])


@pytest.mark.parametrize("target", HERE)
@pytest.mark.parametrize("prologue", [False, True])
@pytest.mark.parametrize("name", CONVOLUTIONS)
@pytest.mark.parametrize("group", [2, 4])
def test_convolutions_of_bytes(target: str, prologue: bool, name: str, group: int) -> None:
    """The same integers on every target; padding is a number, and lanes beyond the channels may be anything."""
    inner, out, image, kernel, strides, padding, dilation = CONVOLUTIONS[name]
    lanes = Target.parse(target).lanes("float32")
    x, w = RNG.integers(128, 256, (1, inner, *image), np.uint8), RNG.integers(-128, 128, (out, inner, *kernel), np.int8)
    w[0], x[..., 0, :] = -128, 255
    block = min(lanes, inner + -inner % 4)
    data, weight = block_channels(x, block, 77), paired(pack_convolution(w, block, lanes), group)
    top, left, bottom, right = padding
    padded = np.pad(x ^ 128 if prologue else x, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=9)
    want = convolve(padded, w, strides, (0, 0, 0, 0), dilation)
    options: dict[str, Any] = {"prologues": {0: lambda v: E.binary("xor", v, E.const(128, "uint8", v.lanes))}} if prologue else {}
    case = Case("conv2d_nchwc", [Spec(data.shape, "uint8"), Spec(weight.shape, "int8")],
                Spec((1, -(-out // lanes), *want.shape[2:], lanes), "int32"),
                {"strides": strides, "padding": padding, "dilation": dilation, "in_channels": inner, "pad_value": 9}, **options)
    np.testing.assert_array_equal(unblock_channels(run(case, [data, weight], target), out), want)


@pytest.mark.parametrize("target", HERE)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_convolutions_of_narrow_storage(target: str, dtype: str) -> None:
    lanes = Target.parse(target).lanes("float32")
    x, w = rounded(1, 7, 9, 8, dtype=dtype), rounded(12, 7, 3, 3, dtype=dtype)
    data, weight = block_channels(x, min(7, lanes)), pack_convolution(w, min(7, lanes), lanes)
    want = convolve(wide(x), wide(w), (1, 1), (1, 1, 1, 1), (1, 1))
    case = Case("conv2d_nchwc", [Spec(data.shape, dtype), Spec(weight.shape, dtype)], Spec((1, -(-12 // lanes), 9, 8, lanes)),
                {"strides": (1, 1), "padding": (1, 1, 1, 1), "dilation": (1, 1), "in_channels": 7, "pad_value": 0})
    assert_close(unblock_channels(run(case, [data, weight], target), 12), want, 63)
