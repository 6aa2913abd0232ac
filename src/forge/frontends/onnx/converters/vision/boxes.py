"""Boxes in images: RoiAlign, MaxRoiPool and NonMaxSuppression."""

from __future__ import annotations

from forge.compose.checks import checked_indices
from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.converters.vision.grid_sample import Ints, of_size
from forge.frontends.onnx.registry import converts


@converts("RoiAlign", since=10, introduced={"coordinate_transformation_mode": 16})
def roi_align(
    g: Context, x: Value, rois: Value, batch_indices: Value,
    *, coordinate_transformation_mode: str = "half_pixel", mode: str = "avg", output_height: int = 1, output_width: int = 1,
    sampling_ratio: int = 0, spatial_scale: float = 1.0,
) -> Value:
    """Before opset 16 in coordinates of the output."""
    modes = ("half_pixel", "output_half_pixel")
    if coordinate_transformation_mode not in modes:
        raise g.invalid(
            f"attribute 'coordinate_transformation_mode': got {coordinate_transformation_mode!r}; "
            f"expected one of {', '.join(modes)}"
        )
    return g.call(
        "vision.roi_align",
        x,
        of_size(g, g.cast(rois, x.dtype), (batch_indices.shape[0], 4)),
        checked_indices(g, batch_indices, *x.shape[:1], from_end=False),
        pooled_size=(output_height, output_width),
        spatial_scale=spatial_scale,
        sample_ratio=sampling_ratio,
        aligned=g.opset >= 16 and coordinate_transformation_mode == "half_pixel",
        mode=mode,
    )


@converts("MaxRoiPool", since=1)
def max_roi_pool(g: Context, x: Value, rois: Value, *, pooled_shape: Ints, spatial_scale: float = 1.0) -> Value:
    if len(pooled_shape) != 2 or min(pooled_shape) < 1:
        raise g.invalid(f"attribute 'pooled_shape': got {pooled_shape}; expected 2 positive numbers")
    rois = of_size(g, rois, (None, 5))
    numbers, boxes = g.multi("split", rois, indices_or_sections=(1,), axis=1)
    numbers = checked_indices(g, g.cast(numbers, "int64"), *x.shape[:1], from_end=False)
    rois = g.call("concatenate", g.cast(numbers, rois.dtype), boxes, axis=1)
    return g.call("vision.roi_pool", x, rois, pooled_size=tuple(pooled_shape), spatial_scale=spatial_scale)


@converts("NonMaxSuppression", since=10)
def non_max_suppression(
    g: Context, boxes: Value, scores: Value, max_output_boxes_per_class: Value | None = None, iou_threshold: Value | None = None,
    score_threshold: Value | None = None,
    *, center_point_box: int = 0,
) -> Value:
    limits = (max_output_boxes_per_class, iou_threshold, score_threshold)
    if boxes.rank == scores.rank == 3:
        boxes = of_size(g, boxes, (scores.shape[0], scores.shape[2], 4))
    return g.call("vision.non_max_suppression", boxes, scores, *limits, center_point_box=bool(center_point_box))
