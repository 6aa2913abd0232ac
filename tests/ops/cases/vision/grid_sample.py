"""Rows of detection and of sampling at given positions."""

from __future__ import annotations

import numpy as np

from tests.ops.case import Case, Fixed, const, f16, f32, f64, i32, i64, row
from tests.ops.onnx_oracle import onnx_node


def sampled(shape: tuple[int, ...], places: tuple[int, ...], mode: str, padding: str, align: bool) -> Case:
    """A row with onnxruntime as oracle."""
    rank = len(shape) - 2
    run = onnx_node("GridSample", opset=20, mode=mode, padding_mode=padding, align_corners=int(align))
    grid = f32(shape[0], *places, rank, low=-1.6, high=1.6)
    return row("image.grid_sample", [f32(*shape), Fixed(grid)], run, mode=mode, padding_mode=padding, align_corners=align,
               symbolic=shape[0] == 1)


def grid_rows() -> list[Case]:
    paddings = ("zeros", "border", "reflection")
    one = np.array([[[[0.0, 0.0], [-1.0, 1.0], [0.25, -0.5]]]], np.float32)
    return [
        sampled((2, 3, 5, 7), (4, 3), "linear", "zeros", False),
        *(sampled((1, 19, 5, 7), (4, 13), mode, padding, False)
          for mode in ("nearest", "linear", "cubic") for padding in paddings),
        *(sampled((1, 3, 5, 7), (4, 3), mode, padding, align)
          for mode in ("nearest", "linear", "cubic") for padding in paddings for align in (False, True)),
        *(sampled((1, 2, 4, 3, 5), (2, 3, 4), mode, padding, False) for mode in ("nearest", "linear") for padding in paddings),
        row("image.grid_sample", [f32(1, 2, 1, 1), Fixed(one)], padding_mode="reflection", align_corners=True),
        row("image.grid_sample", [i32(1, 2, 3, 4), Fixed(one)], mode="nearest", align_corners=True),
        row("image.grid_sample", [f16(1, 2, 3, 4), Fixed(one)]),
        row("image.grid_sample", [f64(1, 2, 3, 4), Fixed(one.astype(np.float64))], mode="cubic"),
        row("image.grid_sample", [f32(1, 2, 6), Fixed(f32(1, 4, 1, low=-1, high=1))]),
        row("image.grid_sample", [f32(1, 1, 3, 4, 3), Fixed(f32(1, 2, 1, 2, 3, low=-1, high=1))], mode="cubic"),
    ]


def tap_rows() -> list[Case]:
    """Indices outside of the data do not count."""
    indices, many = i64(2, 3, 5, low=-2, high=8), i64(1, 4, 37, low=-1, high=60)
    wide = row("image.gather_taps", [f32(1, 60, 19), many, f32(1, 4, 37)])
    return [
        row("image.gather_taps", [f32(2, 7, 4), indices, f32(2, 3, 5)], symbolic=False),
        row("image.gather_taps", [f32(2, 4, 7), indices, f32(2, 3, 5)], symbolic=False, channels_last=False),
        row("image.gather_taps", [f16(2, 7, 11), indices, f32(2, 3, 5)], symbolic=False),
        row("image.gather_taps", [f64(2, 7, 4), i32(2, 3, 5, low=-2, high=8), f64(2, 3, 5)], symbolic=False),
        row("image.gather_taps", [i32(2, 7, 4), i64(2, 1, 5, low=-2, high=8)], symbolic=False),
        row("image.gather_taps", [i32(2, 4, 7), i64(2, 1, 5, low=-2, high=8)], symbolic=False, channels_last=False),
        wide,
        row("image.grid_taps", [f32(2, 9, 2, low=-1.6, high=1.6)], symbolic=False, size=(5, 7), padding_mode="reflection"),
        row("image.grid_taps", [np.array([[[np.nan], [np.inf], [-np.inf], [1e30], [-1e30], [0.5]]], np.float32)], size=(4,)),
        row("image.grid_taps", [f64(1, 9, 3, low=-1.6, high=1.6)], symbolic=False, size=(2, 3, 4), mode="cubic"),
        row("image.grid_taps", [f32(1, 9, 1, low=-1.6, high=1.6)], symbolic=False, size=(4,), mode="nearest"),
    ]


def suppressed(operands: list[object], center: bool = False, note: str = "") -> Case:
    run = onnx_node("NonMaxSuppression", opset=11, center_point_box=int(center))
    return row("vision.non_max_suppression", operands, run, note=note, center_point_box=center)


def suppression_rows() -> list[Case]:
    boxes, scores = Fixed(f32(2, 20, 4, low=0, high=9)), Fixed(f32(2, 3, 20, low=0, high=1))
    sizes = Fixed(f32(1, 20, 4, low=1, high=9))
    half, some = const([0.5], "float32"), const([0.3], "float32")
    flat = np.zeros((1, 3, 4), np.float32)
    return [
        suppressed([boxes, scores, const([4]), some]),
        suppressed([boxes, scores, const([100]), half, const([0.4], "float32")]),
        suppressed([boxes, scores, const([5])]),
        suppressed([boxes, scores]),
        suppressed([boxes, scores, const([0]), half]),
        suppressed([sizes, Fixed(f32(1, 2, 20, low=0, high=1)), const([7]), some], center=True),
        suppressed([Fixed(flat), Fixed(np.array([[[0.5, 0.5, 0.5]]], np.float32)), const([2]), half], note="ties"),
    ]


def aligned(mode: str, ratio: int, half_pixel: bool, scale: float = 1.0) -> Case:
    names = {True: "half_pixel", False: "output_half_pixel"}
    run = onnx_node("RoiAlign", opset=16, mode=mode, output_height=3, output_width=2, sampling_ratio=ratio,
        spatial_scale=scale, coordinate_transformation_mode=names[half_pixel])
    rois = np.array([[0, 0, 6, 7], [1.5, 2, 4.25, 3], [3, 1, 12, 12], [-4, -3, 2, 2], [2, 2, 2.1, 2.1]], np.float32)
    return row("vision.roi_align", [f32(2, 3, 8, 9), Fixed(rois), [0, 1, 1, 0, 1]], run, pooled_size=(3, 2), mode=mode,
               sample_ratio=ratio, aligned=half_pixel, spatial_scale=scale)


def region_rows() -> list[Case]:
    rois = np.array([[0, 0, 5, 3]], np.float32)
    return [
        *(aligned(mode, ratio, half) for mode in ("avg", "max") for ratio in (0, 2) for half in (False, True)),
        aligned("avg", 0, True, 0.5),
        row("vision.roi_align", [f64(1, 2, 4, 6), Fixed(rois.astype(np.float64)), [0]], pooled_size=(2, 2)),
        row("vision.roi_align", [f16(1, 2, 4, 6), Fixed(rois.astype(np.float16)), [9]], pooled_size=(2, 2), sample_ratio=1),
        row("vision.roi_align", [f32(1, 2, 4, 6), Fixed(np.array([[3, 3, 1, 1]], np.float32)), [0]], pooled_size=(2, 2),
            aligned=True),
    ]


CASES = [*grid_rows(), *tap_rows(), *suppression_rows(), *region_rows()]
