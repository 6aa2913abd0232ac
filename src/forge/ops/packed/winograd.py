"""3x3 convolution on blocked channels with filters in the Winograd domain, which a target-dependent pass produces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from forge import dtypes
from forge.dims import ceildiv, product
from forge.ops.core.inference import fail
from forge.ops.core.op import register
from forge.ops.core.signatures import Array, Arrays, Dim, TensorType, TensorTypes, Value
from forge.ops.core.window_geometry import Window, windows
from forge.ops.packed.convolution import Conv2DNCHWc, Conv3DNCDHWc

FILTER_TRANSFORM = np.array([
    [1 / 4, 0, 0], [-1 / 6, -1 / 6, -1 / 6], [0, 0, 1], [-1 / 6, 1 / 6, -1 / 6],
    [1 / 24, 1 / 12, 1 / 6], [1 / 24, -1 / 12, 1 / 6],
])
"""G of F(4x4, 3x3): a filter g becomes G g G^T. Its first m + 2 rows are that of F(m x m, 3x3)."""


def _positions(tile: int) -> list[tuple[int, int]]:
    """Row and column of each position of a patch: those of smaller patches come first."""
    patch = range(tile + 2)
    return sorted(((y, x) for y in patch for x in patch), key=lambda at: (max(at), at[0] > at[1], at))


def transform_filters(packed: np.ndarray, tile: int) -> np.ndarray:
    """``[O / o, I / i, 3, 3, i, o]`` as ``[O / o, (tile + 2)^2, I / i, i, o]``: G g G^T of every filter, by position.

    Those of bfloat16 are float32.
    """
    dtype = packed.dtype if dtypes.canonical(packed.dtype) != "bfloat16" else np.dtype(np.float32)
    transform = [np.kron(FILTER_TRANSFORM[y], FILTER_TRANSFORM[x]) for y, x in _positions(tile)]
    positions = np.empty((len(packed), len(transform), packed.shape[1], *packed.shape[4:]), dtype)
    for block, filters in zip(positions, packed):
        taps = filters.transpose(1, 2, 0, 3, 4).astype(np.float64).reshape(9, *block.shape[1:])
        for position, factors in zip(block, transform):  # no matrix product: of this shape it is slower, and differs by machine
            position[...] = sum(factor * tap for factor, tap in zip(factors, taps) if factor)
    return positions


def restore_filters(transformed: np.ndarray) -> np.ndarray:
    """The filters that ``transform_filters`` made ``transformed`` of."""
    tile = tile_of(transformed.shape[1])
    inverse = np.linalg.pinv(FILTER_TRANSFORM[: tile + 2])
    down, across = (inverse[:, list(numbers)] for numbers in zip(*_positions(tile)))
    filters: np.ndarray = np.einsum("hp,OpIio,wp->OIhwio", down, transformed.astype(np.float64), across, optimize=True)
    return filters


def tile_of(positions: Any) -> int:
    """Rows and columns of outputs that a patch of ``positions`` inputs gives; 0 where there is no such transformation."""
    return {16: 2, 36: 4}.get(positions, 0)


@register
class WinogradConv2DNCHWc(Conv2DNCHWc):
    """``nn.contrib_conv2d_NCHWc`` with 3x3 filters, strides of 1, and a weight that holds G g G^T for every filter g.

    Operands: data ``[N, ceil(I / a), H, W, a]``, weight ``[ceil(O / b), P, ceil(I / a), a, b]`` (``transform_filters``) with P =
    16 for F(2x2, 3x3) and 36 for F(4x4, 3x3) of Lavin and Gray (2015). The weight of bfloat16 data may be float32, since rounding
    in the Winograd domain costs more than rounding filters.
    Attributes: those of nn.contrib_conv2d_NCHWc. Kernel family ``conv2d_winograd_nchwc``; the rounding error of F(4x4, 3x3) is
    about ten times that of the direct sum.
    """

    name = "nn.contrib_conv2d_winograd_NCHWc"
    kernel = "conv2d_winograd_nchwc"
    weight_rank = 5
    may_pair = False

    def taps(self, weight_shape: Sequence[Any], attrs: Any) -> tuple[Window, ...]:
        return windows(self.name, (3, 3), attrs.strides, attrs.dilation, attrs.padding)

    def blocks(self, weight: TensorType, attrs: Any) -> tuple[Dim, Dim, Dim, Dim]:
        out_blocks, *_, in_blocks, inner, outer = weight.shape
        return in_blocks, inner, out_blocks, outer

    def result_dtype(self, data: Value, weight: TensorType, attrs: Any) -> str:
        if (data.dtype, weight.dtype) == ("bfloat16", "float32"):
            return attrs.out_dtype or data.dtype
        return super().result_dtype(data, weight, attrs)

    def infer(self, attrs: Any, data: Value, weight: Value) -> TensorTypes:
        if any(step != 1 for step in (*attrs.strides[-2:], *attrs.dilation[:-2])):
            raise fail(self.name, "strides, and dilation along the depth", (attrs.strides, attrs.dilation), "1")
        if attrs.pad_value:
            raise fail(self.name, "pad_value", attrs.pad_value, "0")
        results = super().infer(attrs, data, weight)
        if not tile_of(weight.shape[1]):
            raise fail(self.name, "positions of the weight", weight.shape[1], "16 or 36")
        return results

    def reference(self, attrs: Any, data: Array, weight: Array) -> Arrays:
        return super().reference(attrs, data, self.filters(attrs, weight).astype(self.accumulator(data, attrs)))

    def filters(self, attrs: Any, weight: Array) -> Array:
        """The weight of nn.contrib_conv2d_NCHWc."""
        return restore_filters(weight)

    def lower(self, attrs: Any, results: TensorTypes, *_: object) -> Sequence[Any]:
        raise NotImplementedError(f"{self.name} has a kernel family only")

    def flops(self, attrs: Any, results: TensorTypes, data: Value, weight: Value) -> Any:
        *images, height, width, _ = results[0].shape
        positions = weight.shape[1]
        tile, taps = tile_of(positions), product(weight.shape[2:-3])
        images[1] = attrs.channels * attrs.in_channels
        down, across = (ceildiv(extent, tile * d) * d for extent, d in zip((height, width), attrs.dilation[-2:]))
        return 2 * product(images) * down * across * positions * taps


def transform_slices(packed: np.ndarray, tile: int) -> np.ndarray:
    """``[O / o, I / i, kd, 3, 3, i, o]`` as ``[O / o, (tile + 2)^2, kd, I / i, i, o]``: G g G^T of every slice of a filter."""
    return np.stack([transform_filters(packed[:, :, tap], tile) for tap in range(packed.shape[2])], axis=2)


@register
class WinogradConv3DNCDHWc(WinogradConv2DNCHWc, Conv3DNCDHWc):
    """``nn.contrib_conv3d_NCDHWc`` with kd x 3 x 3 filters in the same domain: along the depth any stride, and dilation 1.

    As nn.contrib_conv2d_winograd_NCHWc, with weight ``[ceil(O / b), P, kd, ceil(I / a), a, b]`` (``transform_slices``). Kernel
    family ``conv3d_winograd_ncdhwc``.
    """

    name = "nn.contrib_conv3d_winograd_NCDHWc"
    data = Conv3DNCDHWc.data
    Attrs = Conv3DNCDHWc.Attrs
    kernel = "conv3d_winograd_ncdhwc"
    weight_rank = 6

    def taps(self, weight_shape: Sequence[Any], attrs: Any) -> tuple[Window, ...]:
        return windows(self.name, (weight_shape[2], 3, 3), attrs.strides, attrs.dilation, attrs.padding)

    def filters(self, attrs: Any, weight: Array) -> Array:
        """The weight of nn.contrib_conv3d_NCDHWc."""
        return np.stack([restore_filters(weight[:, :, tap]) for tap in range(weight.shape[2])], axis=2)
