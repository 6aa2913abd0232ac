"""Crops of images, resized."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from forge import te
from forge.ops.core.inference import fail, unify_dim
from forge.ops.core.lowering import injective
from forge.ops.core.op import Accuracy, Kind, Op, Operand, register
from forge.ops.core.signatures import Array, Arrays, Dim, Expr, Lowered, Tensor, TensorType, TensorTypes, Types, Value
from forge.ops.core.window_geometry import compute_dtype


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
    data, boxes = Operand(accepts="float", rank=4), Operand(accepts="float", rank=2)
    box_indices = Operand(accepts="index", rank=1)
    kind = Kind.INJECTIVE
    accuracy = Accuracy.ACCUMULATING

    def infer(self, attrs: CropAndResizeAttrs, data: Value, boxes: Value, box_indices: Value) -> Types:
        unify_dim(self.name, boxes.shape[1], 4, "numbers of a box")
        unify_dim(self.name, boxes.shape[0], box_indices.shape[0], "number of boxes")
        for what, value, known in (("layout", attrs.layout, ("NCHW", "NHWC")),
                                   ("method", attrs.method, ("bilinear", "nearest_neighbor"))):
            if value not in known:
                raise fail(self.name, f"attribute {what}", repr(value), " or ".join(known))
        if min(attrs.crop_size) < 1:
            raise fail(self.name, "attribute crop_size", attrs.crop_size, "positive numbers")
        channels = data.shape[attrs.layout.index("C")]
        inner = (channels, *attrs.crop_size) if attrs.layout == "NCHW" else (*attrs.crop_size, channels)
        return [TensorType((boxes.shape[0], *inner), data.dtype)]

    def reference(self, attrs: CropAndResizeAttrs, data: Array, boxes: Array, box_indices: Array) -> Arrays:
        last = attrs.layout == "NHWC"
        data = np.moveaxis(data, -1, 1) if last else data
        out = np.full((len(boxes), data.shape[1], *attrs.crop_size), attrs.extrapolation_value, np.float64)
        for number, (box, image) in enumerate(zip(boxes, box_indices, strict=True)):
            source = data[min(max(int(image), 0), len(data) - 1)].astype(np.float64)
            for row, column in np.ndindex(*attrs.crop_size):
                at = [_position(box[[k, 2 + k]], (row, column)[k], attrs.crop_size[k], source.shape[1 + k]) for k in range(2)]
                if all(0 <= p <= e - 1 for p, e in zip(at, source.shape[1:], strict=True)):
                    out[number, :, row, column] = _sampled(source, at, attrs.method)
        return [(np.moveaxis(out, 1, -1) if last else out).astype(data.dtype)]

    def lower(self, attrs: CropAndResizeAttrs, results: TensorTypes, data: Tensor, boxes: Tensor, box_indices: Tensor) -> Lowered:
        real = compute_dtype(data.dtype)
        axes = [attrs.layout.index(c) for c in "NCHW"]

        def read(image: Expr, channel: Expr, y: Expr, x: Expr) -> Expr:
            own = dict(zip(axes, (image, channel, y, x), strict=True))
            return te.cast(data[tuple(te.clamp(own[k], data.shape[k]) if k != axes[1] else own[k] for k in range(4))], real)

        def body(i: Sequence[Expr]) -> Expr:
            box, channel, *at = (i[k] for k in axes)
            image = te.cast(box_indices[box], "int64")
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

    def flops(self, attrs: CropAndResizeAttrs, results: TensorTypes, *_: object) -> Dim:
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
