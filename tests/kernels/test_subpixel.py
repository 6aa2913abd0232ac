"""Convolutions and products whose output channels are pixels, against transposed convolutions and those of volumes, by NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from forge import dtypes
from forge.ops.packed.pairs import paired
from forge.passes.subpixels import Axis, Subpixels
from forge.target import Target
from forge.tir import expr as E
from forge.tir.expr import Expr
from tests.codegen.compiled import build
from tests.kernels.case import Case, Spec
from tests.kernels.support import assert_close, guarded, run, targets_here

RNG = np.random.default_rng(11)


@dataclass(frozen=True)
class Row:
    """A transposed convolution, of each channel on its own where ``out`` is 0; with ``forward`` a convolution of volumes."""

    inner: int
    out: int
    image: tuple[int, ...]
    axes: tuple[Axis, ...]  # size, stride, dilation, padding before and after
    batch: int = 1
    forward: bool = False

    @property
    def channels(self) -> int:
        return self.out or self.inner

    def output(self, image: Sequence[Any]) -> list[Any]:
        if self.forward:
            return [(size + (a.before + a.after - a.reach)) // a.stride + 1 for size, a in zip(image, self.axes)]
        return [(size - 1) * a.stride + (a.reach - a.before - a.after) for size, a in zip(image, self.axes)]

    def weight(self) -> np.ndarray:
        """``[I, O, spatial]``, ``[O, I, spatial]`` of forward ones, ``[C, 1, spatial]`` of single channels."""
        lead = (self.out, self.inner) if self.forward else (self.inner, self.out or 1)
        return normal(*lead, *(a.size for a in self.axes))

    def truth(self, x: np.ndarray, w: np.ndarray) -> np.ndarray:
        """By adding what each tap gives, in float64."""
        x, w = x.astype(np.float64), w.astype(np.float64)
        sizes = self.output(x.shape[2:])
        if self.forward:
            pads = [(0, 0), (0, 0), *((a.before, a.after) for a in self.axes)]
            whole, result = np.pad(x, pads), np.zeros((len(x), self.out, *sizes))
            for tap in product(*(range(a.size) for a in self.axes)):
                window = tuple(slice(t * a.dilation, t * a.dilation + (n - 1) * a.stride + 1, a.stride)
                               for t, a, n in zip(tap, self.axes, sizes))
                result += np.einsum("ni...,oi->no...", whole[(..., *window)], w[(slice(None), slice(None), *tap)])
            return result
        whole = np.zeros((len(x), self.channels, *(n + a.before + max(a.after, 0) for n, a in zip(sizes, self.axes))))
        for tap in product(*(range(a.size) for a in self.axes)):
            window = tuple(slice(t * a.dilation, t * a.dilation + (n - 1) * a.stride + 1, a.stride) if n else slice(0)
                           for t, a, n in zip(tap, self.axes, x.shape[2:]))
            factors = w[(slice(None), slice(None), *tap)]
            whole[(..., *window)] += np.einsum("ni...,io->no...", x, factors) if self.out else (
                x * factors[:, 0].reshape(-1, *(1,) * len(self.axes)))
        return whole[(..., *(slice(a.before, a.before + n) for a, n in zip(self.axes, sizes)))]

    def case(self, target: str, image: Sequence[int | Expr], dtype: str = "float32", **options: Any) -> Case:
        lanes, form, count = Target.parse(target).lanes("float32"), Subpixels(self.axes), len(self.axes)
        block = lanes if self.inner >= lanes or not self.out else self.inner
        attributes = form.attributes
        if self.forward:
            attributes = {"padding": (*(a.before for a in self.axes), *(a.after for a in self.axes)), "phases": (1,) * count,
                          "crop": (0,) * count, "taps": ()}
        steps = [a.stride if self.forward else 1 for a in self.axes]
        attributes |= {"strides": tuple(steps), "dilation": tuple(a.dilation if self.forward else 1 for a in self.axes),
                       "pad_value": 0, "in_channels": self.inner}
        family = {0: "subpixel_depthwise_conv2d_nchwc"}.get(self.out, f"subpixel_conv{count}d_nc{'dhw'[-count:]}c")
        shape = self.pack(np.zeros((self.out, self.inner, *(a.size for a in self.axes)), np.float32) if self.forward else
                          np.zeros((self.inner, self.out or 1, *(a.size for a in self.axes)), np.float32), target).shape
        data = Spec((self.batch, -(-self.inner // block), *image, block), dtype)
        result = Spec((self.batch, -(-self.channels // lanes), *self.output(image), lanes), dtype)
        return Case(family, [data, Spec(shape, dtype)], result, attributes, **options)

    def pack(self, w: np.ndarray, target: str) -> np.ndarray:
        lanes, form = Target.parse(target).lanes("float32"), Subpixels(self.axes)
        filled = self.channels + -self.channels % lanes
        if self.forward:
            kernel = np.pad(w, [(0, filled - self.out), *[(0, 0)] * (w.ndim - 1)])
        else:
            kernel = form.kernel(w if self.out else w.swapaxes(0, 1), filled)
        if not self.out:
            return np.ascontiguousarray(np.moveaxis(kernel.reshape(-1, lanes, *kernel.shape[2:]), 1, -1))
        block = min(lanes, self.inner)
        kernel = np.pad(kernel, [(0, 0), (0, -self.inner % block), *[(0, 0)] * len(self.axes)])
        apart = kernel.reshape(-1, lanes, kernel.shape[1] // block, block, *kernel.shape[2:])
        return np.ascontiguousarray(np.moveaxis(apart, (3, 1), (-2, -1)))


ROWS = {
    "kernel of the stride": Row(24, 24, (5, 7), (Axis(2, 2, 1, 0, 0),) * 2),
    "twice the stride": Row(20, 40, (6, 5), (Axis(4, 2, 1, 1, 1),) * 2, batch=2),
    "taps that differ": Row(16, 16, (7, 6), (Axis(3, 2, 1, 1, 0), Axis(5, 3, 1, 2, 1))),
    "less than the stride": Row(9, 17, (4, 5), (Axis(2, 3, 1, 0, 0), Axis(1, 4, 1, 0, -2))),
    "rows": Row(33, 20, (1, 41), (Axis(1, 1, 1, 0, 0), Axis(16, 8, 1, 4, 4))),
    "dilated": Row(16, 16, (5, 6), (Axis(3, 2, 2, 1, 2), Axis(3, 2, 3, 0, 3))),
    "cropped": Row(3, 16, (6, 7), (Axis(2, 2, 1, 3, 2), Axis(3, 1, 1, 4, 1))),
    "cropped, many channels": Row(5, 40, (6, 7), (Axis(2, 2, 1, 3, 2), Axis(7, 3, 1, 4, 5)), batch=2),
    "cropped at the begin": Row(6, 40, (5, 8), (Axis(4, 2, 1, 1, 0), Axis(5, 3, 1, 2, 3))),
    "each channel": Row(20, 0, (6, 9), (Axis(4, 2, 1, 1, 1), Axis(3, 2, 1, 1, 0)), batch=2),
    "each channel, cropped": Row(20, 0, (6, 9), (Axis(7, 3, 1, 4, 5), Axis(5, 3, 1, 2, 3))),
    "each channel, cropped more": Row(9, 0, (6, 20), (Axis(6, 2, 1, 5, 1), Axis(9, 2, 1, 4, 6))),
    "volume": Row(18, 20, (3, 4, 5), (Axis(2, 2, 1, 0, 0),) * 3),
    "volume, cropped": Row(7, 33, (3, 4, 5), (Axis(4, 2, 1, 1, 1), Axis(4, 2, 1, 3, 1), Axis(6, 3, 1, 2, 4))),
    "volume, taps that differ": Row(20, 16, (3, 4, 5), (Axis(3, 2, 1, 1, 0), Axis(4, 2, 1, 1, 1), Axis(3, 2, 1, 1, 1))),
    "forward": Row(20, 24, (4, 6, 7), (Axis(3, 1, 1, 1, 1),) * 3, batch=2, forward=True),
    "forward, strided": Row(3, 16, (7, 6, 9), (Axis(3, 2, 1, 1, 0), Axis(3, 1, 2, 2, 2), Axis(2, 2, 1, 0, 1)), forward=True),
    "forward, points": Row(32, 8, (4, 5, 6), (Axis(1, 1, 1, 0, 0),) * 3, batch=2, forward=True),
    "forward, along rows": Row(16, 8, (4, 5, 6), (Axis(1, 1, 1, 0, 0), Axis(1, 1, 1, 0, 0), Axis(3, 1, 1, 1, 1)), forward=True),
}


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def blocked(x: np.ndarray, block: int, pad: float = np.nan) -> np.ndarray:
    n, c, *spatial = x.shape
    padded = np.full((n, c + -c % block, *spatial), pad, x.dtype)
    padded[:, :c] = x
    return np.ascontiguousarray(np.moveaxis(padded.reshape(n, -(-c // block), block, *spatial), 2, -1))


def plain(y: np.ndarray, channels: int) -> np.ndarray:
    moved = np.moveaxis(y, -1, 2)
    return moved.reshape(len(y), -1, *moved.shape[3:])[:, :channels]


def depth_of(row: Row) -> int:
    return (row.inner if row.out else 1) * int(np.prod([a.size for a in row.axes]))


@pytest.mark.parametrize("target", targets_here())
@pytest.mark.parametrize("name", ROWS)
def test_matches_numpy(target: str, name: str) -> None:
    row = ROWS[name]
    case, x, w = row.case(target, row.image), normal(row.batch, row.inner, *row.image), row.weight()
    got = run(case, [blocked(x, case.operands[0].shape[-1]), row.pack(w, target)], target)
    assert_close(plain(got, row.channels), row.truth(x, w), depth_of(row))


@pytest.mark.parametrize("target", targets_here())
@pytest.mark.parametrize("name", ["taps that differ", "each channel", "forward", "forward, along rows"])
def test_prologue_and_epilogue(target: str, name: str) -> None:
    """Padding stays 0 under a prologue that moves zero; the epilogue reads at the place in the image."""
    row = ROWS[name]
    case = row.case(target, row.image, prologues={0: lambda v: v + 2.0})
    case = replace(case, extras=[Spec(tuple(case.result.shape))], epilogue=lambda v, read: E.binary("max", v + read(0), 0.0))
    x, w, y = normal(row.batch, row.inner, *row.image), row.weight(), normal(*case.result.shape)
    got = run(case, [blocked(x, case.operands[0].shape[-1]), row.pack(w, target), y], target)
    want = np.maximum(row.truth(x + np.float32(2), w) + plain(y, row.channels), 0)
    assert_close(plain(got, row.channels), want, depth_of(row))


SIZES = (1, 2, 7, 13, 30)


@pytest.mark.parametrize("target", targets_here())
@pytest.mark.parametrize("name", ROWS)
def test_any_size(target: str, name: str) -> None:
    """One kernel for images of all sizes."""
    row = ROWS[name]
    symbols = tuple(E.var(letter) for letter in "dhw"[-len(row.image):])
    kernel = build(replace(row.case(target, symbols), symbols=symbols).function(target), target)
    images = {row.image, *((size,) * len(row.image) for size in SIZES), (0, *row.image[1:]), (*row.image[:-1], 101)}
    for image in sorted(images):
        if min(row.output(image)) < 1:
            continue
        case, x, w = row.case(target, image), normal(row.batch, row.inner, *image), row.weight()
        result = guarded(np.full(tuple(map(int, case.result.shape)), 77, np.float32))
        kernel(guarded(blocked(x, case.operands[0].shape[-1])), guarded(row.pack(w, target)), result, *image)
        assert_close(plain(result, row.channels), row.truth(x, w), depth_of(row))


@pytest.mark.parametrize("target", targets_here())
@pytest.mark.parametrize(("inner", "outer", "phases"), [(24, 6, (2, 2)), (3, 5, (1, 3)), (7, 1, (3, 1)), (5, 2, (1, 8))])
def test_product(target: str, inner: int, outer: int, phases: tuple[int, int]) -> None:
    """Windows side by side in the usual layout, of known widths and of any."""
    weight = normal(inner, outer * phases[0] * phases[1])
    n, h, w = (E.var(letter) for letter in "nhw")

    def case(n: int | Expr, h: int | Expr, w: int | Expr, **options: Any) -> Case:
        result = Spec((n, outer, h * phases[0], w * phases[1]))
        return Case("subpixel_product", [Spec((n, inner, h, w)), Spec(weight.shape)], result, {"phases": phases}, **options)

    any_size = build(case(n, h, w, symbols=(n, h, w)).function(target), target)
    empty = ((1, 1, 0), (1, 0, 5), (0, 1, 4))
    for size in ((1, 3, 1), (2, 2, 7), (1, 1, 16), (1, 2, 37), (1, 2, 53), (2, 1, 101), (1, 1, 128), *empty):
        x = normal(size[0], inner, *size[1:])
        columns = weight.astype(np.float64).reshape(inner, outer, *phases)
        apart = np.einsum("ncyx,coij->noyixj", x.astype(np.float64), columns)
        want = apart.reshape(size[0], outer, size[1] * phases[0], size[2] * phases[1])
        result = guarded(np.full(want.shape, 77, np.float32))
        any_size(guarded(x), guarded(weight), result, *size)
        assert_close(result, want, inner)
        if size[2] in (1, 37, 128):
            assert_close(run(case(*size), [x, weight], target), want, inner)
            shifted = case(*size, extras=[Spec(want.shape)], epilogue=lambda v, read: E.binary("max", v + read(0), 0.0))
            more = normal(*want.shape)
            assert_close(run(shifted, [x, weight, more], target), np.maximum(want + more, 0), inner)


@pytest.mark.parametrize("name", ["twice the stride", "taps that differ", "volume", "forward"])
def test_bytes(name: str) -> None:
    """Sums of products of bytes, whose weights are in groups."""
    row = ROWS[name]
    row = replace(row, inner=row.inner + -row.inner % 16)
    x = RNG.integers(0, 256, (row.batch, row.inner, *row.image)).astype(np.uint8)
    w = RNG.integers(-127, 128, row.weight().shape).astype(np.int8)
    for target in targets_here():
        group = 4 if Target.parse(target).has("avx512vnni") or Target.parse(target).has("avxvnni") else 2
        packed = np.ascontiguousarray(paired(row.pack(w, target), group))
        case = row.case(target, row.image)
        operands = [replace(case.operands[0], dtype="uint8"), Spec(packed.shape, "int8")]
        case = replace(case, operands=operands, result=replace(case.result, dtype="int32"))
        got = run(case, [blocked(x, case.operands[0].shape[-1], 255), packed], target)
        np.testing.assert_array_equal(plain(got, row.channels), row.truth(x, w))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", ["twice the stride", "each channel", "forward, points", "forward"])
def test_halves(dtype: str, name: str) -> None:
    """Summed in float32."""
    row, kind = ROWS[name], dtypes.numpy_dtype(dtype)
    x, w = (v.astype(kind).astype(np.float32) for v in (normal(row.batch, row.inner, *row.image), row.weight()))
    for target in targets_here():
        case = row.case(target, row.image, dtype)
        got = run(case, [blocked(x.astype(kind), case.operands[0].shape[-1]), row.pack(w, target).astype(kind)], target)
        want = row.truth(x, w).astype(np.float32)
        np.testing.assert_allclose(plain(got, row.channels).astype(np.float32), want.astype(kind).astype(np.float32),
                                   rtol=2.0 ** (-9 if dtype == "float16" else -6), atol=4e-6 * np.abs(want).max())
