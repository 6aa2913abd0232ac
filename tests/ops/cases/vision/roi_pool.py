"""Rows of regions of images: roi_pool against onnxruntime, crop_and_resize against interpolation on a grid."""

from __future__ import annotations

import numpy as np

from tests.ops.case import Case, Fixed, f16, f32, f64, row
from tests.ops.onnx_oracle import onnx_node

ROIS = np.array([[0, 0, 0, 6, 7], [1, 1.5, 2, 4.25, 3], [1, 3, 1, 12, 12], [0, -4, -3, 2, 2], [1, 2.5, 2.5, 2.5, 2.5],
                 [0, 20, 20, 30, 30], [0, 5, 5, 1, 1]], np.float32)


def pooled(size: tuple[int, int], scale: float = 1.0) -> Case:
    oracle = onnx_node("MaxRoiPool", opset=16, pooled_shape=size, spatial_scale=scale)
    return row("vision.roi_pool", [f32(2, 3, 8, 9), Fixed(ROIS)], oracle, pooled_size=size, spatial_scale=scale)


def cropped(size, method, outside, last=False):
    """Every crop as one product with interpolation matrices."""

    def weights(a, b, count, extent):
        at = np.linspace(a, b, count) * (extent - 1) if count > 1 else np.array([(a + b) / 2 * (extent - 1)])
        inside = (at >= 0) & (at <= extent - 1)
        if method == "bilinear":
            matrix = np.maximum(0, 1 - np.abs(at[:, None] - np.arange(extent)))
        else:
            matrix = (np.floor(at + 0.5)[:, None] == np.arange(extent)).astype(float)
        return matrix, inside

    def run(x, boxes, images):
        x = np.moveaxis(x, -1, 1) if last else x
        out = []
        for (y1, x1, y2, x2), n in zip(boxes.astype(np.float64), images):
            rows, inside_y = weights(y1, y2, size[0], x.shape[2])
            columns, inside_x = weights(x1, x2, size[1], x.shape[3])
            crop = rows @ x[n].astype(np.float64) @ columns.T
            out.append(np.where(inside_y[:, None] & inside_x, crop, outside))
        return np.moveaxis(np.stack(out), 1, -1) if last else np.stack(out)

    return run


BOXES = np.array([[0, 0, 1, 1], [0.125, 0.25, 0.75, 0.5], [1, 1, 0, 0], [-0.5, 0.25, 1.5, 0.75], [0.5, 0.5, 0.5, 0.5]],
                 np.float32)
IMAGES = [0, 1, 1, 0, 1]


def crop(data, size, method="bilinear", outside=0.0, layout="NCHW") -> Case:
    return row("image.crop_and_resize", [data, Fixed(BOXES), IMAGES], cropped(size, method, outside, layout == "NHWC"),
               crop_size=size, method=method, extrapolation_value=outside, layout=layout)


CASES = [
    pooled((2, 2)),
    pooled((3, 2), 0.5),
    pooled((1, 1), 2.0),
    row("vision.roi_pool", [f64(2, 1, 4, 5), Fixed(ROIS.astype(np.float64))], pooled_size=(2, 3)),
    row("vision.roi_pool", [f16(2, 1, 4, 5), Fixed(ROIS.astype(np.float16))], pooled_size=(2, 2)),
    crop(f32(2, 3, 5, 9), (3, 5)),
    crop(f32(2, 5, 9, 3), (3, 5), layout="NHWC", outside=-1.5),
    crop(f32(2, 3, 5, 9), (1, 4)),
    crop(f32(2, 3, 9, 5), (3, 3), method="nearest_neighbor", outside=7.0),
    row("image.crop_and_resize", [f16(2, 2, 5, 9), Fixed(BOXES.astype(np.float16)), IMAGES], crop_size=(2, 2)),
]
