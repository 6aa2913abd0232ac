"""Direct blocked convolution against NumPy, on odd sizes, at every vector width."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from forge import dims
from forge.driver import check_options, compile_module
from forge.ir.builder import Builder
from forge.ir.graph import Module
from forge.ir.types import TensorType
from forge.kernels.cpu import conv2d, conv_plan, tiles
from forge.kernels.cpu.conv_plan import tail_widths
from forge.loops.dots import Group
from forge.target import Target
from forge.tir import expr as E
from forge.tir.printer import print_function
from tests.codegen.compiled import build
from tests.kernels.case import Case, Spec
from tests.kernels.support import (
    IMAGES,
    AnySize,
    assert_close,
    block_channels,
    convolve,
    guarded,
    pack_convolution,
    run,
    targets_here,
    unblock_channels,
)

RNG = np.random.default_rng(5)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


@dataclass(frozen=True)
class Row:
    """One convolution: channels, size, kernel, ..."""

    inner: int
    out: int
    image: tuple[int, int]
    kernel: tuple[int, int]
    strides: tuple[int, int] = (1, 1)
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilation: tuple[int, int] = (1, 1)
    batch: int = 1
    in_block: int = 0
    out_block: int = 0

    def case(self, target: str, batch: Any = None, **options: Any) -> Case:
        lanes = Target.parse(target).lanes("float32")
        i, o = self.in_block or min(lanes, self.inner), self.out_block or lanes
        out_shape = [self.output(axis) for axis in (0, 1)]
        n = self.batch if batch is None else batch
        return Case("conv2d_nchwc", [Spec((n, -(-self.inner // i), *self.image, i)),
                                     Spec((-(-self.out // o), -(-self.inner // i), *self.kernel, i, o))],
                    Spec((n, -(-self.out // o), *out_shape, o)),
                    {"strides": self.strides, "padding": self.padding, "dilation": self.dilation, "in_channels": self.inner,
                     "pad_value": 0, "kernel": self.kernel},
                    **options)

    def output(self, axis: int) -> int:
        padded = self.image[axis] + self.padding[axis] + self.padding[axis + 2]
        return (padded - (self.kernel[axis] - 1) * self.dilation[axis] - 1) // self.strides[axis] + 1

    def check(self, target: str, case: Case, before: Any = None, after: Any = None, extras: tuple[np.ndarray, ...] = ()) -> None:
        x, w = normal(self.batch, self.inner, *self.image), normal(self.out, self.inner, *self.kernel)
        i, o = case.operands[0].shape[-1], case.result.shape[-1]
        got = run(case, [block_channels(x, i), pack_convolution(w, i, o), *extras], target)
        want = convolve(x if before is None else before(x), w, self.strides, self.padding, self.dilation)
        want = want if after is None else after(want)
        assert_close(unblock_channels(got, self.out), want, self.inner * self.kernel[0] * self.kernel[1])


ROWS = {
    "one channel": Row(1, 3, (9, 9), (3, 3), padding=(1, 1, 1, 1)),
    "image": Row(3, 24, (23, 21), (7, 7), (2, 2), (3, 3, 3, 3), batch=2),
    "trimmed last block": Row(24, 40, (13, 13), (3, 3), padding=(1, 1, 1, 1)),
    "trimmed, strided, asymmetric": Row(40, 72, (11, 15), (3, 3), (2, 2), (0, 1, 2, 1)),
    "dilated": Row(72, 24, (17, 19), (3, 2), (1, 1), (2, 1, 1, 0), (2, 3)),
    "pointwise": Row(72, 40, (7, 7), (1, 1)),
    "pointwise strided": Row(32, 32, (9, 10), (1, 1), (2, 2), batch=3),
    "one by one image": Row(40, 24, (1, 1), (1, 1)),
    "valid": Row(16, 16, (6, 29), (3, 3)),
    "row kernel": Row(16, 32, (5, 31), (1, 7), padding=(0, 3, 0, 3)),
    "column kernel": Row(16, 32, (31, 5), (7, 1), padding=(3, 0, 3, 0)),
    "rows of results on padding only": Row(8, 24, (5, 9), (4, 3), (2, 1), (14, 1, 15, 1), (4, 1)),
    "channels in one narrow block": Row(3, 16, (8, 8), (3, 3), padding=(1, 1, 1, 1), in_block=4, out_block=16),
    "wide blocks": Row(32, 64, (10, 10), (3, 3), padding=(1, 1, 1, 1), in_block=16, out_block=32),
    "weights in chunks": Row(632, 40, (6, 7), (3, 3), (2, 2), (1, 1, 1, 1)),
    "weights in chunks, dilated": Row(500, 72, (7, 9), (3, 5), padding=(2, 2, 2, 2), dilation=(2, 1), batch=2),
    "kernel larger than image": Row(8, 8, (2, 3), (5, 5), padding=(2, 2, 2, 2)),
}


@pytest.mark.parametrize("target", targets_here())
@pytest.mark.parametrize("name", ROWS)
def test_matches_numpy(target: str, name: str) -> None:
    row = ROWS[name]
    row.check(target, row.case(target))


def test_long_rows_are_computed_in_parts() -> None:
    """All channels of a part, rather than all of a row and sums of some channels that wait for the others."""
    row = Row(80, 32, (1, 1500), (1, 3), padding=(0, 1, 0, 1))
    assert "partial" not in print_function(row.case("llvm").function("llvm -l2-cache=262144"))
    row.check("llvm -l2-cache=262144", row.case("llvm"))


@pytest.mark.parametrize("target", targets_here())
@pytest.mark.parametrize("name", ["trimmed last block", "image", "pointwise", "weights in chunks"])
def test_prologue_and_epilogue(target: str, name: str) -> None:
    """relu(x + 1) before (padding stays 0), bias, residual and relu after."""
    row = ROWS[name]
    lanes = Target.parse(target).lanes("float32")
    blocks = -(-row.out // lanes)
    shape = (row.batch, blocks, row.output(0), row.output(1), lanes)
    bias, residual = normal(blocks, 1, 1, lanes), normal(*shape)
    case = row.case(target, prologues={0: lambda v: E.binary("max", v + 1.0, 0.0)},
                    epilogue=lambda v, extra: E.binary("max", v + extra(0) + extra(1), 0.0),
                    extras=[Spec(bias.shape), Spec(shape)])
    added = unblock_channels(np.broadcast_to(bias, shape), row.out) + unblock_channels(residual, row.out)
    row.check(target, case, lambda x: np.maximum(x + 1, 0), lambda y: np.maximum(y + added, 0), (bias, residual))


@pytest.mark.parametrize("target", targets_here())
@pytest.mark.parametrize("kernel", [1, 3])
def test_a_prime_number_of_vectors(target: str, kernel: int) -> None:
    """The last group has fewer vectors than the others: at one size, at any size, and with sums in parts."""
    lanes, pad = Target.parse(target).lanes("float32"), kernel // 2
    row = Row(2 * lanes, 11 * lanes, (12, 13), (kernel, kernel), padding=(pad, pad, pad, pad))
    row.check(target, row.case(target))
    kernel_of_all = AnySize(row.case(target), target)
    w = normal(row.out, row.inner, *row.kernel)
    packed = pack_convolution(w, lanes, lanes)
    for image in IMAGES:
        x = normal(row.batch, row.inner, *image)
        got = kernel_of_all.run(replace(row, image=image).case(target), [block_channels(x, lanes), packed])
        want = convolve(x, w, row.strides, row.padding, row.dilation)
        assert_close(unblock_channels(got, row.out), want, row.inner * kernel**2)


@pytest.mark.parametrize("size", [1, 5])
def test_groups_of_a_prime_number_of_vectors(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With 16 registers one vector at a time is slow: two, and one at the end; in small parts too."""
    target = "llvm -mcpu=x86-64-v3"
    row = Row(size * 128, 88, (12, 14), (3, 3), padding=(1, 1, 1, 1))
    plan = conv_plan.plan_convolution(conv2d._problem(row.case(target).call(target), None))
    assert plan.vectors > 1
    assert plan.rest is not None
    row.check(target, row.case(target))
    monkeypatch.setattr(conv_plan.tiles, "STACK_LIMIT", 6 << 10)
    row.check(target, row.case(target))


