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
        for window, extent, count in zip(self._windows(attrs), data.shape[2:], offset.shape[2:], strict=True):
            if dims.different(window.positions(extent), count):
                raise fail(self.name, "spatial size of offset", count, window.positions(extent))
        return [TensorType((*data.shape[:2], taps, *offset.shape[2:]), data.dtype)]

    def _windows(self, attrs: DeformablePatchesAttrs) -> tuple[Window, ...]:
        return windows(self.name, attrs.kernel_size, attrs.strides, attrs.dilation, attrs.padding)

    def reference(self, attrs: DeformablePatchesAttrs, data: Array, offset: Array, mask: Array | None) -> Arrays:
        dtype = data.dtype
        data, offset = numeric.widest(data), numeric.widest(offset)
        spec, taps = self._windows(attrs), math.prod(attrs.kernel_size)
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

    def lower(
        self, attrs: DeformablePatchesAttrs, results: TensorTypes, data: Tensor, offset: Tensor, mask: Tensor | None
    ) -> Lowered:
        spec, taps = self._windows(attrs), math.prod(attrs.kernel_size)
        real = compute_dtype(data.dtype)

        def body(*i: Expr) -> Expr:
            n, c, k, *at = i
            row = c // (data.shape[1] // attrs.offset_groups) * taps + k
            tap = (k // attrs.kernel_size[1], k % attrs.kernel_size[1])
            sides = []
            for axis in range(2):
                moved = te.cast(offset[(n, row * 2 + axis, *at)], real)
                sides.append(_taps(te.cast(spec[axis].position(at[axis], tap[axis]), real) + moved, data.shape[2 + axis]))
            total: Expr = te.const(0.0, real)
            for (y, v), (x, w) in itertools.product(*sides):
                weight = v * w
                part = te.cast(data[(n, c, y, x)], real) * weight
                total = total + te.select(weight.eq(0.0), te.const(0.0, real), part)
            if mask is not None:
                total = total * te.cast(mask[(n, row, *at)], real)
            return te.cast(total, data.dtype)

        return [te.compute(te.shape_of(results[0].shape), body, "deformable_patches")]


def _bilinear(image: Array, place: Sequence[float]) -> float:
    first = [math.floor(p) for p in place]
    total = 0.0
    for corner in itertools.product((0, 1), repeat=2):
        index = tuple(f + k for f, k in zip(first, corner, strict=True))
        weight = math.prod(1 - abs(p - i) for p, i in zip(place, index, strict=True))
        if weight and all(0 <= i < e for i, e in zip(index, image.shape, strict=True)):
            total += weight * float(image[index])
    return total


def _taps(position: Expr, extent: Expr) -> list[tuple[Expr, Expr]]:
    """Two (index, weight) around a position; the weight is 0 outside."""
    first = te.call("floor", position)
    fraction = position - first
    taps = []
    for offset, weight in ((0.0, fraction * -1.0 + 1.0), (1.0, fraction)):
        at = te.cast(first + offset, "int64")
        inside = te.logical_and(at >= 0, at < extent)
        taps.append((te.clamp(at, extent), te.select(inside, weight, te.const(0.0, position.dtype))))
    return taps


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
        shape = weight.shape
        op, patch_attrs = self._patches(shape, attrs)
        patches = builder.call(op, data, offset, mask, **vars(patch_attrs))
        inner = shape[1] * shape[2] * shape[3]
        out = (data.shape[0], shape[0], *patches.shape[3:])
        columns = (data.shape[0], attrs.groups, inner, dims.product(patches.shape[3:]))
        rows = (1, attrs.groups, dims.floordiv(shape[0], attrs.groups), inner)
        left, right = (
            builder.call("reshape", v, newshape=s, allowzero=True) for v, s in ((weight, rows), (patches, columns))
        )
        return [builder.call("reshape", builder.call("nn.matmul", left, right), newshape=out, allowzero=True)]
