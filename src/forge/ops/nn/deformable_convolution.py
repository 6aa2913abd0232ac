"""Deformable convolution, and the patches that it samples."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from forge import dims, te
from forge.dims import Dim
from forge.ops.core import scalar_math as numeric
from forge.ops.core.inference import fail, same_dtype, unify_dim
from forge.ops.core.op import Accuracy, Category, Kind, Op, Operand, register
from forge.ops.core.signatures import Array, Arrays, Builder, Expr, Lowered, Tensor, TensorType, TensorTypes, Types, Value, Values
from forge.ops.core.window_geometry import Window, compute_dtype, windows
from forge.ops.nn.fold import Ints


@dataclass(frozen=True)
class DeformablePatchesAttrs:
    kernel_size: Ints
    strides: Ints = (1, 1)
    padding: Ints = (0, 0)
    dilation: Ints = (1, 1)
    offset_groups: int = 1


def _windows(op: str, attrs: DeformablePatchesAttrs | DeformableTapsAttrs) -> tuple[Window, ...]:
    return windows(op, attrs.kernel_size, attrs.strides, attrs.dilation, attrs.padding)


@register
class DeformablePatches(Op[DeformablePatchesAttrs]):
    """out[n, c, k, y, x] = data[n, c] at tap k of the window at (y, x), moved by offset and times mask; bilinear, 0 outside.

    offset: [n, groups * K * 2, y, x], vertical before horizontal; mask: [n, groups * K, y, x]; ``offset_groups`` of channels
    share them. K is the number of taps of ``kernel_size``. Elements of weight 0 do not count, whatever they are.
    """

    name = "nn.deformable_patches"
    data, offset = Operand(accepts="float", rank=4), Operand(accepts="float", rank=4)
    mask = Operand(optional=True, accepts="float", rank=4)
    kind = Kind.ANCHOR
    accuracy = Accuracy.ACCUMULATING
    category = Category.MOVEMENT
    flops_per_element = 8

    def infer(self, attrs: DeformablePatchesAttrs, data: Value, offset: Value, mask: Value | None) -> Types:
        taps = math.prod(attrs.kernel_size)
        for name, value, channels in (("offset", offset, taps * 2), ("mask", mask, taps)):
            if value is not None:
                same_dtype(self.name, [data, value])
                unify_dim(self.name, value.shape[0], data.shape[0], f"batch of {name}")
                unify_dim(self.name, value.shape[1], channels * attrs.offset_groups, f"channels of {name}")
                unify_dim(self.name, value.shape[2], offset.shape[2], f"height of {name}")
                unify_dim(self.name, value.shape[3], offset.shape[3], f"width of {name}")
        if isinstance(data.shape[1], int) and data.shape[1] % attrs.offset_groups:
            raise fail(self.name, "channels of data", data.shape[1], f"a multiple of {attrs.offset_groups}")
        for window, extent, count in zip(_windows(self.name, attrs), data.shape[2:], offset.shape[2:], strict=True):
            if dims.different(window.positions(extent), count):
                raise fail(self.name, "spatial size of offset", count, window.positions(extent))
        return [TensorType((*data.shape[:2], taps, *offset.shape[2:]), data.dtype)]

    def reference(self, attrs: DeformablePatchesAttrs, data: Array, offset: Array, mask: Array | None) -> Arrays:
        dtype = data.dtype
        data, offset = numeric.widest(data), numeric.widest(offset)
        spec, taps = _windows(self.name, attrs), math.prod(attrs.kernel_size)
        out = np.zeros((*data.shape[:2], taps, *offset.shape[2:]))
        for n, c, k, y, x in np.ndindex(out.shape):
            row = c // (data.shape[1] // attrs.offset_groups) * taps + k
            tap = divmod(k, attrs.kernel_size[1])
            place = [
                at * w.stride + t * w.dilation - w.before + offset[n, 2 * row + axis, y, x]
                for axis, (at, t, w) in enumerate(zip((y, x), tap, spec, strict=True))
            ]
            out[n, c, k, y, x] = _bilinear(data[n, c], place) * (1 if mask is None else numeric.widest(mask)[n, row, y, x])
        return [out.astype(dtype)]

    def decompose(
        self, builder: Builder, attrs: DeformablePatchesAttrs, data: Value, offset: Value, mask: Value | None
    ) -> Values:
        return [builder.call("transpose", _sampled(builder, attrs, data, offset, mask), axes=(0, 4, 3, 1, 2))]


def _bilinear(image: Array, place: Sequence[float]) -> float:
    first = [math.floor(p) for p in place]
    total = 0.0
    for corner in itertools.product((0, 1), repeat=2):
        index = tuple(f + k for f, k in zip(first, corner, strict=True))
        weight = math.prod(1 - abs(p - i) for p, i in zip(place, index, strict=True))
        if weight and all(0 <= i < e for i, e in zip(index, image.shape, strict=True)):
            total += weight * float(image[index])
    return total


def _sampled(
    builder: Builder, attrs: DeformablePatchesAttrs, data: Value, offset: Value, mask: Value | None
) -> Value:
    """The patches as [n, y, x, k, c]: channels are read as vectors."""
    batch, channels, *size = data.shape
    groups, rows = attrs.offset_groups, offset.shape[2:]
    own, taps, extent = dims.floordiv(channels, groups), math.prod(attrs.kernel_size), dims.product(size)
    places = (batch * groups, 4, dims.product(rows) * taps)
    found = builder.call_multi("nn.deformable_taps", offset, mask, size=tuple(size), **vars(attrs))
    indices, weights = (builder.call("reshape", v, newshape=places, allowzero=True) for v in found)
    images = builder.call("reshape", data, newshape=(batch * groups, own, extent), allowzero=True)
    images = builder.call("transpose", images, axes=(0, 2, 1))
    patches = builder.call("image.gather_taps", images, indices, weights)
    split = builder.call("reshape", patches, newshape=(batch, groups, *rows, taps, own), allowzero=True)
    together = builder.call("transpose", split, axes=(0, 2, 3, 4, 1, 5))
    return builder.call("reshape", together, newshape=(batch, *rows, taps, channels), allowzero=True)


@dataclass(frozen=True)
class DeformableTapsAttrs:
    size: tuple[Dim, ...]
    kernel_size: Ints
    strides: Ints = (1, 1)
    padding: Ints = (0, 0)
    dilation: Ints = (1, 1)
    offset_groups: int = 1


@register
class DeformableTaps(Op[DeformableTapsAttrs]):
    """Indices into a flat image of ``size``, and weights, of what nn.deformable_patches sums up: [n, group, 4, y, x, k].

    The index is -1 for what does not count.
    """

    name = "nn.deformable_taps"
    offset, mask = Operand(accepts="float", rank=4), Operand(optional=True, accepts="float", rank=4)
    kind = Kind.INJECTIVE
    accuracy = Accuracy.ACCUMULATING
    category = Category.MOVEMENT

    def infer(self, attrs: DeformableTapsAttrs, offset: Value, mask: Value | None) -> Types:
        taps, groups = math.prod(attrs.kernel_size), attrs.offset_groups
        unify_dim(self.name, offset.shape[1], 2 * taps * groups, "channels of offset")
        if mask is not None:
            unify_dim(self.name, mask.shape[1], taps * groups, "channels of mask")
        shape = (offset.shape[0], groups, 4, *offset.shape[2:], taps)
        return [TensorType(shape, "int64"), TensorType(shape, compute_dtype(offset.dtype))]

    def reference(self, attrs: DeformableTapsAttrs, offset: Array, mask: Array | None) -> Arrays:
        taps, spec = math.prod(attrs.kernel_size), _windows(self.name, attrs)
        size = tuple(d for d in attrs.size if isinstance(d, int))
        shape = (len(offset), attrs.offset_groups, 4, *offset.shape[2:], taps)
        indices, weights = np.full(shape, -1), np.zeros(shape, numeric.widen(offset).dtype)
        for n, g, number, y, x, k in np.ndindex(shape):
            counts, flat, weight = True, 0, 1.0
            for axis, (at, tap, side) in enumerate(zip((y, x), divmod(k, attrs.kernel_size[1]), divmod(number, 2), strict=True)):
                window, moved = spec[axis], numeric.widest(offset)[n, (g * taps + k) * 2 + axis, y, x]
                position = at * window.stride + tap * window.dilation - window.before + moved
                index = int(numeric.convert(np.asarray(np.floor(position) + side), "int64"))
                part = (1 - position + np.floor(position), position - np.floor(position))[side]
                counts = counts and 0 <= index < size[axis] and part != 0
                flat, weight = flat * size[axis] + index, weight * part
            indices[n, g, number, y, x, k] = flat if counts else -1
            weights[n, g, number, y, x, k] = weight * (1 if mask is None else numeric.widest(mask)[n, g * taps + k, y, x])
        return [indices, weights]

    def lower(self, attrs: DeformableTapsAttrs, results: TensorTypes, offset: Tensor, mask: Tensor | None) -> Lowered:
        count, spec, size = math.prod(attrs.kernel_size), _windows(self.name, attrs), te.shape_of(attrs.size)
        real = results[1].dtype

        def taps(i: Sequence[Expr]) -> list[tuple[Expr, Expr, Expr]]:
            n, group, number, y, x, k = i
            tap = (k // attrs.kernel_size[1], k % attrs.kernel_size[1])
            sides = (number // 2, number % 2)
            moved = [te.cast(offset[n, (group * count + k) * 2 + axis, y, x], real) for axis in range(2)]
            places = [te.cast(spec[axis].position((y, x)[axis], tap[axis]), real) + moved[axis] for axis in range(2)]
            return [_tap(place, extent, side) for place, extent, side in zip(places, size, sides, strict=True)]

        def index(*i: Expr) -> Expr:
            (y, v, above), (x, w, beside) = taps(i)
            counts = te.logical_and(te.logical_and(above, beside), te.logical_and(v.ne(0.0), w.ne(0.0)))
            return te.select(counts, y * size[1] + x, te.const(-1))

        def weight(*i: Expr) -> Expr:
            (_, v, _), (_, w, _) = taps(i)
            n, group, _, y, x, k = i
            return v * w if mask is None else v * w * te.cast(mask[n, group * count + k, y, x], real)

        shape = te.shape_of(results[0].shape)
        return [te.compute(shape, index, "deformable_index", "int64"), te.compute(shape, weight, "deformable_weight", real)]


def _tap(position: Expr, extent: Expr, side: Expr) -> tuple[Expr, Expr, Expr]:
    """The index of the element before or after a position, its weight, and whether it lies inside."""
    first = te.call("floor", position)
    fraction = position - first
    at = te.cast(first + te.cast(side, position.dtype), "int64")
    inside = te.logical_and(at >= 0, at < extent)
    return te.clamp(at, extent), te.select(side.eq(0), fraction * -1.0 + 1.0, fraction), inside


@dataclass(frozen=True)
class DeformableConvAttrs:
    strides: Ints = (1, 1)
    padding: Ints = (0, 0)
    dilation: Ints = (1, 1)
    groups: int = 1
    offset_groups: int = 1


@register
class DeformableConv2D(Op[DeformableConvAttrs]):
    """The 2-D convolution of data (NCHW) with weight (OIHW) whose taps are moved by offset and multiplied by mask.

    Layouts of offset and mask are those of nn.deformable_patches.
    """

    name = "nn.deformable_conv2d"
    data, offset = Operand(accepts="float", rank=4), Operand(accepts="float", rank=4)
    weight, mask = Operand(rank=4), Operand(optional=True, accepts="float", rank=4)
    accuracy = Accuracy.ACCUMULATING
    category = Category.CONTRACTION

    def infer(self, attrs: DeformableConvAttrs, data: Value, offset: Value, weight: Value, mask: Value | None) -> Types:
        op, patch_attrs = self._patches(weight.shape, attrs)
        (patches,) = op.infer(patch_attrs, data, offset, mask)
        assert isinstance(patches, TensorType)
        same_dtype(self.name, [patches, weight])
        unify_dim(self.name, patches.shape[1], weight.shape[1] * attrs.groups, "channels of data")
        if isinstance(weight.shape[0], int) and weight.shape[0] % attrs.groups:
            raise fail(self.name, "dimension 0 of weight", weight.shape[0], f"a multiple of groups, {attrs.groups}")
        return [TensorType((patches.shape[0], weight.shape[0], *patches.shape[3:]), patches.dtype)]

    def _patches(self, shape: Sequence[Dim], attrs: DeformableConvAttrs) -> tuple[DeformablePatches, DeformablePatchesAttrs]:
        sizes = tuple(size for size in shape[2:] if isinstance(size, int))
        if len(sizes) != 2:
            raise fail(self.name, "spatial size of weight", shape[2:], "numbers")
        common = (attrs.strides, attrs.padding, attrs.dilation, attrs.offset_groups)
        return DeformablePatches(), DeformablePatchesAttrs(sizes, *common)

    def reference(self, attrs: DeformableConvAttrs, data: Array, offset: Array, weight: Array, mask: Array | None) -> Arrays:
        op, patch_attrs = self._patches(weight.shape, attrs)
        (patches,) = op.reference(patch_attrs, numeric.widest(data), offset, mask)
        groups, spatial = attrs.groups, patches.shape[3:]
        columns = patches.reshape(len(data), groups, -1, math.prod(spatial))
        rows = numeric.widest(weight).reshape(groups, len(weight) // groups, -1)
        return [np.matmul(rows, columns).reshape(len(data), len(weight), *spatial).astype(data.dtype)]

    def decompose(
        self, builder: Builder, attrs: DeformableConvAttrs, data: Value, offset: Value, weight: Value, mask: Value | None
    ) -> Values:
        _, patch_attrs = self._patches(weight.shape, attrs)
        patches = _sampled(builder, patch_attrs, data, offset, mask)
        batch, *rows, taps, channels = patches.shape
        groups, places, outs = attrs.groups, dims.product(rows), dims.floordiv(weight.shape[0], attrs.groups)
        own = dims.floordiv(channels, groups)

        def arranged(value: Value, shape: tuple[Dim, ...], axes: Ints, joined: tuple[Dim, ...]) -> Value:
            split = builder.call("reshape", value, newshape=shape, allowzero=True)
            return builder.call("reshape", builder.call("transpose", split, axes=axes), newshape=joined, allowzero=True)

        left = arranged(patches, (batch, places, taps, groups, own), (0, 3, 1, 2, 4), (batch, groups, places, taps * own))
        right = arranged(weight, (1, groups, outs, own, taps), (0, 1, 4, 3, 2), (1, groups, taps * own, outs))
        product = builder.call("nn.matmul", left, right)
        return [arranged(product, product.shape, (0, 1, 3, 2), (batch, weight.shape[0], *rows))]
