"""Products with weights of few bits in blocks: sums of a block are exact integers, or those of float32."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from forge.kernels.cpu import micro
from forge.kernels.layouts import CpuLayouts
from forge.loops.dots import Group
from forge.ops.packed.blocks import packed_codes
from forge.target import Target
from forge.target.isa import Isa
from forge.tir.expr import Expr
from tests.kernels.case import Case, Spec
from tests.kernels.support import TARGETS, assert_close, run, targets_here

RNG = np.random.default_rng(17)
AVX512 = "llvm -mcpu=x86-64-v4"
HERE = [*targets_here(), *([AVX512] if TARGETS[0] in targets_here() and Target.parse("llvm").has("avx512vl") else [])]
SIZES = [
    ((1,), 64, 100, 32), ((13,), 96, 50, 16), ((2, 3, 5), 256, 48, 256), ((29,), 32, 3, 32), ((300,), 64, 40, 16),
    ((), 64, 5, 32), ((3,), 160, 20, 80)
]
CODES = [(2, True), (4, False), (4, True), (8, False)]
"""Bits, and whether there are zero points."""


def in_panels(v: np.ndarray, panel: int) -> np.ndarray:
    padded = np.pad(v, ((0, -v.shape[0] % panel), (0, 0)))
    return np.ascontiguousarray(padded.reshape(-1, panel, v.shape[1]).transpose(0, 2, 1))


class Weight:
    """Random codes with scales, which are powers of two, and zero points."""

    def __init__(self, units: int, depth: int, block: int, bits: int, zeros: bool, panel: int) -> None:
        shape = (units, depth // block)
        codes = RNG.integers(0, 1 << bits, (units, depth), np.uint8)
        scale = (2.0 ** RNG.integers(-2, 1, shape)).astype(np.float32)
        zero = RNG.integers(0, 1 << bits, shape).astype(np.uint8)
        origin = zero.astype(np.int64) if zeros else np.full(shape, 1 << (bits - 1))
        self.differences = codes.astype(np.int64) - np.repeat(origin, block, 1)
        self.scale = scale
        self.operands = [packed_codes(codes, bits, panel), in_panels(scale, panel), *([in_panels(zero, panel)] if zeros else [])]
        dtypes = ("uint8", "float32", "uint8")
        self.specs = [Spec(v.shape, dtype) for v, dtype in zip(self.operands, dtypes)] + ([] if zeros else [None])
        self.attrs = {"units": units, "bits": bits, "block_size": block}


@pytest.mark.parametrize("target", HERE)
@pytest.mark.parametrize(("bits", "zeros"), CODES)
@pytest.mark.parametrize(("lead", "depth", "units", "block"), SIZES)
def test_integers(lead: tuple[int, ...], depth: int, units: int, block: int, bits: int, zeros: bool, target: str) -> None:
    """With scales that are powers of two, few blocks and small numbers, floats are exact, too: results are equal."""
    weight = Weight(units, depth, block, bits, zeros, CpuLayouts(Target.parse(target)).blocks_panel(units))
    x = RNG.integers(-127, 128, (*lead, depth), np.int8)
    x[..., :4] = -127
    scale = (2.0 ** RNG.integers(0, 2, (*lead, depth // block))).astype(np.float32)
    prologue = bits == 4 and zeros
    options: dict[str, Any] = {"prologues": {0: lambda v: -v}} if prologue else {}
    operands = [Spec(x.shape, "int8"), Spec(scale.shape), *weight.specs]
    case = Case("dense_blocks_pack", operands, Spec((*lead, units)), weight.attrs,
                epilogue=lambda v, extra: v + extra(0), extras=[Spec((units,))], **options)
    bias = RNG.integers(-9, 9, units).astype(np.float32)
    blocks = (*lead, depth // block, block)
    sums = np.einsum("...bk,nbk->...nb", (-x if prologue else x).astype(np.int64).reshape(blocks),
                     weight.differences.reshape(units, -1, block))
    want = (sums * scale[..., None, :].astype(np.float64) * weight.scale).sum(-1) + bias
    got = run(case, [x, scale, *weight.operands, bias], target)
    assert_close(got, want, depth)
    if bits < 8:
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(("bits", "zeros"), CODES)
def test_another_micro_kernel(monkeypatch: pytest.MonkeyPatch, bits: int, zeros: bool) -> None:
    """A new way of multiplying codes by signed bytes is one class: no line of the kernel knows which one there is."""
    groups: list[Group] = []

    class Counted(micro.DotProduct):
        @staticmethod
        def fits(group: Group, isa: Isa) -> bool:
            return group.dtype == "int8"

        def multiply_add(self, a: Expr, b: Expr, total: Expr) -> Expr:
            groups.append(self.group)
            return super().multiply_add(a, b, total)

    monkeypatch.setattr(micro, "_KINDS", list(micro._KINDS))
    micro.register(Counted)
    test_integers((13,), 96, 50, 16, bits, zeros, HERE[0])
    assert set(groups) == {Group(4, "int8", small=bits < 8)}


@pytest.mark.parametrize("target", HERE)
@pytest.mark.parametrize(("bits", "zeros"), CODES)
@pytest.mark.parametrize(("lead", "depth", "units", "block"), [*SIZES, ((7,), 1024, 40, 128)])
def test_floats(lead: tuple[int, ...], depth: int, units: int, block: int, bits: int, zeros: bool, target: str) -> None:
    dtype = "float32" if zeros else "bfloat16"
    weight = Weight(units, depth, block, bits, zeros, CpuLayouts(Target.parse(target)).blocks_panel(units))
    x = RNG.standard_normal((*lead, depth)).astype(np.float32)
    if dtype == "bfloat16":
        x = x.astype("bfloat16")
    case = Case("dense_blocks_pack", [Spec(x.shape, dtype), None, *weight.specs], Spec((*lead, units)), weight.attrs)
    real = weight.differences * np.repeat(weight.scale, block, 1).astype(np.float64)
    want = x.astype(np.float64) @ real.T
    size = np.abs(x.astype(np.float64)) @ np.abs(real).T
    got = run(case, [x, *weight.operands], target)
    assert np.all(np.abs(got - want) <= depth * 2.0**-23 * size)


RUNS = {
    "one row": [1], "a row for each": [2, 0], "no weight": [-1, 3, 3], "sorted": [0] * 13 + [1] + [2] * 30,
    "several blocks of rows": [*RNG.integers(0, 3, 9), *[1] * 400, *RNG.integers(-1, 4, 50)],
}


@pytest.mark.parametrize("target", HERE)
@pytest.mark.parametrize(("bits", "zeros"), CODES)
@pytest.mark.parametrize("quantized", [False, True])
@pytest.mark.parametrize("index", RUNS.values(), ids=RUNS)
def test_indexed(index: list[int], quantized: bool, bits: int, zeros: bool, target: str) -> None:
    """Rows next to each other with the same index are one product; those of no weight are zero, before the epilogue."""
    depth, units, block, rows = 64, 70, 32, len(index)
    weights = [Weight(units, depth, block, bits, zeros, CpuLayouts(Target.parse(target)).blocks_panel(units)) for _ in range(3)]
    x = RNG.integers(-8, 9, (rows, depth)).astype(np.int8 if quantized else np.float32)
    scale = (2.0 ** RNG.integers(0, 2, (rows, depth // block))).astype(np.float32)
    operands = [np.stack(parts) for parts in zip(*(w.operands for w in weights))]
    specs = [None if s is None else Spec((3, *s.shape), s.dtype) for s in weights[0].specs]
    data = [Spec(x.shape, "int8"), Spec(scale.shape)] if quantized else [Spec(x.shape), None]
    case = Case("indexed_blocks_pack", [*data, *specs, Spec((rows,), "int64")], Spec((rows, units)), weights[0].attrs,
                epilogue=lambda v, extra: v + extra(0), extras=[Spec((units,))])
    bias = RNG.integers(-9, 9, units).astype(np.float32)
    real = x * np.repeat(scale, block, 1).astype(np.float64) if quantized else x.astype(np.float64)
    want = np.tile(bias.astype(np.float64), (rows, 1))
    for row, g in enumerate(index):
        if 0 <= g < 3:
            want[row] += (weights[g].differences * np.repeat(weights[g].scale, block, 1)) @ real[row]
    got = run(case, [x, *([scale] if quantized else []), *operands, np.array(index, np.int64), bias], target)
    assert_close(got, want, depth)
