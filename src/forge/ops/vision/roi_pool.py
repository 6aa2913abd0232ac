"""RoiPool: maxima of the bins of regions of interest."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from forge.ops.core.inference import fail, same_dtype, unify_dim
from forge.ops.core.op import Category, Op, Operand, register
from forge.ops.core.signatures import Array, Arrays, Dim, TensorType, TensorTypes, Types, Value


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

    def flops(self, attrs: RoiPoolAttrs, results: TensorTypes, *_: object) -> Dim:
        return results[0].size


def _rounded(x: Any) -> int:
    return int(np.clip(np.copysign(np.floor(np.abs(x) + np.float32(0.5)), x), -(2**31), 2**31 - 1))


def _bin(begin: int, end: int, number: int, bins: int, extent: int) -> slice:
    size = np.float32(max(end - begin + 1, 1)) / np.float32(bins)
    first, last = math.floor(np.float32(number) * size) + begin, math.ceil(np.float32(number + 1) * size) + begin
    return slice(min(max(first, 0), extent), min(max(last, 0), extent))
