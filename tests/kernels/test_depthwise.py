"""Depthwise blocked convolution against NumPy, on odd sizes, at every vector width."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from forge import dims
from forge.dtypes import integer_range
from forge.errors import CompileError
from forge.target import Target, host
from forge.tir import expr as E
from tests.kernels.case import Case, Spec
from tests.kernels.support import (
    IMAGES,
    AnySize,
    assert_close,
    block_channels,
    convolve,
    run,
    targets_here,
    unblock_channels,
)

RNG = np.random.default_rng(7)
# AVX-512 without VNNI, and on machines with AVX-512 AVX2 with the dot products of AVX-512VL.
MORE = ("llvm -mcpu=x86-64-v4", "llvm -mcpu=x86-64-v3 -mattr=+avxvnni -num-cores=2")
BYTE_TARGETS = [*targets_here(), *(t for t in MORE if set(Target.parse(t).features) <= set(host.features()))]

ROWS = {
    # channels, image, kernel, strides, padding, dilation, batch
    "one channel": (1, (5, 6), (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 1),
    "same": (24, (13, 27), (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 2),
    "strided, asymmetric": (40, (14, 22), (3, 3), (2, 2), (0, 0, 1, 1), (1, 1), 1),
    "five": (72, (9, 9), (5, 5), (2, 1), (2, 2, 2, 2), (1, 1), 1),
    "dilated": (16, (12, 30), (3, 3), (1, 1), (2, 2, 2, 2), (2, 2), 1),
    "valid": (3, (8, 40), (3, 2), (1, 1), (0, 0, 0, 0), (1, 1), 1),
    "kernel larger than image": (8, (2, 3), (7, 7), (1, 1), (3, 3, 3, 3), (1, 1), 1),
    "far padding": (8, (4, 4), (1, 1), (1, 1), (3, 2, 2, 3), (1, 1), 1),
}


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def depthwise_case(name: str, target: str, size: tuple[int, int] | None = None, **options: object
                   ) -> tuple[Case, np.ndarray, np.ndarray, np.ndarray]:
    """The case, data, packed weight and plain weight, for images of another ``size``."""
    channels, image, kernel, strides, padding, dilation, batch = ROWS[name]
    image = size or image
    lanes = Target.parse(target).lanes("float32")
    blocks = -(-channels // lanes)
    x, w = normal(batch, channels, *image), normal(channels, 1, *kernel)
    packed = np.zeros((blocks * lanes, *kernel), np.float32)
    packed[:channels] = w[:, 0]
    packed = np.ascontiguousarray(packed.reshape(blocks, lanes, *kernel).transpose(0, 2, 3, 1))
    out = convolve(x, w, strides, padding, dilation, channels).shape[2:]
    attrs = {"strides": strides, "padding": padding, "dilation": dilation, "kernel": kernel, "channels": channels,
             "in_channels": channels}
    case = Case("depthwise_conv2d_nchwc", [Spec((batch, blocks, *image, lanes)), Spec(packed.shape)],
                Spec((batch, blocks, *out, lanes)), attrs, **options)
    return case, x, packed, w


@pytest.mark.parametrize("target", targets_here())
@pytest.mark.parametrize("name", ROWS)
def test_matches_numpy(target: str, name: str) -> None:
    channels, _, _, strides, padding, dilation, _ = ROWS[name]
    case, x, packed, w = depthwise_case(name, target)
    got = run(case, [block_channels(x, packed.shape[-1]), packed], target)
    assert_close(unblock_channels(got, channels), convolve(x, w, strides, padding, dilation, channels), 9)


@pytest.mark.parametrize("target", targets_here())
@pytest.mark.parametrize("name", ROWS)
def test_any_size(target: str, name: str) -> None:
    """One kernel for images of all sizes."""
    channels, _, kernel, strides, padding, dilation, _ = ROWS[name]
    any_size = AnySize(depthwise_case(name, target)[0], target)
    for image in IMAGES:
        if fits(image, kernel, padding, dilation):
            case, x, packed, w = depthwise_case(name, target, image)
            got = any_size.run(case, [block_channels(x, packed.shape[-1]), packed])
            assert_close(unblock_channels(got, channels), convolve(x, w, strides, padding, dilation, channels), 9)


@pytest.mark.parametrize("target", targets_here())
@pytest.mark.parametrize(("channels", "filters"), [(24, 2), (9, 2), (5, 4), (33, 4)])
def test_several_filters_of_each_channel(target: str, channels: int, filters: int) -> None:
    """One kernel for images of all sizes; lanes past the channels are not numbers."""
    lanes, padding = Target.parse(target).lanes("float32"), (1, 1, 1, 1)
    w = normal(channels * filters, 1, 3, 3)
    packed = np.pad(w[:, 0], ((0, -len(w) % lanes), (0, 0), (0, 0)))
    packed = np.ascontiguousarray(packed.reshape(-1, lanes, 3, 3).transpose(0, 2, 3, 1))
    attrs = {"strides": (1, 1), "padding": padding, "dilation": (1, 1), "kernel": (3, 3), "channels": len(w),
             "in_channels": channels}

    def case(image: tuple[int, int]) -> Case:
        operands = [Spec((2, -(-channels // lanes), *image, lanes)), Spec(packed.shape)]
        return Case("depthwise_conv2d_nchwc", operands, Spec((2, len(packed), *image, lanes)), attrs)

    any_size = AnySize(case((5, 5)), target)
    for image in IMAGES:
        x = normal(2, channels, *image)
        got = any_size.run(case(image), [block_channels(x, lanes), packed])
        assert_close(unblock_channels(got, len(w)), convolve(x.repeat(filters, 1), w, (1, 1), padding, (1, 1), len(w)), 9)


def fits(image: tuple[int, int], kernel: tuple[int, int], padding: tuple[int, ...], dilation: tuple[int, int]) -> bool:
    """Whether a window fits into the padded image."""
    return all(image[a] + padding[a] + padding[a + 2] > (kernel[a] - 1) * dilation[a] for a in (0, 1))


@pytest.mark.parametrize("target", targets_here())
def test_prologue_and_epilogue(target: str) -> None:
    """Padding stays 0 under a prologue that moves zero."""
    channels, _, _, strides, padding, dilation, _ = ROWS["same"]
    case, x, packed, w = depthwise_case("same", target, prologues={0: lambda v: v + 2.0},
                                        epilogue=lambda v, _: E.binary("min", E.binary("max", v, 0.0), 6.0))
    got = run(case, [block_channels(x, packed.shape[-1]), packed], target)
    want = np.clip(convolve(x + 2, w, strides, padding, dilation, channels), 0, 6)
    assert_close(unblock_channels(got, channels), want, 9)


def test_unequal_blocks_are_refused() -> None:
    case = Case("depthwise_conv2d_nchwc", [Spec((1, 2, 4, 4, 8)), Spec((1, 3, 3, 16))], Spec((1, 1, 2, 2, 16)),
                {"strides": (1, 1), "padding": (0, 0), "dilation": (1, 1), "channels": 16, "in_channels": 16})
    with pytest.raises(CompileError, match="channel blocks"):
        case.function("llvm")


BYTES = {
    **{name: row for name, row in ROWS.items() if row[5][1] == 1},
    "dilated along columns": (16, (17, 12), (3, 3), (1, 1), (2, 1, 2, 1), (2, 1), 1),
    "five, stride 1": (20, (11, 14), (5, 5), (1, 1), (2, 2, 2, 2), (1, 1), 1),
    "five, strided": (33, (15, 18), (5, 5), (2, 2), (2, 1, 2, 2), (1, 1), 2),
    "seven": (17, (9, 23), (7, 7), (1, 1), (3, 3, 3, 3), (1, 1), 1),
    "four, stride 3": (16, (13, 19), (4, 4), (3, 3), (1, 2, 1, 2), (1, 1), 1),
    "along one axis": (24, (1, 301), (1, 31), (1, 1), (0, 15, 0, 15), (1, 1), 2),
    "more rows of taps than are written out": (8, (14, 9), (11, 3), (1, 1), (5, 1, 5, 1), (1, 1), 1),
    "strips": (16, (5, 900), (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 1),
    "strips of strides": (16, (9, 1203), (5, 5), (2, 2), (2, 2, 2, 2), (1, 1), 1),
    "many rows": (16, (75, 60), (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 1),
    "two columns": (16, (8, 2), (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 1),
    "one tap, strided": (16, (8, 9), (1, 1), (3, 2), (0, 0, 0, 0), (1, 1), 1),
}


def bytes_case(name: str, target: str, group: int, dtype: str = "uint8", pad_value: int = 77,
               size: tuple[int, int] | None = None, **options: object
               ) -> tuple[Case, list[np.ndarray], np.ndarray]:
    """The case, data and packed weight, and the sums."""
    channels, image, kernel, strides, padding, dilation, batch = BYTES[name]
    image = size or image
    lanes = Target.parse(target).lanes("float32")
    blocks, steps = -(-channels // lanes), -(-kernel[1] // group)
    low, high = integer_range(dtype)
    x = RNG.integers(low, high + 1, (batch, channels, *image)).astype(dtype)
    x[0, 0], w = high, RNG.integers(-128, 128, (channels, 1, *kernel)).astype(np.int8)
    w[0] = -128
    packed = np.zeros((blocks * lanes, kernel[0], steps * group), np.int8)
    packed[:channels, :, : kernel[1]] = w[:, 0]
    packed = packed.reshape(blocks, lanes, kernel[0], steps, group).transpose(0, 2, 3, 1, 4)
    (top, left, bottom, right), prologue = padding, options.get("prologues", {0: lambda v: v})[0]  # type: ignore[index]
    whole = np.pad(prologue(x), ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=pad_value)
    want = convolve(whole, w, strides, (0, 0, 0, 0), dilation, channels)
    attrs = {"strides": strides, "padding": padding, "dilation": dilation, "pad_value": pad_value, "kernel_size": kernel,
             "kernel": kernel, "channels": channels, "in_channels": channels}
    data = block_channels(x, lanes, 3)
    case = Case("depthwise_conv2d_nchwc", [Spec(data.shape, dtype), Spec(packed.shape, "int8")],
                Spec((batch, blocks, *want.shape[2:], lanes), "int32"), attrs, **options)  # type: ignore[arg-type]
    return case, [data, np.ascontiguousarray(packed)], want


@pytest.mark.parametrize("target", BYTE_TARGETS)
@pytest.mark.parametrize("name", BYTES)
@pytest.mark.parametrize("group", [2, 4])
def test_sums_of_bytes_are_exact(target: str, name: str, group: int) -> None:
    """The same integers on every target, and nothing is read outside of the data."""
    case, arrays, want = bytes_case(name, target, group)
    np.testing.assert_array_equal(unblock_channels(run(case, arrays, target), BYTES[name][0]), want)


@pytest.mark.parametrize("target", BYTE_TARGETS)
@pytest.mark.parametrize("name", BYTES)
@pytest.mark.parametrize(("group", "typical", "direct"), [(2, 9, True), (4, 256, True), (4, 9, False)])
def test_sums_of_bytes_of_any_size(
    target: str, name: str, group: int, typical: int, direct: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One kernel for images of all sizes, whatever size is typical, with a prologue or without."""
    channels, _, kernel, _, padding, dilation, _ = BYTES[name]
    monkeypatch.setattr(dims, "TYPICAL", typical)
    flipped = {0: lambda v: v ^ 128 if isinstance(v, np.ndarray) else E.binary("xor", v, E.const(128, "uint8", v.lanes))}
    options: dict[str, Any] = {} if direct else {"prologues": flipped}
    any_size = AnySize(bytes_case(name, target, group, **options)[0], target)
    # Rows of each length about the widths of tiles, some of which have code of their own.
    for image in [*IMAGES, *((4, width) for width in range(1, 19))]:
        if fits(image, kernel, padding, dilation):
            case, arrays, want = bytes_case(name, target, group, size=image, **options)
            np.testing.assert_array_equal(unblock_channels(any_size.run(case, arrays), channels), want)


@pytest.mark.parametrize("target", BYTE_TARGETS)
@pytest.mark.parametrize("name", ["same", "strided, asymmetric", "two columns"])
def test_sums_of_16_bits_are_exact(target: str, name: str) -> None:
    case, arrays, want = bytes_case(name, target, 2, "int16", -300)
    np.testing.assert_array_equal(unblock_channels(run(case, arrays, target), BYTES[name][0]), want)


@pytest.mark.parametrize("target", BYTE_TARGETS)
@pytest.mark.parametrize("name", ["same", "five, strided", "two columns"])
@pytest.mark.parametrize("group", [2, 4])
def test_prologue_and_epilogue_of_bytes(target: str, name: str, group: int) -> None:
    """Padding is not in what the prologue applies to."""
    case, arrays, want = bytes_case(name, target, group, prologues={0: lambda v: v ^ 128 if isinstance(v, np.ndarray) else
                                    E.binary("xor", v, E.const(128, "uint8", v.lanes))}, epilogue=lambda v, _: v * 2 + 1)
    np.testing.assert_array_equal(unblock_channels(run(case, arrays, target), BYTES[name][0]), want * 2 + 1)
