"""Regions of interest: RoiAlign, means of samples in bins, and RoiPool, maxima of bins."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from forge.ops.core.inference import fail, same_dtype, unify_dim
from forge.ops.core.op import Accuracy, Category, Kind, Op, Operand, register
from forge.ops.core.signatures import Array, Arrays, Dim, TensorType, TensorTypes, Types, Value


@dataclass(frozen=True)
class RoiAlignAttrs:
    pooled_size: tuple[int, ...]
    spatial_scale: float = 1.0
    sample_ratio: int = 0
    aligned: bool = False
    mode: str = "avg"


@register
class RoiAlign(Op[RoiAlignAttrs]):
    """Regions (x1, y1, x2, y2) of images, times ``spatial_scale``, in ``pooled_size`` bins of linearly interpolated samples.

    A bin has ``sample_ratio`` samples a side, or (0) one for each element that it spans. mode "avg" is their mean, "max" the
    largest product of a neighbour and its weight (as in ONNX). ``aligned`` shifts regions by -1/2; without it they are at
    least 1 x 1. A sample more than one element outside of the data counts as 0. batch_indices names the image of a region.
    """

    name = "vision.roi_align"
    data, rois = Operand(accepts="float", rank=4), Operand(accepts="float", rank=2)
    batch_indices = Operand(accepts="index", rank=1)
    kind = Kind.ANCHOR
    kernel = "roi_align"
    accuracy = Accuracy.ACCUMULATING

    def infer(self, attrs: RoiAlignAttrs, data: Value, rois: Value, batch_indices: Value) -> Types:
        unify_dim(self.name, rois.shape[1], 4, "numbers of a region")
        unify_dim(self.name, rois.shape[0], batch_indices.shape[0], "number of regions")
        if attrs.mode not in ("avg", "max"):
            raise fail(self.name, "attribute mode", repr(attrs.mode), "avg or max")
        if len(attrs.pooled_size) != 2 or min(attrs.pooled_size) < 1:
            raise fail(self.name, "attribute pooled_size", attrs.pooled_size, "2 positive numbers")
        return [TensorType((rois.shape[0], data.shape[1], *attrs.pooled_size), data.dtype)]

    def reference(self, attrs: RoiAlignAttrs, data: Array, rois: Array, batch_indices: Array) -> Arrays:
        out = np.zeros((len(rois), data.shape[1], *attrs.pooled_size), np.float64)
        wide, real = data.astype(np.float64), np.float64 if data.dtype == np.float64 else np.float32
        for r, roi in enumerate(rois.astype(real)):
            image = wide[min(max(int(batch_indices[r]), 0), len(data) - 1)]
            for place in np.ndindex(*attrs.pooled_size):
                ys, xs = (self._positions(roi[[1 - k, 3 - k]], place[k], k, attrs) for k in range(2))
                values = [_sampled(image, y, x, attrs.mode) for y in ys for x in xs]
                if values:
                    out[(r, slice(None), *place)] = np.max(values, 0) if attrs.mode == "max" else np.mean(values, 0)
        return [out.astype(data.dtype)]

    def _positions(self, ends: Array, place: int, axis: int, attrs: RoiAlignAttrs) -> list[float]:
        """Samples of one bin along one axis."""
        begin, end = ends * ends.dtype.type(attrs.spatial_scale) - ends.dtype.type(0.5 if attrs.aligned else 0.0)
        length = end - begin if attrs.aligned else max(end - begin, ends.dtype.type(1))
        size = length / attrs.pooled_size[axis]
        count = attrs.sample_ratio if attrs.sample_ratio > 0 else math.ceil(size)
        return [float(begin + place * size + (k + 0.5) * size / count) for k in range(count)]

    def flops(self, attrs: RoiAlignAttrs, results: TensorTypes, *_: object) -> Dim:
        return 8 * max(attrs.sample_ratio, 1) ** 2 * results[0].size


def _sampled(image: Array, y: float, x: float, mode: str) -> Array:
    """One sample of every channel."""
    height, width = image.shape[1:]
    if not (-1 <= y <= height and -1 <= x <= width):
        return np.zeros(image.shape[0])
    y, x = min(max(y, 0.0), height - 1.0), min(max(x, 0.0), width - 1.0)
    top, left = int(y), int(x)
    rows = [(top, 1 - y + top), (min(top + 1, height - 1), y - top)]
    columns = [(left, 1 - x + left), (min(left + 1, width - 1), x - left)]
    parts = [image[:, i, j] * (v * w) for i, v in rows for j, w in columns]
    return np.asarray(np.max(parts, 0) if mode == "max" else np.sum(parts, 0))


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
    data, rois = Operand(accepts="float", rank=4), Operand(rank=2)
    kernel = "roi_pool"
    category = Category.REDUCTION

    def infer(self, attrs: RoiPoolAttrs, data: Value, rois: Value) -> Types:
        same_dtype(self.name, [data, rois])
        unify_dim(self.name, rois.shape[1], 5, "numbers of a region")
        if min(attrs.pooled_size) < 1:
            raise fail(self.name, "attribute pooled_size", attrs.pooled_size, "positive numbers")
        if isinstance(data.shape[0], int) and data.shape[0] == 0:
            raise fail(self.name, "number of images", 0, "at least 1")
        return [TensorType((rois.shape[0], data.shape[1], *attrs.pooled_size), data.dtype)]

    def reference(self, attrs: RoiPoolAttrs, data: Array, rois: Array) -> Arrays:
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


def _rounded(x: Any) -> int:
    return int(np.clip(np.copysign(np.floor(np.abs(x) + np.float32(0.5)), x), -(2**31), 2**31 - 1))


def _bin(begin: int, end: int, number: int, bins: int, extent: int) -> slice:
    size = np.float32(max(end - begin + 1, 1)) / np.float32(bins)
    first, last = math.floor(np.float32(number) * size) + begin, math.ceil(np.float32(number + 1) * size) + begin
    return slice(min(max(first, 0), extent), min(max(last, 0), extent))
