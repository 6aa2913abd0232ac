"""Operators that reshape, join, cut, repeat and permute."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from forge import dims
from forge.dims import Dim, DimExpr
from forge.exporters.onnx.emitter import Emitter, Ref
from forge.exporters.onnx.operators.core.integers import by_float
from forge.exporters.onnx.operators.core.layouts import moved
from forge.exporters.onnx.registry import exports
from forge.ir.nodes import Node
from forge.ops.core.inference import normalize_axes
from forge.ops.shape.broadcast import BroadcastTo, Tile
from forge.ops.shape.concatenate import Concatenate, Split, Stack
from forge.ops.shape.depth_to_space import DepthToSpace, SpaceToDepth
from forge.ops.shape.diagonal import Diagonal, Trilu
from forge.ops.shape.pad import Pad
from forge.ops.shape.repeat import Repeat
from forge.ops.shape.reshape import ExpandDims, Reshape, Squeeze
from forge.ops.shape.reverse import Reverse, ReverseSequence, Roll
from forge.ops.shape.slice import StridedSlice
from forge.ops.shape.transpose import Transpose

INT64_MAX = (1 << 63) - 1


def data_shape(node: Node, operand: int = 0) -> tuple[Dim, ...]:
    """The shape of an operand."""
    value = node.operands[operand]
    assert value is not None
    return value.shape


@exports(Reshape)
def reshape(g: Emitter, op: Reshape, x: Ref, shape: Ref | None = None) -> Ref:
    if op.attrs.newshape is None:
        return g.op("Reshape", x, shape, allowzero=1 if op.attrs.allowzero else None)
    return _reshaped(g, x, op.data.shape, op.result.shape)


def _reshaped(g: Emitter, x: Ref, old: Sequence[Dim], new: Sequence[Dim]) -> Ref:
    """Symbolic sizes that stand at the same place before are kept by 0; one that is left is -1."""
    kept = [k < len(old) and isinstance(d, DimExpr) and dims.equal(d, old[k]) for k, d in enumerate(new)]
    left = [k for k, d in enumerate(new) if isinstance(d, DimExpr) and not kept[k]]
    if len(left) > 1 or any(isinstance(d, int) and d == 0 for d in new) or (left and any(kept) and not _has_size(new, left[0])):
        return g.reshape(x, new)
    if not left and any(kept) and sum(kept) == 1:
        left, kept = [kept.index(True)], [False] * len(new)
    return g.op("Reshape", x, g.ints(-1 if k in left else 0 if kept[k] else int(d) for k, d in enumerate(new)))  # type: ignore[arg-type]


def _has_size(shape: Sequence[Dim], open_axis: int) -> bool:
    """Whether the sizes of all axes but one are above 0, so that -1 means something there."""
    return all((dims.bounds(d)[0] or 0) > 0 for k, d in enumerate(shape) if k != open_axis)


@exports("reshape_like", "nn.batch_flatten")
def to_result_shape(g: Emitter, node: Node, x: Ref, *_: Ref) -> Ref:
    if node.op == "nn.batch_flatten" and len(data_shape(node)) >= 1:
        return g.op("Flatten", x, axis=1)
    return _reshaped(g, x, data_shape(node), node.result.shape)


@exports(Squeeze)
def squeeze(g: Emitter, op: Squeeze, x: Ref, axes: Ref | None = None) -> Ref:
    if op.attrs.axis is None and axes is None:
        return g.squeeze(x, *(k for k, d in enumerate(op.data.shape) if isinstance(d, int) and d == 1))
    return x if op.attrs.axis == () else g.op("Squeeze", x, g.given(op.attrs.axis, axes))


@exports(ExpandDims)
def expand_dims(g: Emitter, op: ExpandDims, x: Ref, axes: Ref | None = None) -> Ref:
    attrs = op.attrs
    if attrs.axis is None:
        return g.op("Unsqueeze", x, g.required(None, axes))
    first = attrs.axis if attrs.axis >= 0 else attrs.axis + len(op.data.shape) + 1
    return g.unsqueeze(x, *range(first, first + attrs.num_newaxis))


@exports(Transpose)
def transpose(g: Emitter, op: Transpose, x: Ref) -> Ref:
    rank = len(op.data.shape)
    axes = range(rank)[::-1] if op.attrs.axes is None else normalize_axes("transpose", op.attrs.axes, rank)
    return g.op("Transpose", x, perm=list(axes)) if rank else x


@exports(Concatenate)
def concatenate(g: Emitter, op: Concatenate, *parts: Ref) -> Ref:
    return g.concat(parts, op.attrs.axis)


@exports(Stack)
def stack(g: Emitter, op: Stack, *parts: Ref) -> Ref:
    axis = op.attrs.axis % op.result.rank
    return g.concat([g.unsqueeze(p, axis) for p in parts], axis)


@exports(Split)
def split(g: Emitter, op: Split, x: Ref, sizes: Ref | None = None) -> list[Ref]:
    count = len(op.results)
    sections = op.attrs.indices_or_sections
    axis = op.attrs.axis % op.results[0].rank
    if sections is None:
        return g.multi("Split", [x, g.required(None, sizes)], count, axis=axis)
    if isinstance(sections, int):
        return g.multi("Split", [x], count, axis=axis, num_outputs=count)
    bounds: list[Dim] = [0, *sections, op.data.shape[axis]]
    return g.multi("Split", [x, g.dims([b - a for a, b in itertools.pairwise(bounds)])], count, axis=axis)


@exports(BroadcastTo)
def broadcast_to(g: Emitter, op: BroadcastTo, x: Ref, shape: Ref | None = None) -> Ref:
    return g.op("Expand", x, g.required(op.attrs.shape, shape))


@exports(Tile)
def tile(g: Emitter, op: Tile, x: Ref, reps: Ref | None = None) -> Ref:
    rank, result = len(op.data.shape), op.result.rank
    counts = g.required(op.attrs.reps, reps)
    given = len(op.attrs.reps) if op.attrs.reps is not None else op.reps.shape[0] if op.reps is not None else 0
    if isinstance(given, int) and given < result:
        counts = g.concat([g.ints([1] * (result - given)), counts], 0)
    return g.op("Tile", g.unsqueeze(x, *range(result - rank)), counts)


@exports(Repeat)
def repeat(g: Emitter, op: Repeat, x: Ref) -> Ref:
    """Every element along a new axis after its own, which is then merged with it."""
    attrs = op.attrs
    shape = op.data.shape
    if attrs.axis is None:
        x, shape = g.op("Reshape", x, g.ints([-1])), op.result.shape
    axis = 0 if attrs.axis is None else attrs.axis % len(shape)
    counts = [1] * (len(shape) + 1)
    counts[axis + 1] = attrs.repeats
    return g.reshape(g.op("Tile", g.unsqueeze(x, axis + 1), g.ints(counts)), op.result.shape)


@exports(Reverse)
def reverse(g: Emitter, op: Reverse, x: Ref) -> Ref:
    axes = [op.attrs.axis] if isinstance(op.attrs.axis, int) else list(op.attrs.axis)
    backwards = g.ints([-1] * len(axes))
    return g.op("Slice", x, backwards, g.ints([-INT64_MAX] * len(axes)), g.ints(axes), backwards) if axes else x


@exports(ReverseSequence)
def reverse_sequence(g: Emitter, op: ReverseSequence, x: Ref, lengths: Ref) -> Any:
    """ONNX knows batches along the axes 0 and 1 only."""
    rank = op.result.rank
    time, batch = op.attrs.seq_axis % rank, op.attrs.batch_axis % rank
    if {time, batch} == {0, 1}:
        return g.op("ReverseSequence", x, g.cast(lengths, "int64"), time_axis=time, batch_axis=batch)
    order = [time, batch, *(k for k in range(rank) if k not in (time, batch))]
    made = g.op("ReverseSequence", g.transpose(x, order), g.cast(lengths, "int64"), time_axis=0, batch_axis=1)
    return g.transpose(made, list(np.argsort(order)))


@exports(StridedSlice)
def strided_slice(g: Emitter, op: StridedSlice, x: Ref, *given: Ref | None) -> Ref:
    attrs, (begin, end, strides, axes) = op.attrs, [*given, *[None] * 4][:4]
    first, last = g.required(attrs.begin, begin), g.required(attrs.end, end)
    if attrs.slice_mode == "size":
        last = g.op("Where", g.op("Equal", last, g.const(-1)), g.const(INT64_MAX), g.op("Add", first, last))
    return g.op("Slice", x, first, last, g.given(attrs.axes, axes), g.given(attrs.strides, strides))


@exports(Pad)
def pad(g: Emitter, op: Pad, x: Ref, value: Ref | None = None, widths: Ref | None = None) -> Ref:
    attrs = op.attrs
    if attrs.pad_mode == "symmetric" or (attrs.pad_mode == "wrap" and not g.has("Pad", 19)):
        raise g.unsupported(f"ONNX's Pad of opset {g.opset} has no mode {attrs.pad_mode!r}")
    if attrs.pad_width is not None:
        pads = g.dims([*(a for a, _ in attrs.pad_width), *(b for _, b in attrs.pad_width)])
    else:
        pads = g.op("Reshape", g.transpose(g.required(None, widths), [1, 0]), g.ints([-1]))
    constant = attrs.pad_mode == "constant"
    fill = None if value is None or not constant else g.scalar(value)
    if x.dtype == "string" and constant and fill is None:
        fill = g.const(np.array("", object))

    def widened(data: Ref) -> Ref:
        return g.op("Pad", data, pads, None if fill is None else g.cast(fill, data.dtype), mode=attrs.pad_mode)

    return by_float(g, x, widened)


@exports(DepthToSpace)
def depth_to_space(g: Emitter, op: DepthToSpace, x: Ref) -> Any:
    attrs, (rows, columns) = op.attrs, op.block(op.attrs)
    image = moved(g, x, attrs.layout, "NCHW")
    n, c, h, w = (op.data.shape[attrs.layout.index(axis)] for axis in "NCHW")
    if rows == columns:
        made = by_float(g, image, lambda data: g.op("DepthToSpace", data, blocksize=rows, mode=attrs.mode))
        return moved(g, made, "NCHW", attrs.layout)
    channels = dims.floordiv(c, rows * columns)
    split, order = ((rows, columns, channels), [0, 3, 4, 1, 5, 2])
    if attrs.mode == "CRD":
        split, order = ((channels, rows, columns), [0, 1, 4, 2, 5, 3])
    blocks = g.transpose(g.reshape(image, (n, *split, h, w)), order)
    return moved(g, g.reshape(blocks, (n, channels, h * rows, w * columns)), "NCHW", attrs.layout)


@exports(SpaceToDepth)
def space_to_depth(g: Emitter, op: SpaceToDepth, x: Ref) -> Ref:
    layout, (high, wide) = op.attrs.layout, op.block(op.attrs)
    x = moved(g, x, layout, "NCHW")
    n, c, h, w = (op.data.shape[layout.index(axis)] for axis in "NCHW")
    if op.attrs.mode == "DCR" and high == wide:
        made = by_float(g, x, lambda data: g.op("SpaceToDepth", data, blocksize=high))
    else:
        rows, columns = dims.floordiv(h, high), dims.floordiv(w, wide)
        order = [0, 3, 5, 1, 2, 4] if op.attrs.mode == "DCR" else [0, 1, 3, 5, 2, 4]
        blocks = g.transpose(g.reshape(x, (n, c, rows, high, columns, wide)), order)
        made = g.reshape(blocks, (n, c * high * wide, rows, columns))
    return moved(g, made, "NCHW", layout)


@exports(Roll)
def roll(g: Emitter, op: Roll, x: Ref) -> Ref:
    """The end goes before the rest, along one axis after the other."""
    shape = op.data.shape
    for shift, axis in zip(op.attrs.shift, op.attrs.axis, strict=True):
        along = axis % len(shape)
        cut = dims.floormod(shape[along] - shift, shape[along])
        place, axes = g.size(cut), g.ints([along])
        tail = g.op("Slice", x, place, g.ints([INT64_MAX]), axes)
        x = g.op("Concat", tail, g.op("Slice", x, g.ints([0]), place, axes), axis=along)
    return x


@exports(Diagonal)
def diagonal(g: Emitter, op: Diagonal, x: Ref) -> Any:
    """The two axes are merged, and every (columns + 1)-th element taken."""
    attrs = op.attrs
    shape = op.data.shape
    first, second = attrs.axis1 % len(shape), attrs.axis2 % len(shape)
    rows, columns = shape[first], shape[second]
    if not (isinstance(rows, int) and isinstance(columns, int)):
        return NotImplemented
    rest = [k for k in range(len(shape)) if k not in (first, second)]
    flat = g.reshape(g.transpose(x, [*rest, first, second]), (*(shape[k] for k in rest), rows * columns))
    start = attrs.offset if attrs.offset >= 0 else -attrs.offset * columns
    count = op.result.shape[-1]
    places = start + np.arange(int(count)) * (columns + 1)
    return g.op("Gather", flat, g.ints(places.tolist()), axis=len(rest))


@exports(Trilu)
def trilu(g: Emitter, op: Trilu, x: Ref, k: Ref | None = None) -> Ref:
    return g.op("Trilu", x, k and g.scalar(g.cast(k, "int64")), upper=None if op.attrs.upper else 0)
