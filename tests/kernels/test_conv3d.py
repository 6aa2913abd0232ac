"""Blocked convolution of volumes against NumPy, with sizes known and unknown, at every vector width."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from forge import dims
from forge.kernels.cpu import conv_plan, tiles
from forge.target import Target
from forge.tir import expr as E
from tests.kernels.case import Case, Spec
from tests.kernels.support import (
    EVERY_TARGET,
    AnySize,
    assert_close,
    block_channels,
    convolve,
    pack_convolution,
    run,
    unblock_channels,
)
from tests.kernels.test_winograd import ERRORS, assert_near, transformed

RNG = np.random.default_rng(6)

Sizes = tuple[int, int, int]


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def convolved(x: np.ndarray, w: np.ndarray, strides: Sizes, padding: tuple[int, ...], dilation: Sizes) -> np.ndarray:
    """The sum over the taps along the depth of convolutions of slices."""
    front, top, left, back, bottom, right = padding
    x = np.pad(x, ((0, 0), (0, 0), (max(0, front), max(0, back)), (0, 0), (0, 0)))
    x = x[:, :, max(0, -front) : x.shape[2] - max(0, -back)]
    places = (x.shape[2] - (w.shape[2] - 1) * dilation[0] - 1) // strides[0] + 1
    window = (strides[1:], (top, left, bottom, right), dilation[1:])
    return np.stack([sum(convolve(x[:, :, place * strides[0] + tap * dilation[0]], w[:, :, tap], *window)
                         for tap in range(w.shape[2])) for place in range(places)], axis=2)


@dataclass(frozen=True)
class Row:
    """One convolution: channels, size, kernel, ..."""

    inner: int
    out: int
    volume: Sizes
    kernel: Sizes
    strides: Sizes = (1, 1, 1)
    padding: tuple[int, ...] = (0,) * 6
    dilation: Sizes = (1, 1, 1)
    batch: int = 1
    in_block: int = 0

    @property
    def result(self) -> list[int]:
        padded = (size + before + after for size, before, after in zip(self.volume, self.padding[:3], self.padding[3:]))
        return [(size - (k - 1) * d - 1) // s + 1 for size, k, d, s in zip(padded, self.kernel, self.dilation, self.strides)]

    def case(self, target: str, **options: Any) -> Case:
        o = Target.parse(target).lanes("float32")
        i = self.in_block or min(o, self.inner)
        attrs = {"strides": self.strides, "padding": self.padding, "dilation": self.dilation, "in_channels": self.inner,
                 "pad_value": 0, "kernel": self.kernel}
        return Case("conv3d_ncdhwc", [Spec((self.batch, -(-self.inner // i), *self.volume, i)),
                                      Spec((-(-self.out // o), -(-self.inner // i), *self.kernel, i, o))],
                    Spec((self.batch, -(-self.out // o), *self.result, o)), attrs, **options)

    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        return normal(self.batch, self.inner, *self.volume), normal(self.out, self.inner, *self.kernel)

    def check(self, got: np.ndarray, x: np.ndarray, w: np.ndarray) -> None:
        want = convolved(x, w, self.strides, self.padding, self.dilation)
        assert_close(unblock_channels(got, self.out), want, self.inner * int(np.prod(self.kernel)))


ROWS = {
    "one channel": Row(1, 3, (4, 9, 9), (3, 3, 3), padding=(1,) * 6),
    "three channels, strided": Row(3, 24, (5, 13, 11), (3, 7, 7), (1, 2, 2), (1, 3, 3, 1, 3, 3), batch=2),
    "trimmed last block": Row(24, 40, (3, 13, 13), (3, 3, 3), padding=(1,) * 6, batch=2),
    "all strided, asymmetric": Row(40, 72, (7, 6, 9), (3, 3, 3), (2, 2, 2), (0, 1, 1, 2, 0, 2)),
    "dilated": Row(24, 24, (9, 11, 9), (3, 2, 3), (2, 1, 1), (3, 1, 1, 2, 0, 1), (2, 3, 2)),
    "pointwise": Row(40, 24, (3, 4, 5), (1, 1, 1)),
    "pointwise, strided": Row(16, 24, (5, 4, 7), (1, 1, 1), (2, 2, 2)),
    "flat": Row(16, 24, (4, 9, 6), (1, 3, 3), padding=(0, 1, 1, 0, 1, 1)),
    "deep": Row(24, 16, (6, 4, 5), (3, 1, 1), padding=(1, 0, 0, 1, 0, 0)),
    "deep, cropped": Row(24, 16, (9, 4, 5), (3, 1, 1), padding=(-1, 0, 0, -2, 0, 0)),
    "only padding under some": Row(8, 8, (1, 5, 4), (2, 3, 3), padding=(3, 1, 1, 2, 1, 1)),
    "weights in chunks": Row(248, 24, (2, 5, 4), (3, 3, 3), (1, 1, 1), (1,) * 6),
    "narrow block": Row(3, 16, (4, 6, 5), (2, 3, 3), padding=(1, 1, 1, 0, 1, 1), in_block=4),
}


@EVERY_TARGET
@pytest.mark.parametrize("name", ROWS)
def test_matches_numpy(target: str, name: str) -> None:
    row = ROWS[name]
    case, (x, w) = row.case(target), row.arrays()
    i, o = case.operands[0].shape[-1], case.result.shape[-1]
    row.check(run(case, [block_channels(x, i), pack_convolution(w, i, o)], target), x, w)


VOLUMES = ((1, 1, 1), (2, 3, 5), (5, 1, 7), (13, 7, 2), (3, 29, 40), (0, 4, 4), (4, 0, 4))


@EVERY_TARGET
@pytest.mark.parametrize("name", ROWS)
def test_any_size(target: str, name: str) -> None:
    """One kernel for volumes of all sizes."""
    row = ROWS[name]
    case = row.case(target)
    kernel, (i, o) = AnySize(case, target), (case.operands[0].shape[-1], case.result.shape[-1])
    for volume in (*VOLUMES, row.volume):
        other = replace(row, volume=volume)
        if min(other.result) < 1:
            continue
        x, w = other.arrays()
        other.check(kernel.run(other.case(target), [block_channels(x, i), pack_convolution(w, i, o)]), x, w)


@pytest.mark.parametrize("name", ["trimmed last block", "dilated", "pointwise", "three channels, strided"])
def test_with_almost_no_room(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Partial sums over chunks of channels and slices, blocks of columns, of what is computed before."""
    monkeypatch.setattr(conv_plan.tiles, "STACK_LIMIT", 6 << 10)
    row, target = ROWS[name], "llvm -mcpu=x86-64-v3"
    case, (x, w) = row.case(target, prologues={0: lambda v: E.binary("max", v + 1.0, 0.0)}), row.arrays()
    i, o = case.operands[0].shape[-1], case.result.shape[-1]
    row.check(run(case, [block_channels(x, i), pack_convolution(w, i, o)], target), np.maximum(x + 1, 0), w)


