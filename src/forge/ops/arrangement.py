"""Operators that rearrange elements along axes: repeat, reverse, pad, depth_to_space and their kin."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from forge import dims, te
from forge.dims import Dim
from forge.ir.nodes import Node, Value
from forge.ir.types import TensorType
from forge.ops.base import Kind, Op, Operand, register
from forge.ops.infer_helpers import (
    at_most,
    expect_dtype,
    expect_rank,
    fail,
    fresh_dims,
    normalize_axes,
    normalize_axis,
    required,
    same_dtype,
    tensor,
    unify_dim,
)
from forge.ops.layout_change import LayoutChange, along_axis
from forge.ops.lower_helpers import injective, new_symbols, replaced, scalar
from forge.ops.movement import present
from forge.ops.shape_ops import optional_operand
from forge.ops.signatures import (
    Array,
    Arrays,
    DimArray,
    DimArrays,
    Lowered,
    OperandTypes,
    Regions,
    Tensors,
    TensorTypes,
    Types,
    Values,
)
from forge.te import Expr


@dataclass(frozen=True)
class RepeatAttrs:
    repeats: int
    axis: int | None = None


@register
class Repeat(Op[RepeatAttrs]):
    """Every element ``repeats`` times in a row along ``axis``: out[i] = data[i // repeats]."""

    name = "repeat"
    in_layout = along_axis
    operands = (Operand("data"),)
    Attrs = RepeatAttrs
    kind = Kind.INJECTIVE

    def infer(self, operands: Values, attrs: RepeatAttrs, regions: Regions = ()) -> Types:
        data = tensor(self.name, operands[0], "data")
        if attrs.axis is None:
            raise fail(self.name, "attribute axis", None, "an axis", "flatten with reshape first")
        axis = normalize_axis(self.name, attrs.axis, data.rank)
        return [TensorType(_resized(data.shape, axis, data.shape[axis] * attrs.repeats), data.dtype)]

    def reference(self, operands: Arrays, attrs: RepeatAttrs) -> Arrays:
        return [np.repeat(operands[0], attrs.repeats, axis=attrs.axis)]

    def lower(self, operands: Tensors, attrs: RepeatAttrs, results: TensorTypes) -> Lowered:
        (data,) = present(operands)
        axis = (attrs.axis or 0) % data.ndim
        return [injective(self.name, results[0], lambda i: data[replaced(i, axis, i[axis] // attrs.repeats)])]


def _resized(shape: Sequence[Dim], axis: int, extent: Dim) -> tuple[Dim, ...]:
    return (*shape[:axis], extent, *shape[axis + 1 :])


@dataclass(frozen=True)
class ReverseAttrs:
    axis: int | tuple[int, ...]


@register
class Reverse(Op[ReverseAttrs]):
    """data backwards along ``axis``: out[i] = data[extent - 1 - i]."""

    name = "reverse"
    operands = (Operand("data"),)
    Attrs = ReverseAttrs
    kind = Kind.INJECTIVE

    def infer(self, operands: Values, attrs: ReverseAttrs, regions: Regions = ()) -> Types:
        data = tensor(self.name, operands[0], "data")
        normalize_axes(self.name, attrs.axis, data.rank)
        return [data]

    def reference(self, operands: Arrays, attrs: ReverseAttrs) -> Arrays:
        return [np.flip(operands[0], attrs.axis)]

    def lower(self, operands: Tensors, attrs: ReverseAttrs, results: TensorTypes) -> Lowered:
        (data,) = present(operands)
        axes = normalize_axes(self.name, attrs.axis, data.ndim)

        def body(i: Sequence[Expr]) -> Expr:
            return data[tuple(data.shape[k] - 1 - x if k in axes else x for k, x in enumerate(i))]

        return [injective(self.name, results[0], body)]

    def evaluate_dims(self, operands: DimArrays, attrs: ReverseAttrs, types: OperandTypes) -> DimArray:
        return None if operands[0] is None else np.flip(operands[0], attrs.axis)


@dataclass(frozen=True)
class ReverseSequenceAttrs:
    seq_axis: int = 1
    batch_axis: int = 0


@register
class ReverseSequence(Op[ReverseSequenceAttrs]):
    """For every b along ``batch_axis`` the first seq_lengths[b] elements along ``seq_axis`` backwards, the others unchanged."""

    name = "reverse_sequence"
    operands = (Operand("data"), Operand("seq_lengths"))
    Attrs = ReverseSequenceAttrs
    kind = Kind.INJECTIVE

    def infer(self, operands: Values, attrs: ReverseSequenceAttrs, regions: Regions = ()) -> Types:
        data, lengths = tensor(self.name, operands[0], "data"), tensor(self.name, operands[1], "seq_lengths")
        _, batch = normalize_axes(self.name, (attrs.seq_axis, attrs.batch_axis), data.rank)
        expect_rank(self.name, lengths, "seq_lengths", 1)
        expect_dtype(self.name, lengths, "seq_lengths", "index")
        unify_dim(self.name, lengths.shape[0], data.shape[batch], "batch size")
        return [data]

    def reference(self, operands: Arrays, attrs: ReverseSequenceAttrs) -> Arrays:
        data, lengths = operands
        moved = np.moveaxis(data, (attrs.batch_axis, attrs.seq_axis), (0, 1))
        result = moved.copy()
        for b, count in enumerate(lengths):
            result[b, :count] = moved[b, :count][::-1]
        return [np.moveaxis(result, (0, 1), (attrs.batch_axis, attrs.seq_axis))]

    def lower(self, operands: Tensors, attrs: ReverseSequenceAttrs, results: TensorTypes) -> Lowered:
        data, lengths = present(operands)
        seq, batch = attrs.seq_axis % data.ndim, attrs.batch_axis % data.ndim

        def body(i: Sequence[Expr]) -> Expr:
            count = te.cast(lengths[i[batch]], "int64")
            index = te.select(i[seq] < count, count - 1 - i[seq], i[seq])
            return data[replaced(i, seq, te.clamp(index, data.shape[seq]))]

        return [injective(self.name, results[0], body)]


@dataclass(frozen=True)
class PadAttrs:
    pad_width: tuple[tuple[Dim, Dim], ...] | None = None
    pad_mode: str = "constant"


PAD_MODES = ("constant", "edge", "reflect", "symmetric", "wrap")


def _source(mode: str, index: Expr, extent: Expr) -> Expr:
    """Where the padded element ``index`` (counted from the first element of the operand) comes from."""
    if mode == "wrap":
        return index % extent
    if mode == "reflect":
        period = te.binary("max", (extent - 1) * 2, te.const(1))
        folded = index % period
        return te.clamp(te.binary("min", folded, period - folded), extent)
    if mode == "symmetric":
        folded = index % (extent * 2)
        return te.clamp(te.binary("min", folded, extent * 2 - 1 - folded), extent)
    return te.clamp(index, extent)


def _source_indices(mode: str, count: int, before: int, after: int) -> Array:
    """The same for all elements of a padded axis, with -1 for a padded constant."""
    index = np.arange(-before, count + after)
    if mode == "constant":
        return np.where((index >= 0) & (index < count), index, -1)
    if mode == "edge":
        return np.clip(index, 0, count - 1)
    if mode == "wrap":
        return index % count
    period = max(1, 2 * (count - 1)) if mode == "reflect" else 2 * count
    folded = index % period
    return np.minimum(folded, period - folded if mode == "reflect" else period - 1 - folded)


@register
class Pad(Op[PadAttrs]):
    """data with ``pad_width[k]`` = (before, after) elements added to dimension k; negative numbers remove.

    ``pad_mode``: constant (operand ``pad_value``, 0 or "" if absent), edge, reflect (without the edge), symmetric (with
    it), wrap. Operand ``pad_width``, of shape (rank, 2), takes the place of a missing attribute.
    """

    name = "nn.pad"
    operands = (Operand("data"), Operand("pad_value", optional=True), Operand("pad_width", optional=True))
    Attrs = PadAttrs
    kind = Kind.INJECTIVE

    def infer(self, operands: Values, attrs: PadAttrs, regions: Regions = ()) -> Types:
        data = tensor(self.name, operands[0], "data")
        if attrs.pad_mode not in PAD_MODES:
            raise fail(self.name, "attribute pad_mode", repr(attrs.pad_mode), f"one of {', '.join(PAD_MODES)}")
        if (value := optional_operand(operands, 1)) is not None:
            same_dtype(self.name, [data, tensor(self.name, value, "pad_value")])
        if attrs.pad_width is None:
            return [self._dynamic(operands, data)]
        if len(attrs.pad_width) != data.rank:
            raise fail(self.name, "attribute pad_width", f"{len(attrs.pad_width)} pairs", f"{data.rank} pairs")
        shape = tuple(d + before + after for d, (before, after) in zip(data.shape, attrs.pad_width, strict=True))
        if any(dims.different(d, dims.maximum(d, 0)) for d in shape):
            raise fail(self.name, "attribute pad_width", attrs.pad_width, "at most as much removed as there is")
        return [TensorType(shape, data.dtype)]

    def _dynamic(self, operands: Values, data: TensorType) -> TensorType:
        widths = tensor(self.name, optional_operand(operands, 2), "pad_width")
        expect_dtype(self.name, widths, "pad_width", "integer")
        if widths.shape != (data.rank, 2):
            raise fail(self.name, "operand 'pad_width'", widths, f"shape ({data.rank}, 2)")
        return TensorType(fresh_dims("pad", data.rank), data.dtype)

    def reference(self, operands: Arrays, attrs: PadAttrs) -> Arrays:
        data, value, widths = [*operands, None, None][:3]
        pairs = attrs.pad_width if attrs.pad_width is not None else widths.tolist()
        for axis, (before, after) in enumerate(pairs):
            source = _source_indices(attrs.pad_mode, data.shape[axis], int(before), int(after))
            blank = data.shape[axis] == 0
            taken = _blank(data, axis, len(source)) if blank else np.take(data, np.maximum(source, 0), axis=axis)
            shape = [-1 if k == axis else 1 for k in range(data.ndim)]
            fill = np.asarray("" if data.dtype == object else 0, data.dtype) if value is None else value.reshape(())
            data = np.where((source < 0).reshape(shape), fill, taken)
        return [data]

    def lower(self, operands: Tensors, attrs: PadAttrs, results: TensorTypes) -> Lowered:
        data, value, widths = [*operands, None, None][:3]
        assert data is not None
        if attrs.pad_width is not None:
            before = [te.dim(b) for b, _ in attrs.pad_width]
        else:
            assert widths is not None
            before = [te.cast(widths[te.const(k), te.const(0)], "int64") for k in range(data.ndim)]
        fill = te.const(0, data.dtype) if value is None else scalar(value)
        same = [_unpadded(attrs, k) for k in range(data.ndim)]

        def body(i: Sequence[Expr]) -> Expr:
            shifted = [x if keep else x - b for x, b, keep in zip(i, before, same, strict=True)]
            source = [
                x if keep else _source(attrs.pad_mode, x, extent)
                for x, extent, keep in zip(shifted, data.shape, same, strict=True)
            ]
            result = data[tuple(source)]
            if attrs.pad_mode != "constant":
                return result
            return te.select(_inside(shifted, data.shape, same), result, fill)

        return [injective(self.name, results[0], body)]

    def requires(self, operands: Sequence[TensorType | None], attrs: PadAttrs, results: TensorTypes) -> list[tuple[Expr, str]]:
        data = operands[0]
        assert data is not None
        found: list[tuple[Expr, str]] = []
        if attrs.pad_mode == "constant":
            return found
        for k, d in enumerate(data.shape):
            fine = _unpadded(attrs, k) or at_most(1, d)
            why = f"dimension {k} is empty; mode {attrs.pad_mode} repeats it"
            found += required(fine, partial(operator.ge, te.dim(d), 1), why)
        return found

    def define_symbols(self, operands: Tensors, attrs: PadAttrs, results: TensorTypes) -> Mapping[str, Expr]:
        data, widths = operands[0], optional_operand(operands, 2)
        if attrs.pad_width is not None or widths is None or data is None:
            return {}
        both = [[te.cast(widths[te.const(k), te.const(s)], "int64") for s in (0, 1)] for k in range(data.ndim)]
        return new_symbols(results[0], [d + b[0] + b[1] for d, b in zip(data.shape, both, strict=True)])

    def in_layout(self, node: Node, change: LayoutChange) -> Value | None:
        """Blocked axes keep their extent."""
        attrs, rank = node.attrs, node.result.rank
        if attrs.pad_width is None or any(change.block(k) > 1 and not _unpadded(attrs, k) for k in range(rank)):
            return None
        return change.on_first(node, pad_width=tuple((0, 0) if k is None else attrs.pad_width[k] for k in change.order(rank)))


def _unpadded(attrs: PadAttrs, axis: int) -> bool:
    return attrs.pad_width is not None and tuple(attrs.pad_width[axis]) == (0, 0)


def _inside(indices: Sequence[Expr], shape: Sequence[Expr], skip: Sequence[bool]) -> Expr:
    """Whether all indices are in bounds."""
    inside: Expr = te.const(True, "bool")
    for index, extent, skipped in zip(indices, shape, skip, strict=True):
        if not skipped:
            inside = te.logical_and(inside, te.logical_and(index >= 0, index < extent))
    return inside


def _blank(data: Array, axis: int, count: int) -> Array:
    shape = list(data.shape)
    shape[axis] = count
    return np.zeros(shape, data.dtype)


@dataclass(frozen=True)
class ChannelShuffleAttrs:
    groups: int
    axis: int = 1


@register
class ChannelShuffle(Op[ChannelShuffleAttrs]):
    """Takes channels from all groups in turn: out[n, c] = data[n, (c % groups) * (C / groups) + c / groups], C along ``axis``."""

    name = "nn.channel_shuffle"
    operands = (Operand("data"),)
    Attrs = ChannelShuffleAttrs
    kind = Kind.INJECTIVE

    def infer(self, operands: Values, attrs: ChannelShuffleAttrs, regions: Regions = ()) -> Types:
        data = tensor(self.name, operands[0], "data")
        channels = data.shape[normalize_axis(self.name, attrs.axis, data.rank)]
        if attrs.groups < 1 or dims.different(dims.floormod(channels, attrs.groups), 0):
            raise fail(self.name, "attribute groups", attrs.groups, f"a divisor of {channels} channels")
        return [data]

    def requires(
        self, operands: Sequence[TensorType | None], attrs: ChannelShuffleAttrs, results: TensorTypes
    ) -> Sequence[tuple[Expr, str]]:
        rest = dims.floormod(results[0].shape[attrs.axis], attrs.groups)
        return required(dims.equal(rest, 0), lambda: te.dim(rest).eq(0), f"{self.name}: channels are no multiple of groups")

    def reference(self, operands: Arrays, attrs: ChannelShuffleAttrs) -> Arrays:
        (data,) = operands
        split = np.moveaxis(data, attrs.axis, 0)
        grouped = split.reshape(attrs.groups, split.shape[0] // attrs.groups, *split.shape[1:])
        return [np.moveaxis(grouped.swapaxes(0, 1).reshape(split.shape), 0, attrs.axis)]

    def lower(self, operands: Tensors, attrs: ChannelShuffleAttrs, results: TensorTypes) -> Lowered:
        (data,) = present(operands)
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

    operands = (Operand("data"),)
    Attrs = SubPixelAttrs
    kind = Kind.INJECTIVE

    def _type(self, operands: Values, attrs: SubPixelAttrs) -> tuple[TensorType, tuple[int, int, int]]:
        data = tensor(self.name, operands[0], "data")
        expect_rank(self.name, data, "data", 4)
        if attrs.layout not in ("NCHW", "NHWC"):
            raise fail(self.name, "attribute layout", repr(attrs.layout), "NCHW or NHWC")
        if attrs.mode not in ("DCR", "CRD"):
            raise fail(self.name, "attribute mode", repr(attrs.mode), "DCR or CRD")
        return data, _axes(attrs)


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

    def infer(self, operands: Values, attrs: SubPixelAttrs, regions: Regions = ()) -> Types:
        data, (c, h, w) = self._type(operands, attrs)
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

    def reference(self, operands: Arrays, attrs: SubPixelAttrs) -> Arrays:
        (data,) = operands
        c, h, w = _axes(attrs)
        block = attrs.block_size
        channels = data.shape[c] // block**2
        shape = _arranged({c: channels, h: data.shape[h] * block, w: data.shape[w] * block}, data.shape)
        return [_gathered(data, shape, lambda i: self._source(attrs, i, channels))]

    def lower(self, operands: Tensors, attrs: SubPixelAttrs, results: TensorTypes) -> Lowered:
        (data,) = present(operands)
        channels = te.dim(results[0].shape[_axes(attrs)[0]])
        return [injective(self.name, results[0], lambda i: data[self._source(attrs, i, channels)])]


@register
class SpaceToDepth(_SubPixel):
    """The inverse of depth_to_space: out[n, (i * b + j) * C + c, h, w] = data[n, c, h * b + i, w * b + j] (DCR)."""

    name = "nn.space_to_depth"

    def infer(self, operands: Values, attrs: SubPixelAttrs, regions: Regions = ()) -> Types:
        data, (c, h, w) = self._type(operands, attrs)
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

    def reference(self, operands: Arrays, attrs: SubPixelAttrs) -> Arrays:
        (data,) = operands
        c, h, w = _axes(attrs)
        block = attrs.block_size
        deep = {c: data.shape[c] * block**2, h: data.shape[h] // block, w: data.shape[w] // block}
        return [_gathered(data, _arranged(deep, data.shape), lambda i: self._source(attrs, i, data.shape[c]))]

    def lower(self, operands: Tensors, attrs: SubPixelAttrs, results: TensorTypes) -> Lowered:
        (data,) = present(operands)
        channels = data.shape[_axes(attrs)[0]]
        return [injective(self.name, results[0], lambda i: data[self._source(attrs, i, channels)])]


__all__ = ["PAD_MODES", "ChannelShuffle", "DepthToSpace", "Pad", "Repeat", "Reverse", "ReverseSequence", "SpaceToDepth"]
