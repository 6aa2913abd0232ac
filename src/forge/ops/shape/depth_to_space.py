"""Blocks of pixels to channels and back: nn.depth_to_space, nn.space_to_depth, nn.channel_shuffle."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from forge import dims, te
from forge.ops.core.inference import fail, normalize_axis, required
from forge.ops.core.lowering import injective, replaced
from forge.ops.core.op import Kind, Op, Operand, register
from forge.ops.core.signatures import Array, Arrays, Conditions, Expr, Lowered, Tensor, TensorType, TensorTypes, Types, Value


@dataclass(frozen=True)
class ChannelShuffleAttrs:
    groups: int
    axis: int = 1


@register
class ChannelShuffle(Op[ChannelShuffleAttrs]):
    """Takes channels from all groups in turn: out[n, c] = data[n, (c % groups) * (C / groups) + c / groups], C along ``axis``."""

    name = "nn.channel_shuffle"
    data = Operand()
    kind = Kind.INJECTIVE

    def infer(self, attrs: ChannelShuffleAttrs, data: Value) -> Types:
        channels = data.shape[normalize_axis(self.name, attrs.axis, data.rank)]
        if attrs.groups < 1 or dims.different(dims.floormod(channels, attrs.groups), 0):
            raise fail(self.name, "attribute groups", attrs.groups, f"a divisor of {channels} channels")
        return [data.type]

    def requires(self, attrs: ChannelShuffleAttrs, results: TensorTypes, *_: object) -> Conditions:
        rest = dims.floormod(results[0].shape[attrs.axis], attrs.groups)
        return required(dims.equal(rest, 0), lambda: te.dim(rest).eq(0), f"{self.name}: channels are no multiple of groups")

    def reference(self, attrs: ChannelShuffleAttrs, data: Array) -> Arrays:
        split = np.moveaxis(data, attrs.axis, 0)
        grouped = split.reshape(attrs.groups, split.shape[0] // attrs.groups, *split.shape[1:])
        return [np.moveaxis(grouped.swapaxes(0, 1).reshape(split.shape), 0, attrs.axis)]

    def lower(self, attrs: ChannelShuffleAttrs, results: TensorTypes, data: Tensor) -> Lowered:
        axis = attrs.axis % data.ndim
        each = data.shape[axis] // attrs.groups

        def source(c: Expr) -> Expr:
            return c % attrs.groups * each + c // attrs.groups

        return [injective(self.name, results[0], lambda i: data[replaced(i, axis, source(i[axis]))])]


@dataclass(frozen=True)
class SubPixelAttrs:
    block_size: int = 1
    layout: str = "NCHW"
    mode: str = "DCR"


class _SubPixel(Op[SubPixelAttrs]):
    """What depth_to_space and space_to_depth share."""

    data = Operand(rank=4)
    kind = Kind.INJECTIVE

    def _checked_axes(self, attrs: SubPixelAttrs) -> tuple[int, int, int]:
        """Positions of channel, height and width."""
        if attrs.layout not in ("NCHW", "NHWC"):
            raise fail(self.name, "attribute layout", repr(attrs.layout), "NCHW or NHWC")
        if attrs.mode not in ("DCR", "CRD"):
            raise fail(self.name, "attribute mode", repr(attrs.mode), "DCR or CRD")
        return _axes(attrs)


def _axes(attrs: SubPixelAttrs) -> tuple[int, int, int]:
    """Positions of channel, height and width."""
    return attrs.layout.index("C"), attrs.layout.index("H"), attrs.layout.index("W")


def _deep_channel(attrs: SubPixelAttrs, channel: Any, row: Any, column: Any, channels: Any) -> Any:
    """The channel of the deep side that holds element (row, column) of a block of ``channel`` of the shallow side."""
    block = attrs.block_size
    if attrs.mode == "DCR":
        return (row * block + column) * channels + channel
    return channel * (block * block) + row * block + column


def _arranged(values: Mapping[int, Any], indices: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(values.get(k, x) for k, x in enumerate(indices))


def _gathered(data: Array, shape: Sequence[int], source: Callable[[Sequence[Any]], Sequence[Any]]) -> Array:
    """The array of ``shape`` whose element at i is data[source(i)]."""
    return np.asarray(data[tuple(source(list(np.indices(shape))))])


@register
class DepthToSpace(_SubPixel):
    """out[n, c, h * b + i, w * b + j] = data[n, k, h, w] with k = (i * b + j) * C + c (DCR) or (c * b + i) * b + j (CRD)."""

    name = "nn.depth_to_space"

    def infer(self, attrs: SubPixelAttrs, data: Value) -> Types:
        c, h, w = self._checked_axes(attrs)
        block = attrs.block_size
        if dims.different(dims.floormod(data.shape[c], block * block), 0):
            raise fail(self.name, "channels", data.shape[c], f"a multiple of {block * block}")
        shape = {c: dims.floordiv(data.shape[c], block * block), h: data.shape[h] * block, w: data.shape[w] * block}
        return [TensorType(_arranged(shape, data.shape), data.dtype)]

    def _source(self, attrs: SubPixelAttrs, i: Sequence[Any], channels: Any) -> tuple[Any, ...]:
        c, h, w = _axes(attrs)
        block = attrs.block_size
        deep = _deep_channel(attrs, i[c], i[h] % block, i[w] % block, channels)
        return _arranged({c: deep, h: i[h] // block, w: i[w] // block}, i)

    def reference(self, attrs: SubPixelAttrs, data: Array) -> Arrays:
        c, h, w = _axes(attrs)
        block = attrs.block_size
        channels = data.shape[c] // block**2
        shape = _arranged({c: channels, h: data.shape[h] * block, w: data.shape[w] * block}, data.shape)
        return [_gathered(data, shape, lambda i: self._source(attrs, i, channels))]

    def lower(self, attrs: SubPixelAttrs, results: TensorTypes, data: Tensor) -> Lowered:
        channels = te.dim(results[0].shape[_axes(attrs)[0]])
        return [injective(self.name, results[0], lambda i: data[self._source(attrs, i, channels)])]


@register
class SpaceToDepth(_SubPixel):
    """The inverse of depth_to_space: out[n, (i * b + j) * C + c, h, w] = data[n, c, h * b + i, w * b + j] (DCR)."""

    name = "nn.space_to_depth"

    def infer(self, attrs: SubPixelAttrs, data: Value) -> Types:
        c, h, w = self._checked_axes(attrs)
        block = attrs.block_size
        for axis in (h, w):
            if dims.different(dims.floormod(data.shape[axis], block), 0):
                raise fail(self.name, f"dimension {axis}", data.shape[axis], f"a multiple of {block}")
        shape = {c: data.shape[c] * (block * block)}
        shape |= {axis: dims.floordiv(data.shape[axis], block) for axis in (h, w)}
        return [TensorType(_arranged(shape, data.shape), data.dtype)]

    def _source(self, attrs: SubPixelAttrs, i: Sequence[Any], channels: Any) -> tuple[Any, ...]:
        c, h, w = _axes(attrs)
        block = attrs.block_size
        if attrs.mode == "DCR":
            place, channel = i[c] // channels, i[c] % channels
        else:
            place, channel = i[c] % (block * block), i[c] // (block * block)
        return _arranged({c: channel, h: i[h] * block + place // block, w: i[w] * block + place % block}, i)

    def reference(self, attrs: SubPixelAttrs, data: Array) -> Arrays:
        c, h, w = _axes(attrs)
        block = attrs.block_size
        deep = {c: data.shape[c] * block**2, h: data.shape[h] // block, w: data.shape[w] // block}
        return [_gathered(data, _arranged(deep, data.shape), lambda i: self._source(attrs, i, data.shape[c]))]

    def lower(self, attrs: SubPixelAttrs, results: TensorTypes, data: Tensor) -> Lowered:
        channels = data.shape[_axes(attrs)[0]]
        return [injective(self.name, results[0], lambda i: data[self._source(attrs, i, channels)])]