def test_bytes_are_padded_with_their_zero_point() -> None:
    """Slices of padding add to the sums where padding is not 0."""
    row = Row(8, 8, (3, 5, 4), (3, 3, 3), padding=(1, 1, 1, 1, 0, 0))
    x, w = RNG.integers(0, 255, (1, 8, *row.volume)), RNG.integers(-9, 9, (8, 8, 3, 3, 3))
    case = Case("conv3d_ncdhwc", [Spec((1, 1, *row.volume, 8), "uint8"), Spec((1, 1, 3, 3, 3, 4, 8, 2), "int8")],
                Spec((1, 1, *row.result, 8), "int32"), {**row.case("llvm").attrs, "pad_value": 7})
    packed = np.swapaxes(pack_convolution(w, 8, 8).reshape(1, 1, 3, 3, 3, 4, 2, 8), -1, -2)
    got = run(case, [block_channels(x, 8, 0), packed], "llvm -mcpu=x86-64-v3")
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 0), (1, 0)), constant_values=7)
    np.testing.assert_array_equal(unblock_channels(got, 8), convolved(padded, w, row.strides, (0,) * 6, row.dilation))


def winograd_case(row: Row, target: str, tile: int, **options: Any) -> Case:
    plain = row.case(target)
    data, weight = plain.operands
    assert data is not None and weight is not None
    out, inner, taps, _, _, i, o = weight.shape
    case = replace(plain, family="conv3d_winograd_ncdhwc", operands=[data, Spec((out, (tile + 2) ** 2, taps, inner, i, o))])
    return replace(case, **options)


