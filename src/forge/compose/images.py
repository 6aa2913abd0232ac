"""Images ``[N, C, H, W]`` whose elements move between channels and space."""

from __future__ import annotations

from collections.abc import Sequence

from forge import dims
from forge.dims import Dim
from forge.ir.nodes import Value
from forge.ops.core.composer import Composer


def space_to_channels(g: Composer, x: Value, block_size: int) -> Value:
    """``[..., C, H * r, W * r]`` as ``[..., C * r * r, H, W]``, all elements of a channel next to each other: the inverse of
    ``nn.depth_to_space`` with the mode CRD.
    """
    *lead, channels, height, width = x.shape
    rows, columns = dims.floordiv(height, block_size), dims.floordiv(width, block_size)
    blocks = g.reshape(x, (dims.product(lead), channels, rows, block_size, columns, block_size))
    moved = g.call("transpose", blocks, axes=(0, 1, 3, 5, 2, 4))
    return g.reshape(moved, (*lead, channels * (block_size * block_size), rows, columns))


def channels_to_space(g: Composer, x: Value, block_size: int) -> Value:
    """``[..., C * r * r, H, W]`` as ``[..., C, H * r, W * r]``: ``nn.depth_to_space`` with the mode CRD."""
    images = g.reshape(x, (dims.product(x.shape[:-3]), *x.shape[-3:]))
    result = g.call("nn.depth_to_space", images, block_size=block_size, mode="CRD")
    return g.reshape(result, (*x.shape[:-3], *result.shape[1:]))


def unfold(
    g: Composer, x: Value, *, block_shape: Sequence[Dim], strides: Sequence[Dim], padding: Sequence[Dim], dilation: Sequence[Dim]
) -> Value:
    """``[N, C, H, W]`` as ``[N, C * taps, windows]``, which ``nn.fold`` reads; padding is as much after each axis as before."""
    windows = g.call(
        "sliding_window", x, axis=2, window_shape=tuple(block_shape), strides=tuple(strides), dilation=tuple(dilation),
        padding=(*padding, *padding),
    )
    batch, channels, rows, columns, *taps = windows.shape
    moved = g.call("transpose", windows, axes=(0, 1, 4, 5, 2, 3))
    return g.reshape(moved, (batch, channels * dims.product(taps), rows * columns))
