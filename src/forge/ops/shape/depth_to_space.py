"""Blocks of pixels to channels and back: nn.depth_to_space, nn.space_to_depth, nn.channel_shuffle."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from forge import dims, te
from forge.ops.core.inference import Shape, fail, normalize_axis, required, tuple_of
from forge.ops.core.lowering import injective, replaced
from forge.ops.core.op import Kind, Op, Operand, register
from forge.ops.core.signatures import (
    Array,
    Arrays,
    Conditions,
    Dim,
    Expr,
    Lowered,
    Tensor,
    TensorType,
    TensorTypes,
    Types,
    Value,
)  # fmt: skip


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
        return required(dims.equal(rest, 0), lambda: te.dim(rest).eq(0), f"{self.name}: channels are not a multiple of groups")

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
    """``block_size``: rows and columns of a block, where one number stands for both."""

    block_size: int | tuple[int, int] = 1
    layout: str = "NCHW"
    mode: str = "DCR"


class _SubPixel(Op[SubPixelAttrs]):
    """What depth_to_space and space_to_depth share."""

    data = Operand(rank=4)
    kind = Kind.INJECTIVE
    is_selection = True
    deepens: ClassVar[bool]

    def block(self, attrs: SubPixelAttrs) -> tuple[Any, ...]:
        """The rows and columns of a block."""
        return tuple_of(self.name, "block_size", attrs.block_size, 2)

    def divided(self, attrs: SubPixelAttrs) -> dict[int, int]:
        """The axes that are divided, with what each is a multiple of."""
        raise NotImplementedError

    def result_shape(self, attrs: SubPixelAttrs, shape: Shape) -> Shape:
        raise NotImplementedError

    def source(self, attrs: SubPixelAttrs, i: Sequence[Any], channels: Any) -> tuple[Any, ...]:
        """Where the element at ``i`` is in data; ``channels``: those of the shallow side."""
        raise NotImplementedError

    def infer(self, attrs: SubPixelAttrs, data: Value) -> Types:
        if attrs.layout not in ("NCHW", "NHWC"):
            raise fail(self.name, "attribute layout", repr(attrs.layout), "NCHW or NHWC")
        if attrs.mode not in ("DCR", "CRD"):
            raise fail(self.name, "attribute mode", repr(attrs.mode), "DCR or CRD")
        for axis, unit in self.divided(attrs).items():
            if dims.different(dims.floormod(data.shape[axis], unit), 0):
                raise fail(self.name, f"dimension {axis}", data.shape[axis], f"a multiple of {unit}")
        return [TensorType(self.result_shape(attrs, data.shape), data.dtype)]

    def requires(self, attrs: SubPixelAttrs, results: TensorTypes, data: TensorType) -> Conditions:
        found: Conditions = []
        for axis, unit in self.divided(attrs).items():
            rest = dims.floormod(data.shape[axis], unit)
            why = f"{self.name}: dimension {data.shape[axis]} is not a multiple of {unit}"
            found += required(dims.equal(rest, 0), partial(_is_zero, rest), why)
        return found

    def reference(self, attrs: SubPixelAttrs, data: Array) -> Arrays:
        shape: Any = self.result_shape(attrs, data.shape)
        channels = (data.shape if self.deepens else shape)[attrs.layout.index("C")]
        return [data[self.source(attrs, list(np.indices(shape)), channels)]]

    def lower(self, attrs: SubPixelAttrs, results: TensorTypes, data: Tensor) -> Lowered:
        c = attrs.layout.index("C")
        channels = data.shape[c] if self.deepens else te.dim(results[0].shape[c])
        return [injective(self.name, results[0], lambda i: data[self.source(attrs, i, channels)])]


def _is_zero(rest: Dim) -> Expr:
    return te.dim(rest).eq(0)


def _axes(attrs: SubPixelAttrs) -> tuple[int, int, int]:
    """Positions of channel, height and width."""
    return attrs.layout.index("C"), attrs.layout.index("H"), attrs.layout.index("W")


def _arranged(values: Mapping[int, Any], indices: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(values.get(k, x) for k, x in enumerate(indices))


@register
class DepthToSpace(_SubPixel):
    """out[n, c, h * a + i, w * b + j] = data[n, k, h, w] with k = (i * b + j) * C + c (DCR) or (c * a + i) * b + j (CRD)."""

    name = "nn.depth_to_space"
    deepens = False

    def divided(self, attrs: SubPixelAttrs) -> dict[int, int]:
        return {attrs.layout.index("C"): math.prod(self.block(attrs))}

    def result_shape(self, attrs: SubPixelAttrs, shape: Shape) -> Shape:
        (c, h, w), (rows, columns) = _axes(attrs), self.block(attrs)
        return _arranged({c: dims.floordiv(shape[c], rows * columns), h: shape[h] * rows, w: shape[w] * columns}, shape)

    def source(self, attrs: SubPixelAttrs, i: Sequence[Any], channels: Any) -> tuple[Any, ...]:
        (c, h, w), (rows, columns) = _axes(attrs), self.block(attrs)
        place = i[h] % rows * columns + i[w] % columns
        deep = place * channels + i[c] if attrs.mode == "DCR" else i[c] * (rows * columns) + place
        return _arranged({c: deep, h: i[h] // rows, w: i[w] // columns}, i)


@register
class SpaceToDepth(_SubPixel):
    """The inverse of depth_to_space: out[n, (i * b + j) * C + c, h, w] = data[n, c, h * a + i, w * b + j] (DCR)."""

    name = "nn.space_to_depth"
    deepens = True

    def divided(self, attrs: SubPixelAttrs) -> dict[int, int]:
        return dict(zip(_axes(attrs)[1:], self.block(attrs)))

    def result_shape(self, attrs: SubPixelAttrs, shape: Shape) -> Shape:
        (c, h, w), (rows, columns) = _axes(attrs), self.block(attrs)
        sizes = {h: dims.floordiv(shape[h], rows), w: dims.floordiv(shape[w], columns)}
        return _arranged({c: shape[c] * (rows * columns), **sizes}, shape)

    def source(self, attrs: SubPixelAttrs, i: Sequence[Any], channels: Any) -> tuple[Any, ...]:
        (c, h, w), (rows, columns) = _axes(attrs), self.block(attrs)
        if attrs.mode == "DCR":
            place, channel = i[c] // channels, i[c] % channels
        else:
            place, channel = i[c] % (rows * columns), i[c] // (rows * columns)
        return _arranged({c: channel, h: i[h] * rows + place // columns, w: i[w] * columns + place % columns}, i)