def winograd_arrays(row: Row, case: Case, tile: int, x: np.ndarray, w: np.ndarray) -> list[np.ndarray]:
    lanes = case.result.shape[-1]
    assert isinstance(lanes, int)
    filters = np.stack([transformed(w[:, :, tap], lanes, tile) for tap in range(row.kernel[0])], axis=2)
    return [block_channels(x, lanes), filters]


SLICED = {
    # at least as many channels as a vector has lanes
    "same": Row(24, 40, (5, 13, 11), (3, 3, 3), padding=(1,) * 6, batch=2),
    "flat": Row(16, 16, (3, 10, 9), (1, 3, 3), padding=(0, 1, 1, 0, 0, 2)),
    "not padded": Row(32, 16, (6, 9, 12), (3, 3, 3)),
    "strided": Row(16, 24, (9, 6, 8), (3, 3, 3), (2, 1, 1), (1,) * 6),
    "strided past taps": Row(24, 16, (11, 5, 6), (2, 3, 3), (3, 1, 1), (1, 1, 1, 2, 1, 1)),
    "only padding under some": Row(24, 16, (1, 5, 4), (2, 3, 3), padding=(3, 1, 1, 2, 1, 1), batch=2),
    "one slice": Row(48, 16, (1, 6, 5), (3, 3, 3), padding=(1,) * 6),
    "cropped": Row(16, 16, (9, 6, 5), (3, 3, 3), padding=(-1, 1, 1, -2, 1, 1)),
}


def near(row: Row, got: np.ndarray, x: np.ndarray, w: np.ndarray, tile: int) -> None:
    assert_near(unblock_channels(got, row.out), convolved(x, w, row.strides, row.padding, row.dilation), tile)


@EVERY_TARGET
@pytest.mark.parametrize("tile", ERRORS)
@pytest.mark.parametrize("name", SLICED)
def test_winograd_matches_numpy(target: str, name: str, tile: int) -> None:
    row = SLICED[name]
    case, (x, w) = winograd_case(row, target, tile), row.arrays()
    near(row, run(case, winograd_arrays(row, case, tile, x, w), target), x, w, tile)


@EVERY_TARGET
@pytest.mark.parametrize("typical", [1, 256])
@pytest.mark.parametrize("name", SLICED)
def test_winograd_of_any_size(target: str, name: str, typical: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dims, "TYPICAL", typical)
    row = SLICED[name]
    kernel = AnySize(winograd_case(row, target, 4), target)
    for volume in (*VOLUMES, row.volume, (20, 5, 6)):
        other = replace(row, volume=volume)
        if min(other.result) >= 1:
            case, (x, w) = winograd_case(other, target, 4), other.arrays()
            near(other, kernel.run(case, winograd_arrays(other, case, 4, x, w)), x, w, 4)