def test_symbolic_batch() -> None:
    n = E.var("n")
    row = ROWS["trimmed last block"]
    case = row.case("llvm", batch=n, symbols=(n,))
    kernel = build(case.function("llvm"), "llvm")
    lanes = case.result.shape[-1]
    w = normal(row.out, row.inner, *row.kernel)
    for batch in (1, 3):
        x = normal(batch, row.inner, *row.image)
        y = guarded(np.zeros((batch, *(int(d) for d in case.result.shape[1:])), np.float32))
        kernel(guarded(block_channels(x, lanes)), guarded(pack_convolution(w, lanes, lanes)), y, batch)
        assert_close(unblock_channels(y, row.out), convolve(x, w, row.strides, row.padding, row.dilation), row.inner * 9)


@pytest.mark.parametrize("name", ["trimmed last block", "dilated", "pointwise", "image"])
def test_small_patch_splits_channels_columns_and_groups(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With almost no room for the patch: partial sums over chunks of channels, blocks of columns."""
    monkeypatch.setattr(conv_plan.tiles, "STACK_LIMIT", 6 << 10)
    row = ROWS[name]
    case = row.case("llvm -mcpu=x86-64-v3", prologues={0: lambda v: v + 1.0})
    row.check("llvm -mcpu=x86-64-v3", case, lambda x: x + 1)


def test_integers_and_float64() -> None:
    row = Row(16, 16, (6, 7), (3, 3), padding=(1, 1, 1, 1))
    x = RNG.integers(-3, 4, (1, 16, *row.image))
    w = RNG.integers(-3, 4, (16, 16, 3, 3))
    for dtype, result in (("int8", "int32"), ("float64", "float64"), ("float16", "float32")):
        case = Case("conv2d_nchwc", [Spec((1, 1, *row.image, 16), dtype), Spec((1, 1, 3, 3, 16, 16), dtype)],
                    Spec((1, 1, 6, 7, 16), result), row.case("llvm").attrs)
        got = run(case, [block_channels(x, 16, 0), pack_convolution(w, 16, 16)], "llvm")
        np.testing.assert_array_equal(unblock_channels(got, 16), convolve(x, w, (1, 1), row.padding, (1, 1)))


ANY_SIZE = {name: row for name, row in ROWS.items() if name not in ("one by one image", "kernel larger than image")}


@pytest.mark.parametrize("target", targets_here())
@pytest.mark.parametrize("name", ANY_SIZE)
def test_any_size(target: str, name: str) -> None:
    """One kernel for images of all sizes."""
    row = ANY_SIZE[name]
    x, w = normal(row.batch, row.inner, *row.image), normal(row.out, row.inner, *row.kernel)
    case = row.case(target)
    i, o = case.operands[0].shape[-1], case.result.shape[-1]
    kernel, packed = AnySize(case, target), pack_convolution(w, i, o)
    for image in IMAGES:
        small = replace(row, image=image)
        if min(small.output(0), small.output(1)) < 1:
            continue
        x = normal(row.batch, row.inner, *image)
        got = kernel.run(small.case(target), [block_channels(x, i), packed])
        assert_close(unblock_channels(got, row.out), convolve(x, w, row.strides, row.padding, row.dilation),
                     row.inner * row.kernel[0] * row.kernel[1])


@pytest.mark.parametrize("target", targets_here())
def test_partial_sums_of_any_width(target: str) -> None:
    """Tiles that reach over the end of a row of partial sums leave the next one as it is."""
    row = Row(512, 64, (3, 256), (3, 3), padding=(1, 1, 1, 1))
    w = normal(row.out, row.inner, *row.kernel)
    case = row.case(target)
    i, o = case.operands[0].shape[-1], case.result.shape[-1]
    kernel, packed = AnySize(case, target), pack_convolution(w, i, o)
    for width in (9, 12, 25, 127, 128, 255, 256, 259):
        x = normal(1, row.inner, 3, width)
        got = kernel.run(replace(row, image=(3, width)).case(target), [block_channels(x, i), packed])
        assert_close(unblock_channels(got, row.out), convolve(x, w, row.strides, row.padding, row.dilation), row.inner * 9)


@pytest.mark.parametrize("typical", [1, 5, 2000])
def test_any_size_with_almost_no_room(typical: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Partial sums, and blocks of columns, whatever size is typical."""
    monkeypatch.setattr(conv_plan.tiles, "STACK_LIMIT", 6 << 10)
    monkeypatch.setattr(dims, "TYPICAL", typical)
    for name in ("trimmed last block", "dilated", "pointwise", "image"):
        test_any_size("llvm -mcpu=x86-64-v3", name)


@pytest.mark.parametrize("target", targets_here())
def test_bytes_of_any_width(target: str) -> None:
    """What is left of a row goes to the narrowest tile that holds it."""
    b = Builder()
    x = b.input(TensorType((1, 24, dims.symbol("h"), dims.symbol("w")), "uint8"), "x")
    weight = RNG.integers(-60, 60, (40, 24, 3, 3)).astype(np.int8)
    data, kernel = (b.call("cast", v, dtype="int32") for v in (x, b.constant(weight)))
    graph = b.output(b.call("nn.conv2d", data, kernel, padding=(1, 1)))
    runtime = compile_module(Module(graph), check_options(target)).runtime()
    for width in range(1, 18):
        codes = RNG.integers(0, 256, (1, 24, 3, width)).astype(np.uint8)
        got = np.asarray(runtime(codes))
        np.testing.assert_array_equal(got, convolve(codes.astype(np.int64), weight, (1, 1), (1, 1, 1, 1), (1, 1)))


def test_tiles_of_bytes_have_a_width_between() -> None:
    assert tail_widths(Group.of("int8", 4, "int32"), 8, 2) == [4, 6, 7]
    assert tail_widths(Group.of("float32", 1, "float32"), 8, 2) == tiles.tails(8, 2)


def test_tiles_that_take_a_whole_one_and_the_rest_fit_into_the_registers() -> None:
    floats = Group.of("float32", 1, "float32")
    assert tail_widths(floats, 8, 3, 9) == [3, 6, 7, 9]
    assert tail_widths(floats, 8, 2, 14) == tiles.tails(8, 2)
    assert tail_widths(floats, 1, 2, 14) == []


@pytest.mark.parametrize("target", targets_here())
@pytest.mark.parametrize("has_rows", [False, True])
def test_one_tap_of_any_size(target: str, has_rows: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of an image are one, unless what is added to it has others."""
    known = list[bool]()

    def note(problem: conv_plan.ConvProblem, kernel: str = "") -> conv_plan.ConvPlan:
        known.append(problem.window.height.is_known)
        return conv_plan.plan_convolution(problem, kernel)

    monkeypatch.setattr(conv2d, "plan_convolution", note)
    h, w, b = dims.symbol("h"), dims.symbol("w"), Builder()
    x = b.input(TensorType((2, 24, h, w), "float32"), "x")
    y = b.input(TensorType((1, 1, h, 1) if has_rows else (1, 1, 1, 1), "float32"), "y")
    first, second = normal(40, 24, 1, 1), normal(40, 40, 1, 1)
    inner = b.call("nn.relu", b.call("add", b.call("nn.conv2d", x, b.constant(first)), y))
    graph = b.output(b.call("add", b.call("nn.conv2d", inner, b.constant(second)), inner))
    runtime = compile_module(Module(graph), check_options(target)).runtime()
    assert True in known and (False in known) is has_rows
    for height, width in ((1, 1), (7, 9), (10, 10), (37, 41), (3, 160)):
        data, more = normal(2, 24, height, width), normal(*((1, 1, height, 1) if has_rows else (1, 1, 1, 1)))
        sums = np.maximum(np.einsum("nihw,oi->nohw", data, first[:, :, 0, 0]) + more, 0)
        expected = np.einsum("nihw,oi->nohw", sums, second[:, :, 0, 0]) + sums
        np.testing.assert_allclose(np.asarray(runtime(data, more)), expected, rtol=1e-4, atol=1e-3)


def test_tiles_of_joined_rows_suit_whole_images(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the rows of an image are one, 7x7 or 14x14 positions are few tiles and none almost empty."""
    plans = list[conv_plan.ConvPlan]()

    def note(problem: conv_plan.ConvProblem, kernel: str = "") -> conv_plan.ConvPlan:
        plans.append(conv_plan.plan_convolution(problem, kernel))
        return plans[-1]

    monkeypatch.setattr(conv2d, "plan_convolution", note)
    h, w, b = dims.symbol("h"), dims.symbol("w"), Builder()
    x = b.input(TensorType((1, 512, h, w), "float32"), "x")
    graph = b.output(b.call("nn.conv2d", x, b.constant(normal(512, 512, 1, 1))))
    compile_module(Module(graph), check_options("llvm -mcpu=skylake-avx512"))
    assert plans and all(plan.joined and plan.tile_width == 14 for plan in plans)


@pytest.mark.parametrize("target", targets_here())
@pytest.mark.parametrize(("kernel", "dilation", "stride"), [(7, 1, 1), (7, 3, 1), (5, 1, 2)])
def test_narrow_images_leave_out_taps_on_padding(target: str, kernel: int, dilation: int, stride: int) -> None:
    reach = dilation * (kernel // 2)
    row = Row(40, 48, (1, 256), (1, kernel), strides=(1, stride), padding=(0, reach, 0, reach), dilation=(1, dilation))
    w = normal(row.out, row.inner, 1, kernel)
    case = row.case(target)
    i, o = case.operands[0].shape[-1], case.result.shape[-1]
    shared = AnySize(case, target)
    centre = np.where(np.arange(kernel) == kernel // 2, w, np.float32("nan"))
    for width in (1, 2, 3, 5, 9, 29):
        x, weight = normal(1, row.inner, 1, width), centre if width == 1 else w
        got = shared.run(replace(row, image=(1, width)).case(target), [block_channels(x, i), pack_convolution(weight, i, o)])
        expected = convolve(x, np.nan_to_num(weight), row.strides, row.padding, row.dilation)
        assert_close(unblock_channels(got, row.out), expected, row.inner * kernel)
