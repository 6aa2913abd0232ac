"""Blocked convolutions equal the plain ones, with channel counts that no block divides and junk in padded lanes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from forge import dtypes
from forge.errors import TypeInferenceError
from forge.ops.packed.pairs import paired
from tests.ops.nn_check import check, random, single


def blocked(x: np.ndarray, block: int, junk: float = 0.0) -> np.ndarray:
    n, c, *extents = x.shape
    padded = np.pad(x, ((0, 0), (0, -c % block), *((0, 0) for _ in extents)), constant_values=junk)
    return np.ascontiguousarray(np.moveaxis(padded.reshape(n, -1, block, *extents), 2, -1))


def packed(w: np.ndarray, inner: int, outer: int) -> np.ndarray:
    return check("layout_transform", [w], src_layout="OIHW", dst_layout=f"OIHW{inner}i{outer}o")


@pytest.mark.parametrize("channels", [1, 3, 8, 12])
def test_blocked_equals_plain(channels: int) -> None:
    x, w = random(2, channels, 6, 5), random(10, channels, 3, 3, seed=1)
    expected = check("nn.conv2d", [x, w], padding=(1, 1), strides=(2, 1))
    inner = min(4, channels)
    got = check("nn.contrib_conv2d_NCHWc", [blocked(x, inner, np.nan), packed(w, inner, 4)], padding=(1, 1), strides=(2, 1),
                channels=10, in_channels=channels, kernel_size=(3, 3))
    plain = check("layout_transform", [got], src_layout="NCHW4c", dst_layout="NCHW", channels=10)
    np.testing.assert_allclose(plain, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("channels", [1, 6])
def test_blocked_volumes_equal_plain_ones(channels: int) -> None:
    x, w = random(2, channels, 4, 6, 5), random(10, channels, 2, 3, 3, seed=1)
    window: dict[str, Any] = {"padding": (1, 1, 1, 0, 1, 2), "strides": (1, 2, 1), "dilation": (2, 1, 1)}
    expected = check("nn.conv3d", [x, w], **window)
    inner = min(4, channels)
    weight = check("layout_transform", [w], src_layout="OIDHW", dst_layout=f"OIDHW{inner}i4o")
    shapes = [("n", -(-channels // inner), "d", "h", "w", inner), None]
    got = check("nn.contrib_conv3d_NCDHWc", [blocked(x, inner, np.nan), weight], shapes, channels=10, in_channels=channels,
                **window)
    plain = check("layout_transform", [got], src_layout="NCDHW4c", dst_layout="NCDHW", channels=10)
    np.testing.assert_allclose(plain, expected, rtol=1e-5, atol=1e-5)


def test_weights_in_pairs() -> None:
    x = blocked(random(1, 6, 6, 5), 4, np.nan).astype(dtypes.numpy_dtype("bfloat16"))
    w = packed(random(5, 6, 3, 3, seed=1), 4, 4).astype(x.dtype)
    attributes: dict[str, Any] = {"padding": (1, 1), "channels": 5, "in_channels": 6}
    expected = check("nn.contrib_conv2d_NCHWc", [x, w], **attributes)
    assert np.array_equal(check("nn.contrib_conv2d_NCHWc", [x, paired(w)], **attributes)[..., :1], expected[..., :1])
    with pytest.raises(TypeInferenceError, match="rank 6"):
        single("nn.contrib_conv2d_NCHWc", [x.astype(np.float32), paired(w).astype(np.float32)], **attributes)


@pytest.mark.parametrize("channels", [4, 6])
def test_blocked_depthwise_equals_plain(channels: int) -> None:
    x, w = random(1, channels, 6, 5), random(channels, 1, 3, 3, seed=1)
    expected = check("nn.conv2d", [x, w], padding=(1, 1), strides=(2, 1), groups=channels)
    weight = check("layout_transform", [w.reshape(channels, 3, 3)], src_layout="CHW", dst_layout="CHW4c")
    got = check("nn.contrib_depthwise_conv2d_NCHWc", [blocked(x, 4), weight], padding=(1, 1), strides=(2, 1), groups=channels,
                channels=channels, in_channels=channels)
    plain = check("layout_transform", [got], src_layout="NCHW4c", dst_layout="NCHW", channels=channels)
    np.testing.assert_allclose(plain, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("numbers", [(8, 12, 8), (8, 24, 8), (4, 8, 8), (8, 4, 8)])
def test_filters_divide_a_block(numbers: tuple[int, int, int]) -> None:
    groups, channels, in_channels = numbers
    x, w = blocked(random(1, 8, 6, 5), 4), np.ones((-(-channels // 4), 3, 3, 4), np.float32)
    with pytest.raises(TypeInferenceError, match="filters that divide a block"):
        single("nn.contrib_depthwise_conv2d_NCHWc", [x, w], groups=groups, channels=channels, in_channels=in_channels)


def test_symbolic_batch_and_extents() -> None:
    x, w = blocked(random(2, 8, 6, 5), 4), packed(random(4, 8, 3, 3), 4, 4)
    check("nn.contrib_conv2d_NCHWc", [x, w], [("n", 2, "h", "w", 4), None], padding=(1, 1), channels=4, in_channels=8)


def test_true_channels_are_required() -> None:
    x, w = blocked(random(2, 8, 6, 5), 4), packed(random(4, 8, 3, 3), 4, 4)
    with pytest.raises(TypeInferenceError, match="in_channels None"):
        single("nn.contrib_conv2d_NCHWc", [x, w], channels=4)
    with pytest.raises(TypeInferenceError, match="blocks of 9 input channels"):
        single("nn.contrib_conv2d_NCHWc", [x, w], channels=4, in_channels=9)