@EVERY_TARGET
@pytest.mark.parametrize("name", ["same", "strided past taps", "only padding under some"])
def test_small_volumes_take_small_tiles(target: str, name: str) -> None:
    """They read none of the filters for larger ones, which are not numbers here."""
    row = replace(SLICED[name], batch=1)
    kernel = AnySize(winograd_case(row, target, 4), target)
    for volume in ((1, 1, 1), (2, 1, 1), (3, 2, 40), (40, 29, 40)):
        other = replace(row, volume=volume)
        if min(other.result) < 1:
            continue
        case, (x, w) = winograd_case(other, target, 4), other.arrays()
        data, filters = winograd_arrays(other, case, 4, x, w)
        filters[:, 16:] = np.nan
        got = kernel.run(case, [data, filters])
        if volume[0] < 40:
            near(other, got, x, w, 4)
        else:
            assert np.isnan(got).any()


@pytest.mark.parametrize("limit", [24, 80, 400])
def test_winograd_in_small_tasks(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of tiles and runs of slices that do not divide the volume, of what is computed before."""
    monkeypatch.setattr(tiles, "STACK_LIMIT", limit << 10)
    target, row = "llvm -mcpu=x86-64-v3 -num-cores=3", SLICED["same"]
    case = winograd_case(row, target, 4, prologues={0: lambda v: E.binary("max", v + 1.0, 0.0)},
                         epilogue=lambda v, extra: E.binary("max", v, 0.0))
    x, w = row.arrays()
    got = run(case, winograd_arrays(row, case, 4, x, w), target)
    want = convolved(np.maximum(x + 1, 0), w, row.strides, row.padding, row.dilation)
    assert_near(unblock_channels(got, row.out), np.maximum(want, 0))


DEPTHWISE = {
    "same": Row(24, 24, (5, 9, 13), (3, 3, 3), padding=(1,) * 6, batch=2),
    "strided": Row(16, 16, (9, 8, 7), (3, 5, 3), (2, 2, 1), (1, 2, 1, 0, 2, 1)),
    "deep": Row(8, 8, (6, 4, 5), (5, 1, 1), padding=(2, 0, 0, 2, 0, 0)),
    "dilated": Row(40, 40, (7, 6, 9), (2, 3, 3), dilation=(3, 1, 2)),
    "only padding under some": Row(8, 8, (1, 5, 4), (2, 3, 3), padding=(3, 1, 1, 2, 1, 1)),
}


def depthwise_case(row: Row, target: str) -> Case:
    plain = row.case(target)
    data, weight = plain.operands
    assert data is not None and weight is not None
    data = replace(data, shape=(row.batch, weight.shape[0], *row.volume, weight.shape[-1]))
    taps = Spec((weight.shape[0], *row.kernel, weight.shape[-1]))
    return replace(plain, family="depthwise_conv3d_ncdhwc", operands=[data, taps], attrs={**plain.attrs, "channels": row.inner})


@EVERY_TARGET
@pytest.mark.parametrize("name", DEPTHWISE)
def test_depthwise(target: str, name: str) -> None:
    """With sizes known, and one kernel for volumes of all sizes."""
    row = DEPTHWISE[name]
    kernel = AnySize(depthwise_case(row, target), target)
    for volume in (row.volume, *VOLUMES):
        other = replace(row, volume=volume)
        if min(other.result) < 1:
            continue
        case, x, w = depthwise_case(other, target), normal(row.batch, row.inner, *volume), normal(row.inner, 1, *row.kernel)
        lanes = case.result.shape[-1]
        packed = pack_convolution(w, 1, lanes).squeeze((1, 5))
        want = np.concatenate([convolved(x[:, c : c + 1], w[c : c + 1], row.strides, row.padding, row.dilation)
                               for c in range(row.inner)], axis=1)
        results = [kernel.run(case, [block_channels(x, lanes, 0), packed])]
        if volume == row.volume:
            results.append(run(case, [block_channels(x, lanes, 0), packed], target))
        for got in results:
            assert_close(unblock_channels(got, row.inner), want, int(np.prod(row.kernel)))
