"""Regions of images: maxima of their bins, and resizing of crops."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from forge import te
from forge.ir.types import TensorType
from forge.ops.base import Accuracy, Category, Kind, Op, Operand, register
from forge.ops.infer_helpers import expect_dtype, expect_rank, fail, same_dtype, tensor, unify_dim
from forge.ops.lower_helpers import injective
from forge.ops.movement import present
from forge.ops.nn_common import compute_dtype
from forge.ops.signatures import Array, Arrays, Lowered, Regions, Tensors, TensorTypes, Types, Values
from forge.te import Expr


@dataclass(frozen=True)
class RoiPoolAttrs:
    pooled_size: tuple[int, int]
    spatial_scale: float = 1.0


@register
class RoiPool(Op[RoiPoolAttrs]):
    """The largest element of every bin, ``pooled_size`` of them, of regions of data (NCHW); 0 for a bin outside of it.

    rois: (image, x1, y1, x2, y2) a row, times ``spatial_scale`` rounded to the nearest element (halves away from 0), the last
    one included. A bin reaches from the floor to the ceiling of its share.
    """

    name = "vision.roi_pool"
    operands = (Operand("data"), Operand("rois"))
    Attrs = RoiPoolAttrs
    kernel = "roi_pool"
    category = Category.REDUCTION

    def infer(self, operands: Values, attrs: RoiPoolAttrs, regions: Regions = ()) -> Types:
        data, rois = tensor(self.name, operands[0], "data"), tensor(self.name, operands[1], "rois")
        for type_, name, rank in ((data, "data", 4), (rois, "rois", 2)):
            expect_rank(self.name, type_, name, rank)
            expect_dtype(self.name, type_, name, "float")
        same_dtype(self.name, [data, rois])
        unify_dim(self.name, rois.shape[1], 5, "numbers of a region")
        if min(attrs.pooled_size) < 1:
            raise fail(self.name, "attribute pooled_size", attrs.pooled_size, "positive numbers")
        if isinstance(data.shape[0], int) and data.shape[0] == 0:
            raise fail(self.name, "number of images", 0, "at least 1")
        return [TensorType((rois.shape[0], data.shape[1], *attrs.pooled_size), data.dtype)]

    def reference(self, operands: Arrays, attrs: RoiPoolAttrs) -> Arrays:
        data, rois = operands
        out = np.zeros((len(rois), data.shape[1], *attrs.pooled_size), data.dtype)
        for number, roi in enumerate(rois.astype(np.float32)):
            image = data[min(max(int(roi[0]), 0), len(data) - 1)]
            x1, y1, x2, y2 = (_rounded(v * np.float32(attrs.spatial_scale)) for v in roi[1:])
            for row, column in np.ndindex(*attrs.pooled_size):
                rows = _bin(y1, y2, row, attrs.pooled_size[0], image.shape[1])
                columns = _bin(x1, x2, column, attrs.pooled_size[1], image.shape[2])
                part = image[:, rows, columns]
                if part.size:
                    out[number, :, row, column] = part.max(axis=(1, 2))
        return [out]

    def flops(self, operands: Sequence[Any], attrs: RoiPoolAttrs, results: TensorTypes) -> Any:
        return results[0].size


def _rounded(x: Any) -> int:
    return int(np.clip(np.copysign(np.floor(np.abs(x) + np.float32(0.5)), x), -(2**31), 2**31 - 1))


def _bin(begin: int, end: int, number: int, bins: int, extent: int) -> slice:
    size = np.float32(max(end - begin + 1, 1)) / np.float32(bins)
    first, last = math.floor(np.float32(number) * size) + begin, math.ceil(np.float32(number + 1) * size) + begin
    return slice(min(max(first, 0), extent), min(max(last, 0), extent))


@dataclass(frozen=True)
class CropAndResizeAttrs:
    crop_size: tuple[int, int]
    layout: str = "NCHW"
    method: str = "bilinear"
    extrapolation_value: float = 0.0


@register
class CropAndResize(Op[CropAndResizeAttrs]):
    """Crops of images, resized to ``crop_size``. boxes: (y1, x1, y2, x2) a row, where 0 and 1 are the centres of the outermost
    elements; box_indices: their images.

    ``method``: bilinear, or nearest_neighbor (halves away from 0). Positions outside of the image give ``extrapolation_value``.
    """

    name = "image.crop_and_resize"
    operands = (Operand("data"), Operand("boxes"), Operand("box_indices"))
    Attrs = CropAndResizeAttrs
    kind = Kind.INJECTIVE
    accuracy = Accuracy.ACCUMULATING

    def infer(self, operands: Values, attrs: CropAndResizeAttrs, regions: Regions = ()) -> Types:
        data, boxes, images = (tensor(self.name, v, o.name) for v, o in zip(operands, self.operands, strict=True))
        expected = ((data, "data", 4, "float"), (boxes, "boxes", 2, "float"), (images, "box_indices", 1, "index"))
        for type_, name, rank, accepted in expected:
            expect_rank(self.name, type_, name, rank)
            expect_dtype(self.name, type_, name, accepted)
        unify_dim(self.name, boxes.shape[1], 4, "numbers of a box")
        unify_dim(self.name, boxes.shape[0], images.shape[0], "number of boxes")
        for what, value, known in (("layout", attrs.layout, ("NCHW", "NHWC")),
                                   ("method", attrs.method, ("bilinear", "nearest_neighbor"))):
            if value not in known:
                raise fail(self.name, f"attribute {what}", repr(value), " or ".join(known))
        if min(attrs.crop_size) < 1:
            raise fail(self.name, "attribute crop_size", attrs.crop_size, "positive numbers")
        channels = data.shape[attrs.layout.index("C")]
        inner = (channels, *attrs.crop_size) if attrs.layout == "NCHW" else (*attrs.crop_size, channels)
        return [TensorType((boxes.shape[0], *inner), data.dtype)]

    def reference(self, operands: Arrays, attrs: CropAndResizeAttrs) -> Arrays:
        data, boxes, images = operands
        last = attrs.layout == "NHWC"
        data = np.moveaxis(data, -1, 1) if last else data
        out = np.full((len(boxes), data.shape[1], *attrs.crop_size), attrs.extrapolation_value, np.float64)
        for number, (box, image) in enumerate(zip(boxes, images, strict=True)):
            source = data[min(max(int(image), 0), len(data) - 1)].astype(np.float64)
            for row, column in np.ndindex(*attrs.crop_size):
                at = [_position(box[[k, 2 + k]], (row, column)[k], attrs.crop_size[k], source.shape[1 + k]) for k in range(2)]
                if all(0 <= p <= e - 1 for p, e in zip(at, source.shape[1:], strict=True)):
                    out[number, :, row, column] = _sampled(source, at, attrs.method)
        return [(np.moveaxis(out, 1, -1) if last else out).astype(data.dtype)]

    def lower(self, operands: Tensors, attrs: CropAndResizeAttrs, results: TensorTypes) -> Lowered:
        data, boxes, images = present(operands)
        real = compute_dtype(data.dtype)
        axes = [attrs.layout.index(c) for c in "NCHW"]

        def read(image: Expr, channel: Expr, y: Expr, x: Expr) -> Expr:
            own = dict(zip(axes, (image, channel, y, x), strict=True))
            return te.cast(data[tuple(te.clamp(own[k], data.shape[k]) if k != axes[1] else own[k] for k in range(4))], real)

        def body(i: Sequence[Expr]) -> Expr:
            box, channel, *at = (i[k] for k in axes)
            image = te.cast(images[box], "int64")
            places: list[Expr] = []
            inside: Expr = te.const(True, "bool")
            for k in range(2):
                extent = data.shape[axes[2 + k]]
                ends = [te.cast(boxes[(box, te.const(c))], real) for c in (k, 2 + k)]
                place = _lower_position(ends, te.cast(at[k], real), attrs.crop_size[k], te.cast(extent - 1, real))
                inside = te.logical_and(inside, te.logical_and(place >= 0.0, place <= te.cast(extent - 1, real)))
                places.append(place)
            value = _lower_sample(lambda y, x: read(image, channel, y, x), places, attrs.method)
            return te.cast(te.select(inside, value, te.const(attrs.extrapolation_value, real)), data.dtype)

        return [injective(self.name, results[0], body)]

    def flops(self, operands: Sequence[Any], attrs: CropAndResizeAttrs, results: TensorTypes) -> Any:
        return 12 * results[0].size


def _position(ends: Array, number: int, count: int, extent: int) -> float:
    """Where element ``number`` of ``count`` lies along an axis; the last one exactly at the end of the box."""
    kind = np.float64 if ends.dtype == np.float64 else np.float32
    first, last = ends.astype(kind)
    size = kind(extent - 1)
    if count == 1:
        return float((first + last) * kind(0.5) * size)
    if number == count - 1:
        return float(last * size)
    return float(first * size + kind(number) * ((last - first) * size * kind(1 / (count - 1))))


def _lower_position(ends: Sequence[Expr], number: Expr, count: int, size: Expr) -> Expr:
    first, last = ends
    if count == 1:
        return (first + last) * 0.5 * size
    inner = first * size + number * ((last - first) * size * (1 / (count - 1)))
    return te.select(number.eq(float(count - 1)), last * size, inner)


def _sampled(image: Array, at: Sequence[float], method: str) -> Array:
    if method == "nearest_neighbor":
        return np.asarray(image[:, math.floor(at[0] + 0.5), math.floor(at[1] + 0.5)])
    (top, left), (bottom, right) = (math.floor(p) for p in at), (math.ceil(p) for p in at)
    dy, dx = at[0] - top, at[1] - left
    upper = image[:, top, left] * (1 - dx) + image[:, top, right] * dx
    lower = image[:, bottom, left] * (1 - dx) + image[:, bottom, right] * dx
    return np.asarray(upper * (1 - dy) + lower * dy)


def _lower_sample(read: Any, at: Sequence[Expr], method: str) -> Expr:
    if method == "nearest_neighbor":
        y, x = (te.cast(te.call("floor", p + 0.5), "int64") for p in at)
        value: Expr = read(y, x)
        return value
    first = [te.call("floor", p) for p in at]
    dy, dx = (p - f for p, f in zip(at, first, strict=True))
    (top, left), (bottom, right) = ([te.cast(te.call(f, p), "int64") for p in at] for f in ("floor", "ceil"))
    one = te.const(1.0, dx.dtype)
    upper = read(top, left) * (one - dx) + read(top, right) * dx
    lower = read(bottom, left) * (one - dx) + read(bottom, right) * dx
    result: Expr = upper * (one - dy) + lower * dy
    return result


__all__ = ["CropAndResize", "RoiPool"]
