"""NonMaxSuppression."""

from __future__ import annotations

from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.converters.vision.grid_sample import of_size
from forge.frontends.onnx.registry import converts


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
