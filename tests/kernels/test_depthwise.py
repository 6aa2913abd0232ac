"""Depthwise blocked convolution against NumPy, on odd sizes, at every vector width."""

from __future__ import annotations

import numpy as np
import pytest

from forge.errors import CompileError
from forge.target import Target
from forge.tir import expr as E
from tests.kernels.case import Case, Spec
from tests.kernels.support import assert_close, block_channels, convolve, run, targets_here, unblock_channels

RNG = np.random.default_rng(7)

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


def depthwise_case(name: str, target: str, **options: object) -> tuple[Case, np.ndarray, np.ndarray, np.ndarray]:
    """The case, data, packed weight and plain weight."""
    channels, image, kernel, strides, padding, dilation, batch = ROWS[name]
    lanes = Target.parse(target).lanes("float32")
    blocks = -(-channels // lanes)
    x, w = normal(batch, channels, *image), normal(channels, 1, *kernel)
    packed = np.zeros((blocks * lanes, *kernel), np.float32)
    packed[:channels] = w[:, 0]
    packed = np.ascontiguousarray(packed.reshape(blocks, lanes, *kernel).transpose(0, 2, 3, 1))
    out = convolve(x, w, strides, padding, dilation, channels).shape[2:]
    case = Case("depthwise_conv2d_nchwc", [Spec((batch, blocks, *image, lanes)), Spec(packed.shape)],
                Spec((batch, blocks, *out, lanes)), {"strides": strides, "padding": padding, "dilation": dilation}, **options)
    return case, x, packed, w


@pytest.mark.parametrize("target", targets_here())
@pytest.mark.parametrize("name", ROWS)
def test_matches_numpy(target: str, name: str) -> None:
    channels, _, _, strides, padding, dilation, _ = ROWS[name]
    case, x, packed, w = depthwise_case(name, target)
    got = run(case, [block_channels(x, packed.shape[-1]), packed], target)
    assert_close(unblock_channels(got, channels), convolve(x, w, strides, padding, dilation, channels), 9)


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
                {"strides": (1, 1), "padding": (0, 0), "dilation": (1, 1)})
    with pytest.raises(CompileError, match="channel blocks"):
        case.function("llvm")
